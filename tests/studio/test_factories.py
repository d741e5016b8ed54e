"""The factories that `langgraph.json` names, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.graph import studio
from langgraph_reflexion.graph.demo import ALIKE, TASK
from langgraph_reflexion.testing import RoleModel, say
from model_server import ModelServer

ASKED = {"messages": [("user", TASK)]}


class Person:
    """A user as an authenticating server hands one on."""

    def __init__(self, identity: str) -> None:
        self.identity = identity


def by(identity: str) -> Any:
    return {"configurable": {"langgraph_auth_user": Person(identity)}}


def places(store: InMemoryStore) -> set[tuple[str, ...]]:
    return {place for place in store.list_namespaces() if place[-1] == "lessons"}


@pytest.mark.req("J1")
def test_each_graph_that_langgraph_json_names_can_be_made_without_a_key() -> None:
    named = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text())["graphs"]
    assert set(named) == {"demo", "agent"}
    for name, place in named.items():
        module, _, factory = place.partition(":")
        assert module == studio.__name__
        assert getattr(studio, factory)().name == name


@pytest.mark.req("D4", "S1")
def test_the_demo_makes_its_mistake_once() -> None:
    demo = studio.demo()
    first, second = (demo.invoke({"messages": [("user", words)]})["outcome"] for words in (TASK, ALIKE))
    assert (first.status, len(first.failures)) == ("success", 1)
    assert (second.status, len(second.failures)) == ("success", 0)
    assert second.lessons_used == first.lessons_written


@pytest.mark.req("D4")
@pytest.mark.parametrize("words", ["Find one hour: start on the hour, end by 14:00.", "A free hour, please."])
def test_the_demo_makes_its_mistake_whatever_it_is_asked(words: str) -> None:
    outcome = studio.demo().invoke({"messages": [("user", words)]})["outcome"]
    assert [failure.signal for failure in outcome.failures] == ["tool_error"]
    assert outcome.answer == "11:00 is free."


def test_the_demo_looks_again_when_it_is_asked_again() -> None:
    demo = studio.demo()
    first = demo.invoke(ASKED)
    again = demo.invoke({"messages": [*first["messages"], ("user", "Look again.")]})
    assert again["messages"][-1].text == "11:00 is free."
    assert len(again["messages"]) > len(first["messages"]) + 2
    assert again["messages"][-2].type == "tool", "what was read for the question before is not taken for the answer"


def test_a_user_the_server_knows_has_a_memory_of_their_own() -> None:
    demo, store = studio.demo(), InMemoryStore()
    demo.store = store
    written = [demo.invoke(ASKED, config)["outcome"].lessons_written for config in (by("ada"), by("ada.b"), None)]
    assert all(len(one) == 1 for one in written), "nobody is shown another's lesson"
    default = ("reflexion", "demo")
    assert places(store) == {
        (*default, "ada", "lessons"),
        (*default, "ada~2eb", "lessons"),
        (*default, "lessons"),
    }
    assert not demo.invoke(ASKED, by("ada"))["outcome"].failures


def test_a_server_that_authenticates_nobody_keeps_the_default_namespace() -> None:
    demo, store = studio.demo(), InMemoryStore()
    demo.store = store
    demo.invoke(ASKED, by(""))
    assert places(store) == {("reflexion", "demo", "lessons")}


@pytest.mark.req("N3")
def test_without_authentication_the_form_says_whose_memory_it_is() -> None:
    demo, store = studio.demo(), InMemoryStore()
    demo.store = store
    demo.invoke(ASKED, context=studio.DemoContext(user_id="ada"))
    demo.invoke(ASKED, by("eve"), context=studio.DemoContext(user_id="ada"))
    assert places(store) == {("reflexion", "demo", "ada", "lessons"), ("reflexion", "demo", "eve", "lessons")}


@pytest.mark.req("N3")
def test_a_user_id_in_configurable_counts_where_neither_the_server_nor_the_context_names_a_user() -> None:
    demo, store = studio.demo(), InMemoryStore()
    demo.store = store
    bob: Any = {"configurable": {"user_id": "bob"}}
    demo.invoke(ASKED, bob)
    demo.invoke(ASKED, bob, context=studio.DemoContext(user_id="ada"))
    demo.invoke(ASKED, {"configurable": {**bob["configurable"], **by("eve")["configurable"]}})
    assert places(store) == {("reflexion", "demo", user, "lessons") for user in ("ada", "bob", "eve")}


@pytest.mark.req("N3")
@pytest.mark.parametrize("greeting", ["hello", "Hi, what can you do today?"])
def test_the_demo_says_what_it_is_and_books_only_after_an_approval(greeting: str) -> None:
    demo = studio.demo()
    demo.checkpointer = InMemorySaver()
    thread: Any = {"configurable": {"thread_id": "one"}}
    hello = demo.invoke({"messages": [("user", greeting)]}, thread)
    assert hello["outcome"].status == "success"
    assert "Ask me, for instance" in hello["messages"][-1].text
    careful = studio.DemoContext(model="careful")
    asked = demo.invoke({"messages": [("user", f"{TASK} Book it.")]}, thread, context=careful)
    [request] = asked["__interrupt__"][0].value["action_requests"]
    assert (request["name"], request["args"]) == ("book", {"hour": "11:00"})
    result = demo.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread, context=careful)
    assert result["messages"][-1].text == "11:00 is booked."
    assert not result["outcome"].failures


def test_without_by_user_a_server_changes_nothing_about_the_namespace() -> None:
    store = InMemoryStore()
    agent = create_reflexion_agent(RoleModel(say("11:00")), memory=MemoryPolicy(namespace=("team",)), store=store)
    agent.invoke(ASKED, by("ada"))
    assert {place[:-1] for place in store.list_namespaces()} == {("team",)}


def test_the_other_graph_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        studio.agent().invoke(ASKED)


def test_the_other_graph_runs_with_the_model_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(RoleModel(say("11:00"))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv(studio.MODEL, "openai:small")
        result = studio.agent().invoke(ASKED)
    assert result["outcome"].status == "success"
    assert server.requests[0]["model"] == "small"


@pytest.mark.req("I8")
def test_an_agent_made_while_another_graph_runs_takes_nothing_of_its_config() -> None:
    """A server calls the factories inside a config of its own."""
    made: list[Any] = []
    RunnableLambda(lambda _: made.append(studio.demo())).invoke(None, {"configurable": {"thread_id": "theirs"}})
    assert "configurable" not in (made[0].config or {})
