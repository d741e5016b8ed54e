"""The state of a run: what goes in, what comes out, and the private fields with the node that writes each.

Private fields hold plain data or the exact pydantic types named here, so that a checkpoint restores what
was kept. On a run that recalls nothing and fails nowhere they stay small and do not grow with its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from langgraph_reflexion.schemas import (
    Action,
    Attempt,
    Failure,
    Lesson,
    Outcome,
    Reflection,
    StopReason,
    Verdict,
)

Update = dict[str, Any]
"""What a node changed, and nothing else."""


class About(TypedDict):
    """What stays the same for a whole run."""

    id: str
    task: str
    started: float
    namespace: list[str] | None
    before: str | None


class Tally(TypedDict):
    """Counts of this run, and the two moments that elapsed time is read from."""

    steps: int
    attempts: int
    reflections: int
    meta: int
    remembered: int
    at: float
    waited: float
    spent: list[int]
    reflecting: list[int]
    mark: list[float]


class Blocked(TypedDict):
    """A repeated call: how often it was asked for since, and its last result, quoted in place of another run."""

    asked: int
    result: str


class Waiting(TypedDict):
    """A decision that no message holds: an answer that is still to be checked, a question, or an ending."""

    action: Action
    text: str
    message: AIMessage | None
    refused: bool


class Aside(TypedDict):
    """What the next prompt shows beside the conversation: the turn that could not stand, and a hint."""

    turn: list[AnyMessage]
    hint: str


class Recalled(BaseModel):
    """A lesson that came up in this run, and whether it was shown or withheld for comparison."""

    model_config = ConfigDict(frozen=True)

    lesson: Lesson
    shown: bool
    step: int


class Handoff(TypedDict):
    """A tool's leave for the parent graph, as plain data: `finish` makes the `Command` of it."""

    goto: Any
    update: list[tuple[str, Any]]
    call_id: str


class Input(TypedDict, total=False):
    """What a caller gives."""

    messages: Annotated[list[AnyMessage], add_messages]
    feedback: str | None


class Output(TypedDict, total=False):
    """What a caller gets."""

    messages: Annotated[list[AnyMessage], add_messages]
    structured_response: Any
    outcome: Outcome | None


def latest(left: float | None, right: float | None) -> float:
    """The later of two moments."""
    return max(left or 0.0, right or 0.0)


def gathered(left: list[Handoff] | None, right: list[Handoff] | None) -> list[Handoff]:
    """The turn's hand-overs, whichever call came first; `None` clears them."""
    return [] if right is None else [*(left or []), *right]


class Private(TypedDict, total=False):
    """What only the nodes see."""

    about: About
    """Written by `begin`."""
    tally: Tally
    """Written by `begin`, and by every node that spends steps, tokens or time."""
    trail: list[Any]
    """The last few turns as the loop detector reads them. Written by `begin`, `observe`, `reflect`."""
    blocked: dict[str, Blocked]
    """Calls that are not run again, by their canonical key. Written by `begin`, `observe`."""
    decision: Waiting | None
    """Written by `begin`, `decide`, `observe` (a direct answer), `wrap_up`."""
    failure: Failure | None
    """The failure at hand. Written by `begin`, `decide`, `observe`, `check`."""
    failures: list[Failure]
    """All failures of the run. Written by the same nodes as `failure`."""
    aside: Aside | None
    """Written by `begin`, `decide`, `observe`, `check`."""
    edits: dict[str, Any]
    """Calls a person changed before they ran, by call id. Written by `begin`, `ask`."""
    handoffs: Annotated[list[Handoff], gathered]
    """Written by `begin`, `tool`."""
    resumed_at: Annotated[float, latest]
    """When a person last answered. Written by `begin`, `ask`, `tool`, `check`."""
    verdicts: list[Verdict]
    """What the checks said last. Written by `begin`, `check`."""
    attempts: list[Attempt]
    """Written by `begin`, `check`, `wrap_up`."""
    reflections: list[Reflection]
    """Written by `begin`, `reflect`."""
    patch: list[str]
    """The run's patches, at most three, newest last. Written by `begin`, `reflect`."""
    recalled: list[Recalled]
    """Written by `begin`, `recall`."""
    lessons_written: list[str]
    """Written by `begin`, `remember`."""
    stop: StopReason | None
    """Why the run cannot go on. Written by `begin`, `decide`, `observe`, `reflect`, `wrap_up`."""
    reason: str
    """The same in a sentence. Written by `begin`, `decide`, `reflect`, `wrap_up`."""


class State(Input, Output, Private, total=False):
    """All of it."""


class Crossing(TypedDict, total=False):
    """What the routes read, and no more: this is read once more at every step."""

    messages: Annotated[list[AnyMessage], add_messages]
    about: About
    tally: Tally
    decision: Waiting | None
    failure: Failure | None
    attempts: list[Attempt]
    blocked: dict[str, Blocked]
    edits: dict[str, Any]
    handoffs: Annotated[list[Handoff], gathered]
    resumed_at: Annotated[float, latest]
    stop: StopReason | None
    remaining_steps: RemainingSteps


def task_of(messages: Sequence[AnyMessage]) -> str:
    """The last thing the user said, whatever hand-over messages follow it."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.text
    return messages[-1].text if messages else ""


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The last AIMessage, if nothing but answers to its calls follows it, and those answers."""
    answers: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answers.append(message)
        elif isinstance(message, AIMessage):
            return message, answers[::-1]
        else:
            break
    return None, []
