"""A graph that sums up lessons, which a server can run on a schedule."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Context, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.graph import create_distill_graph, studio
from langgraph_reflexion.testing import RoleModel, say

MEETINGS = (
    "Check a meeting slot against busy times of the team's calendar.",
    "Check a meeting slot against busy times of each guest's calendar.",
)
WORDS = "Check a meeting slot against busy times of the team's and each guest's calendar."

pytestmark = pytest.mark.req("D12")


def filled(*namespace: str) -> InMemoryStore:
    store = InMemoryStore()
    book = LessonBook(store, namespace)
    for run, text in enumerate(MEETINGS):
        book.add(Lesson(kind="rule", text=text, origin="verified", sources=[f"e{run}"]))
    return store


@pytest.mark.parametrize("awaited", [False, True])
async def test_it_does_what_distil_does_and_finds_nothing_the_next_time(awaited: bool) -> None:
    store = filled("reflexion", "planner")
    graph = create_distill_graph(store=store)

    async def asked() -> Any:
        return await graph.ainvoke({"agent": "planner"}) if awaited else graph.invoke({"agent": "planner"})

    [pattern] = (await asked())["patterns"]
    assert pattern["text"] in MEETINGS
    assert len(pattern["speaks_for"]) == 2
    kept = LessonBook(store, ("reflexion", "planner")).get(pattern["id"])
    assert kept is not None
    assert kept.supersedes == pattern["speaks_for"]
    assert (await asked())["patterns"] == []


@pytest.mark.parametrize("form", ["a model", "a function of state and runtime"])
def test_a_model_may_word_the_patterns(form: str) -> None:
    model = RoleModel(say(WORDS))
    given = model if form == "a model" else lambda state, _runtime: model if state["agent"] == "planner" else None
    made = create_distill_graph(given, store=filled("reflexion", "planner")).invoke({"agent": "planner"})
    assert [pattern["text"] for pattern in made["patterns"]] == [WORDS]


def test_it_keeps_to_the_namespace_of_the_run() -> None:
    policy = MemoryPolicy(namespace=("planner", "{user_id}"))
    graph = create_distill_graph(memory=policy, store=filled("planner", "ada"))
    assert graph.invoke({}, context=Context(user_id="bob"))["patterns"] == []
    assert len(graph.invoke({}, context=Context(user_id="ada"))["patterns"]) == 1
    with pytest.raises(ValueError, match=r"A field of the namespace .* has no value"):
        graph.invoke({}, context=Context())


@pytest.mark.parametrize("asked", [{}, {"agent": " "}])
def test_the_agent_must_be_named(asked: Any) -> None:
    with pytest.raises(ValueError, match=r'no agent name: pass \{"agent": NAME\}'):
        create_distill_graph().invoke(asked)


def test_an_unknown_model_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="provider:model"):
        create_distill_graph(":x", store=filled("reflexion", "planner")).invoke({"agent": "planner"})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv(studio.MODEL, "openai:gpt-4o-mini")
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        studio.distill().invoke({"agent": "demo"})


@pytest.mark.parametrize(
    ("setting", "value"),
    [("model", 7), ("model", lambda: 1), ("memory", None), ("store", "lessons.db"), ("name", 7), ("clock", 7)],
)
def test_invalid_settings_are_refused_when_it_is_created(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"`{setting}` (is|must be) a "):
        create_distill_graph(**{setting: value})
