"""Hand-overs by `Command` to the graph above: kept, and sent from `finish` with everything the parent needs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.prebuilt import InjectedState
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langgraph_reflexion import Outcome, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, calls, reflection, say

ASKED = {"messages": [("user", "I want my money back.")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


class Desk(TypedDict, total=False):
    """A parent with two desks."""

    messages: Annotated[list[AnyMessage], add_messages]
    outcome: Outcome | None
    desk: str


@tool
def to_refunds(
    state: Annotated[dict[str, Any], InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
) -> Command[Any]:
    """Hand over to the refunds desk, with the conversation."""
    done = ToolMessage("Over to refunds.", tool_call_id=tool_call_id, name="to_refunds")
    update = {"messages": [*state["messages"], done], "desk": "refunds"}
    return Command(goto="refunds", graph=Command.PARENT, update=update)


@tool
def to_refunds_briefly() -> Command[Any]:
    """Hand over to the refunds desk without a word."""
    return Command(goto="refunds", graph=Command.PARENT, update={"desk": "refunds"})


@tool
def to_refunds_by_send(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand over to the refunds desk, with a note to it alone."""
    note = {"messages": [HumanMessage("A refund is wanted.")]}
    done = ToolMessage("Sent.", tool_call_id=tool_call_id, name="to_refunds_by_send")
    return Command(goto=[Send("refunds", note)], graph=Command.PARENT, update={"messages": [done]})


@tool
def look(what: str) -> str:
    """Look something up."""
    if what == "nothing":
        raise LookupError("there is nothing there")
    return f"{what} found"


@tool
def confirm() -> str:
    """Ask a person."""
    return f"a person says {interrupt('Really?')}"


@dataclass
class Refunds:
    """The other desk: it keeps what it was given and says one word."""

    seen: Any = None

    def __call__(self, state: Desk) -> dict[str, Any]:
        self.seen = state
        return {"messages": [AIMessage("refunded", name="refunds")]}


def desks(model: RoleModel, *tools: Any, **compiled: Any) -> tuple[Any, Refunds]:
    refunds = Refunds()
    agent = create_reflexion_agent(model, [to_refunds, to_refunds_briefly, to_refunds_by_send, look, confirm, *tools])
    graph = StateGraph(Desk)
    graph.add_node("front", agent, destinations=("refunds",))
    graph.add_node("refunds", refunds)
    graph.add_edge(START, "front")
    graph.add_edge("refunds", END)
    return graph.compile(**compiled), refunds


HANDOVERS = ["to_refunds", "to_refunds_briefly", "to_refunds_by_send"]


@pytest.mark.req("G1")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("handover", HANDOVERS)
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_handoff_leaves_with_the_turn_its_answer_and_the_outcome(
    handover: str, way: str, valid: Callable[[Any], None]
) -> None:
    parent, refunds = desks(RoleModel(call(handover)))
    result = parent.invoke(ASKED) if way == "invoke" else await parent.ainvoke(ASKED)
    outcome = result["outcome"]
    assert (outcome.status, outcome.stop_reason) == ("unverified", "handed_off")
    kinds = [message.type for message in result["messages"]]
    assert kinds == ["human", "ai", "tool", "ai"]
    assert result["messages"][-1].text == "refunded"
    valid(result["messages"])
    if handover == "to_refunds_by_send":
        assert [message.text for message in refunds.seen["messages"]] == ["A refund is wanted."]
    else:
        assert result["desk"] == "refunds"
        valid(refunds.seen["messages"])


@pytest.mark.req("G1")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("handover", HANDOVERS)
@pytest.mark.parametrize("first", [True, False], ids=["before the others", "after the others"])
def test_other_calls_of_the_turn_are_answered_too(handover: str, first: bool, valid: Callable[[Any], None]) -> None:
    others = [("look", {"what": "receipt"}), ("look", {"what": "nothing"})]
    turn = [(handover, {}), *others] if first else [*others, (handover, {})]
    parent, _ = desks(RoleModel(calls(*turn)))
    result = parent.invoke(ASKED)
    valid(result["messages"])
    answers = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert [answer.name for answer in answers] == [name for name, _ in turn], "in the order of the calls"
    assert {"receipt found"} < {answer.text for answer in answers}
    assert result["outcome"].stop_reason == "handed_off"
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]


