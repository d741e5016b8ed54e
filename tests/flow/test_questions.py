"""A question to the user, and a new plan: who is asked, what is kept, what it costs."""

from __future__ import annotations

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ask, call, calls, replan, say

THREAD = {"configurable": {"thread_id": "1"}}


@pytest.mark.req("B7", "B11")
def test_a_question_waits_for_its_reply_and_the_run_goes_on(protocol, decided):
    model = RoleModel([ask("Which Tuesday?"), say("11:00")])
    agent = create_reflexion_agent(model, controls=["ask_user"], protocol=protocol, checkpointer=InMemorySaver())
    paused = agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    (waiting,) = paused["__interrupt__"]
    assert waiting.value == {"type": "question", "question": "Which Tuesday?"}
    result = agent.invoke(Command(resume="The one in March."), THREAD)
    assert result["messages"][-1].text == "11:00"
    assert result["outcome"].status == "unverified"
    reply = result["messages"][2]
    assert reply.text == "The one in March."
    assert isinstance(reply, ToolMessage) is (protocol == "tools")
    assert "The one in March." in decided(model)[1].text
    assert len(model.asked) == 2


@pytest.mark.req("B7", "F11", "B11")
def test_where_no_one_can_answer_the_question_ends_the_run_and_the_reply_is_the_next(run, protocol):
    model = RoleModel([ask("Which Tuesday?"), say("11:00")])
    seen = run(model, protocol=protocol, controls=["ask_user"])
    assert seen.ending == ("needs_input", "asked_user")
    assert [(m.type, m.text) for m in seen.messages[1:]] == [("ai", "Which Tuesday?")]
    assert not seen.messages[-1].tool_calls, "no call is left open"
    assert seen.outcome.answer == "Which Tuesday?"
    again = run(model, protocol=protocol, controls=["ask_user"], task=[*seen.messages, ("user", "The one in March.")])
    assert again.answer == "11:00"
    assert again.ending == ("unverified", "unchecked")


@pytest.mark.req("B7")
def test_a_question_beside_other_calls_is_refused(run, desk):
    both = calls(("search", {"query": "x"}), ("ask_user", {"question": "Whom?"}))
    seen = run(RoleModel([both, say("11:00")]), [desk.search], protocol="tools", controls=["ask_user"])
    assert seen.signals == ["rule_violation"]
    assert not desk.ran
    assert seen.answer == "11:00"


@pytest.mark.req("B7", "B11")
def test_a_new_plan_is_a_note_for_the_next_decision_and_costs_one_step(run, desk, protocol, decided):
    model = RoleModel([replan("First the rooms, then the hours."), call("search", query="rooms"), say("11:00")])
    seen = run(model, [desk.search], protocol=protocol, controls=["replan"])
    assert "First the rooms, then the hours." in decided(model)[1].text
    assert [event["step"] for event in seen.told("step")] == [1, 2, 3]
    assert "reflect" not in seen.nodes
    assert not seen.signals


@pytest.mark.req("B7", "F1")
def test_planning_for_ever_ends_with_the_steps(run, protocol):
    model = RoleModel([replan("Think again.")])
    seen = run(model, protocol=protocol, controls=["replan"], limits={"max_steps": 3})
    assert seen.ending == ("failure", "max_steps")
    assert len(model.asked) == 3
