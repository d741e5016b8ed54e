"""Judging: what a check is given, and what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage
from pydantic import Field, model_validator

from langgraph_reflexion.schemas.words import Value


class Dimension(Value):
    """One side of an answer, judged apart."""

    score: float
    feedback: str = ""


class Verdict(Value):
    """What a check says of an answer. Where it states nothing, its score decides."""

    passed: bool | None = None
    score: float | None = None
    issues: list[str] = Field(default_factory=list)
    dimensions: dict[str, Dimension] = Field(default_factory=dict)
    feedback: str = ""
    check: str = Field(default="", description="The name of the check that says it.")
    edited: str | None = Field(default=None, description="The answer as a person put it, in place of the one judged.")

    @model_validator(mode="before")
    @classmethod
    def _within_range(cls, given: Any) -> Any:
        """A score out of range counts as the nearest in it, and the issues say so."""
        score = given.get("score") if isinstance(given, dict) else None
        if not isinstance(score, (int, float)) or 0 <= score <= 100:
            return given
        nearest = 0.0 if math.isnan(score) else min(max(float(score), 0.0), 100.0)
        issue = f"the score {score:g} is outside 0 to 100 and counts as {nearest:g}"
        return {**given, "score": nearest, "issues": [*given.get("issues", ()), issue]}


@dataclass(frozen=True)
class Run:
    """What a check is given beside the answer."""

    task: str
    messages: Sequence[AnyMessage] = ()
    observations: Sequence[str] = ()
    step: int = 0
    attempt: int = 1
    context: Any = None
    success_score: float = 80.0
    """The score that accepts where a verdict states nothing."""
    model: Any = field(default=None, repr=False, compare=False)
    """The agent's own chat model, for a check that says `wants_model`."""
    prompts: Any = field(default=None, repr=False, compare=False)
    """The agent's prompts, for a check that asks a model."""
