"""Check what a caller gives a book or a notebook. An error names the argument, its value and what to give instead."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any, TypeVar

from langgraph_reflexion.schemas import Lesson

T = TypeVar("T")
V = TypeVar("V", str, str | None)


def check_text(value: V, name: str, *, optional: bool = False) -> V:
    """A string, or None if it is `optional`."""
    if not isinstance(value, str) and not (optional and value is None):
        raise ValueError(f"`{name}` must be a string, got {value!r}")
    return value


def check_id(value: str, name: str = "id") -> str:
    """A lesson's or a run's id."""
    if isinstance(value, Lesson):
        raise ValueError(f"`{name}` must be a string, got a lesson: give its `.id`, {value.id!r}")
    return check_text(value, name)


def check_names(values: Iterable[str], name: str) -> set[str]:
    """Names or ids, one by one."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` must be a list of strings, got {values!r}")
    found = set[str]()
    for value in values:
        if not isinstance(value, str):
            own: Any = getattr(value, "name", None)
            raise ValueError(
                f"`{name}` must hold strings, got {value!r}" + (f": give {own!r}" if isinstance(own, str) else "")
            )
        found.add(value)
    return found


def check_instance(kind: type[T], value: T, name: str) -> T:
    """A value of this kind."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"`{name}` must be {article} {kind.__name__}, got {value!r}")
    return value


def check_count(value: int, name: str) -> int:
    """A whole number from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"`{name}` must be a whole number from 0, got {value!r}")
    return value


def check_place(value: T) -> T:
    """A path, or an open file."""
    if not (isinstance(value, (str, PathLike)) and str(value)) and not hasattr(value, "read"):
        raise ValueError(f"`path_or_file` must be a path or an open file, got {value!r}")
    return value
