"""Ending: how a run ended, its attempts, and what it cost."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from langgraph_reflexion.schemas.deciding import Failure
from langgraph_reflexion.schemas.judging import Verdict
from langgraph_reflexion.schemas.reflecting import Reflection
from langgraph_reflexion.schemas.words import Status, StopReason, Value


class Usage(Value):
    """Tokens and model calls."""

    input: int = 0
    output: int = 0
    total: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            total=self.total + other.total,
            calls=self.calls + other.calls,
        )


class Spending(Usage):
    """What the agent spent, and apart from it what its reflections did."""

    reflection: Usage = Usage()


class Attempt(Value):
    """The work up to one proposed answer."""

    answer: str | None = None
    score: float | None = None
    verdicts: list[Verdict] = Field(default_factory=list)
    failures: list[Failure] = Field(default_factory=list)
    seconds: float = 0.0
    usage: Usage = Usage()


class Outcome(Value):
    """How a run ended."""

    run_id: str
    status: Status
    stop_reason: StopReason
    answer: str | None = None
    structured: Any = None
    score: float | None = None
    reason: str = Field(default="", description="Why the run stopped, in a sentence.")
    attempts: list[Attempt] = Field(default_factory=list)
    failures: list[Failure] = Field(default_factory=list)
    reflections: list[Reflection] = Field(default_factory=list)
    lessons_used: list[str] = Field(default_factory=list)
    lessons_written: list[str] = Field(default_factory=list)
    memory: str = Field(default="", description="Why lessons that fit were held back, where memory does no good.")
    usage: Spending = Spending()
    seconds: float = 0.0

    @property
    def best(self) -> Attempt | None:
        """The attempt that was not refused, else the answered one with the highest score; the later of equals."""
        if self.stop_reason in ("accepted", "unchecked") or not self.attempts:
            return self.last
        return max(reversed(self.attempts), key=_rank)

    @property
    def mean(self) -> float | None:
        """The mean score of the attempts that have one."""
        scores = [attempt.score for attempt in self.attempts if attempt.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def last(self) -> Attempt | None:
        """The attempt the run ended with."""
        return self.attempts[-1] if self.attempts else None


def _rank(attempt: Attempt) -> tuple[bool, float]:
    return attempt.answer is not None, -1.0 if attempt.score is None else attempt.score
