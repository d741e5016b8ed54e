"""Filters of a search, as SQL on JSON if that is exact, else in Python for each row.

SQL takes texts, whole numbers, booleans and `None` under a plain key. Nested values, lists, floats and paths with dots
go through `matches`, which knows JSON's own equality.
"""

from __future__ import annotations

import json
import operator
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

_ORDER: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "$gt": (">", operator.gt),
    "$gte": (">=", operator.ge),
    "$lt": ("<", operator.lt),
    "$lte": ("<=", operator.le),
}
OPERATORS = ("$eq", "$ne", *_ORDER)


def check_filter(condition: Any) -> None:
    """Refuse an invalid filter: a key that is not a string, an unknown operator, operators mixed with keys."""
    if condition is None:
        return
    if not isinstance(condition, Mapping):
        raise ValueError(f"`filter` must be a mapping such as {{'kind': 'rule'}}, got {condition!r}")
    for key, wanted in condition.items():
        if not isinstance(key, str):
            raise ValueError(f"a filter's keys must be strings, got {key!r}")
        if key in OPERATORS:
            raise ValueError(f"the operator {key} must be inside a key: {{key: {{{key!r}: ...}}}}")
        _check_wanted(wanted)


def filter_sql(connection: sqlite3.Connection, condition: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    """Conditions that follow a WHERE clause, with their parameters."""
    sql, values = "", []
    others = {}
    for key, wanted in (condition or {}).items():
        path = f'$."{key}"'
        conditions = wanted if _has_operators(wanted) else {"$eq": wanted}
        parts = [part for name, against in conditions.items() if (part := _compare_sql(path, name, against))]
        if not _is_plain(key) or len(parts) < len(conditions):
            others[key] = wanted
            continue
        for comparison, parameters in parts:
            sql += f" AND {comparison}"
            values += parameters
    if others:
        # Replaced by the next search on this connection. Searches run one at a time.
        connection.create_function("matches_filter", 1, lambda value: matches(json.loads(value), others))
        sql += " AND matches_filter(value)"
    return sql, values


def matches(value: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """Whether a value meets every part of a filter. A missing key counts as `None`."""
    return all(_meets(_value_at(value, key), wanted) for key, wanted in condition.items())


def _compare_sql(path: str, name: str, against: Any) -> tuple[str, list[Any]] | None:
    """A comparison as SQL, or `None` if SQL would not be exact."""
    value, type_ = "json_extract(value, ?)", "json_type(value, ?)"
    if name == "$ne":
        equal = _compare_sql(path, "$eq", against)
        return equal and (f"NOT coalesce({equal[0]}, 0)", equal[1])
    if isinstance(against, str) and _is_text(against):
        if name in _ORDER:
            return f"({value} {_ORDER[name][0]} ? AND {type_} = 'text')", [path, against, path]
        return f"{value} = ?", [path, against]
    if isinstance(against, int) and not isinstance(against, bool) and abs(against) < 2**63:
        sign = _ORDER[name][0] if name in _ORDER else "="
        return f"({value} {sign} ? AND {type_} IN ('integer', 'real'))", [path, against, path]
    if name == "$eq" and (against is None or isinstance(against, bool)):
        return f"coalesce({type_}, 'null') = ?", [path, json.dumps(against)]
    return None


def _is_plain(key: str) -> bool:
    """Whether SQLite reads the key literally in a JSON path, and it has no dots, which would make it a path."""
    return not any(character in '."\\' or ord(character) < 32 or "\ud800" <= character <= "\udfff" for character in key)


def _is_text(text: str) -> bool:
    """Whether SQLite compares a text exactly: it gives lists and objects as texts, and a NUL ends a text."""
    return text[:1] not in ("[", "{") and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)


def _has_operators(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) and any(name.startswith("$") for name in wanted)


def _value_at(value: Any, key: str) -> Any:
    """The value under exactly this key, else under the path that its dots describe."""
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return value[key]
    head, dot, rest = key.partition(".")
    return _value_at(value.get(head), rest) if dot else None


def _meets(found: Any, wanted: Any) -> bool:
    if _has_operators(wanted):
        return all(_compare(found, name, against) for name, against in wanted.items())
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and matches(found, wanted)
    if isinstance(wanted, list | tuple):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_meets, found, wanted))
    return _equal(found, wanted)


def _compare(found: Any, name: str, against: Any) -> bool:
    if name == "$eq":
        return _equal(found, against)
    if name == "$ne":
        return not _equal(found, against)
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (found, against))
    return (numbers or (isinstance(found, str) and isinstance(against, str))) and _ORDER[name][1](found, against)


def _equal(found: Any, wanted: Any) -> bool:
    """JSON's equality: `1` equals `1.0`, and neither `true` nor `"1"`."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return found.keys() == wanted.keys() and all(_equal(found[key], wanted[key]) for key in found)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(_equal, found, wanted))
    return bool(found == wanted)


def _check_wanted(wanted: Any) -> None:
    if isinstance(wanted, list | tuple):
        for item in wanted:
            _check_wanted(item)
    if not isinstance(wanted, Mapping):
        return
    plain = [name for name in wanted if not isinstance(name, str) or not name.startswith("$")]
    for name, against in wanted.items():
        if name in plain:
            if len(plain) < len(wanted) or not isinstance(name, str):
                raise ValueError(f"a filter mixes operators with the key {name!r}: {wanted!r}")
            _check_wanted(against)
        elif name not in OPERATORS:
            raise ValueError(f"there is no filter operator {name!r}; the operators are {', '.join(OPERATORS)}")
