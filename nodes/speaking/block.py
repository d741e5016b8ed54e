"""The block of lessons in a prompt: bounded data that nothing inside it can close."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langgraph_reflexion.nodes.speaking.history import bounded, fenced
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Failure, Lesson
from langgraph_reflexion.state import Recalled

LONGEST_CAUSE = 400

SAYS_WHEN = re.compile(r"(?:when|whenever|if|while)\b|[当若]|如果", re.IGNORECASE)

HEADINGS = {
    "rule": "Rules",
    "pattern": "Patterns",
    "strategy": "What worked",
    "project": "Facts and decisions",
    "preference": "Preferences",
}


def at_start(recalled: Sequence[Recalled], words: Prompts) -> str:
    """The lessons recalled before the first decision, or nothing."""
    lessons = [one.lesson for one in recalled if one.shown and one.step == 0]
    return words.render("lessons", lessons=_listed(lessons)) if lessons else ""


def after_failure(recalled: Sequence[Recalled], words: Prompts, causes: Sequence[Failure]) -> str:
    """The lessons recalled since, under the failure that called for them."""
    lessons = [one.lesson for one in recalled if one.shown and one.step > 0]
    if not lessons:
        return ""
    cause = causes[-1].evidence if causes else "see below"
    return words.render("lessons_after", lessons=_listed(lessons), cause=_one_line(bounded(cause, LONGEST_CAUSE)))


def _listed(lessons: Sequence[Lesson]) -> str:
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        of_kind = [lesson for lesson in lessons if lesson.kind == kind]
        if of_kind:
            lines += [f"{heading}:", *(_line(lesson) for lesson in of_kind)]
    return "\n".join(lines)


def _line(lesson: Lesson) -> str:
    when, unless = _occasion(lesson.when, "When: ", ""), _occasion(lesson.when_not, "Not when: ", "Not: ")
    shown = lesson.wins + lesson.losses
    record = f" (helped {lesson.wins} of {shown})" if shown else ""
    return f"- {lesson.id}: {_one_line(lesson.text)}{when}{unless}{record}"


def _occasion(text: str, label: str, shorter: str) -> str:
    """When a lesson holds, or not, under its label; one that says `when` itself needs less of it."""
    said = _one_line(text).rstrip(" .。")
    return f" {shorter if SAYS_WHEN.match(said) else label}{said}." if said else ""


def _one_line(text: str) -> str:
    return fenced(" ".join(text.split()))
