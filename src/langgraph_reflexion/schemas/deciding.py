"""Deciding: what the model wants to do next, and what went wrong."""

from __future__ import annotations

from typing import Self

from langchain_core.messages import ToolCall
from pydantic import Field, model_validator

from langgraph_reflexion.schemas.words import Action, ErrorClass, Signal, Value


class Decision(Value):
    """What the model wants to do next."""

    thought: str = Field(default="", description="Your reasoning. State no outside facts here.")
    action: Action = Field(description="What to do next.")
    calls: list[ToolCall] = Field(default_factory=list, description="The tools to run now.")
    final: str | None = Field(default=None, description="The answer, the new plan, or the question to the user.")

    @model_validator(mode="after")
    def _does_one_thing(self) -> Self:
        if self.action == "tool_call":
            if not self.calls:
                raise ValueError("a tool call names the tool to run")
            if self.final is not None:
                raise ValueError("a tool call has no `final`: first see what it returns")
        elif self.calls:
            raise ValueError(f"`{self.action}` runs no tool")
        elif self.final is None:
            raise ValueError(f"`{self.action}` says its text in `final`")
        return self


class Failure(Value):
    """A signal with its evidence: text that a person can verify."""

    signal: Signal
    evidence: str
    step: int = 0
    tool: str | None = None
    error_class: ErrorClass | None = None
    fingerprint: str = Field(default="", description="The same for the same mistake on another instance.")
    repeats: int = 1
