"""The JSON value of a reply, whatever prose and fences are around it, or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from langgraph_reflexion.schemas import Signal
from langgraph_reflexion.text.json_text import (
    TangledError,
    Torn,
    Whole,
    only_value,
    place,
    values_in,
    whole,
)

NOTHING = "The reply cannot be read: there is no JSON object in it."

_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_THINKING, _THOUGHT = "<think>", "</think>"


@dataclass(frozen=True)
class Invalid:
    """Why a reply cannot stand, in words the model can mend it by."""

    signal: Signal
    message: str
    tool: str | None = None


def read_json(text: str) -> Any | Invalid:
    """Return the JSON value in a reply, read as leniently as a decision, or why there is none; never raises.

    A reply that is nothing but one value gives that value, of any shape. Otherwise the largest object in a fence
    counts, else the largest object side by side with prose, else the largest list. A key given twice is refused.
    """
    text = whole(text)
    try:
        text = after_thinking(text)
        found = _whole_value(text) or _largest(_fenced(text))
        if found is None:
            spread = list(values_in(text))
            torn = [one for one in spread if isinstance(one, Torn) and one.certain]
            if torn:
                return unreadable(text, torn[0])
            found = _largest(one for one in spread if isinstance(one, Whole))
    except TangledError as error:
        return Invalid("parse_error", f"The reply cannot be read: {error}.")
    if found is None:
        return Invalid("parse_error", NOTHING)
    return found.value if found.twice is None else twice(found.twice)


def after_thinking(text: str) -> str:
    """Drop the block of reasoning some models write first: a decision drafted in it is not one."""
    if not text.lstrip().startswith(_THINKING):
        return text
    _, end, rest = text.partition(_THOUGHT)
    if not end:
        raise TangledError(f"it ends inside {_THINKING}")
    return rest


def twice(key: str) -> Invalid:
    """That one object gives a key twice."""
    return Invalid("rule_violation", f"The reply is ambiguous: the key `{key}` is given twice in one object.")


def unreadable(text: str, torn: Torn) -> Invalid:
    """That something cannot be read on, why, and where."""
    return Invalid("parse_error", f"The reply cannot be read: {torn.why} ({place(text, torn.at)}).")


def _whole_value(text: str) -> Whole | None:
    found = only_value(text)
    return found if isinstance(found, Whole) else None


def _fenced(text: str) -> Iterator[Whole]:
    """Yield the values that fill a code fence."""
    for fence in _FENCE.finditer(text):
        if found := _whole_value(fence[1]):
            yield found


def _largest(found: Iterator[Whole]) -> Whole | None:
    """Return the longest object, or where there is none the longest list."""
    return max(
        (one for one in found if isinstance(one.value, dict | list)),
        key=lambda one: (isinstance(one.value, dict), one.end - one.start),
        default=None,
    )
