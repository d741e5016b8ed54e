"""One scripted model that plays the agent and both auditors, and where they keep what they find."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.store.memory import InMemoryStore
from pydantic import PrivateAttr

from langgraph_reflexion import ErrorNotebook, LessonBook, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.testing import Question, RoleModel, say

TASK = "Find the file of the invoice and rename it."
FINDING = {
    "category": "tool_misuse",
    "description": "The search tool was called with an empty query.",
    "cause": "The query was built before the name was known.",
    "suggestion": "Ask for the name before you call the search tool.",
    "severity": "medium",
    "evidence": [],
}
MEMORY = {
    "kind": "rule",
    "name": "kebab-case",
    "description": "How files are named",
    "content": "Name new files in kebab-case.",
}
TALK: list[AnyMessage] = [
    HumanMessage(TASK, id="q"),
    AIMessage("", tool_calls=[{"name": "search", "args": {"q": ""}, "id": "1"}], id="c"),
    ToolMessage("error: empty query", tool_call_id="1", status="error", id="t", name="search"),
    AIMessage("Renamed to new-name.txt.", id="a"),
]
NAMESPACE = ("team",)
CLEAN = {"score": 100, "findings": []}
NOTHING: dict[str, Any] = {"memories": [], "forget": []}


def who(question: Question) -> str:
    """Who is asked: an auditor is told by its instructions."""
    if question.schema and "on_track" in (question.schema.get("properties") or {}):
        return "check"
    text = question.text
    if "missed_optimization" in text:
        return "errors"
    if "Find out what is worth remembering" in text:
        return "memories"
    return "check" if '"next_action"' in text else "main"


class Cast(RoleModel):
    """The agent, its auditors and its self-check. What each says: a reply, a list of them, or a function."""

    parts: dict[str, Any]

    def __init__(self, main: Any = None, errors: Any = CLEAN, memories: Any = NOTHING, **more: Any) -> None:
        parts = {"main": main or say("done"), "errors": errors, "memories": memories, "check": more.pop("check", None)}
        super().__init__(decide=self._part, other=self._part, parts=parts, **more)

    def _part(self, question: Question) -> Any:
        name = who(question)
        reply = self.parts[name]
        if isinstance(reply, list):
            reply = reply[min(len(self.of(name)), len(reply)) - 1]
        if callable(reply) and not isinstance(reply, type):
            reply = reply(question)
        return say(json.dumps(reply)) if isinstance(reply, dict) and name != "check" else reply

    def of(self, name: str) -> list[Question]:
        """What one of them was asked."""
        return [one for one in self.asked if who(one) == name]


class Held(Cast):
    """Says nothing until it is let go, however long that takes."""

    _let_go: threading.Event = PrivateAttr(default_factory=threading.Event)

    def let_go(self) -> None:
        self._let_go.set()

    def _generate(self, *args: Any, **named: Any) -> Any:
        self._let_go.wait(60)
        return super()._generate(*args, **named)

    async def _agenerate(self, *args: Any, **named: Any) -> Any:
        while not self._let_go.is_set():  # noqa: ASYNC110 — it may be let go from another thread
            await asyncio.sleep(0.002)
        return await super()._agenerate(*args, **named)


@pytest.fixture
def store() -> InMemoryStore:
    return InMemoryStore()


@pytest.fixture
def notebook(store: InMemoryStore) -> ErrorNotebook:
    return ErrorNotebook(store, NAMESPACE)


@pytest.fixture
def book(store: InMemoryStore) -> LessonBook:
    return LessonBook(store, NAMESPACE, POLICY)


POLICY = MemoryPolicy(namespace=NAMESPACE, control_share=0)

Made = Callable[..., Any]


@pytest.fixture
def agent(store: InMemoryStore) -> Made:
    """An agent with its memory in the store."""

    def made(model: Any, mode: Any = "after", tools: Any = (), **more: Any) -> Any:
        settings = {"memory": POLICY, "store": store, **more}
        return create_reflexion_agent(model, list(tools), self_reflection=mode, **settings)

    return made


@pytest.fixture
def on() -> SimpleNamespace:
    """The doubles and examples of these tests."""
    names = ("Cast", "Held", "TASK", "FINDING", "MEMORY", "TALK", "NAMESPACE", "CLEAN", "NOTHING", "POLICY")
    return SimpleNamespace(**{name: globals()[name] for name in names})
