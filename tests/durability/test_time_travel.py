"""Time travel: a person's edit, a fork and a replay all go on to an outcome, by the edges of the drawing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolCall
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.testing import RoleModel, ask, call, calls, say

Make = Callable[..., tuple[Any, Any]]
Thread = Callable[[], dict[str, Any]]
ASKED = {"messages": [("user", "Find a free hour on Tuesday.")]}


def search_for(query: str, id: str = "by-hand") -> ToolCall:
    return ToolCall(name="search", args={"query": query}, id=id, type="tool_call")


def stopped(agent: Any, config: dict[str, Any], before: str, times: int = 1) -> Any:
    """The state before this node, and the conversation's last message in it."""
    agent.invoke(ASKED, config, interrupt_before=[before])
    for _ in range(times - 1):
        agent.invoke(None, config, interrupt_before=[before])
    state = agent.get_state(config)
    assert set(state.next) == {before}
    return state.values["messages"][-1]


def went_on(agent: Any, config: dict[str, Any]) -> Any:
    """The result of going on, whose messages any provider would take."""
    result = agent.invoke(None, config)
    assert is_paired(result["messages"])
    assert not agent.get_state(config).next
    return result


def queries(result: Any) -> list[str]:
    return [one["args"]["query"] for m in result["messages"] if isinstance(m, AIMessage) for one in m.tool_calls]


@pytest.mark.req("G1", "I7")
def test_edited_calls_run_in_place_of_the_models(make: Make, thread: Thread, protocol: str) -> None:
    model, agent = make(protocol=protocol)
    config = thread()
    last = stopped(agent, config, "tool")
    edited = AIMessage("", id=last.id, tool_calls=[search_for("Friday", "a"), search_for("Monday", "b")])
    agent.update_state(config, {"messages": [edited]}, as_node="decide")
    assert agent.get_state(config).next == ("tool", "tool")
    result = went_on(agent, config)
    assert queries(result) == ["Friday", "Monday"]
    assert not result["outcome"].failures
    assert len(model.asked) == 2
    assert result["outcome"].answer == "11:00"


@pytest.mark.req("G1", "I7")
def test_an_answer_is_checked_though_a_person_removed_a_result_before_it(make: Make, thread: Thread) -> None:
    both = calls(("search", {"query": "Monday"}), ("search", {"query": "Tuesday"}))
    _, agent = make([both, say("11:00")])
    config = thread()
    last = stopped(agent, config, "decide", times=2)
    agent.update_state(config, {"messages": [RemoveMessage(id=last.id)]}, as_node="observe")
    assert went_on(agent, config)["outcome"].answer == "11:00"


@pytest.mark.req("G1", "I7")
def test_calls_edited_into_an_answer_are_checked_as_an_answer(make: Make, thread: Thread, protocol: str) -> None:
    _, agent = make(protocol=protocol, checks=[lambda answer, _run: answer == "Friday at noon"])
    config = thread()
    last = stopped(agent, config, "tool")
    agent.update_state(config, {"messages": [AIMessage("Friday at noon", id=last.id)]}, as_node="decide")
    assert agent.get_state(config).next == ("check",)
    result = went_on(agent, config)
    assert (result["outcome"].status, result["outcome"].answer) == ("success", "Friday at noon")
    assert [m.text for m in result["messages"]] == [ASKED["messages"][0][1], "Friday at noon"]


@pytest.mark.req("G1", "I7")
def test_an_edit_replaces_an_answer_that_waits_for_its_checks(make: Make, thread: Thread, protocol: str) -> None:
    for edited, answer in ((AIMessage("12:00"), "12:00"), (AIMessage("", tool_calls=[search_for("Friday")]), "11:30")):
        _, agent = make([call("search", query="Tuesday"), say("11:00"), say("11:30")], protocol=protocol)
        config = thread()
        stopped(agent, config, "check")
        agent.update_state(config, {"messages": [edited]}, as_node="decide")
        result = went_on(agent, config)
        assert result["outcome"].answer == result["messages"][-1].text == answer
        assert "11:00" not in [m.text for m in result["messages"]], "the answer that was replaced is not said"
        assert sum(m.text == answer for m in result["messages"]) == 1


@pytest.mark.req("G1", "I7")
def test_an_edit_replaces_a_failure_that_waits_to_be_reflected_on(make: Make, thread: Thread, protocol: str) -> None:
    for edited, answer in ((AIMessage("12:00"), "12:00"), (AIMessage("", tool_calls=[search_for("Friday")]), "11:00")):
        model, agent = make([call("search", q="?"), call("search", q="?"), say("11:00")], protocol=protocol)
        config = thread()
        stopped(agent, config, "reflect")
        agent.update_state(config, {"messages": [edited]}, as_node="decide")
        result = went_on(agent, config)
        assert (result["outcome"].answer, result["outcome"].stop_reason) == (answer, "unchecked")
        assert not result["outcome"].reflections, "what the edit replaced is not reflected on"
        assert answer == "12:00" or "does not fit" not in model.asked[-1].text, "nor shown to the model again"


