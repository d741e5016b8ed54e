"""Counting: steps, tokens and time of a run, and what of its limits is spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_reflexion.context import Limits
from langgraph_reflexion.nodes.models.asking import Reply, Spent, plus
from langgraph_reflexion.schemas import Attempt, Failure, StopReason, Usage
from langgraph_reflexion.state import Mark, Tally
from langgraph_reflexion.text.words import count_tokens

STEPS_TO_WRAP_UP = 3
"""What LangGraph counts as left where there is room for `wrap_up` and `finish`: it wants one to spare."""
STEPS_TO_END = STEPS_TO_WRAP_UP + 1
"""And for another decision before them."""
STEPS_FOR_TOOLS = STEPS_TO_WRAP_UP + 2
"""And for a turn's calls before them: `tool` and `observe`."""


def fresh(now: float) -> Tally:
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
        waited=0.0,
        spent=[0, 0, 0, 0],
        reflecting=[0, 0, 0, 0],
        mark=Mark(spent=[0, 0, 0, 0], at=now, failures=0, waited=0.0),
    )


def counted(
    state: Mapping[str, Any], now: float, *, spent: Spent | None = None, reflecting: Spent | None = None, **counts: int
) -> Tally:
    """The tally after a node: what it spent, what it counted, and the time."""
    tally: Tally = state["tally"]
    paused = max(0.0, (state.get("resumed_at") or 0.0) - tally["at"])
    new = cast("Tally", {**tally, "at": now, "waited": tally["waited"] + paused})
    if spent is not None:
        new["spent"] = plus(tally["spent"], spent)
    if reflecting is not None:
        new["reflecting"] = plus(tally["reflecting"], reflecting)
    for name, more in counts.items():
        new[name] = tally[name] + more  # type: ignore[literal-required]
    return new


def elapsed(state: Mapping[str, Any], now: float) -> float:
    """Seconds of the run so far; waiting for a person is not counted."""
    tally: Tally = state["tally"]
    paused = max(0.0, (state.get("resumed_at") or 0.0) - tally["at"])
    started: float = state["about"]["started"]
    return max(0.0, now - started - tally["waited"] - paused)


def seconds_left(state: Mapping[str, Any], limits: Limits, now: float) -> float | None:
    """What is left of the deadline; never less than nothing."""
    if limits.deadline is None:
        return None
    return max(0.0, limits.deadline - elapsed(state, now))


def paid(limits: Limits, prompt: Sequence[BaseMessage], reply: Reply) -> Spent:
    """What a reply cost. Where a budget has to hold and the provider tells no usage, it is counted, roughly."""
    if limits.token_budget is None or reply.spent[2]:
        return reply.spent
    read = sum(map(_size_of, prompt))
    said = _size_of(reply.message)
    return [read, said, read + said, reply.spent[3]]


def _size_of(message: BaseMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return count_tokens(" ".join([str(message.text), *(f"{call['name']} {call['args']}" for call in calls)]))


def tokens(tally: Tally) -> int:
    """Tokens of every model call of the run."""
    return tally["spent"][2] + tally["reflecting"][2]


def overspent(state: Mapping[str, Any], limits: Limits, now: float, tally: Tally | None = None) -> StopReason | None:
    """Whether time or tokens have run out."""
    if limits.token_budget is not None and tokens(tally or state["tally"]) >= limits.token_budget:
        return "token_budget"
    if limits.deadline is not None and elapsed(state, now) >= limits.deadline:
        return "deadline"
    return None


def spent_out(state: Mapping[str, Any], limits: Limits, now: float) -> StopReason | None:
    """Why there can be no further decision, or None."""
    if state.get("stop"):
        return cast("StopReason", state["stop"])
    if out := overspent(state, limits, now):
        return out
    if state["tally"]["steps"] >= limits.max_steps or state.get("remaining_steps", STEPS_TO_END) < STEPS_TO_END:
        return "max_steps"
    return None


def may_reflect(state: Mapping[str, Any], limits: Limits) -> bool:
    """Whether a reflection is left, and LangGraph's own limit leaves room for it and what follows."""
    left: int = state.get("remaining_steps", 99)
    tally: Tally = state["tally"]
    return tally["reflections"] < limits.max_reflections and left >= STEPS_TO_END + 3


def times_seen(mark: str, before: Iterable[Failure]) -> int:
    """How many failures have this fingerprint, the one at hand among them."""
    return 1 + sum(one.fingerprint == mark for one in before)


def usage_of(spent: Spent) -> Usage:
    """A cost as a value."""
    return Usage(input=spent[0], output=spent[1], total=spent[2], calls=spent[3])


def attempt_of(state: Mapping[str, Any], tally: Tally, now: float, **fields: Any) -> Attempt:
    """The attempt that ends now: what it cost, and the failures on the way to it, beside these fields."""
    mark = tally["mark"]
    cost = [after - before for after, before in zip(tally["spent"], mark["spent"], strict=True)]
    failures = (state.get("failures") or [])[mark["failures"] :]
    return Attempt(
        **{"failures": failures, **fields},
        seconds=max(0.0, now - mark["at"] - (tally["waited"] - mark["waited"])),
        usage=usage_of(cost),
    )


def marked(tally: Tally, now: float, failures: int) -> Tally:
    """The tally with the next attempt beginning here."""
    mark = Mark(spent=tally["spent"], at=now, failures=failures, waited=tally["waited"])
    return cast("Tally", {**tally, "mark": mark})


def worth_going_on(attempts: list[Attempt], limits: Limits) -> bool:
    """Whether the scores still rise: False once too many attempts in a row gained too little over the best before."""
    best: float | None = None
    stalled = 0
    for attempt in attempts:
        if attempt.score is None:
            continue
        if best is not None:
            gain = (attempt.score - best) / max(best, 1.0)
            stalled = stalled + 1 if gain < limits.min_improvement else 0
        best = attempt.score if best is None else max(best, attempt.score)
    return stalled < limits.stalled_attempts or len(attempts) < 3
