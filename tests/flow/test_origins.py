"""What a lesson rests on: a test, a person, a model's verdict, or a tool's own words."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from langgraph_reflexion import LessonBook, Limits, ReflexionMiddleware, create_reflexion_agent
from langgraph_reflexion.checks import all_of, human_review, llm_judge, rule
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, calls, reflection, say

PATCH = "Compare the slot with every busy time, then answer 11:00."
ADVICE = "Rule out every slot that touches a busy time before you propose one."
NOTE = {"kind": "rule", "text": ADVICE, "when": "proposing a slot"}
TWO_ATTEMPTS = Limits(max_attempts=2)


class Slot(BaseModel):
    """A slot of a calendar."""

    hour: int


def judge():
    refusal = {"passed": False, "score": 20, "feedback": "It touches a busy time."}
    return llm_judge(ScriptedModel([json.dumps(refusal), json.dumps({"passed": True, "score": 95})]))


def eleven(answer, _):
    return answer == "11:00" or "It touches a busy time."


def learned(checks, *replies):
    """What an agent keeps that is refused with `10:00` and accepted with `11:00`."""
    store = InMemoryStore()
    model = RoleModel(
        decide=lambda question: say("11:00" if PATCH in question.text else "10:00"),
        reflect=reflection(PATCH, memory_to_write=[NOTE], confidence=95),
    )
    agent = create_reflexion_agent(model, checks=checks, store=store, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    result = agent.invoke({"messages": [("user", "Propose a slot for the review.")]}, config)
    for reply in replies:
        result = agent.invoke(Command(resume=reply), config)
    assert result["outcome"].answer == "11:00"
    return {lesson.kind: lesson.origin for lesson in LessonBook(store).lessons()}


@pytest.mark.req("A9")
def test_a_lesson_that_only_a_model_confirmed_is_judged():
    assert learned([judge()]) == {"rule": "judged", "strategy": "judged"}


@pytest.mark.req("A9")
def test_a_rejection_by_a_function_is_verified_whatever_a_judge_adds():
    assert learned([eleven]) == {"rule": "verified", "strategy": "verified"}
    assert learned([rule(eleven), judge()]) == {"rule": "verified", "strategy": "verified"}


@pytest.mark.req("A9")
def test_a_check_that_never_rejected_verifies_nothing():
    always = rule(lambda *_: True)
    assert learned([judge(), always]) == {"rule": "judged", "strategy": "judged"}
    satisfied = llm_judge(RoleModel(decide=json.dumps({"passed": True, "score": 95})))
    assert learned([satisfied, rule(eleven)]) == {"rule": "verified", "strategy": "verified"}


@pytest.mark.req("A9")
def test_a_check_that_rejected_and_then_says_nothing_verifies_nothing():
    refusal = {"passed": False, "score": 20, "feedback": "It touches a busy time."}
    unreadable = llm_judge(RoleModel(decide=[json.dumps(refusal), "Who knows?"]))
    assert learned([unreadable, rule(lambda *_: True)]) == {"rule": "judged", "strategy": "observed"}


@pytest.mark.req("D25")
def test_a_lesson_in_the_words_of_a_tool_rests_on_the_tool_whoever_rejected_the_answer():
    said = "Members always bring two forms of photo identification to the desk."

    def rules_of_the_desk() -> str:
        """Read the rules of the desk."""
        return said

    store = InMemoryStore()
    model = RoleModel(
        decide=[call("rules_of_the_desk"), say("10:00"), say("11:00")],
        reflect=reflection(PATCH, memory_to_write=[{**NOTE, "text": said}]),
    )
    agent = create_reflexion_agent(model, [rules_of_the_desk], checks=[judge()], store=store)
    agent.invoke({"messages": [("user", "Propose a slot for the review.")]})
    (copied,) = LessonBook(store).lessons(kind="rule")
    assert (copied.status, copied.origin) == ("quarantined", "observed")


@pytest.mark.req("A9")
def test_a_rejection_by_a_person_is_reported():
    replies = {"refuse": "It touches a busy time."}, True
    assert learned([human_review()], *replies) == {"rule": "told", "strategy": "told"}


@pytest.mark.req("A9")
def test_the_least_trusted_of_combined_checks_counts():
    assert learned([all_of(eleven, judge())]) == {"rule": "judged", "strategy": "judged"}


@pytest.mark.req("A9", "D23")
@pytest.mark.parametrize(("again", "origin"), [("rooms", "verified"), ("hours", "observed")])
def test_if_two_calls_fail_at_once_a_lesson_is_verified_by_the_call_it_is_about(again, origin):
    def rooms(day: str) -> str:
        """Look up free rooms."""
        if day[0].isdigit():
            raise ValueError(f"{day} is no weekday")
        return "the blue room"

    def hours(day: str) -> str:
        """Look up free hours."""
        if day[0].isdigit():
            raise KeyError(f"{day} is unknown")
        return "eleven"

    store, day = InMemoryStore(), {"day": "2026-03-03"}
    both = calls(("rooms", day), ("hours", day))
    advice = reflection("Look up rooms by weekday.", memory_to_write=[{**NOTE, "text": "Look up rooms by weekday."}])
    model = RoleModel([both, call(again, day="Tuesday"), say("done")], advice)
    create_reflexion_agent(model, [rooms, hours], store=store).invoke({"messages": [("user", "Find a room.")]})
    (lesson,) = LessonBook(store).lessons()
    assert lesson.trigger.tool == "rooms"
    assert lesson.origin == origin


@pytest.mark.req("A9", "D23")
def test_a_call_that_had_succeeded_before_the_advice_verifies_nothing():
    def rooms(day: str) -> str:
        """Look up free rooms."""
        if day[0].isdigit():
            raise ValueError(f"{day} is no weekday")
        return "the blue room"

    store, advice = InMemoryStore(), reflection("Look up rooms by weekday.", memory_to_write=[NOTE])
    model = RoleModel([call("rooms", day="Tuesday"), call("rooms", day="2026-03-03"), say("done")], advice)
    create_reflexion_agent(model, [rooms], store=store).invoke({"messages": [("user", "Find a room.")]})
    assert [lesson.origin for lesson in LessonBook(store).lessons()] == ["observed"]


@pytest.mark.req("A9", "D23")
def test_a_lesson_about_a_bad_decision_is_verified_by_the_next_one_that_is_valid():
    store, advice = InMemoryStore(), "Answer with the hour alone."
    model = RoleModel([say(""), say(""), say("11:00")], reflection(advice, memory_to_write=[{**NOTE, "text": advice}]))
    create_reflexion_agent(model, store=store).invoke({"messages": [("user", "Propose a slot.")]})
    assert [lesson.origin for lesson in LessonBook(store).lessons()] == ["verified"]


@pytest.mark.req("A9", "D23")
@pytest.mark.parametrize("checks", [(), (lambda *_: None,), (lambda *_: "It touches a busy time.",)])
@pytest.mark.parametrize(("second", "origin"), [('{"hour": 11}', "verified"), ("eleven", "observed")])
def test_a_lesson_about_the_form_of_an_answer_is_verified_by_the_response_format(checks, second, origin):
    store, advice = InMemoryStore(), "Give the hour as a whole number."
    model = RoleModel([say("ten"), say(second)], reflection(advice, memory_to_write=[{**NOTE, "text": advice}]), {})
    agent = create_reflexion_agent(model, response_format=Slot, checks=checks, store=store, limits=TWO_ATTEMPTS)
    agent.invoke({"messages": [("user", "Propose a slot.")]})
    rules = LessonBook(store).lessons(kind="rule")
    assert [(rule.text, rule.origin) for rule in rules] == [(advice, origin)]


def in_the_graph(model, **settings):
    return create_reflexion_agent(model, **settings)


def in_the_middleware(model, **settings):
    return create_agent(model, middleware=[ReflexionMiddleware()], **settings)


@pytest.mark.req("A10", "D2")
@pytest.mark.parametrize("build", [in_the_graph, in_the_middleware])
@pytest.mark.parametrize("messages", [[], [("user", "Try again, please.")]])
def test_the_users_own_rule_in_their_feedback_is_a_lesson_that_was_told(build, messages):
    wish = "Never book the red room on a Friday."
    model = RoleModel(
        [say("red room"), say("blue room")], reflection("Take another room.", memory_to_write=[{**NOTE, "text": wish}])
    )
    store, config = InMemoryStore(), {"configurable": {"thread_id": "one"}}
    agent = build(model, store=store, checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Book a room for the review with Amelia.")]}, config)
    agent.invoke({"messages": messages, "feedback": f"that was wrong: {wish}"}, config)
    assert [(lesson.text, lesson.origin) for lesson in LessonBook(store).lessons()] == [(wish, "told")]


@pytest.mark.req("D2")
def test_a_lesson_from_feedback_does_not_retell_the_task_before():
    named = {**NOTE, "text": "Book the blue room when Amelia reviews."}
    model = RoleModel([say("red room"), say("blue room")], reflection("Take another room.", memory_to_write=[named]))
    store, config = InMemoryStore(), {"configurable": {"thread_id": "one"}}
    agent = create_reflexion_agent(model, store=store, checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Book a room for the review with Amelia.")]}, config)
    agent.invoke({"messages": [], "feedback": "that was wrong: the red room is taken"}, config)
    assert LessonBook(store).lessons() == []


@pytest.mark.req("A10", "D2")
def test_a_rule_that_the_user_states_a_second_time_is_a_lesson_about_their_task():
    wish = "Never book the red room on a Friday."
    named = "Book the blue room when Amelia reviews."
    advice = [
        reflection("Take another room."),
        reflection("Ask the owner first.", memory_to_write=[{**NOTE, "text": text} for text in (wish, named)]),
    ]
    model = RoleModel([say("red room"), say("blue room"), say("green room")], advice)
    store, config = InMemoryStore(), {"configurable": {"thread_id": "one"}}
    agent = create_reflexion_agent(model, store=store, checkpointer=InMemorySaver())
    agent.invoke({"messages": [("user", "Book a room for the review with Amelia.")]}, config)
    agent.invoke({"messages": [], "feedback": f"that was wrong: {wish}"}, config)
    agent.invoke({"messages": [], "feedback": f"wrong again: {wish}"}, config)
    assert [lesson.text for lesson in LessonBook(store).lessons()] == [wish]
