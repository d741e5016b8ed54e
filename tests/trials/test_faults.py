"""A worker, a reflector, a fallback or a store that fails costs what it has to, and never the outcome."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Limits, MemoryPolicy, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.testing import RoleModel, call

PLAN = "List the busy times of all guests first"


class DownError(ConnectionError):
    """The provider's line is down."""


class BadKeyError(RuntimeError):
    status_code = 401


@pytest.mark.req("K1", "A5")
def test_a_worker_that_raises_uses_up_its_attempt_and_is_not_judged(tried, student, scores):
    check = scores(True)
    seen = tried(student(RuntimeError("it fell over"), "good"), checks=[check], limits={"max_attempts": 2})
    assert check.answers == ["good"]
    assert seen.ending == ("success", "accepted")
    (question,) = seen.reflector.asked
    assert "RuntimeError: it fell over" in question.text, "the error is evidence like any other"
    assert PLAN in seen.prompts[1]
    assert "it fell over" in seen.prompts[1], "the next attempt is told"
    (fallen, good) = seen.outcome.attempts
    assert (fallen.answer, fallen.score, fallen.verdicts) == (None, None, [])
    assert [(one.signal, one.error_class) for one in fallen.failures] == [("tool_error", "exception")]
    assert "RuntimeError: it fell over" in fallen.failures[0].evidence
    assert good.failures == []


@pytest.mark.req("K1")
def test_a_lost_connection_of_the_worker_is_not_reflected_on(tried, student, scores):
    seen = tried(student(DownError("down"), "good"), checks=[scores(True)], limits={"max_attempts": 2})
    assert seen.ending == ("success", "accepted")
    assert seen.reflector.asked == []


@pytest.mark.req("I2", "I11")
def test_a_run_that_raises_leaves_its_outcome_and_its_attempts(made, student, scores, thinker):
    graph = made(student("no", BadKeyError("wrong key")), [scores(False)], reflector=thinker())
    events = []
    stream = graph.stream({"messages": [("user", "Is it so?")]}, stream_mode="custom")
    with pytest.raises(BadKeyError):
        events.extend(stream)
    outcome = events[-1]["outcome"]
    assert (outcome["status"], outcome["stop_reason"]) == ("failure", "model_error")
    assert "BadKeyError: wrong key" in outcome["reason"]
    assert [attempt["answer"] for attempt in outcome["attempts"]][:1] == ["no"]
    assert [event["answer"] for event in events if event["type"] == "attempt"][:1] == ["no"]


@pytest.mark.req("K1", "F11")
def test_a_worker_that_always_raises_ends_as_a_model_error_that_names_what_it_raised(tried, student, scores):
    check = scores()
    seen = tried(student(*[RuntimeError("it fell over")] * 2), checks=[check], limits={"max_attempts": 2})
    assert seen.ending == ("failure", "model_error")
    assert (len(seen.prompts), check.answers, seen.outcome.answer) == (2, [], None)
    assert "it fell over" in seen.outcome.reason
    assert "it fell over" not in seen.result["messages"][-1].text, "what a user reads holds no error text"


@pytest.mark.req("B14")
def test_the_last_message_never_quotes_what_the_worker_raised_however_the_trial_stopped():
    now = [datetime(2026, 1, 1, tzinfo=UTC)]

    def late(_prompt):
        now[0] += timedelta(minutes=2)
        raise RuntimeError("quota of org-77 is spent")

    graph = create_trial_graph(late, limits=Limits(max_attempts=1, deadline=60), clock=lambda: now[0])
    result = graph.invoke({"messages": [("user", "Is it so?")]})
    assert result["outcome"].stop_reason == "deadline"
    assert "org-77" in result["outcome"].reason
    assert "org-77" not in result["messages"][-1].text
    assert "the time ran out" in result["messages"][-1].text


@pytest.mark.req("K1", "C11")
@pytest.mark.parametrize("plan", [f"{PLAN}.", ""])
def test_a_worker_that_raised_is_called_again_though_there_is_no_new_plan(tried, student, scores, thinker, plan):
    replies = [*[RuntimeError("it fell over")] * 3, "good"]
    same = thinker(*[plan] * 9)
    seen = tried(student(*replies), checks=[scores(True)], reflector=same, limits={"max_attempts": 4})
    assert seen.ending == ("success", "accepted")


