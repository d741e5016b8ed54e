"""A caller's own state and context: TypedDict, pydantic or dataclass, with reducers, defaults and managed values."""

from __future__ import annotations

import dataclasses
import operator
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents import AgentState as LangChainState
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt.chat_agent_executor import AgentState
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import TypedDict

from langgraph_reflexion import Context, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.testing import ScriptedModel, call

HELLO = {"messages": [("user", "hello")]}


class Plain(TypedDict):
    """Fields beside the conversation, and a reducer."""

    messages: Annotated[list[AnyMessage], add_messages]
    city: NotRequired[str]
    visits: Annotated[int, operator.add]


class Deltas(TypedDict):
    """A conversation whose checkpoints hold only what is new."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class Beside(TypedDict):
    """Nothing but the fields beside the conversation."""

    city: str


class OfLangGraph(AgentState):  # type: ignore[misc]
    """LangGraph's own state with a field more."""

    city: str


class OfLangChain(LangChainState[Any]):
    """LangChain's own state with a field more."""

    city: str


class OfMessages(MessagesState):
    """The plainest of LangGraph's states with a field more."""

    city: str


class Object(BaseModel):
    """A state as an object."""

    messages: Annotated[list[AnyMessage], add_messages]
    city: str = "nowhere"
    remaining_steps: int = 25


class ObjectBeside(BaseModel):
    """Nothing but a field, as an object."""

    city: str = "nowhere"


@dataclasses.dataclass
class Data:
    """A state as a dataclass."""

    messages: Annotated[list[AnyMessage], add_messages]
    city: str = "nowhere"


class Managed(TypedDict):
    """A state with values that LangGraph fills."""

    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: RemainingSteps
    is_last_step: IsLastStep


class Strict(BaseModel):
    """A state that takes not everything."""

    messages: Annotated[list[AnyMessage], add_messages]
    nights: int = Field(ge=1)


def last_six(left: list[AnyMessage], right: list[AnyMessage]) -> list[AnyMessage]:
    """Join messages and forget the oldest."""
    return list(add_messages(left, right))[-6:]  # type: ignore[arg-type]


class Trimmed(TypedDict):
    """A conversation that is kept short."""

    messages: Annotated[list[AnyMessage], last_six]


class Added(TypedDict):
    """A conversation that is only added to."""

    messages: Annotated[list[AnyMessage], operator.add]


SCHEMAS = [Plain, Beside, OfLangGraph, OfLangChain, OfMessages, Object, ObjectBeside, Data]


def city_of(state: Any) -> str:
    """The field, whatever the state is."""
    return str(state["city"] if isinstance(state, dict) else state.city)


def messages_of(state: Any) -> list[Any]:
    """The conversation, whatever the state is."""
    return list(state["messages"] if isinstance(state, dict) else state.messages)


def where(city: Annotated[str, InjectedState("city")]) -> str:
    """Say where we are."""
    return city


def again() -> str:
    """Do it again."""
    return "done again"


def consult(city: Annotated[str, InjectedState("city")]) -> str:
    """Ask about the city."""
    return f"{city}: {interrupt('well?')}"


@pytest.mark.req("J1")
@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_field_more_goes_in_reaches_prompt_and_tools_and_comes_out(schema: Any, method: str) -> None:
    model = ScriptedModel([call("where"), "done"])
    agent = create_reflexion_agent(
        model,
        [where],
        state_schema=schema,
        prompt=lambda state: [SystemMessage(f"In {city_of(state)}."), *messages_of(state)],
    )
    given = {**HELLO, "city": "Oslo"}
    result = agent.invoke(given) if method == "invoke" else await agent.ainvoke(given)
    assert result["city"] == "Oslo"
    assert result["messages"][-2].text == "Oslo"
    assert [question.system for question in model.asked] == ["In Oslo."] * 2
    assert set(result) <= {"messages", "outcome", "city", "visits"}


