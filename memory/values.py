"""What the methods of the lesson book return."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from langgraph_reflexion.schemas import Lesson, LessonStatus

WriteAction = Literal["added", "merged", "unchanged", "refused", "quarantined"]
ChangeAction = Literal[
    "added",
    "quarantined",
    "merged",
    "edited",
    "opposed",
    "superseded",
    "approved",
    "promoted",
    "demoted",
    "retired",
    "restored",
    "undone",
]
By = Literal["writer", "person", "evidence", "policy"]


@dataclass(frozen=True)
class Written:
    """The result of `add`, with the reason. If the lesson was refused, `lesson` is None."""

    action: WriteAction
    lesson: Lesson | None
    reason: str = ""


@dataclass(frozen=True)
class Found:
    """A lesson and how well it fits what was searched for, from 0 to 1."""

    lesson: Lesson
    score: float


@dataclass(frozen=True)
class Loaded:
    """How many lessons of a file were new, were known, could not be kept, or took the words of the file.

    `otherwise` counts the known lessons that read differently in the file and stay as they are here.
    """

    added: int = 0
    unchanged: int = 0
    skipped: int = 0
    changed: int = 0
    otherwise: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Change:
    """One change of a lesson.

    `before` holds fields as they were and `after` as they became, `words` what was approved, by its hashes, `undoes`
    the change that was taken back.
    """

    id: str
    lesson: str
    action: ChangeAction
    at: datetime
    by: By = "writer"
    why: str = ""
    status: LessonStatus | None = None
    run: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    undoes: str | None = None