@pytest.mark.req("G1")
def test_work_done_before_the_handoff_is_the_parents_where_the_tool_says_so(valid: Callable[[Any], None]) -> None:
    parent, _ = desks(RoleModel([call("look", what="receipt"), call("to_refunds")]))
    result = parent.invoke(ASKED)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    valid(result["messages"])


@pytest.mark.req("G1", "K8")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("handover", HANDOVERS)
def test_a_pause_next_to_a_handoff_comes_first_and_loses_nothing(
    handover: str, valid: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    parent, refunds = desks(RoleModel(calls((handover, {}), ("confirm", {}))), checkpointer=InMemorySaver())
    first = parent.invoke(ASKED, THREAD)
    assert first["__interrupt__"][0].value == "Really?"
    assert refunds.seen is None
    result = parent.invoke(Command(resume="yes"), THREAD)
    assert {"a person says yes"} < {message.text for message in result["messages"]}
    assert result["outcome"].stop_reason == "handed_off"
    assert result["messages"][-1].text == "refunded"
    valid(result["messages"])


@pytest.mark.req("G1")
def test_a_parent_without_the_outcome_field_takes_a_handoff_as_well(valid: Callable[[Any], None]) -> None:
    class Plain(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]

    graph = StateGraph(Plain)
    graph.add_node(
        "front", create_reflexion_agent(RoleModel(call("to_refunds")), [to_refunds]), destinations=("refunds",)
    )
    graph.add_node("refunds", Refunds())
    graph.add_edge(START, "front")
    result = graph.compile().invoke(ASKED)
    assert set(result) == {"messages"}
    valid(result["messages"])


@pytest.mark.req("G1")
def test_with_no_graph_above_a_handoff_is_refused_with_the_reason(valid: Callable[[Any], None]) -> None:
    model = RoleModel([call("to_refunds"), say("I cannot hand over.")], reflection("Answer it yourself."))
    result = create_reflexion_agent(model, [to_refunds]).invoke(ASKED)
    answer = result["messages"][2]
    assert answer.status == "error"
    assert "parent" in answer.text
    assert result["outcome"].answer == "I cannot hand over."
    assert result["outcome"].failures[0].signal == "tool_error"
    valid(result["messages"])


@pytest.mark.req("G1")
def test_a_handed_off_run_counts_neither_for_nor_against_a_lesson() -> None:
    store = InMemoryStore()
    parent, _ = desks(RoleModel(call("to_refunds")), store=store)
    parent.invoke(ASKED)
    episodes = store.search(("reflexion", "reflexion_agent", "episodes"))
    assert [episode.value["success"] for episode in episodes] == [None]


@pytest.mark.req("G1")
def test_two_agents_hand_over_to_each_other_across_turns(valid: Callable[[Any], None]) -> None:
    def hand_to(name: str) -> Any:
        @tool(f"to_{name}")
        def handover(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
            """Hand over."""
            done = ToolMessage(f"Over to {name}.", tool_call_id=tool_call_id, name=f"to_{name}")
            return Command(goto=name, graph=Command.PARENT, update={"messages": [done], "desk": name})

        return handover

    ann = RoleModel([call("to_bob"), say("Ann again.")])
    bob = RoleModel([say("Bob here."), call("to_ann")])
    graph = StateGraph(Desk)
    graph.add_node("ann", create_reflexion_agent(ann, [hand_to("bob")], name="ann"), destinations=("bob",))
    graph.add_node("bob", create_reflexion_agent(bob, [hand_to("ann")], name="bob"), destinations=("ann",))
    graph.add_conditional_edges(START, lambda state: state.get("desk", "ann"), ["ann", "bob"])
    parent = graph.compile(checkpointer=InMemorySaver())
    first = parent.invoke({"messages": [("user", "Bob, please.")]}, THREAD)
    assert (first["messages"][-1].text, first["desk"]) == ("Bob here.", "bob")
    second = parent.invoke({"messages": [("user", "Ann, please.")]}, THREAD)
    assert (second["messages"][-1].text, second["desk"]) == ("Ann again.", "ann")
    valid(second["messages"])
    for question in [*ann.asked, *bob.asked]:
        valid(question.messages)
    assert [message.name for message in second["messages"] if message.type == "ai"] == ["ann", "bob", "bob", "ann"]


@pytest.mark.req("G1")
def test_every_turn_is_answered_in_the_parent_where_a_server_gives_each_turn_the_same_call_ids(
    valid: Callable[[Any], None],
) -> None:
    def asking(name: str, **args: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "call_0"}])

    too_few = 7  # LangGraph's steps: the call does not run
    turns = [("to_refunds_briefly", {}, 25), ("look", {"what": "a"}, too_few)] * 2
    parent, _ = desks(RoleModel([asking(name, **args) for name, args, _ in turns]), checkpointer=InMemorySaver())
    for _, _, steps in turns:
        valid(parent.invoke(ASKED, {**THREAD, "recursion_limit": steps})["messages"])


