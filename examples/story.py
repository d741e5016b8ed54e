"""Shared by the examples: a calendar that knows only weekdays, a check, and a scripted model.

The script makes two mistakes unless its prompt advises against them: it looks up a date, and it proposes an hour that
is taken. To use a real model, replace `MODEL` with its name, such as "openai:gpt-4o-mini", and set its key in the
environment.
"""

from __future__ import annotations

from typing import Any

from langgraph_reflexion import Run
from langgraph_reflexion.testing import Question, RoleModel, call, reflection, say

TASK = "Find a free hour on Tuesday 2026-03-03 for the team."
LESSON = "Give the calendar a weekday, never a date."


def busy_times(day: str) -> str:
    """Look up the busy times of a day in the calendar."""
    if any(letter.isdigit() for letter in day):
        raise ValueError(f"{day!r} is not a weekday")
    return "busy: 09:00-11:00, 12:00-17:00"


def is_free(answer: Any, _run: Run) -> str | None:
    """Reject ten o'clock, which is taken."""
    return "10:00 is taken." if "10:00" in str(answer) else None


def _decide(question: Question) -> Any:
    if "busy: 09:00" in question.text:
        return say("11:00 is free." if "10:00 is taken" in question.text else "10:00 is free.")
    return call("busy_times", day="Tuesday" if LESSON in question.text else "2026-03-03")


def _reflect(question: Question) -> Any:
    if "10:00 is taken" in question.text:
        return reflection("Take an hour that is not among the busy times.", failure_signal="check_failed")
    rule = {"kind": "rule", "text": LESSON, "when": "finding a free hour in the calendar"}
    return reflection(LESSON, memory_to_write=[rule])


MODEL = RoleModel(_decide, _reflect)
