"""A small agent in which something breaks, and a thread to run it on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import Question, RoleModel, call, reflection, say

RULE = {"kind": "rule", "text": "Always give the calendar a weekday by name.", "when": "searching the calendar"}
PATCH = "Search by the weekday."


def search(query: str) -> str:
    """Look up free hours in the calendar."""
    if any(char.isdigit() for char in query):
        raise ValueError(f"{query} is not a weekday")
    return f"eleven is free on {query}"


def careful(question: Question) -> Any:
    """Search by date, then by weekday once told, then answer."""
    if "eleven is free" in question.text:
        return say("11:00")
    return call("search", query="Tuesday" if "weekday" in question.text else "2026-03-03")


@pytest.fixture
def make() -> Callable[..., tuple[RoleModel, Any]]:
    """A model and an agent on it; its policy is `careful` unless told otherwise."""

    def made(decide: Any = careful, tools: Any = (search,), **settings: Any) -> tuple[RoleModel, Any]:
        model = RoleModel(decide=decide, reflect=reflection(PATCH, memory_to_write=[RULE]))
        settings = {"checkpointer": InMemorySaver(), "store": InMemoryStore(), **settings}
        return model, create_reflexion_agent(model, list(tools), **settings)

    return made


@pytest.fixture
def thread() -> Callable[[], dict[str, Any]]:
    """A config of a thread that no one has used."""
    numbers = count()
    return lambda: {"configurable": {"thread_id": f"thread {next(numbers)}"}}


@pytest.fixture(params=["tools", pytest.param("json", marks=pytest.mark.slow)])
def protocol(request: pytest.FixtureRequest) -> str:
    """Both ways of speaking."""
    return str(request.param)
