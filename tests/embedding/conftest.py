"""A story to embed: a model that errs once with a tool, learns, and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from agents import make_agent
from langgraph_reflexion.testing import Question, RoleModel, call, reflection, say

LESSON = "Give the calendar a plain weekday name."
PATCH = "Search again with the weekday alone."


@tool
def search(query: str) -> str:
    """Look up free hours in the calendar."""
    if any(letter.isdigit() for letter in query):
        raise ValueError(f"{query!r} is not a weekday")
    return "eleven is free"


def learner() -> RoleModel:
    """Errs at the first search, unless a lesson or a patch says better; then it answers."""

    def decide(question: Question) -> Any:
        if "eleven is free" in question.text:
            return say("11:00")
        warned = LESSON in question.text or PATCH in question.text
        return call("search", query="Tuesday" if warned else "2026-03-03")

    memo = {"kind": "rule", "text": LESSON, "when": "free hours are looked up in the calendar"}
    return RoleModel(decide, reflection(PATCH, memory_to_write=[memo]))


@pytest.fixture
def calendar() -> BaseTool:
    """A tool that knows weekdays alone."""
    return search


@pytest.fixture(params=["graph", pytest.param("middleware", marks=pytest.mark.slow)])
def learning(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes an agent of the story, in either way; what is given are its settings."""
    return lambda **settings: make_agent(request.param, learner(), [search], **settings)


@pytest.fixture
def lesson() -> str:
    """The words that the story teaches."""
    return LESSON


def _valid(messages: Sequence[BaseMessage]) -> None:
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting, f"answers no call: {message!r}"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, f"calls {waiting} are open before {message!r}"
        if isinstance(message, AIMessage):
            waiting = [str(call["id"]) for call in [*message.tool_calls, *message.invalid_tool_calls]]
    assert not waiting, f"calls {waiting} are never answered"


@pytest.fixture
def valid() -> Callable[[Sequence[BaseMessage]], None]:
    """Fails unless each call is answered once and right after."""
    return _valid
