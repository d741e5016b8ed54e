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


class Gathered(NamedTuple):
    """A set, frozenset or dict of a reply, never hashed: a hostile one could be made to take for ever."""

    kind: str
    items: list[Any]

    def __repr__(self) -> str:
        if self.kind == "dict":
            return "{" + ", ".join(f"{key!r}: {one!r}" for key, one in self.items) + "}"
        inside = "{" + ", ".join(map(repr, self.items)) + "}" if self.items else ""
        return f"{self.kind}({inside})" if self.kind == "frozenset" or not inside else inside


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
    """The value of a reply."""
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
    if kind in ("list", "tuple"):
        items = [from_plain(one) for one in rest[0]]
        return items if kind == "list" else tuple(items)
    if kind in ("set", "frozenset"):
        return Gathered(kind, [from_plain(one) for one in rest[0]])
    if kind == "dict":
        return Gathered(kind, [(from_plain(key), from_plain(one)) for key, one in rest[0]])
    if kind == "other":
        return Other(str(rest[0]), str(rest[1]))
    raise Unreadable(kind)


def same(value: Any, expected: Any) -> bool:
    """Whether the value of a reply is the expected one, of the same types throughout; floats to nine digits."""
    if isinstance(expected, (set, frozenset, dict)):
        if not isinstance(value, Gathered) or value.kind != type(expected).__name__:
            return False
        if not isinstance(expected, dict):
            return sorted(map(_mark, value.items)) == sorted(map(_mark, expected))
        ours = {_mark(key): one for key, one in value.items}
        theirs = {_mark(key): one for key, one in expected.items()}
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in theirs)
    if type(value) is not type(expected):
        return False
    if isinstance(expected, float):
        return math.isclose(value, expected, rel_tol=1e-9) or (math.isnan(value) and math.isnan(expected))
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(map(same, value, expected))
    return bool(value == expected)


def _mark(member: Any) -> str:
    """A text that two members of a set, or keys of a dict, share only if they are equal and of one type."""
    kind = member.kind if isinstance(member, Gathered) else type(member).__name__
    if kind in ("tuple", "list"):
        return f"{kind}({','.join(map(_mark, member))})"
    if kind in ("set", "frozenset"):
        held = member.items if isinstance(member, Gathered) else member
        return f"{kind}({','.join(sorted(map(_mark, held)))})"
    shown = hex(member) if kind == "int" else repr(member)
    return f"{kind} {shown}"
