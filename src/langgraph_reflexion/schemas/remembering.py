"""Remembering: lessons, and the records of the runs they rest on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field, field_validator

from langgraph_reflexion.schemas.deciding import Failure
from langgraph_reflexion.schemas.reflecting import Reflection
from langgraph_reflexion.schemas.words import Kind, LessonStatus, Origin, Signal, Status, StopReason, Value


class Trigger(Value):
    """The failure, and the tool, that a lesson is bound to."""

    signal: Signal | None = None
    tool: str | None = None
    fingerprint: str | None = None


class Lesson(Value):
    """What is kept of a reflection, and how it has done since."""

    kind: Kind
    text: str
    id: str = ""
    when: str = ""
    when_not: str = ""
    why: str = ""
    situation: str = Field(default="", description="The words of the task it was learned on, without its details.")
    topic: str | None = None
    tags: list[str] = Field(default_factory=list)
    trigger: Trigger | None = None
    origin: Origin = "judged"
    status: LessonStatus = "candidate"
    confidence: float | None = Field(default=None, ge=0, le=100)
    sources: list[str] = Field(default_factory=list, description="Ids of the episodes it rests on.")
    shown: int = 0
    wins: int = 0
    losses: int = 0
    withheld_wins: int = 0
    withheld_losses: int = 0
    supersedes: list[str] = Field(default_factory=list)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    version: int = 1
    name: str | None = Field(default=None, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)

    @field_validator("supersedes", mode="before")
    @classmethod
    def _many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value or []


class Episode(Value):
    """The record of one finished run. Its id is the run's."""

    id: str
    task: str
    topic: str | None = None
    success: bool | None = None
    score: float | None = None
    shown: list[str] = Field(default_factory=list, description="Ids of the lessons the run was shown.")
    withheld: list[str] = Field(default_factory=list, description="Ids of those it was meant to go without.")
    written: list[str] = Field(default_factory=list, description="Ids of those it wrote, and went on with.")
    failed: list[str] = Field(default_factory=list, description="Ids of those whose own failure came back after that.")
    recalled_at: dict[str, int] = Field(default_factory=dict, description="The step at which each came up; 0 at first.")
    memory: str = Field(default="", description="Why lessons that fit were held back, where memory does no good.")
    failures: list[Failure] = Field(default_factory=list)
    reflections: list[Reflection] = Field(default_factory=list)
    created_at: datetime | None = None
    seconds: float = 0.0
    status: Status = "unverified"
    stop_reason: StopReason = "unchecked"
