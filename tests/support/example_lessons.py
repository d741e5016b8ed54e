"""Lessons for the tests of memory."""

from typing import Any

from langgraph_reflexion.schemas import Lesson

SLOT = "Check a proposed slot against every busy time before you answer."
PAGE = "Ask for the next page until the list comes back empty."


def a_rule(text: str = SLOT, **fields: Any) -> Lesson:
    """A rule that a person told the agent."""
    return Lesson(**{"kind": "rule", "text": text, "origin": "told", **fields})