@pytest.mark.req("G1")
def test_an_edited_handoff_by_send_is_answered_once(valid: Callable[[Any], None]) -> None:
    @tool
    def transfer(
        to: str, state: Annotated[dict[str, Any], InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        """Hand over with the whole conversation, as the tools of `langgraph-supervisor` do."""
        messages = [*state["messages"], ToolMessage(f"Over to {to}.", tool_call_id=tool_call_id, name="transfer")]
        return Command(goto=[Send(to, {"messages": messages})], graph=Command.PARENT, update={"messages": messages})

    graph = StateGraph(Desk)
    front = create_reflexion_agent(RoleModel(call("transfer", to="front")), [transfer], approve=["transfer"])
    graph.add_node("front", front, destinations=("refunds",))
    graph.add_node("refunds", lambda state: {"messages": [*state["messages"], AIMessage("refunded")]})
    graph.add_edge(START, "front")
    parent = graph.compile(checkpointer=InMemorySaver())
    parent.invoke(ASKED, THREAD)
    edit = {"type": "edit", "edited_action": {"name": "transfer", "args": {"to": "refunds"}}}
    messages = parent.invoke(Command(resume={"decisions": [edit]}), THREAD)["messages"]
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    valid(messages)


@pytest.mark.req("G1")
@pytest.mark.parametrize("form", ["tuples", "a new history", "a copy of the turn with one call"])
def test_a_handoffs_messages_may_come_in_any_form(form: str, valid: Callable[[Any], None]) -> None:
    @tool
    def leave(
        state: Annotated[dict[str, Any], InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        """Hand over in some form."""
        done = ToolMessage("Left.", tool_call_id=tool_call_id, name="leave")
        turn = state["messages"][-1]
        copy = turn.model_copy(update={"id": "copy", "tool_calls": turn.tool_calls[:1]})
        messages: Any = {
            "tuples": [("user", "A note.")],
            "a new history": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("In short: money back."), done],
            "a copy of the turn with one call": [*state["messages"][:-1], copy, done],
        }[form]
        return Command(goto="refunds", graph=Command.PARENT, update={"messages": messages})

    parent, _ = desks(RoleModel(calls(("leave", {}), ("look", {"what": "receipt"}))), leave)
    result = parent.invoke(ASKED)
    valid(result["messages"])
    texts = [message.text for message in result["messages"]]
    assert "receipt found" in texts
    assert ("A note." in texts[texts.index("receipt found") :]) == (form == "tuples")
    assert (ASKED["messages"][0][1] in texts) == (form != "a new history")
    assert sum(bool(getattr(message, "tool_calls", None)) for message in result["messages"]) == 1


@pytest.mark.req("G1")
def test_two_handoffs_in_one_turn_both_leave_and_have_the_conversation_once(valid: Callable[[Any], None]) -> None:
    class Appending(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], operator.add]
        desk: str

    @tool
    def to_sales(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over to the sales desk."""
        done = ToolMessage("Over to sales.", tool_call_id=tool_call_id, name="to_sales")
        return Command(goto="sales", graph=Command.PARENT, update={"messages": [done]})

    agent = create_reflexion_agent(RoleModel(calls(("to_refunds", {}), ("to_sales", {}))), [to_refunds, to_sales])
    graph = StateGraph(Appending)
    graph.add_node("front", agent, destinations=("refunds", "sales"))
    graph.add_node("refunds", lambda _state: {"messages": [AIMessage("refunded")]})
    graph.add_node("sales", lambda _state: {"messages": [AIMessage("sold")]})
    graph.add_edge(START, "front")
    result = graph.compile().invoke({"messages": [HumanMessage("Money back, and another one.")]})
    valid(result["messages"])
    assert [message.type for message in result["messages"][1:-2]] == ["human", "ai", "tool", "tool"]
    assert {message.text for message in result["messages"][-2:]} == {"refunded", "sold"}
