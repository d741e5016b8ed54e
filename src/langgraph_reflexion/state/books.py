"""Books: the channels laid open for a node, and its update put back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from langgraph_reflexion.schemas import Attempt, Failure, Outcome, Reflection, Verdict
from langgraph_reflexion.state.fields import HELD, Recalled, Update

BLANK: MappingProxyType[str, Any] = MappingProxyType(
    {
        "feedback": None,
        "outcome": None,
        "decision": None,
        "failure": None,
        "verdicts": [],
        "reflections": [],
        "patch": [],
        "recalled": [],
        "lessons_written": [],
        "learned": None,
        "trail": [],
        "blocked": {},
        "failures": [],
        "aside": None,
        "asked_on": None,
        "edits": {},
        "handoffs": [],
        "attempts": [],
        "work": [],
        "stop": None,
        "reason": "",
    }
)
"""What a field holds that no node has written: it takes no place in a checkpoint."""


TYPED: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "outcome": Outcome,
        "failure": Failure,
        "failures": Failure,
        "attempts": Attempt,
        "verdicts": Verdict,
        "reflections": Reflection,
        "recalled": Recalled,
    }
)
"""What a strict checkpointer that was not told of our types gives back as plain data: a server's own, for one."""


def laid_open(values: dict[str, Any]) -> dict[str, Any]:
    """The values of the channels with the run's books laid open, and blank what nobody has written."""
    out: dict[str, Any] = BLANK | values | (values.get("run") or {})
    for name, kind in TYPED.items():
        if (value := out[name]) and _is_plain(value):
            out[name] = (
                [kind.model_validate(one) for one in value] if isinstance(value, list) else kind.model_validate(value)
            )
    return out


def _is_plain(value: Any) -> bool:
    return isinstance(value[0] if isinstance(value, list) else value, dict)


def put_back(update: Mapping[str, Any]) -> Update:
    """A node's update as the channels take it: what belongs in the books, in the books."""
    rest: Update = {}
    books: Update = {}
    for name, value in update.items():
        (books if name in HELD else rest)[name] = value
    return {**rest, "run": books} if books else rest
