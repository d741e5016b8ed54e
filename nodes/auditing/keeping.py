"""Keeping what auditors found: findings in the notebook, memories as lessons, nothing that only a tool asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.memory import ErrorNotebook, LessonBook
from langgraph_reflexion.nodes.auditing.replies import Memories, Report
from langgraph_reflexion.schemas import Lesson, Origin, Trigger
from langgraph_reflexion.text.tokens import tokens

OFTEN = 3
"""Runs in which a mistake is found before what to do about it is offered as a lesson."""
MOST_SOURCES = 20

_FORGET = re.compile(
    r"\b(?:forget|unlearn|erase|remove|delete|drop|no longer|don'?t remember|do not remember|stop remembering)\b|"
    r"忘|删|别再记|不要记|不再",
    re.IGNORECASE,
)

_ORDERS = re.compile(
    r"\b(?:users?|always|never|must|should|shall|wants?|delete|remove|send|disable|share|trust|without)\b|"
    r"用户|总是|必须|删除|发送",
    re.IGNORECASE,
)
"""What is no plain fact of a project: it speaks for the user, or says what to do."""


@dataclass(frozen=True)
class Papers:
    """Where one run's findings and memories are kept; either may be missing."""

    notebook: ErrorNotebook | None = None
    book: LessonBook | None = None


@dataclass(frozen=True)
class Heard:
    """Who said what in a run: words of the user, and words of tools and files."""

    user: str
    tools: Sequence[str]

    def standing(self, text: str) -> Origin:
        """Whose words a text is made of: the user's, a tool's alone, or the auditor's own."""
        words = set(tokens(text))
        asked = words & set(tokens(self.user))
        if words and 2 * len(asked) >= len(words):
            return "told"
        rest = words - asked
        from_tools = rest & {word for one in self.tools for word in tokens(one[:50_000])}
        return "observed" if len(from_tools) >= 2 and 2 * len(from_tools) >= len(words) else "judged"


def keep_report(papers: Papers, session: str, report: Report, heard: Heard, task: str) -> Waits[list[dict[str, Any]]]:
    """The findings as they are kept; a mistake found often enough also becomes a candidate lesson."""
    notebook, book = papers.notebook, papers.book
    if notebook is None:
        return report.findings
    said = [*heard.tools]
    record = either(notebook.record, notebook.arecord, session, report.score, report.findings, said)
    kept: list[dict[str, Any]] = yield record
    if book is not None and kept:
        often = yield either(notebook.repeated, notebook.arepeated, OFTEN)
        now = {one["id"] for one in kept}
        for group in often:
            if now & {one["id"] for one in group} and group[-1]["suggestion"]:
                yield either(book.add, book.aadd, _lesson_of(group), task=task, foreign=said)
    return kept


def _lesson_of(group: Sequence[dict[str, Any]]) -> Lesson:
    last = group[-1]
    tool = last["tool"] if all(one["tool"] == last["tool"] for one in group) else None
    return Lesson(
        kind="rule",
        text=last["suggestion"],
        when=last["description"],
        why=last["cause"],
        tags=[last["category"]],
        trigger=Trigger(tool=tool) if tool else None,
        sources=list(dict.fromkeys(one["session"] for one in group if one["session"]))[-MOST_SOURCES:],
    )


def known_in(papers: Papers) -> Waits[list[Lesson]]:
    """What is remembered of the user and the project: the entries that have a name."""
    book = papers.book
    if book is None:
        return []
    found: list[Lesson] = yield either(book.profile, book.aprofile)
    return found


def keep_memories(papers: Papers, session: str, said: Memories, heard: Heard) -> Waits[dict[str, list[Any]]]:
    """What became of each memory, and the names that were forgotten because the user asked for it."""
    book = papers.book
    kept: list[dict[str, Any]] = []
    forgotten: list[str] = []
    if book is None:
        return {"memories": [dict(one) for one in said.memories], "forgotten": []}
    for one in said.memories:
        origin = heard.standing(one["content"])
        lesson = Lesson(
            kind=one["kind"],  # type: ignore[arg-type] # one of them, as it was read
            name=one["name"],
            text=one["content"],
            when=one["description"],
            origin=origin,
            sources=[session] if session else [],
        )
        orders = one["kind"] != "project" or _ORDERS.search(one["content"])
        doubt = "a tool said it, and not the user" if origin == "observed" and orders else None
        tools = [] if origin == "told" else heard.tools  # what the user said too is no copy of what a tool said
        written = yield either(book.add, book.aadd, lesson, foreign=tools, doubt=doubt)
        kept.append({**one, "action": written.action, "reason": written.reason})
    if said.forget and _FORGET.search(heard.user):
        for name in said.forget:
            if (yield either(book.forget_named, book.aforget_named, name)):
                forgotten.append(name)
    return {"memories": kept, "forgotten": forgotten}
