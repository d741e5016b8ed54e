"""Plain data from another process: read back by exact types, and compared by exact types."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Unreadable(ValueError):  # noqa: N818 — what was sent is that
    """What came back is no plain data."""


class Other(NamedTuple):
    """A value that is no plain data: the name of its type and how it shows itself. It equals nothing."""

    kind: str
    shown: str


SCALARS = (type(None), bool, int, float, complex, str, bytes)
MANY = (list, tuple, set, frozenset)


def is_plain(value: Any) -> bool:
    """Whether a value is plain data through and through."""
    if type(value) in MANY:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(key) and is_plain(one) for key, one in value.items())
    return type(value) in SCALARS


def from_plain(told: Any) -> Any:
    """The value of a reply. Sets and dicts come as lists of what is in them: nothing of the reply is hashed."""
    kind, *rest = told
    if kind == "none":
        return None
    if kind == "bool":
        return rest[0] == 1
    if kind == "int":
        return int(rest[0], 16)
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "complex":
        return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
    if kind == "str" and isinstance(rest[0], str):
        return rest[0]
    if kind == "bytes":
        return bytes.fromhex(rest[0])
    if kind in ("list", "tuple", "set", "frozenset"):
        made = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return _made(made, [from_plain(one) for one in rest[0]])
    if kind == "dict":
        return _made(dict, [(from_plain(key), from_plain(one)) for key, one in rest[0]])
    if kind == "other":
        return Other(str(rest[0]), str(rest[1]))
    raise Unreadable(kind)


def _made(kind: Any, items: list[Any]) -> Any:
    try:
        return kind(items)
    except TypeError:  # an unhashable member, which no real set or dict has
        raise Unreadable("a member of a set or a key of a dict") from None


def same(value: Any, expected: Any) -> bool:
    """Whether two values are equal and of the same types throughout; floats to nine digits."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, float):
        return math.isclose(value, expected, rel_tol=1e-9) or (math.isnan(value) and math.isnan(expected))
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(expected, (set, frozenset)):
        return value == expected and _kinds(value) == _kinds(expected)
    if isinstance(expected, dict):
        if value.keys() != expected.keys() or _kinds(value) != _kinds(expected):
            return False
        return all(same(value[key], expected[key]) for key in expected)
    return bool(value == expected)


def _kinds(values: Any) -> list[str]:
    return sorted(f"{type(one).__name__} {one!r}" for one in values)
