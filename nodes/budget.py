"""The budget of a run: its limits, its clock, and how much it has used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.context import Limits
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.models.calling import Reply
from langgraph_reflexion.schemas import Attempt, Failure, Signal, StopReason, Usage
from langgraph_reflexion.state import AttemptStart, Tally, Update
from langgraph_reflexion.text.tokens import count_tokens

STEPS_TO_WRAP_UP = 3
"""Remaining LangGraph steps that `wrap_up` and `finish` need, and a spare one that LangGraph needs."""
STEPS_TO_END = STEPS_TO_WRAP_UP + 1
"""Remaining steps that another decision and the end of the run need."""
STEPS_FOR_TOOLS = STEPS_TO_WRAP_UP + 2
"""Remaining steps that a turn's calls (`tool`, `observe`) and the end of the run need."""
STEPS_TO_REFLECT = STEPS_TO_END + 3
"""Remaining steps that `reflect`, `remember`, `recall`, a decision and the end of the run need."""
PLENTY = 99
"""Remaining steps if LangGraph does not say: in a node, and in a route while nothing runs."""


@dataclass(frozen=True)
class Budget:
    """What a run may use, and how much is left. The methods read the run's tally and never change it."""

    limits: Limits
    clock: Callable[[], datetime]
    steps_after: int = 0
    """Steps of the graph after `finish`."""

    def now(self) -> float:
        """The clock's time in seconds."""
        return self.clock().timestamp()

    def elapsed(self, state: Mapping[str, Any]) -> float:
        """Seconds of the run so far, without the time spent waiting for a person."""
        return _seconds_worked(state, self.now())

    def seconds_left(self, state: Mapping[str, Any]) -> float | None:
        """Seconds left until the deadline, never negative. None without a deadline."""
        if self.limits.deadline is None:
            return None
        return max(0.0, self.limits.deadline - self.elapsed(state))

    def overspent(self, state: Mapping[str, Any], tally: Tally | None = None) -> StopReason | None:
        """`deadline` or `token_budget` if one of them has run out."""
        limits = self.limits
        if limits.token_budget is not None and tokens_in(tally or state["tally"]) >= limits.token_budget:
            return "token_budget"
        if limits.deadline is not None and self.elapsed(state) >= limits.deadline:
            return "deadline"
        return None

    def exhausted(self, state: Mapping[str, Any]) -> StopReason | None:
        """Why no further decision is possible, or None."""
        reason: StopReason | None = state["stop"] or self.overspent(state)
        if reason is not None:
            return reason
        out_of_steps = state["tally"]["steps"] >= self.limits.max_steps or self.steps_left(state) < STEPS_TO_END
        return "max_steps" if out_of_steps else None

    def steps_left(self, state: Mapping[str, Any]) -> int:
        """The steps that LangGraph's recursion limit leaves to the run itself."""
        return cast("int", state.get("remaining_steps", PLENTY)) - self.steps_after

    def may_reflect(self, state: Mapping[str, Any]) -> bool:
        """Whether a reflection is left, and LangGraph's limit has room for it and the steps that follow."""
        tally: Tally = state["tally"]
        return tally["reflections"] < self.limits.max_reflections and self.steps_left(state) >= STEPS_TO_REFLECT

    def is_improving(self, attempts: Sequence[Attempt]) -> bool:
        """Whether the scores still improve. False once too many attempts in a row gained too little over the best."""
        scores, stalled = [attempt.score for attempt in attempts if attempt.score is not None], 0
        for best, score in zip(accumulate(scores, max), scores[1:], strict=False):
            stalled = stalled + 1 if (score - best) / max(best, 1.0) < self.limits.min_improvement else 0
        return stalled < self.limits.stalled_attempts or len(attempts) < 3

    def tally(
        self, state: Mapping[str, Any], *, spent: Usage | None = None, reflecting: Usage | None = None, **counts: int
    ) -> Tally:
        """The run's tally after a node, with its cost, counts and time added."""
        tally: Tally = state["tally"]
        now = self.now()
        times = {"at": now, "resumed_at": state["resumed_at"], "worked": _seconds_worked(state, now)}
        new = cast("Tally", {**tally, **times})
        # Zeros are left out, because the tally is in each checkpoint.
        if spent is not None:
            new["spent"] = (Usage(**tally["spent"]) + spent).model_dump(exclude_defaults=True)
        if reflecting is not None:
            new["reflecting"] = (Usage(**tally["reflecting"]) + reflecting).model_dump(exclude_defaults=True)
        for name, more in counts.items():
            new[name] = cast("int", tally.get(name, 0)) + more  # type: ignore[literal-required]
        return new

    def cost(self, prompt: Sequence[BaseMessage], reply: Reply) -> Usage:
        """The cost of a reply. If there is a token budget and the provider reports no usage, an estimate."""
        if self.limits.token_budget is None or reply.spent.total:
            return reply.spent
        read, written = sum(map(_size_of, prompt)), _size_of(reply.message)
        return Usage(input=read, output=written, total=read + written, calls=reply.spent.calls)


