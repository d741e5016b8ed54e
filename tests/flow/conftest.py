"""One run, watched: what came out, which nodes ran, what was told on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.store.memory import InMemoryStore

from agents import make_agent
from langgraph_reflexion import Limits, MemoryPolicy, Outcome
from langgraph_reflexion.testing import Question, RoleModel, reflection

TASK = "Plan one hour for the team in Berlin on Tuesday."


@dataclass
class Watched:
    """What a run left, and what was heard of it."""

    result: dict[str, Any] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        found: Outcome = self.result["outcome"]
        return found

    @property
    def messages(self) -> list[BaseMessage]:
        found: list[BaseMessage] = self.result["messages"]
        return found

    @property
    def answer(self) -> str:
        return str(self.messages[-1].text)

    @property
    def ending(self) -> tuple[str, str]:
        return self.outcome.status, self.outcome.stop_reason

    @property
    def signals(self) -> list[str]:
        return [failure.signal for failure in self.outcome.failures]

    @property
    def last_events(self) -> list[str]:
        return [event["type"] for event in self.events[-2:]]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


class Run(Protocol):
    def __call__(self, model: Any, tools: Sequence[Any] = (), *, task: Any = TASK, **settings: Any) -> Watched: ...


@pytest.fixture(params=["tools", pytest.param("json", marks=pytest.mark.slow)])
def protocol(request: pytest.FixtureRequest) -> str:
    """Each way of speaking to a model; most tests speak JSON among the slow ones alone."""
    return str(request.param)


@pytest.fixture(params=["graph", pytest.param("middleware", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest) -> str:
    """Each way to make an agent: the behavior is the same, except where a test is marked `graph_only`."""
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what the middleware cannot do: what is marked, and the JSON protocol."""
    for item in items[:]:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if given.get("way") == "middleware" and (
            given.get("protocol") == "json" or item.get_closest_marker("graph_only")
        ):
            items.remove(item)


@pytest.fixture
def run(way: str) -> Run:
    """Make an agent and watch one run of it. `limits` and `memory` are given as fields."""

    def watched(model: Any, tools: Sequence[Any] = (), *, task: Any = TASK, **settings: Any) -> Watched:
        config, context = settings.pop("config", None), settings.pop("context", None)
        feedback = settings.pop("feedback", None)
        agent = settings.pop("agent", None)
        if agent is None:
            limits = Limits(**settings.pop("limits", {}))
            memory = MemoryPolicy(**{"control_share": 0.0, **settings.pop("memory", {})})
            store = settings.pop("store", None) or InMemoryStore()
            agent = make_agent(way, model, tools, limits=limits, memory=memory, store=store, **settings)
        seen = Watched()
        given: dict[str, Any] = {"messages": task if isinstance(task, list) else [("user", task)]}
        if feedback is not None:
            given["feedback"] = feedback
        heard = agent.stream(given, config, context=context, stream_mode=["updates", "custom", "values"])
        for mode, chunk in heard:
            if mode == "updates":
                seen.nodes += list(chunk)
            elif mode == "custom":
                seen.events.append(chunk)
            else:
                seen.result = chunk
        sure_pairs(seen.result["messages"])
        return seen

    return watched


def sure_pairs(messages: Sequence[BaseMessage]) -> None:
    """Each call is answered once and right after, and nothing answers no call."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting, f"answers no open call: {message!r}"
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting, f"{waiting} are open before {message!r}"
        if isinstance(message, AIMessage):
            waiting = [str(call["id"]) for call in [*message.tool_calls, *message.invalid_tool_calls]]
    assert not waiting, f"{waiting} are open at the end"


@tool("search")
def a_search(query: str) -> str:
    """Look up free hours."""
    raise NotImplementedError(query)  # each desk puts its own in its place: to make a tool of a function takes long


@dataclass
class Desk:
    """A search tool that keeps what it was asked, and fails as it is told to."""

    ran: list[str] = field(default_factory=list)
    answers: Callable[[str], Any] = field(default=lambda query: f"{query}: eleven is free")

    @property
    def search(self) -> BaseTool:
        return a_search.model_copy(update={"func": self._found})

    def _found(self, query: str) -> str:
        self.ran.append(query)
        found = self.answers(query)
        if isinstance(found, BaseException):
            raise found
        return str(found)


@pytest.fixture
def desk() -> Desk:
    return Desk()


ADVICE = (
    "Give the calendar a plain weekday name.",
    "Read the room list before choosing an hour.",
    "Translate local time into the office zone.",
    "Quote the observation that supports your choice.",
    "Sort candidates from late to early, then test one by one.",
    "Ask a colleague about public holidays.",
)


@pytest.fixture
def advice() -> list[dict[str, Any]]:
    """Reflections that have nothing in common."""
    return [reflection(text, explanation=f"Cause number {i}.") for i, text in enumerate(ADVICE)]


def decisions(model: RoleModel) -> list[Question]:
    return [question for question in model.asked if question.role == "decide"]


def reflections(model: RoleModel) -> list[Question]:
    return [question for question in model.asked if question.role == "reflect"]


@pytest.fixture
def decided() -> Callable[[RoleModel], list[Question]]:
    """The questions for a decision, in order."""
    return decisions


@pytest.fixture
def reflected() -> Callable[[RoleModel], list[Question]]:
    """The questions for a reflection, in order."""
    return reflections
