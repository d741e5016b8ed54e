"""What a tool is given beside its arguments, and what it may do in return: update the state, or pause for a person."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_reflexion import Context, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, calls, reflection, say
from model_server import ModelServer

HELLO = {"messages": [("user", "hello")]}
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen_yet() -> None:
    SEEN.clear()


class Trip(TypedDict, total=False):
    """A state of the caller's own."""

    messages: Annotated[list[AnyMessage], add_messages]
    city: str
    visited: Annotated[list[str], operator.add]


class Journey(BaseModel):
    """The same as an object."""

    messages: Annotated[list[AnyMessage], add_messages]
    city: str = "nowhere"


def see_all(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look at the state."""
    SEEN.append(dict(state))
    return "seen"


def see_city(city: Annotated[str, InjectedState("city")]) -> str:
    """Look at the city."""
    SEEN.append(city)
    return "seen"


def see_journey(state: Annotated[Journey, InjectedState]) -> str:
    """Look at the state as an object."""
    SEEN.append(state)
    return "seen"


def see_store(key: str, store: Annotated[BaseStore, InjectedStore]) -> str:
    """Look into the store."""
    SEEN.append(store)
    found = store.get(("facts",), key)
    return str(found.value["is"]) if found else "nothing"


def see_runtime(x: int, runtime: ToolRuntime[Context, Any]) -> str:
    """Look at the runtime."""
    SEEN.append(runtime)
    runtime.stream_writer({"from": "the tool"})
    return str(x)


def see_call(tool_call_id: Annotated[str, InjectedToolCallId], config: RunnableConfig) -> str:
    """Look at the call."""
    SEEN.append((tool_call_id, config["configurable"]["thread_id"]))
    return "seen"


def see_helpers() -> str:
    """Look by LangGraph's own helpers."""
    get_stream_writer()({"from": "a helper"})
    SEEN.append((get_store(), get_config()["configurable"].get("thread_id")))
    return "seen"


def keep_secret(x: int, secret: Annotated[str, InjectedToolArg] = "none") -> str:
    """Keep a secret that no model tells."""
    SEEN.append(secret)
    return str(x)


def run(tools: Any, decision: Any, given: Any = None, config: Any = None, context: Any = None, **settings: Any) -> Any:
    """The result of one decision to call, and an answer."""
    agent = create_reflexion_agent(RoleModel(decide=[decision, "done"], reflect=reflection()), tools, **settings)
    return agent.invoke({**HELLO, **(given or {})}, config, context=context)


# ---------------------------------------------------------------- state, store, runtime


@pytest.mark.req("J1")
def test_a_tool_sees_the_conversation_and_the_callers_fields_and_nothing_private() -> None:
    run([see_all], call("see_all"))
    assert set(SEEN[0]) == {"messages"}
    assert [message.type for message in SEEN[0]["messages"]] == ["human", "ai"]
    run([see_all], call("see_all"), {"city": "Oslo", "visited": ["Rome"]}, state_schema=Trip)
    assert set(SEEN[1]) == {"messages", "city", "visited"}
    assert (SEEN[1]["city"], SEEN[1]["visited"]) == ("Oslo", ["Rome"])


@pytest.mark.parametrize("schema", [Trip, Journey])
def test_one_field_of_the_state_is_injected_by_name(schema: Any) -> None:
    run([see_city], call("see_city"), {"city": "Oslo"}, state_schema=schema)
    assert SEEN == ["Oslo"]


def test_a_pydantic_state_is_injected_as_the_object_it_is_with_its_defaults() -> None:
    run([see_journey], call("see_journey"), state_schema=Journey)
    assert isinstance(SEEN[0], Journey)
    assert SEEN[0].city == "nowhere"


def test_the_store_is_injected_whether_the_agent_or_a_graph_above_holds_it() -> None:
    store = InMemoryStore()
    store.put(("facts",), "sky", {"is": "blue"})
    result = run([see_store], call("see_store", key="sky"), store=store)
    assert result["messages"][-2].text == "blue"
    assert [store] == SEEN


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_the_runtime_is_injected_whole(method: str) -> None:
    store = InMemoryStore()
    agent = create_reflexion_agent(
        ScriptedModel([call("see_runtime", x=1), "done"]), [see_runtime], store=store, state_schema=Trip
    )
    given = {**HELLO, "city": "Oslo"}
    settings: dict[str, Any] = {"context": Context(user_id="ada"), "stream_mode": "custom"}
    config: RunnableConfig = {"configurable": {"thread_id": "t"}, "recursion_limit": 40, "metadata": {"a": "b"}}
    if method == "invoke":
        told = list(agent.stream(given, config, **settings))
    else:
        told = [one async for one in agent.astream(given, config, **settings)]
    [runtime] = SEEN
    assert {"from": "the tool"} in told
    assert (runtime.context.user_id, runtime.store, runtime.state["city"]) == ("ada", store, "Oslo")
    assert set(runtime.state) == {"messages", "city", "visited"}
    assert runtime.tool_call_id == runtime.state["messages"][-1].tool_calls[0]["id"]
    assert (runtime.config["recursion_limit"], runtime.config["metadata"]["a"]) == (40, "b")
    assert [tool.name for tool in runtime.tools] == ["see_runtime"]


def test_a_parameter_called_runtime_is_the_runtime_whatever_its_type() -> None:
    def look(x: int, runtime: Any) -> str:
        """Look."""
        SEEN.append(runtime)
        return str(x)

    run([look], call("look", x=1))
    assert isinstance(SEEN[0], ToolRuntime)


def test_the_call_id_and_the_config_are_injected() -> None:
    decision = calls(("see_call", {}), ("see_call", {}))
    result = run([see_call], decision, config={"configurable": {"thread_id": "t"}})
    ids = [one["id"] for one in result["messages"][1].tool_calls]
    assert sorted(SEEN) == sorted((one, "t") for one in ids)


def test_langgraphs_own_helpers_work_inside_a_tool() -> None:
    store = InMemoryStore()
    run([see_helpers], call("see_helpers"), config={"configurable": {"thread_id": "t"}}, store=store)
    assert [(store, "t")] == SEEN


def test_injected_arguments_are_not_offered_to_the_model_nor_taken_from_it() -> None:
    model = RoleModel(decide=[call("keep_secret", x=1, secret="mine"), call("keep_secret", x=1), say("done")])
    result = create_reflexion_agent(model, [keep_secret, see_store, see_runtime, see_all]).invoke(HELLO)
    offered = {
        name: set((model.asked[0].parameters(name) or {}).get("properties", {})) for name in model.asked[0].tools
    }
    assert offered == {"keep_secret": {"x"}, "see_store": {"key"}, "see_runtime": {"x"}, "see_all": set()}
    assert SEEN == ["none"]
    assert [failure.signal for failure in result["outcome"].failures] == ["schema_error"]
    with ModelServer(["done"]) as server:
        create_reflexion_agent(server.chat(), [keep_secret, see_store, see_runtime, see_all]).invoke(HELLO)
        assert not server.refused


# ---------------------------------------------------------------- commands


def visit(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Go somewhere."""
    said = ToolMessage(f"In {city}.", tool_call_id=tool_call_id)
    return Command(update={"city": city, "visited": [city], "messages": [said]})


def meddle(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Meddle."""
    said = ToolMessage("done that", tool_call_id=tool_call_id)
    mine = {"outcome": "mine", "attempts": ["mine"], "run": {"reason": "mine"}}
    return Command(update={**mine, "messages": [said]})


def jump(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Jump."""
    return Command(goto="finish", update={"messages": [ToolMessage("jumped", tool_call_id=tool_call_id)]})


def both(tool_call_id: Annotated[str, InjectedToolCallId]) -> list[Any]:
    """Give a message and an update."""
    return [ToolMessage("told", tool_call_id=tool_call_id), Command(update={"city": "Rome"})]


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_tools_command_updates_the_callers_fields_by_their_reducers(method: str) -> None:
    decision = calls(("visit", {"city": "Rome"}), ("see_city", {}))
    agent = create_reflexion_agent(ScriptedModel([decision, "done"]), [visit, see_city], state_schema=Trip)
    given = {**HELLO, "city": "Oslo", "visited": ["Oslo"]}
    result = agent.invoke(given) if method == "invoke" else await agent.ainvoke(given)
    assert (result["city"], result["visited"]) == ("Rome", ["Oslo", "Rome"])
    assert [message.text for message in result["messages"]] == ["hello", "", "In Rome.", "seen", "done"]
    assert SEEN == ["Oslo"]


def test_a_tools_command_reaches_no_private_field() -> None:
    result = run([meddle], call("meddle"))
    assert (result["outcome"].status, result["outcome"].reason) == ("unverified", "")
    assert set(result) == {"messages", "outcome"}


def test_a_goto_inside_the_agent_is_refused_with_the_reason() -> None:
    model = RoleModel(decide=[call("jump"), say("done")], reflect=reflection("Do not jump."))
    result = create_reflexion_agent(model, [jump]).invoke(HELLO)
    [answer] = [message for message in result["messages"] if message.type == "tool"]
    assert answer.status == "error"
    assert "goto" in answer.text
    assert result["outcome"].failures[0].signal == "tool_error"


def test_several_things_given_back_at_once_are_all_kept() -> None:
    result = run([both], call("both"), {"city": "Oslo"}, state_schema=Trip)
    assert (result["city"], result["messages"][-2].text) == ("Rome", "told")


# ---------------------------------------------------------------- pauses


def consult(topic: str) -> str:
    """Ask a person."""
    return f"{topic}: {interrupt({'topic': topic})}"


def note(text: str) -> str:
    """Note something down."""
    SEEN.append(text)
    return f"noted {text}"


def rename(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Ask for a city."""
    city = interrupt("Which city?")
    return Command(update={"city": city, "messages": [ToolMessage("noted", tool_call_id=tool_call_id)]})


@pytest.mark.req("I7")
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_tool_pauses_for_a_person_and_its_neighbours_run_once(method: str) -> None:
    decision = calls(("note", {"text": "a"}), ("consult", {"topic": "budget"}), ("note", {"text": "b"}))
    model = ScriptedModel([decision, "done"])
    agent = create_reflexion_agent(model, [consult, note], checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    waiting = agent.invoke(HELLO, config) if method == "invoke" else await agent.ainvoke(HELLO, config)
    assert [one.value for one in waiting["__interrupt__"]] == [{"topic": "budget"}]
    assert agent.get_state(config).next == ("tool",)
    resume: Command[Any] = Command(resume="go ahead")
    result = agent.invoke(resume, config) if method == "invoke" else await agent.ainvoke(resume, config)
    assert [message.text for message in result["messages"][2:]] == ["noted a", "budget: go ahead", "noted b", "done"]
    assert sorted(SEEN) == ["a", "b"]
    assert len(model.asked) == 2


def test_a_tool_that_pauses_may_update_the_state_when_it_is_answered() -> None:
    now = [datetime(2031, 3, 4, tzinfo=UTC)]
    agent = create_reflexion_agent(
        ScriptedModel([call("rename"), "done"]),
        [rename],
        state_schema=Trip,
        checkpointer=InMemorySaver(),
        clock=lambda: now[0],
    )
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [HumanMessage("hello")]}, config)
    now[0] += timedelta(hours=1)
    result = agent.invoke(Command(resume="Rome"), config)
    assert (result["city"], result["outcome"].seconds) == ("Rome", 0)


@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    ("wanting", "said"),
    [
        (see_store, "The tool 'see_store' needs a store, and this run has none"),
        (
            see_city,
            "The tool 'see_city' needs 'city' from the state, and this run has no such field: add it to `state_schema`",
        ),
    ],
)
async def test_an_error_that_other_arguments_cannot_fix_is_raised_and_never_reflected_on(
    wanting: Any, said: str, method: str
) -> None:
    model = RoleModel([call(wanting.__name__, **({"key": "x"} if wanting is see_store else {})), "done"])
    agent = create_reflexion_agent(model, [wanting])
    with pytest.raises(ValueError, match=said):
        agent.invoke(HELLO) if method == "invoke" else await agent.ainvoke(HELLO)
    assert len(model.asked) == 1


@pytest.mark.req("I10")
def test_a_tool_that_changes_its_state_does_not_change_the_conversation() -> None:
    def forget(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Forget it all."""
        state["messages"].clear()
        return "forgotten"

    result = create_reflexion_agent(ScriptedModel([call("forget"), "done"]), [forget]).invoke(HELLO)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]


@pytest.mark.req("K5", "J5")
def test_a_command_with_an_object_writes_only_what_is_set_and_its_message_is_bounded() -> None:
    class Fields(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]
        city: str | None
        user: str | None

    class Change(BaseModel):
        messages: list[Any]
        city: str | None = None
        user: str | None = None

    def move(city: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Move."""
        return Command(update=Change(city=city, messages=[ToolMessage("x" * 500_000, tool_call_id=call_id)]))

    agent = create_reflexion_agent(ScriptedModel([call("move", city="Oslo"), say("done")]), [move], state_schema=Fields)
    result = agent.invoke({"messages": [("user", "Go.")], "city": "Rome", "user": "ada"})
    assert (result["city"], result["user"]) == ("Oslo", "ada")
    assert len(result["messages"][2].text) < 110_000
