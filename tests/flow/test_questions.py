"""A question to the user, and a new plan: who is asked, what is kept, what it costs."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import Decision, LessonBook, Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ask, call, calls, reflection, replan, say

THREAD = {"configurable": {"thread_id": "1"}}


@pytest.mark.req("B7", "B11")
def test_a_question_waits_for_its_reply_and_the_run_continues(protocol, decided):
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


def test_a_reply_without_text_is_named_because_some_providers_refuse_an_empty_message(protocol):
    model = RoleModel([ask("Which Tuesday?"), say("11:00")])
    agent = create_reflexion_agent(model, controls=["ask_user"], protocol=protocol, checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    result = agent.invoke(Command(resume=" "), THREAD)
    assert result["messages"][2].text == "(no answer)"


@pytest.mark.req("D25", "B11")
def test_a_lesson_in_the_words_of_a_persons_reply_is_kept(protocol):
    rule = "Always book the small room on the second floor."
    model = RoleModel(
        [ask("Any wishes?"), call("search", query="Tuesday"), say("11:00")],
        reflection("Ask by date.", memory_to_write=[{"kind": "rule", "text": rule, "when": "planning an hour"}]),
    )

    @tool
    def search(query: str) -> str:
        """Look up free hours."""
        raise ValueError(f"{query} is no date")

    store = InMemoryStore()
    agent = create_reflexion_agent(
        model, [search], controls=["ask_user"], protocol=protocol, checkpointer=InMemorySaver(), store=store
    )
    agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    agent.invoke(Command(resume=rule), THREAD)
    assert [lesson.status for lesson in LessonBook(store).lessons() if lesson.text == rule] == ["candidate"]


def agent_for_a_room(desk, store, protocol, *turns):
    """An agent whose call for room B-214 fails, and that then wants to remember this room."""
    desk.answers = lambda query: LookupError("no such room") if query == "B-214" else "eleven is free"
    memo = {"kind": "rule", "text": "Look up room B-214 by its floor.", "when": "planning an hour", "tags": []}
    calls = [call("search", query="B-214"), call("search", query="214"), say("11:00")]
    model = RoleModel([*turns, *calls], reflection("Leave out the letter.", memory_to_write=[memo]))
    return create_reflexion_agent(
        model, [desk.search], controls=["ask_user"], protocol=protocol, checkpointer=InMemorySaver(), store=store
    )


@pytest.mark.req("D25", "B11")
def test_a_lesson_that_names_a_detail_of_a_persons_reply_retells_the_task(protocol, desk):
    store = InMemoryStore()
    agent = agent_for_a_room(desk, store, protocol, ask("Which room?"))
    agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    outcome = agent.invoke(Command(resume="In B-214, please."), THREAD)["outcome"]
    assert len(outcome.reflections) == 1
    assert LessonBook(store).lessons() == []


@pytest.mark.req("D25", "B11")
def test_a_reply_is_read_with_a_brief_follow_up_in_a_later_turn(protocol, desk):
    store = InMemoryStore()
    agent = agent_for_a_room(desk, store, protocol, ask("Which room?"), say("B-214, is that right?"))
    agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    agent.invoke(Command(resume="In B-214, please."), THREAD)
    outcome = agent.invoke({"messages": [("user", "Yes.")]}, THREAD)["outcome"]
    assert len(outcome.reflections) == 1
    assert LessonBook(store).lessons() == []
    last, _ = LessonBook(store).episodes()
    assert last.request == "Plan an hour.\n\nIn B-214, please.\n\nYes."


@pytest.mark.req("B7", "B13")
def test_a_finish_reason_is_expected_after_the_reply_to_a_question_if_the_run_had_one_before_it():
    torn = {"thought": "", "action": "finish", "tool": None, "tool_input": None, "final": "11:00 in room 1"}
    cut = AIMessage(json.dumps(torn), response_metadata={"finish_reason": None})
    model = RoleModel([ask("Which Tuesday?"), cut, say("11:00 in room 12")])
    agent = create_reflexion_agent(model, controls=["ask_user"], protocol="json", checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    outcome = agent.invoke(Command(resume="The next one."), THREAD)["outcome"]
    assert [failure.signal for failure in outcome.failures] == ["parse_error"]
    assert outcome.answer == "11:00 in room 12"


@pytest.mark.req("B7", "B11")
def test_half_a_character_in_a_reply_is_replaced_because_no_provider_accepts_it(protocol, decided):
    model = RoleModel([ask("Which Tuesday?"), say("11:00")])
    agent = create_reflexion_agent(model, controls=["ask_user"], protocol=protocol, checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Plan an hour.")]}, THREAD)
    agent.invoke(Command(resume="The first \ud83d"), THREAD)
    assert "The first \ufffd" in decided(model)[1].text


@pytest.mark.graph_only("native tool calls alone, no controls")
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


@pytest.mark.req("B7", "B11", "I6")
@pytest.mark.parametrize("hold_answers", [False, True])
def test_a_question_that_ends_the_run_is_in_the_messages_stream_once(protocol, hold_answers):
    model = RoleModel([ask("Which Tuesday?")])
    agent = create_reflexion_agent(model, controls=["ask_user"], protocol=protocol, hold_answers=hold_answers)
    heard = agent.stream({"messages": [("user", "Plan an hour.")]}, stream_mode="messages")
    assert [message.text for message, _ in heard if message.text] == ["Which Tuesday?"]


@pytest.mark.req("I6")
def test_an_approval_that_no_one_can_give_is_streamed_after_the_answers_of_its_calls(desk):
    agent = create_reflexion_agent(RoleModel([call("search", query="x")]), [desk.search], approve=["search"])
    heard = agent.stream({"messages": [("user", "Plan an hour.")]}, stream_mode="messages")
    not_run, question = [message.text for message, _ in heard if message.text]
    assert not_run.startswith("Not run")
    assert question.startswith("A person must approve search")


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("B7")
def test_a_question_next_to_other_calls_is_refused(run, desk):
    both = calls(("search", {"query": "x"}), ("ask_user", {"question": "Whom?"}))
    seen = run(RoleModel([both, say("11:00")]), [desk.search], protocol="tools", controls=["ask_user"])
    assert seen.signals == ["rule_violation"]
    assert not desk.ran
    assert seen.answer == "11:00"


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("B7", "B11")
def test_a_new_plan_is_a_note_for_the_next_decision_and_costs_one_step(run, desk, protocol, decided):
    model = RoleModel([replan("First the rooms, then the hours."), call("search", query="rooms"), say("11:00")])
    seen = run(model, [desk.search], protocol=protocol, controls=["replan"])
    assert "First the rooms, then the hours." in decided(model)[1].text
    assert [event["step"] for event in seen.told("step")] == [1, 2, 3]
    assert "reflect" not in seen.nodes
    assert not seen.signals


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("B7", "B9")
def test_a_new_plan_in_the_words_of_the_callers_own_reader_is_in_the_next_decision(run, decided):
    def book(plan: str) -> str:
        """Book the hours of a plan."""
        return f"booked {plan}"

    def read(reply: AIMessage) -> Decision:
        if reply.text.startswith("PLAN"):
            return Decision(action="replan", final="First the rooms, then the hours.")
        return call("book", plan="seventeen") if reply.text == "BOOK 17" else say(reply.text)

    in_words = "PLAN: First the rooms, then the hours."
    model = RoleModel([AIMessage(text) for text in ("PLAN 17", in_words, "BOOK 17", "11:00")])
    run(model, [book], protocol=read, controls=["replan"])
    turns = [message.text for message in decided(model)[3].messages if isinstance(message, AIMessage)]
    assert turns == ["PLAN 17\nFirst the rooms, then the hours.", in_words, "BOOK 17"]


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("B7")
@pytest.mark.parametrize("args", [{}, {"plan": " "}, {"plan": 17}])
def test_a_new_plan_without_words_is_asked_for_again(run, args):
    model = RoleModel([call("replan", **args), say("11:00")])
    seen = run(model, protocol="tools", controls=["replan"])
    assert (seen.signals, seen.answer) == (["schema_error"], "11:00")


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("B7", "F1")
def test_endless_planning_ends_with_the_steps(run, protocol):
    model = RoleModel([replan("Think again.")])
    seen = run(model, protocol=protocol, controls=["replan"], limits={"max_steps": 3})
    assert seen.ending == ("failure", "max_steps")
    assert len(model.asked) == 3


@pytest.mark.graph_only("native tool calls alone, no controls")
@pytest.mark.req("B7", "B9")
@pytest.mark.parametrize("controls", [None, ["ask_user"], ["replan"], []])
def test_a_reader_of_the_callers_own_may_ask_where_the_model_may(run, controls):
    def read(reply: AIMessage) -> Decision:
        return Decision(action="ask_user" if reply.text.endswith("?") else "finish", final=reply.text)

    model = RoleModel([AIMessage("Which Tuesday?"), AIMessage("11:00")])
    seen = run(model, protocol=read, controls=controls)
    if controls is None or "ask_user" in controls:
        assert seen.ending == ("needs_input", "asked_user")
    else:
        assert (seen.answer, seen.signals) == ("11:00", ["rule_violation"])


@pytest.mark.req("B7", "K8")
def test_a_tool_of_the_callers_own_called_ask_user_is_a_tool_also_where_it_needs_approval():
    heard = []

    @tool
    def ask_user(question: str) -> str:
        """Ask on the wall display."""
        heard.append(question)
        return "the red room"

    turn = call("ask_user", question="Which room?")
    agent = create_reflexion_agent(
        RoleModel([turn, say("Red.")]), [ask_user], approve=["ask_user"], checkpointer=InMemorySaver()
    )
    (waiting,) = agent.invoke({"messages": [("user", "Book a room.")]}, THREAD)["__interrupt__"]
    assert waiting.value["action_requests"][0]["name"] == "ask_user"
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert (heard, result["messages"][2].text, result["messages"][-1].text) == (
        ["Which room?"],
        "the red room",
        "Red.",
    )

    alone = create_reflexion_agent(RoleModel([turn]), [ask_user], approve=["ask_user"])
    result = alone.invoke({"messages": [("user", "Book a room.")]})
    assert result["outcome"].stop_reason == "asked_user"
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert "no one can be asked" in result["messages"][-1].text


@pytest.mark.req("K8", "A6")
def test_no_approval_is_asked_for_blocked_or_denied_calls():
    def book(room: str) -> str:
        """Book a room."""
        return f"{room} is taken"

    agent = create_reflexion_agent(
        RoleModel(call("book", room="red")),
        [book],
        approve=["book"],
        limits=Limits(max_reflections=0),
        checkpointer=InMemorySaver(),
    )
    result = agent.invoke({"messages": [("user", "Book it.")]}, THREAD)
    asked = 0
    while "__interrupt__" in result:
        asked += 1
        result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert (asked, result["outcome"].stop_reason) == (2, "loop")

    never = create_reflexion_agent(
        RoleModel([call("book", room="red"), say("No.")], reflection()), [book], approve=["book"], deny=["book"]
    )
    assert never.invoke({"messages": [("user", "Book it.")]})["outcome"].failures[0].error_class == "permission"


@pytest.mark.req("A6", "K8")
def test_a_person_is_not_asked_again_and_again_for_a_call_that_they_rejected(protocol):
    def book(room: str) -> str:
        """Book a room."""
        raise AssertionError(f"{room} was never approved")

    agent = create_reflexion_agent(
        RoleModel(call("book", room="red"), reflection("Ask for another room.")),
        [book],
        approve=["book"],
        protocol=protocol,
        checkpointer=InMemorySaver(),
    )
    result = agent.invoke({"messages": [("user", "Book it.")]}, THREAD)
    asked = 0
    while "__interrupt__" in result:
        asked += 1
        result = agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "No."}]}), THREAD)
    outcome = result["outcome"]
    assert (asked, outcome.stop_reason) == (4, "loop")
    assert [failure.step for failure in outcome.failures] == [2, 4], (
        "one rejection is no failure, repeating the call is"
    )
