"""Filters: which values a search keeps, decided exactly."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
OPERATORS = ("$eq", "$ne", *_ORDER)


def checked(condition: Mapping[str, Any] | None) -> dict[str, Any]:
    """The filter itself; a `ValueError` names an operator that there is none of, or a key that is no text."""
    if condition is not None and not isinstance(condition, Mapping):
        raise ValueError(f"`filter` is a mapping such as {{'kind': 'rule'}}, got {condition!r}")
    for key, wanted in (condition or {}).items():
        if not isinstance(key, str):
            raise ValueError(f"a filter's keys are text, got {key!r}")
        if key in OPERATORS:
            raise ValueError(f"the operator {key} needs a key above it: {{key: {{{key!r}: ...}}}}")
        _check(wanted)
    return dict(condition or {})


def matches(value: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """Whether a value meets every part of a filter; what is missing counts as `None`."""
    return all(holds(found_at(value, key), wanted) for key, wanted in condition.items())


def found_at(value: Any, key: str) -> Any:
    """What lies under a key of this very name, else under the path that its dots describe."""
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return value[key]
    head, dot, rest = key.partition(".")
    return found_at(value.get(head), rest) if dot else None


def holds(found: Any, wanted: Any) -> bool:
    """Whether what was found is what one part of a filter asks for."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compares(found, name, against) for name, against in wanted.items())
        return isinstance(found, Mapping) and matches(found, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(found) == len(wanted)
            and all(holds(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return _same(found, wanted)


def _check(wanted: Any) -> None:
    if isinstance(wanted, list | tuple):
        for one in wanted:
            _check(one)
    if not isinstance(wanted, Mapping):
        return
    plain = [name for name in wanted if not isinstance(name, str) or not name.startswith("$")]
    for name, against in wanted.items():
        if name in plain:
            if len(plain) < len(wanted) or not isinstance(name, str):
                raise ValueError(f"a filter mixes operators with the key {name!r}: {wanted!r}")
            _check(against)
        elif name not in OPERATORS:
            raise ValueError(f"no filter operator is called {name!r}; there are {', '.join(OPERATORS)}")


def _compares(found: Any, name: str, against: Any) -> bool:
    if name == "$eq":
        return _same(found, against)
    if name == "$ne":
        return not _same(found, against)
    comparable = (_number(found) and _number(against)) or (isinstance(found, str) and isinstance(against, str))
    return comparable and _ORDER[name](found, against)


def _same(found: Any, wanted: Any) -> bool:
    """JSON's equality: `1` is `1.0` and is neither `true` nor `"1"`."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return found.keys() == wanted.keys() and all(_same(found[key], wanted[key]) for key in found)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(_same(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
