"""A trial, watched: the worker, the reflector and the checks are scripts, told apart by who was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Limits, MemoryPolicy, Outcome, create_trial_graph
from langgraph_reflexion.testing import RoleModel, reflection, say

TASK = "Who invented the telephone?"
PLANS = (
    "List the busy times of all guests first, then rule out each overlap.",
    "Write the equation down and substitute both candidate roots.",
    "Sort the rows by date before you compare neighbours.",
    "Quote the sentence of the source which names the inventor.",
    "Split the query into two joins and count the rows of each.",
    "Draw a truth table and fill it line by line.",
    "Convert the lengths to metres, then take the sum.",
    "Ask which time zone is meant and convert to it.",
)
"""Plans that have nothing in common."""


@dataclass
class Tried:
    """What a trial left, and who was asked what."""

    result: dict[str, Any]
    worker: Any
    reflector: Any

    @property
    def outcome(self) -> Outcome:
        found: Outcome = self.result["outcome"]
        return found

    @property
    def ending(self) -> tuple[str, str]:
        return self.outcome.status, self.outcome.stop_reason

    @property
    def prompts(self) -> list[str]:
        """What the worker was asked, as text."""
        return [question.text for question in self.worker.asked]


class Try(Protocol):
    def __call__(self, worker: Any = None, *, checks: Sequence[Any] = (), **settings: Any) -> Tried: ...


def student(*answers: Any) -> RoleModel:
    """A worker that gives these answers in order."""
    return RoleModel([say(one) if isinstance(one, str) else one for one in answers])


def thinker(*plans: str, **fields: Any) -> RoleModel:
    """A reflector with these plans."""
    return RoleModel([], [reflection(plan, **fields) for plan in plans or PLANS])


def scores(*given: Any) -> Callable[..., Any]:
    """A check that says these in order, and keeps what it was asked about."""
    left = list(given)

    def scored(answer: Any, _run: Any = None) -> Any:
        scored.answers.append(answer)  # type: ignore[attr-defined]
        return left.pop(0)

    scored.answers = []  # type: ignore[attr-defined]
    return scored


def made(worker: Any, checks: Sequence[Any], **settings: Any) -> Any:
    """A trial graph that withholds nothing; `limits` and `memory` are given as fields."""
    limits = Limits(**{"max_attempts": 20, "max_reflections": 20, **settings.pop("limits", {})})
    memory = MemoryPolicy(**{"control_share": 0.0, **settings.pop("memory", {})})
    settings.setdefault("store", InMemoryStore())
    return create_trial_graph(worker, checks, limits=limits, memory=memory, **settings)


@pytest.fixture(name="student")
def _student() -> Any:
    return student


@pytest.fixture(name="thinker")
def _thinker() -> Any:
    return thinker


@pytest.fixture(name="scores")
def _scores() -> Any:
    return scores


@pytest.fixture(name="made")
def _made() -> Any:
    return made


@pytest.fixture
def is_it_so() -> dict[str, Any]:
    """A question that is given to a graph."""
    return {"messages": [("user", "Is it so?")]}


@pytest.fixture
def right() -> Callable[..., bool]:
    """A check that wants a yes to it."""
    return lambda answer, _run: "yes" in answer


@pytest.fixture
def thread() -> Callable[..., Any]:
    """The config of a thread."""
    return lambda name="t": {"configurable": {"thread_id": name}}


@pytest.fixture
def look() -> Any:
    """A tool of a worker's own."""

    @tool
    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    return look


@pytest.fixture
def plans() -> tuple[str, ...]:
    return PLANS


@pytest.fixture
def tried() -> Try:
    """Make a trial graph and run it once."""

    def trying(worker: Any = None, *, checks: Sequence[Any] = (), **settings: Any) -> Tried:
        worker = worker if worker is not None else student(*(f"answer {i}" for i in range(1, 21)))
        reflector = settings.pop("reflector", None) or thinker()
        task, config = settings.pop("task", TASK), settings.pop("config", None)
        graph = made(worker, checks, reflector=reflector, **settings)
        return Tried(graph.invoke({"messages": [("user", task)]}, config), worker, reflector)

    return trying
