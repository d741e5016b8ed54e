"""Judging: what a check is given, and what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage
from pydantic import Field, SkipValidation, model_validator
from typing_extensions import TypeIs

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
        """A score out of range counts as the nearest in it, and the issues say so; that of a dimension likewise."""
        if not isinstance(given, dict):
            return given
        notes, fields = [], dict(given)
        if _is_outside(score := given.get("score")):
            fields["score"] = _nearest(score)
            notes.append(f"the score {score:g} is outside 0 to 100 and counts as {fields['score']:g}")
        sides = given.get("dimensions")
        for name, side in sides.items() if isinstance(sides, dict) else ():
            if _is_outside(score := side.get("score") if isinstance(side, dict) else getattr(side, "score", None)):
                plain = side if isinstance(side, dict) else side.model_dump()
                fields["dimensions"] = {**fields["dimensions"], name: {**plain, "score": _nearest(score)}}
                notes.append(f"the score {score:g} of {name} is outside 0 to 100 and counts as {_nearest(score):g}")
        return {**fields, "issues": [*given.get("issues", ()), *notes]} if notes else given


def _is_outside(score: Any) -> TypeIs[float]:
    return isinstance(score, (int, float)) and not 0 <= score <= 100


def _nearest(score: float) -> float:
    return 0.0 if math.isnan(score) else min(max(float(score), 0.0), 100.0)


class Run(Value):
    """What a check is given beside the answer."""

    task: str
    messages: SkipValidation[Sequence[AnyMessage]] = ()
    observations: Sequence[str] = ()
    step: int = 0
    attempt: int = 1
    context: Any = None
    success_score: float = 80.0
    """The score that accepts where a verdict states nothing."""
    model: Any = Field(default=None, repr=False)
    """The agent's own chat model, for a check that says `wants_model`."""
    prompts: Any = Field(default=None, repr=False)
    """The agent's prompts, for a check that asks a model."""
