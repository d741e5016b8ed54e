"""A trial ends at its attempt, with its word."""

from __future__ import annotations

import threading
import time

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, say

ASKED = {"messages": [("user", "Who invented the telephone?")]}


@pytest.mark.req("F4", "F5", "S6", "G2")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("given", "stalled", "attempts", "reason"),
    [
        ((40, 60, 62, 63), 2, 4, "improvement_stalled"),
        ((40, 60, 62, 66, 67, 100), 2, 6, "accepted"),
        ((0, 0, 0), 2, 3, "improvement_stalled"),
        ((40, 60, 65, 66), 1, 4, "improvement_stalled"),
        ((40, 65, 68), 1, 3, "improvement_stalled"),
        ((79, 60, 79), 2, 3, "improvement_stalled"),
    ],
)
def test_too_little_gain_over_the_best_so_far_ends_a_trial(tried, scores, given, stalled, attempts, reason):
    check = scores(*given)
    seen = tried(checks=[check], limits={"stalled_attempts": stalled})
    assert seen.outcome.stop_reason == reason
    assert len(check.answers) == len(seen.prompts) == len(seen.outcome.attempts) == attempts
    assert [one.score for one in seen.outcome.attempts] == list(given)


@pytest.mark.req("F4", "K1")
def test_an_attempt_without_a_score_is_no_step_back(tried, scores, student):
    worker = student("one", RuntimeError("it fell over"), "three", "four")
    seen = tried(worker, checks=[scores(40, 60, 100)], limits={"stalled_attempts": 1})
    assert [one.score for one in seen.outcome.attempts] == [40, None, 60, 100]


@pytest.mark.req("F13")
def test_a_budget_that_a_reflection_spent_leaves_no_further_attempt(tried, scores, thinker):
    reflector = thinker()
    reflector.usage = (90, 10)
    seen = tried(checks=[scores(10, 20)], reflector=reflector, limits={"token_budget": 110})
    assert seen.ending == ("failure", "token_budget")
    assert len(seen.prompts) == len(seen.outcome.attempts) == 1


@pytest.mark.req("F3", "F12", "E4")
@pytest.mark.parametrize(("given", "attempts"), [((79, 80), 2), ((100,), 1), ((40, 41, 99), 3), ((0, 100), 2)])
def test_the_score_asked_for_accepts_before_any_reason_to_stop(tried, scores, given, attempts):
    seen = tried(checks=[scores(*given)], limits={"max_attempts": attempts, "stalled_attempts": 2})
    assert seen.ending == ("success", "accepted")
    assert len(seen.prompts) == attempts
    assert len(seen.reflector.asked) == attempts - 1


@pytest.mark.req("F2", "F11", "F12", "F9")
def test_the_attempt_and_the_reflection_after_the_last_are_never_made(tried, scores):
    seen = tried(checks=[scores(10, 60, 30)], limits={"max_attempts": 3})
    assert seen.ending == ("failure", "max_attempts")
    assert (len(seen.prompts), len(seen.reflector.asked)) == (3, 2)
    assert (seen.outcome.best.answer, seen.outcome.last.answer, seen.outcome.answer) == (
        "answer 2",
        "answer 3",
        "answer 2",
    )
    assert "no attempt was accepted (attempts allowed: 3)" in seen.result["messages"][-1].text


@pytest.mark.req("F9", "F1")
def test_when_no_reflection_is_left_attempts_continue_without(tried, scores):
    seen = tried(checks=[scores(10, 20, 40, 90)], limits={"max_reflections": 1})
    assert seen.ending == ("success", "accepted")
    assert (len(seen.prompts), len(seen.reflector.asked)) == (4, 1)


@pytest.mark.req("F7", "C11")
@pytest.mark.parametrize("plan", ["", "Be more careful.", "下次更仔细一点。"])
def test_no_plan_no_further_attempt(tried, scores, thinker, plan):
    seen = tried(checks=[scores(10)], reflector=thinker(plan))
    assert seen.ending == ("failure", "no_plan")
    assert len(seen.prompts) == 1


@pytest.mark.req("F13")
def test_a_token_budget_ends_a_trial_with_what_was_done(tried, scores, student):
    worker = student("one", "two", "three", "four")
    worker.usage = (90, 10)
    seen = tried(worker, checks=[scores(10, 20, 40, 60)], strategy="none", limits={"token_budget": 250})
    assert seen.ending == ("failure", "token_budget")
    assert seen.outcome.usage.total == 300
    assert (seen.outcome.best.answer, len(seen.outcome.attempts)) == ("three", 3)


@pytest.mark.req("F13")
def test_a_token_budget_that_the_last_attempt_of_an_agent_spent_is_why_the_trial_stopped(tried):
    model = RoleModel([say("1876")], usage=(70, 30))
    worker = create_reflexion_agent(model, checks=[lambda *_: False], limits=Limits(max_attempts=1))
    seen = tried(worker, checks=[lambda *_: True], limits={"max_attempts": 1, "token_budget": 100})
    assert seen.ending == ("failure", "token_budget")


@pytest.mark.req("F13", "K1")
def test_a_deadline_ends_an_attempt_that_hangs_and_the_trial(tried, scores):
    ended = threading.Event()

    def worker(prompt):
        if "<attempts>" in prompt:
            ended.wait(60)
        return "the first"

    began = time.monotonic()
    seen = tried(worker, checks=[scores("no")], strategy="last_trial", limits={"deadline": 1})
    ended.set()
    assert time.monotonic() - began < 30
    assert seen.ending == ("failure", "deadline")
    assert [one.answer for one in seen.outcome.attempts] == ["the first", None]
    assert seen.outcome.answer == "the first"


@pytest.mark.req("F9", "K1")
def test_an_attempt_has_a_limit_of_model_calls_and_exceeding_it_is_reflected_on(tried, scores, thinker, plans):
    @tool
    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    def turn(question):
        return say("found") if plans[0] in question.text else call("look", page=len(question.messages))

    check = scores(True)
    agent = create_agent(RoleModel(decide=turn), [look])
    seen = tried(agent, checks=[check], reflector=thinker(), limits={"max_steps": 3})
    assert seen.ending == ("success", "accepted")
    assert check.answers == ["found"]
    (used_up, _) = seen.outcome.attempts
    assert (used_up.answer, used_up.usage.calls) == (None, 3)
    assert [one.signal for one in used_up.failures] == ["no_progress"]
    assert "no answer in 3 model calls" in seen.reflector.asked[0].text


@pytest.mark.req("F13", "K1")
async def test_a_token_budget_holds_within_an_attempt_too(made):
    @tool
    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    model = RoleModel(decide=lambda question: call("look", page=len(question.messages)), usage=(90, 10))
    graph = made(create_agent(model, [look]), [lambda *_: True], retries=3, limits={"token_budget": 250})
    for outcome in (graph.invoke(ASKED)["outcome"], (await graph.ainvoke(ASKED))["outcome"]):
        assert (outcome.stop_reason, outcome.usage.total) == ("token_budget", 300)
    assert len(model.asked) == 6


@pytest.mark.req("F11", "I1")
def test_a_worker_that_no_check_judges_is_unverified(tried):
    seen = tried()
    assert seen.ending == ("unverified", "unchecked")
    assert seen.outcome.answer == "answer 1"


@pytest.mark.req("F3")
def test_a_score_asked_for_without_a_check_warns_when_the_graph_is_built(made, student):
    with pytest.warns(UserWarning, match="no check that gives a score"):
        made(student("x"), [], limits={"success_score": 90})