def test_reducers_of_the_callers_fields_work_and_fields_survive_a_run_on_a_thread() -> None:
    agent = create_reflexion_agent(ScriptedModel(["one", "two"]), state_schema=Plain, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({**HELLO, "visits": 2, "city": "Oslo"}, config)
    result = agent.invoke({**HELLO, "visits": 3}, config)
    assert (result["visits"], result["city"]) == (5, "Oslo")
    assert len(result["messages"]) == 4


@pytest.mark.parametrize("schema", [Trimmed, Added])
def test_the_conversation_is_joined_by_the_callers_own_reducer(schema: Any) -> None:
    model = ScriptedModel([call("again"), "one", call("again"), "two"])
    agent = create_reflexion_agent(model, [again], state_schema=schema, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke(HELLO, config)
    result = agent.invoke({"messages": [HumanMessage("more")]}, config)
    assert [message.text for message in result["messages"][-4:]] == ["more", "", "done again", "two"]
    assert len(result["messages"]) == (6 if schema is Trimmed else 8)


@pytest.mark.req("G1")
def test_a_delta_channel_for_messages_is_used_over_turns_and_an_approval() -> None:
    model = ScriptedModel([call("again"), "one", "two"])
    agent = create_reflexion_agent(model, [again], state_schema=Deltas, approve=["again"], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke(HELLO, config)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    result = agent.invoke({"messages": [HumanMessage("more")]}, config)
    assert isinstance(agent.channels["messages"], DeltaChannel)
    assert [message.text for message in result["messages"]] == ["hello", "", "done again", "one", "more", "two"]
    assert agent.get_state(config).values["messages"] == result["messages"]


def test_defaults_of_a_pydantic_state_are_seen_by_prompt_and_tools() -> None:
    model = ScriptedModel([call("where"), "done"])
    agent = create_reflexion_agent(model, [where], state_schema=Object, prompt=lambda state: f"In {state.city}.")
    assert agent.invoke(HELLO)["messages"][-2].text == "nowhere"
    assert model.asked[0].text == "In nowhere."


def test_a_pydantic_state_refuses_what_it_does_not_take_before_any_call() -> None:
    model = ScriptedModel([])
    agent = create_reflexion_agent(model, state_schema=Strict)
    for given in ({**HELLO, "nights": 0}, HELLO):
        with pytest.raises(ValidationError, match="nights"):
            agent.invoke(given)
    assert not model.asked


def test_managed_values_are_filled_by_langgraph() -> None:
    seen: list[Any] = []

    def prompt(state: Any) -> list[Any]:
        seen.append((state["remaining_steps"], state["is_last_step"]))
        return list(state["messages"])

    agent = create_reflexion_agent(ScriptedModel([call("again"), "done"]), [again], state_schema=Managed, prompt=prompt)
    result = agent.invoke(HELLO, {"recursion_limit": 50})
    assert [left for left, _ in seen] == sorted((left for left, _ in seen), reverse=True)
    assert all(0 < left < 50 and last is False for left, last in seen)
    assert set(result) == {"messages", "outcome"}


def test_the_schemas_of_the_graph_name_the_callers_fields_and_nothing_private() -> None:
    agent = create_reflexion_agent(ScriptedModel([]), state_schema=OfLangChain)
    assert set(agent.get_input_jsonschema()["properties"]) == {"messages", "feedback", "city"}
    output = {"messages", "structured_response", "outcome", "progress", "city"}
    assert set(agent.get_output_jsonschema()["properties"]) == output


def test_the_callers_fields_can_be_edited_by_update_state() -> None:
    agent = create_reflexion_agent(
        ScriptedModel([call("where"), "done"]), [where], state_schema=Plain, checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({**HELLO, "city": "Oslo"}, config, interrupt_before=["tool"])
    agent.update_state(config, {"city": "Rome"}, as_node="decide")
    assert agent.invoke(None, config)["messages"][-2].text == "Rome"


@pytest.mark.parametrize(
    "name", ["outcome", "feedback", "decision", "failure", "attempts", "reflections", "tally", "patch", "run", "stop"]
)
def test_a_state_that_takes_a_name_of_ours_is_refused_by_that_name(name: str) -> None:
    taken = TypedDict("taken", {"messages": list, name: str})  # type: ignore[operator]
    with pytest.raises(ValueError, match=f"`state_schema` has the field '{name}'"):
        create_reflexion_agent(ScriptedModel([]), state_schema=taken)


@pytest.mark.parametrize("schema", [int, dict, {"city": str}, "state", 7])
def test_anything_but_a_state_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="`state_schema`"):
        create_reflexion_agent(ScriptedModel([]), state_schema=schema)


# ---------------------------------------------------------------- context


class Settings(TypedDict, total=False):
    """A context as a dictionary."""

    user_id: str
    model: str
    tone: str


@dataclasses.dataclass
class Person:
    """A context as a dataclass."""

    user_id: str
    tone: str = "plain"


class Visitor(BaseModel):
    """A context as a model of the caller's own, without what ours has."""

    user_id: str
    tone: str = "plain"


class Guest(Context):
    """Ours with a field more."""

    tone: str = "plain"


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (Settings, {"user_id": "ada", "tone": "plain"}),
        (dict, {"user_id": "ada", "tone": "plain"}),
        (Person, Person("ada")),
        (Visitor, Visitor(user_id="ada")),
        (Guest, Guest(user_id="ada")),
        (Guest, {"user_id": "ada"}),
    ],
)
async def test_a_context_of_any_kind_reaches_prompt_and_memory(schema: Any, context: Any, method: str) -> None:
    seen: list[Any] = []

    def prompt(state: Any, runtime: Runtime[Any]) -> list[Any]:
        one = runtime.context
        seen.append((one["user_id"], one["tone"]) if isinstance(one, dict) else (one.user_id, one.tone))
        return list(state["messages"])

    store = InMemoryStore()
    agent = create_reflexion_agent(
        ScriptedModel(["hi"]),
        prompt=prompt,
        context_schema=schema,
        store=store,
        memory=MemoryPolicy(namespace=("notes", "{user_id}")),
    )
    if method == "invoke":
        agent.invoke(HELLO, context=context)
    else:
        await agent.ainvoke(HELLO, context=context)
    assert seen == [("ada", "plain")]
    assert {namespace[:2] for namespace in store.list_namespaces()} == {("notes", "ada")}


def test_a_namespace_takes_its_fields_from_the_configs_configurable_too() -> None:
    store = InMemoryStore()
    memory = MemoryPolicy(namespace=("notes", "{user_id}"))
    agent = create_reflexion_agent(ScriptedModel(["hi"]), memory=memory, store=store)
    agent.invoke({"messages": [("user", "Hello")]}, {"configurable": {"user_id": "ada"}})
    assert {namespace[:2] for namespace in store.list_namespaces()} == {("notes", "ada")}


def test_a_run_without_a_context_has_the_defaults() -> None:
    for schema in (Context, None, Settings, Visitor):
        assert create_reflexion_agent(ScriptedModel(["hi"]), context_schema=schema).invoke(HELLO)["messages"]


def test_the_context_shows_as_a_form() -> None:
    fields = create_reflexion_agent(ScriptedModel([])).get_context_jsonschema()
    assert fields is not None
    assert set(fields["properties"]) == {"user_id", "model"}


def test_a_run_continues_with_the_state_it_was_given_after_a_pause() -> None:
    agent = create_reflexion_agent(
        ScriptedModel([call("consult"), "done"]), [consult], state_schema=Object, checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [HumanMessage("hello")], "city": "Oslo"}, config)
    assert agent.invoke(Command(resume="yes"), config)["messages"][-2].text == "Oslo: yes"
