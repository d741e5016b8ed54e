"""A parent's context, whatever it is made of: fields are read by name, and what it lacks has `Context`'s default."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolRuntime
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_reflexion import Context, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, say

ASKED = {"messages": [("user", "Find a free hour on Tuesday.")]}
BY_USER = MemoryPolicy(namespace=("team", "{user_id}"))


class Talk(TypedDict):
    """A parent's state."""

    messages: Annotated[list[AnyMessage], add_messages]


@dataclasses.dataclass
class Visitor:
    """A context as a dataclass."""

    user_id: str
    tenant: str = "north"


class Guest(BaseModel):
    """A context as a pydantic model."""

    user_id: str
    tenant: str = "north"


class Caller(TypedDict, total=False):
    """A context as a typed dict."""

    user_id: str
    tenant: str


class Stranger(BaseModel):
    """A context that has none of our fields."""

    tenant: str = "north"


class Mine(Context):
    """Ours, with one field more."""

    tenant: str = "north"


def parent_of(agent: Any, schema: type | None, **compiled: Any) -> Any:
    graph = StateGraph(Talk, context_schema=schema)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    return graph.compile(**compiled)


def places(store: InMemoryStore) -> list[tuple[str, ...]]:
    return [place for place in store.list_namespaces() if place[-1] == "lessons"]


@pytest.mark.req("G1")
@pytest.mark.fast_cases(1)
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (Visitor, Visitor("ada")),
        (Visitor, {"user_id": "ada"}),
        (Guest, Guest(user_id="ada")),
        (Guest, {"user_id": "ada", "tenant": "south"}),
        (Caller, {"user_id": "ada"}),
        (None, {"user_id": "ada"}),
        (Context, Context(user_id="ada")),
        (Mine, Mine(user_id="ada")),
    ],
)
def test_a_namespace_is_filled_from_any_context(schema: Any, context: Any, learning: Callable[..., Any]) -> None:
    store = InMemoryStore()
    parent_of(learning(memory=BY_USER), schema, store=store).invoke(ASKED, context=context)
    assert places(store) == [("team", "ada", "lessons")]


@pytest.mark.req("G1")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("context", [Visitor("ada"), Guest(user_id="ada"), Mine(user_id="ada"), {"user_id": "ada"}])
def test_the_agent_itself_takes_a_context_of_the_callers_own(context: Any, learning: Callable[..., Any]) -> None:
    store = InMemoryStore()
    schema = type(context) if not isinstance(context, dict) else Caller
    learning(memory=BY_USER, context_schema=schema, store=store).invoke(ASKED, context=context)
    assert places(store) == [("team", "ada", "lessons")]


@pytest.mark.req("G1")
@pytest.mark.parametrize("context", [Stranger(), {"tenant": "north"}, None])
def test_fields_missing_from_a_context_have_their_default(context: Any, caplog: pytest.LogCaptureFixture) -> None:
    small, large = RoleModel(say("small")), RoleModel(say("large"))
    agent = create_reflexion_agent({"small": small, "large": large}, memory=BY_USER)
    schema = Stranger if isinstance(context, Stranger) else None
    store = InMemoryStore()
    with caplog.at_level(logging.WARNING):
        result = parent_of(agent, schema, store=store).invoke(ASKED, context=context)
    assert result["messages"][-1].text == "small", "the first by default"
    assert not store.list_namespaces(), "no memory, never a shared one"
    assert "namespace" in caplog.text


@pytest.mark.req("G1")
def test_two_users_share_nothing(learning: Callable[..., Any]) -> None:
    store = InMemoryStore()
    parent = parent_of(learning(memory=BY_USER), Visitor, store=store)
    for user in ("ada", "ada.b", "ada~2eb"):
        parent.invoke(ASKED, context=Visitor(user))
    assert len(places(store)) == 3
    assert {len(store.search(place, limit=9)) for place in places(store)} == {1}


@pytest.mark.req("G1")
def test_a_parents_context_names_the_model_too() -> None:
    agent = create_reflexion_agent({"small": RoleModel(say("small")), "large": RoleModel(say("large"))})

    class Choosing(TypedDict):
        model: str

    result = parent_of(agent, Choosing).invoke(ASKED, context={"model": "large"})
    assert result["messages"][-1].text == "large"


@pytest.mark.req("G1")
def test_an_agent_with_one_model_ignores_a_parents_own_field_of_that_name() -> None:
    class Theirs(TypedDict):
        model: str

    agent = create_reflexion_agent(RoleModel(say("fine")))
    result = parent_of(agent, Theirs).invoke(ASKED, context={"model": "anthropic/claude"})
    assert result["messages"][-1].text == "fine"


@pytest.mark.req("G1")
def test_a_check_and_a_tool_see_the_parents_own_context() -> None:
    seen: list[Any] = []

    @tool
    def who(runtime: ToolRuntime[Any, Any]) -> str:
        """Say who asks."""
        seen.append(runtime.context)
        return "a visitor"

    def met(_answer: str, run: Any) -> None:
        seen.append(run.context)

    agent = create_reflexion_agent(RoleModel([call("who"), say("a visitor")]), [who], checks=[met])
    visitor = Visitor("ada")
    parent_of(agent, Visitor).invoke(ASKED, context=visitor)
    assert seen == [visitor, visitor]