@pytest.mark.req("G1", "I7")
def test_an_edit_made_as_check_ends_a_run_that_nothing_checks(make: Make, thread: Thread, protocol: str) -> None:
    _, agent = make([call("search", q="?"), call("search", q="?"), say("11:00")], protocol=protocol)
    config = thread()
    stopped(agent, config, "reflect")
    agent.update_state(config, {"messages": [AIMessage("12:00")]}, as_node="check")
    assert agent.get_state(config).next == ("finish",)
    assert went_on(agent, config)["messages"][-1].text


@pytest.mark.req("G1", "I7")
def test_an_edit_replaces_the_end_of_a_run(make: Make, thread: Thread, protocol: str) -> None:
    for end in (say("10:00"), RuntimeError("the model is away")):
        _, agent = make([end, say("11:00")], protocol=protocol)
        config = thread()
        ended = agent.invoke(ASKED, config)
        assert ended["outcome"].stop_reason == ("unchecked" if end == say("10:00") else "model_error")
        edited = AIMessage("", id=ended["messages"][-1].id, tool_calls=[search_for("Friday")])
        agent.update_state(config, {"messages": [edited]}, as_node="decide")
        result = went_on(agent, config)
        assert (result["outcome"].answer, result["outcome"].stop_reason) == ("11:00", "unchecked")
        assert queries(result) == ["Friday"]
        assert result["outcome"].reason == ""


@pytest.mark.req("B7", "I7")
def test_a_question_may_be_edited_into_calls_an_answer_or_another_question(
    make: Make, thread: Thread, protocol: str
) -> None:
    def waiting() -> tuple[Any, dict[str, Any], Any]:
        _, agent = make([ask("Which room?"), say("11:00")], protocol=protocol, controls=["ask_user"])
        config = thread()
        assert agent.invoke(ASKED, config)["__interrupt__"][0].value["question"] == "Which room?"
        return agent, config, agent.get_state(config).values["messages"][-1]

    agent, config, last = waiting()
    agent.update_state(
        config, {"messages": [AIMessage("", id=last.id, tool_calls=[search_for("Friday")])]}, as_node="decide"
    )
    assert went_on(agent, config)["outcome"].answer == "11:00"
    agent, config, last = waiting()
    agent.update_state(config, {"messages": [AIMessage("12:00", id=last.id)]}, as_node="decide")
    assert went_on(agent, config)["outcome"].answer == "12:00"
    if protocol == "tools":
        agent, config, last = waiting()
        question = ToolCall(name="ask_user", args={"question": "Which day?"}, id="q", type="tool_call")
        agent.update_state(config, {"messages": [AIMessage("", id=last.id, tool_calls=[question])]}, as_node="decide")
        assert agent.invoke(None, config)["__interrupt__"][0].value["question"] == "Which day?"
        assert agent.invoke(Command(resume="Tuesday"), config)["outcome"].answer == "11:00"


@pytest.mark.req("K8", "I7")
def test_edited_calls_ask_for_approval_as_the_models_calls_do(make: Make, thread: Thread) -> None:
    _, agent = make(protocol="tools", approve=["search"])
    config = thread()
    asked = agent.invoke(ASKED, config)
    assert asked["__interrupt__"][0].value["action_requests"][0]["args"] == {"query": "2026-03-03"}
    last = agent.get_state(config).values["messages"][-1]
    agent.update_state(
        config, {"messages": [AIMessage("", id=last.id, tool_calls=[search_for("Friday")])]}, as_node="decide"
    )
    asked = agent.invoke(None, config)
    assert asked["__interrupt__"][0].value["action_requests"][0]["args"] == {"query": "Friday"}
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert result["outcome"].answer == "11:00"
    assert queries(result) == ["Friday"]


@pytest.mark.slow
@pytest.mark.req("I7")
@pytest.mark.parametrize("protocol", ["tools", pytest.param("json", marks=pytest.mark.slow)])
def test_every_checkpoint_can_be_replayed_and_forked_to_an_outcome(make: Make, thread: Thread, protocol: str) -> None:
    _, agent = make(protocol=protocol, checks=[lambda answer, _run: answer == "11:00"])
    config = thread()
    agent.invoke(ASKED, config)
    states = list(agent.get_state_history(config))
    assert len(states) > 14
    for state in states:
        replayed = agent.invoke(None, state.config)
        assert (replayed["outcome"].status, is_paired(replayed["messages"])) == ("success", True), state.next
        if state.next == ("__start__",):
            continue  # nothing has been said yet: a fork of it has no task
        forked = agent.invoke(None, agent.update_state(state.config, None))
        assert (forked["outcome"].status, is_paired(forked["messages"])) == ("success", True), state.next
    assert agent.invoke({"messages": [("user", "And on Friday?")]}, config)["outcome"].status == "success"
    assert len(agent.store.search(("reflexion", "reflexion_agent", "lessons"))) == 1


