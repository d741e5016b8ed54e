"""Reflecting: what is said once about one failure."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from langgraph_reflexion.schemas.words import Depth, Diagnosis, FixKind, Kind, RootCause, Value


class Fix(Value):
    """One way to put the cause right."""

    kind: FixKind = Field(default="other", description="The sort of change.")
    text: str = Field(default="", description="The change in a sentence.")

    @model_validator(mode="before")
    @classmethod
    def _from_a_sentence(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class Memo(Value):
    """Something a reflection asks to be remembered."""

    kind: Kind = Field(
        description="`rule`: always or never; `pattern`: how to go about a sort of problem; "
        "`strategy`: what has worked; `project`: a fact or a decision; `preference`: what the user likes."
    )
    text: str = Field(description="One imperative sentence that names no detail of this task.")
    when: str = Field(default="", description="The sort of task it is for, in the words in which a user asks for one.")
    tags: list[str] = Field(default_factory=list)


class Reflection(Value):
    """Said once about one failure."""

    failure_signal: str
    root_cause: RootCause
    explanation: str = ""
    fix_strategy: list[Fix]
    patch_prompt: str
    memory_to_write: list[Memo] = Field(default_factory=list)
    confidence: float | None = Field(default=None, ge=0, le=100)
    depth: Depth = "normal"
    diagnosis: Diagnosis | None = Field(default=None, description="Between trials: what sort of error it was.")
    lessons: list[str] = Field(default_factory=list, description="Between trials: what it teaches about this task.")

    def as_text(self) -> str:
        """Problem, cause, lessons and plan in a few lines."""
        lines = [f"Problem: {self.failure_signal}", f"Cause: {self.root_cause}" + _said(self.explanation)]
        lines += [f"Diagnosis: {self.diagnosis} error"] if self.diagnosis else []
        lines += [f"Fix: {fix.text or fix.kind}" for fix in self.fix_strategy]
        lines += [f"Lesson: {lesson}" for lesson in self.lessons]
        lines += [f"Lesson ({memo.kind}): {memo.text}" for memo in self.memory_to_write]
        return "\n".join([*lines, f"Plan: {self.patch_prompt}"])


def _said(text: str) -> str:
    return f" ({text})" if text else ""