def new_tally(now: float) -> Tally:
    """Nothing counted yet."""
    return Tally(
        steps=0,
        attempts=0,
        reflections=0,
        meta=0,
        remembered=0,
        wrote={},
        advised=[],
        at=now,
        resumed_at=now,
        worked=0.0,
        spent={},
        reflecting={},
        attempt_start=AttemptStart(spent={}, failures=0, steps=0, worked=0.0),
    )


def tokens_in(tally: Tally) -> int:
    """Tokens of every model call of the run."""
    return tally["spent"].get("total", 0) + tally["reflecting"].get("total", 0)


def end_attempt(state: Mapping[str, Any], config: RunnableConfig, tally: Tally, **fields: Any) -> Update:
    """The attempt that ends now, with these fields, as an event, and the tally with which the next one starts."""
    start = tally["attempt_start"]
    failures: list[Failure] = state.get("failures") or []
    attempt = Attempt(
        failures=failures[start["failures"] :],
        seconds=tally["worked"] - start["worked"],
        usage=Usage(**{name: after - start["spent"].get(name, 0) for name, after in tally["spent"].items()}),
        **fields,
    )
    shown = attempt.model_dump(mode="json", include={"answer", "score", "verdicts", "seconds"})
    number, step = state["tally"]["attempts"] + 1, state["tally"]["steps"]
    emit(config, "attempt", run_id=state["about"]["id"], step=step, attempt=number, **shown)
    next_start = AttemptStart(
        spent=tally["spent"], failures=len(failures), steps=tally["steps"], worked=tally["worked"]
    )
    return {"attempts": [*state["attempts"], attempt], "tally": {**tally, "attempt_start": next_start}}


def new_failure(
    state: Mapping[str, Any], signal: Signal, evidence: str, fingerprint: str, *, step: int | None = None, **fields: Any
) -> Failure:
    """A failure of the current step, or of `step`, with the number of failures in the run with its fingerprint."""
    repeats = 1 + sum(earlier.fingerprint == fingerprint for earlier in state["failures"])
    step = state["tally"]["steps"] if step is None else step
    return Failure(signal=signal, evidence=evidence, fingerprint=fingerprint, step=step, repeats=repeats, **fields)


def came_back(failures: Sequence[Failure], count: int) -> bool:
    """Whether failure number `count` of the run, counted from one, came back after that."""
    mark = failures[count - 1].fingerprint if 0 < count <= len(failures) else ""
    return bool(mark) and any(failure.fingerprint == mark for failure in failures[count:])


def _seconds_worked(state: Mapping[str, Any], now: float) -> float:
    """Seconds of work so far. If the clock went back, only the time since the tally was written is lost."""
    tally: Tally = state["tally"]
    since = tally["at"] if state["resumed_at"] == tally["resumed_at"] else state["resumed_at"]
    return tally["worked"] + max(0.0, now - since)


def _size_of(message: BaseMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return count_tokens(" ".join([str(message.text), *(f"{call['name']} {call['args']}" for call in calls)]))