@pytest.mark.req("B13", "K1")
def test_a_reply_that_was_cut_is_not_judged_and_a_refusal_is_an_answer(tried, student, scores):
    cut = AIMessage("Bell, because", response_metadata={"finish_reason": "length"})
    refusal = AIMessage("", additional_kwargs={"refusal": "I cannot say that."})
    check = scores(True)
    seen = tried(student(cut, refusal), checks=[check], limits={"max_attempts": 2})
    assert check.answers == ["I cannot say that."]
    assert [attempt.answer for attempt in seen.outcome.attempts] == [None, "I cannot say that."]
    assert seen.result["messages"][-1].text == "I cannot say that."
    assert "cut off at its length limit" in seen.outcome.failures[0].evidence


@pytest.mark.req("B13", "K1")
def test_an_answer_that_no_model_wrote_needs_no_finish_reason(scores):
    def worker(_messages):
        return AIMessage("Bell")

    trial = create_trial_graph(RunnableLambda(worker), [scores(True)])
    before = [HumanMessage("Hello."), AIMessage("Hello.", response_metadata={"finish_reason": "stop"})]
    outcome = trial.invoke({"messages": [*before, HumanMessage("Who invented the telephone?")]})["outcome"]
    assert (outcome.status, outcome.answer) == ("success", "Bell")


@pytest.mark.req("B13", "K1")
def test_an_answer_that_breaks_off_though_the_workers_model_gives_finish_reasons_is_cut(scores):
    def worker(_messages):
        return {"messages": [AIMessage("I look it up.", response_metadata=ended), AIMessage("Bell, bec", **cut)]}

    ended = {"model_provider": "anthropic", "stop_reason": "end_turn"}
    cut = {"response_metadata": {"model_provider": "anthropic"}}
    outcome = create_trial_graph(RunnableLambda(worker), [scores(True)], limits=Limits(max_attempts=1)).invoke(
        {"messages": [HumanMessage("Who invented the telephone?")]}
    )["outcome"]
    assert outcome.status == "failure"
    assert "cut off in the middle" in outcome.failures[0].evidence


@pytest.mark.req("K2")
@pytest.mark.parametrize(("retries", "attempts"), [(0, 3), (1, 2), (2, 1), (5, 1)])
def test_a_worker_that_failed_is_called_again_in_its_attempt_as_often_as_asked(
    tried, student, scores, retries, attempts
):
    worker = student(RuntimeError("once"), RuntimeError("twice"), "good")
    seen = tried(worker, checks=[scores(True)], retries=retries)
    assert seen.ending == ("success", "accepted")
    assert (len(seen.prompts), len(seen.outcome.attempts)) == (3, attempts)
    assert len(seen.outcome.failures) == 2


@pytest.mark.req("K2", "G5")
@pytest.mark.parametrize("strategy", ["last_trial", "both"])
@pytest.mark.parametrize("first", [("Edison",), (RuntimeError("once"), RuntimeError("twice"))])
def test_a_retry_is_shown_what_the_first_call_of_its_attempt_was_shown(tried, student, thinker, look, strategy, first):
    worker = student(call("look", page=1), *first, RuntimeError("down"), "Bell")
    seen = tried(
        create_agent(worker, [look]),
        checks=[lambda answer, _run: answer == "Bell"],
        strategy=strategy,
        retries=1,
        reflector=thinker(),
    )
    assert [attempt.answer for attempt in seen.outcome.attempts][-1] == "Bell"
    assert len(seen.outcome.attempts) == 2
    *_, before, retry = worker.asked
    assert retry.text == before.text
    assert "The last attempt" in retry.text


@pytest.mark.req("K2")
@pytest.mark.parametrize(("retries", "attempts"), [(0, 2), (1, 1)])
def test_an_agent_that_could_not_reach_its_model_is_called_again_like_a_worker_that_raised(
    tried, scores, retries, attempts
):
    model = RoleModel([DownError("gone"), "good"])
    agent = create_reflexion_agent(model, limits=Limits(model_retries=0), memory=MemoryPolicy(read=False, write=False))
    seen = tried(agent, checks=[scores(True)], retries=retries)
    assert seen.ending == ("success", "accepted")
    assert (len(model.asked), len(seen.outcome.attempts)) == (2, attempts)
    assert len(seen.outcome.failures) == 1