@pytest.mark.slow
@pytest.mark.req("I7", "A10")
def test_another_word_of_the_user_put_into_any_checkpoint_leads_to_an_outcome(
    make: Make, thread: Thread, protocol: str
) -> None:
    _, agent = make(protocol=protocol)
    config = thread()
    agent.invoke(ASKED, config)
    begun = [state for state in agent.get_state_history(config) if state.values.get("run")]
    assert len(begun) > 10
    for state in begun:
        for node in ("begin", "recall", "decide", "observe", "remember"):
            fork = agent.update_state(state.config, {"messages": [HumanMessage("In the afternoon.")]}, as_node=node)
            result = agent.invoke(None, fork)
            assert result["outcome"].stop_reason in ("unchecked", "reflections_alike"), (state.next, node)
            assert is_paired(result["messages"]), (state.next, node)


@pytest.mark.req("I7")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("protocol", "pause"),
    [
        ("tools", "interrupt_before"),
        ("json", "interrupt_after"),
        ("tools", "interrupt_after"),
        ("json", "interrupt_before"),
    ],
)
def test_a_run_stopped_at_every_step_ends_like_an_uninterrupted_one(
    make: Make, thread: Thread, protocol: str, tmp_path: Path, pause: str
) -> None:
    whole_model, whole_agent = make(protocol=protocol)
    whole = whole_agent.invoke(ASKED, thread())
    model, store, config, steps = make(protocol=protocol)[0], InMemoryStore(), thread(), 0
    given: Any = ASKED
    while True:
        # A new agent on a new connection at each step: only the file is the same.
        with SqliteSaver.from_conn_string(str(tmp_path / "runs.db")) as saver:
            again, agent = make(model.decide, protocol=protocol, checkpointer=saver, store=store)
            result = agent.invoke(given, config, durability="sync", **{pause: "*"})
            model._asked.extend(again.asked)
            given, steps = None, steps + 1
            if not agent.get_state(config).next:
                break
    assert steps > 8
    assert len(model.asked) == len(whole_model.asked)
    one, other = (
        each["outcome"].model_dump(exclude={"run_id", "seconds", "attempts", "lessons_written"})
        for each in (result, whole)
    )
    assert one == other
    assert len(store.search(("reflexion", "reflexion_agent", "lessons"))) == 1


@pytest.mark.req("I7")
@pytest.mark.slow
async def test_an_async_run_stopped_at_every_step_ends_like_an_uninterrupted_one(
    make: Make, thread: Thread, protocol: str, tmp_path: Path
) -> None:
    config, given, steps = thread(), ASKED, 0
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "runs.db")) as saver:
        model, agent = make(protocol=protocol, checkpointer=saver)
        while given or (await agent.aget_state(config)).next:
            result = await agent.ainvoke(given, config, interrupt_before="*", durability="sync")
            given, steps = None, steps + 1  # type: ignore[assignment]
        assert result["outcome"].answer == "11:00"
        assert steps > 8
        assert len(model.asked) == 4
        last = (await agent.aget_state(config)).values["messages"][-1]
        edited = {"messages": [AIMessage("", id=last.id, tool_calls=[search_for("Friday")])]}
        await agent.aupdate_state(config, edited, as_node="decide")
        result = await agent.ainvoke(None, config)
        assert result["outcome"].answer == "11:00"
        assert queries(result)[-1] == "Friday"


@pytest.mark.req("F1", "I7")
def test_a_run_that_continues_after_an_edit_keeps_to_its_limits(make: Make, thread: Thread, protocol: str) -> None:
    _, agent = make(protocol=protocol, limits=Limits(max_steps=1))
    config = thread()
    last = stopped(agent, config, "tool")
    edited = AIMessage("", id=last.id, tool_calls=[search_for("Friday")])
    agent.update_state(config, {"messages": [edited]}, as_node="decide")
    result = went_on(agent, config)
    assert result["outcome"].stop_reason == "max_steps"
    assert queries(result) == ["Friday"]


def test_a_thread_on_which_nothing_has_run_says_that_there_is_nothing_to_edit():
    agent = create_reflexion_agent(RoleModel([say("11:00")]), checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="No run has begun on this thread"):
        agent.update_state({"configurable": {"thread_id": "new"}}, {"messages": [AIMessage("11:00")]}, as_node="decide")
