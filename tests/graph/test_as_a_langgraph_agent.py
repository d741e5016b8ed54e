"""The agent as any graph of LangGraph: doors, streams, interrupts, drawing, and the very requests of a plain agent."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, calls, reflection, say
from model_server import ModelServer

HELLO = {"messages": [("user", "hello")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}
NODES = ["begin", "recall", "decide", "tool", "observe", "ask", "check", "reflect", "remember", "wrap_up", "finish"]


def search(query: str) -> str:
    """Search the archive."""
    return f"found {query}"


def lookup(day: str, times: int = 2) -> list[str]:
    """Look up a day.

    Args:
        day: The day of the week.
        times: How often.
    """
    return [day] * times


def broken(query: str) -> str:
    """Search what cannot be searched."""
    raise ValueError(f"no index for {query}")


def searching(**settings: Any) -> Any:
    """An agent that searches once and answers."""
    model = ScriptedModel([call("search", query="x"), "done and dusted"])
    return create_reflexion_agent(model, [search], **settings)


def contents(messages: list[AnyMessage]) -> list[dict[str, Any]]:
    """The messages less what differs from run to run."""
    told = [message.model_dump(exclude={"id", "response_metadata"}) for message in messages]
    for one in told:
        for made in one.get("tool_calls") or []:
            made.pop("id")
        one.pop("tool_call_id", None)
    return told


# ---------------------------------------------------------------- a node by itself, as in LangGraph's own tests


def test_a_node_can_be_inspected_like_one_of_langgraphs_own():
    for node in ("decide", "tool"):
        assert "self" in inspect.signature(searching().nodes[node].bound.func.__func__).parameters
        inspect.getclosurevars(searching().nodes[node].bound.func)


@pytest.mark.req("K8")
def test_the_tool_node_alone_answers_the_open_calls_of_a_state_like_toolnode():
    tools = create_reflexion_agent(RoleModel("done"), [search, lookup, broken], deny=["broken"]).nodes["tool"]
    wanted = (("search", {"query": "x"}), ("lookup", {"day": "Friday"}), ("broken", {"query": "y"}))
    turn = AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"c-{name}"} for name, args in wanted])
    answers = tools.invoke({"messages": [HumanMessage("hello"), turn]})["messages"]
    assert [answer.tool_call_id for answer in answers] == [made["id"] for made in turn.tool_calls]
    assert [answer.text for answer in answers[:2]] == ["found x", '["Friday", "Friday"]']
    assert "not allowed here" in answers[2].text


# ---------------------------------------------------------------- a plain agent


def story() -> list[Any]:
    """Two calls in a turn with a thought, one alone, an answer."""
    both = calls(("search", {"query": "café"}), ("lookup", {"day": "Monday"}), thought="First look around.")
    return [both, call("search", query="again"), say("11:00")]


def sent(make: Callable[..., Any], script: list[Any], chat: dict[str, Any]) -> tuple[list[bytes], list[AnyMessage]]:
    """The requests of a story, call ids aside, and the messages it leaves."""
    with ModelServer(script) as server:
        result = make(server.chat(**chat)).invoke({"messages": [("user", "When?")]})
        assert not server.refused
        return [re.sub(rb"call_[0-9a-f]+", b"call", raw) for raw in server.raw], result["messages"]


CHATS: tuple[dict[str, Any], ...] = ({}, {"streaming": True}, {"model": "gpt-4o-mini", "temperature": 0.2})


@pytest.mark.req("B6", "A1")
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("prompt", ["You plan meetings.", None])
@pytest.mark.parametrize("name", [None, "planner"])
def test_a_clean_run_sends_byte_for_byte_what_a_plain_agent_sends(
    prompt: str | None, name: str | None, chat: dict[str, Any]
) -> None:
    tools = [search, lookup]
    theirs, expected = sent(lambda model: create_agent(model, tools, system_prompt=prompt, name=name), story(), chat)
    ours, messages = sent(lambda model: create_reflexion_agent(model, tools, prompt=prompt, name=name), story(), chat)
    assert ours == theirs
    assert contents(messages) == contents(expected)


@pytest.mark.req("A1", "A8")
def test_one_failing_call_costs_exactly_one_request_more() -> None:
    script = [call("broken", query="x"), call("search", query="x"), say("done")]
    with ModelServer(RoleModel(decide=script, reflect=reflection("Search the archive."))) as server:
        result = create_reflexion_agent(server.chat(), [broken, search]).invoke(HELLO)
        assert not server.refused
    assert [question.role for question in server.asked] == ["decide", "reflect", "decide", "decide"]
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]


# ---------------------------------------------------------------- doors and input


@pytest.mark.req("J1", "G1")
def test_it_is_a_compiled_graph_with_the_name_it_was_given() -> None:
    agent = searching()
    assert isinstance(agent, CompiledStateGraph)
    assert agent.name == "reflexion_agent"
    assert searching(name="planner").name == "planner"


def test_a_given_name_stands_on_what_the_agent_says_and_none_otherwise() -> None:
    said = searching(name="planner").invoke(HELLO)["messages"]
    assert [message.name for message in said] == [None, "planner", "search", "planner"]
    assert [message.name for message in searching().invoke(HELLO)["messages"]] == [None, None, "search", None]


def test_a_name_with_spaces_is_sent_as_openai_takes_it() -> None:
    agent = searching(name="Meeting planner")
    assert agent.name == "Meeting planner"
    assert agent.invoke(HELLO)["messages"][-1].name == "Meeting_planner"


@pytest.mark.parametrize(
    "messages",
    [
        "hello",
        ("user", "hello"),
        [("user", "hello")],
        ["hello"],
        [HumanMessage("hello")],
        HumanMessage("hello"),
        {"role": "user", "content": "hello"},
        [{"role": "user", "content": "hello"}],
        [{"type": "human", "content": "hello"}],
        [HumanMessage([{"type": "text", "text": "hello"}])],
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        [HumanMessage(["hello"])],
    ],
)
def test_messages_may_be_given_in_every_form_that_langchain_knows(messages: Any) -> None:
    model = ScriptedModel(["hi"])
    result = create_reflexion_agent(model).invoke({"messages": messages})
    assert [message.text for message in result["messages"]] == ["hello", "hi"]
    assert model.asked[0].text == "hello"


def test_content_blocks_and_earlier_turns_reach_the_model_unchanged() -> None:
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    thought = {"type": "reasoning", "reasoning": "hm"}
    given = [
        HumanMessage([{"type": "text", "text": "What is it?"}, picture]),
        AIMessage([thought, {"type": "text", "text": "A cat."}]),
        HumanMessage("Sure?"),
    ]
    model = ScriptedModel(["Yes."])
    create_reflexion_agent(model).invoke({"messages": given})
    assert [message.content for message in model.asked[0].messages] == [message.content for message in given]


async def test_batch_runs_each_input_apart() -> None:
    model = ScriptedModel([lambda prompt: f"echo {prompt[-1].text}"] * 6)
    agent = create_reflexion_agent(model)
    inputs: list[Any] = [{"messages": [("user", str(i))]} for i in range(3)]
    for results in (agent.batch(inputs), await agent.abatch(inputs)):
        assert [result["messages"][-1].text for result in results] == ["echo 0", "echo 1", "echo 2"]


def test_an_open_call_of_a_given_history_never_takes_the_answer_of_a_later_call_with_the_same_id() -> None:
    def turn(query: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "search", "args": {"query": query}, "id": "call_0"}])

    history = [("user", "A?"), turn("A"), ("user", "No, B."), turn("B"), ToolMessage("found B", tool_call_id="call_0")]
    model = ScriptedModel([say("B is there.")])
    create_reflexion_agent(model, [search]).invoke({"messages": history})
    of_a, of_b = (message.text for message in model.asked[0].messages if message.type == "tool")
    assert (of_a.startswith("Not run"), of_b) == (True, "found B")


def test_two_calls_of_a_turn_with_one_id_keep_the_order_of_their_answers() -> None:
    pair = AIMessage("", tool_calls=[{"name": "search", "args": {"query": query}, "id": "call_0"} for query in "AB"])
    found = [ToolMessage(f"found {query}", tool_call_id="call_0") for query in "AB"]
    open_call = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "C"}, "id": "call_1"}])
    model = ScriptedModel([say("Both are there.")])
    given = [("user", "A and B?"), pair, *found, open_call, ("user", "And?")]
    create_reflexion_agent(model, [search]).invoke({"messages": given})
    assert [m.text for m in model.asked[0].messages if m.type == "tool"][:2] == ["found A", "found B"]


def test_a_thread_continues_with_its_messages() -> None:
    agent = create_reflexion_agent(ScriptedModel(["one", "two"]), checkpointer=InMemorySaver())
    agent.invoke(HELLO, THREAD)
    result = agent.invoke({"messages": [("user", "and?")]}, THREAD)
    assert [message.text for message in result["messages"]] == ["hello", "one", "and?", "two"]
    assert agent.get_state(THREAD).next == ()


# ---------------------------------------------------------------- streams


@pytest.mark.req("I6")
@pytest.mark.fast_cases(7)
@pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"])
@pytest.mark.parametrize("method", ["stream", "astream"])
async def test_every_stream_mode_shows_the_run(mode: Any, method: str) -> None:
    agent = searching(checkpointer=InMemorySaver())
    if method == "stream":
        told = list(agent.stream(HELLO, THREAD, stream_mode=mode))
    else:
        told = [one async for one in agent.astream(HELLO, THREAD, stream_mode=mode)]
    assert told
    if mode == "values":
        assert [message.type for message in told[-1]["messages"]] == ["human", "ai", "tool", "ai"]
        assert told[-1]["outcome"].status == "unverified"
    if mode == "updates":
        steps = [name for one in told for name in one]
        assert steps == ["begin", "recall", "decide", "tool", "observe", "decide", "check", "finish"]
    if mode == "messages":
        said = "".join(chunk.text for chunk, where in told if where["langgraph_node"] == "decide")
        assert said == "done and dusted"
    if mode == "custom":
        assert [one["step"] for one in told if one["type"] == "step"] == [1, 2]
    if mode == "tasks":
        assert {one["name"] for one in told} <= set(NODES)


def test_several_stream_modes_at_once_and_subgraphs_too() -> None:
    modes = [mode for mode, _ in searching().stream(HELLO, stream_mode=["updates", "custom", "messages"])]
    assert {"updates", "custom", "messages"} == set(modes)
    assert all(len(one) == 2 for one in searching().stream(HELLO, stream_mode="updates", subgraphs=True))


async def test_events_name_the_nodes_the_model_and_the_tools() -> None:
    events = [event async for event in searching().astream_events(HELLO, version="v2")]
    begun = [(event["event"], event["name"]) for event in events if event["event"].endswith("_start")]
    assert ("on_tool_start", "search") in begun
    assert begun.count(("on_chat_model_start", "ScriptedModel")) == 2
    assert {"begin", "recall", "decide", "tool", "observe", "check", "finish"} <= {name for _, name in begun}
    told = [event["data"]["chunk"].text for event in events if event["event"] == "on_chat_model_stream"]
    assert "done and dusted" in "".join(told)


def test_streamed_tokens_name_their_agent() -> None:
    seen = {where.get("lc_agent_name") for _, where in searching(name="planner").stream(HELLO, stream_mode="messages")}
    assert seen == {"planner"}
    seen = {where.get("lc_agent_name") for _, where in searching().stream(HELLO, stream_mode="messages")}
    assert seen == {None}


# ---------------------------------------------------------------- interrupts, drawing


@pytest.mark.req("G1")
def test_the_drawing_shows_every_node_and_each_way_between_them() -> None:
    graph = searching(controls=["ask_user"]).get_graph()
    assert set(graph.nodes) == {"__start__", *NODES, "__end__"}
    drawn = graph.draw_mermaid()
    assert all(node in drawn for node in NODES)
    ways = {(edge.source, edge.target) for edge in graph.edges}
    assert {("decide", "tool"), ("tool", "observe"), ("reflect", "remember"), ("finish", "__end__")} <= ways


@pytest.mark.req("N3")
@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, {"ask"}),
        ({"approve": ["search"]}, set()),
        ({"protocol": "json"}, set()),
        ({"protocol": "json", "controls": []}, {"ask"}),
        ({"limits": Limits(max_reflections=0)}, {"ask", "reflect", "remember"}),
    ],
)
def test_nodes_that_the_settings_can_never_reach_are_not_drawn(settings: dict[str, Any], missing: set[str]) -> None:
    assert set(NODES) - set(searching(**settings).get_graph().nodes) == missing


@pytest.mark.req("N3")
def test_each_edge_of_a_decision_says_when_it_is_taken() -> None:
    drawn = searching(checks=[lambda answer, _: bool(answer)], controls=["ask_user", "replan"]).get_graph()
    labels = {(edge.source, edge.target): edge.data for edge in drawn.edges if edge.conditional}
    assert all(labels.values())
    assert labels["decide", "tool"] == "tool calls"
    assert labels["check", "finish"] == "accepted"
    assert ("check", "reflect") not in {(edge.source, edge.target) for edge in searching().get_graph().edges}
    assert len(drawn.edges) == len({(edge.source, edge.target) for edge in drawn.edges}), "one arrow a direction"


def test_the_schemas_show_messages_and_the_outcome_alone() -> None:
    agent = searching()
    assert set(agent.get_input_jsonschema()["properties"]) == {"messages", "feedback"}
    assert {"messages", "outcome"} <= set(agent.get_output_jsonschema()["properties"])
    assert set(agent.invoke(HELLO)) == {"messages", "outcome"}


def test_an_agent_can_be_bound_to_a_config_and_piped() -> None:
    agent = searching().with_config(tags=["mine"], run_name="mine") | (lambda result: result["messages"][-1].text)
    assert agent.invoke(HELLO) == "done and dusted"