@pytest.mark.req("K2", "A10")
def test_feedback_takes_no_retry_of_the_worker_away(made, student, scores):
    graph = made(student(RuntimeError("once"), "Bell"), [scores(True)], retries=1)
    asked = [("user", "Who invented the telephone?"), ("ai", "Edison")]
    outcome = graph.invoke({"messages": asked, "feedback": "Edison did not."})["outcome"]
    assert [attempt.answer for attempt in outcome.attempts] == ["Bell"]


@pytest.mark.req("K2", "A5")
def test_a_passing_fault_is_waited_for_before_the_retry(tried, student, scores):
    began = time.monotonic()
    seen = tried(student(DownError("gone"), "good"), checks=[scores(True)], retries=1)
    assert seen.ending == ("success", "accepted")
    assert time.monotonic() - began >= 0.25


@pytest.mark.req("K1", "F13")
async def test_a_worker_that_hangs_is_given_up_after_its_time_and_tried_again(made, scores):
    calls = []

    async def worker(_prompt):
        calls.append(1)
        await asyncio.sleep(60 if len(calls) == 1 else 0)
        return "good"

    graph = made(worker, [scores(True)], limits={"tool_timeout": 1})
    outcome = (await graph.ainvoke({"messages": [("user", "?")]}))["outcome"]
    assert outcome.status == "success"
    assert [[one.error_class for one in attempt.failures] for attempt in outcome.attempts] == [["timeout"], []]


@pytest.mark.req("K1")
@pytest.mark.parametrize("nothing", ["", "  ", None])
def test_an_empty_answer_is_none(made, scores, nothing):
    check = scores()
    outcome = made(lambda _prompt: nothing, [check], limits={"max_attempts": 2}).invoke({"messages": [("user", "?")]})[
        "outcome"
    ]
    assert (outcome.stop_reason, check.answers, len(outcome.attempts)) == ("model_error", [], 2)
    assert "it gave no answer" in outcome.reason


@pytest.mark.req("B8")
def test_a_wrong_key_raises_as_it_does_on_an_agent(made, student):
    with pytest.raises(BadKeyError):
        made(student(BadKeyError("no such key")), [lambda *_: True]).invoke({"messages": [("user", "?")]})


@pytest.mark.req("C1")
def test_a_reflector_that_cannot_be_read_leaves_the_attempts_to_continue_without(tried, scores):
    seen = tried(checks=[scores(10, 95)], reflector=RoleModel([], ["?? no json {]", "again none"]))
    assert seen.ending == ("success", "accepted")
    assert (seen.outcome.reflections, seen.outcome.usage.reflection.calls) == ([], 2)
    assert "The mistakes so far" in seen.prompts[1]


@pytest.mark.req("F8", "G4")
def test_a_fallback_that_fails_leaves_the_best_answer_marked_as_not_accepted(tried, scores):
    fallback = RoleModel([RuntimeError("down")])
    seen = tried(checks=[scores(50, 20)], fallback=fallback, limits={"max_attempts": 2})
    assert seen.ending == ("failure", "max_attempts")
    assert seen.outcome.answer == "answer 1"
    assert "which was not accepted, score 50" in seen.result["messages"][-1].text
    assert "RuntimeError: down" in seen.outcome.reason


@pytest.mark.req("F8")
def test_an_accepted_answer_asks_no_fallback(tried, scores):
    fallback = RoleModel()
    assert tried(checks=[scores(False, True)], fallback=fallback).ending == ("success", "accepted")
    assert fallback.asked == []


class BrokenStore(InMemoryStore):
    def batch(self, ops):
        raise OSError("the disk is full")


@pytest.mark.req("D7")
@pytest.mark.slow
def test_a_broken_store_costs_lessons_and_not_the_answer(tried, scores, caplog):
    assert tried(checks=[scores(False, True)], store=BrokenStore()).ending == ("success", "accepted")
    assert "the disk is full" in caplog.text


@pytest.mark.req("E8", "C8")
def test_a_check_that_raises_refuses_and_its_error_reaches_the_reflection(tried):
    def check(answer, _run):
        if answer == "answer 1":
            raise KeyError("year")

    seen = tried(checks=[check])
    assert seen.ending == ("success", "accepted")
    assert "KeyError: 'year'" in seen.reflector.asked[0].text
