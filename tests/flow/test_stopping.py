"""Every way to stop has its word, its order, and leaves what was done."""

from __future__ import annotations

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_reflexion import Limits, Verdict, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, reflection, say


def refuse(*_):
    return "That hour is taken."


def wander():
    """A model that never comes to an answer, and never does the same twice."""
    model = RoleModel(lambda _: call("search", query=f"room {len(model.asked)}"))
    return model


@pytest.mark.req("F1", "F9", "B11")
@pytest.mark.parametrize("most", [1, 3])
def test_the_step_after_the_last_is_never_taken(run, desk, protocol, most):
    model = wander()
    seen = run(model, [desk.search], protocol=protocol, limits={"max_steps": most})
    assert seen.ending == ("failure", "max_steps")
    assert len(model.asked) == most == len(desk.ran)
    assert f"{most} were allowed" in seen.outcome.reason


@pytest.mark.req("F1", "F9", "B11")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_reflection_after_the_last_is_never_asked_for_and_attempts_continue(run, protocol, advice, reflected, most):
    model = RoleModel([say("10:00")], advice)
    seen = run(model, checks=[refuse], protocol=protocol, limits={"max_attempts": 4, "max_reflections": most})
    assert len(reflected(model)) == most == len(seen.outcome.reflections)
    assert len(seen.told("attempt")) == 4
    assert seen.ending == ("failure", "max_attempts")


@pytest.mark.req("F2", "F12", "B11")
@pytest.mark.parametrize("most", [1, 2])
def test_the_attempt_after_the_last_is_never_made_nor_reflected_on(run, protocol, advice, reflected, most):
    model = RoleModel([say("10:00")], advice)
    seen = run(model, checks=[refuse], protocol=protocol, limits={"max_attempts": most})
    assert seen.ending == ("failure", "max_attempts")
    assert len(seen.outcome.attempts) == most
    assert len(reflected(model)) == most - 1
    assert seen.last_events == ["attempt", "outcome"]


@pytest.mark.req("F11", "A4", "B11")
def test_decisions_that_stay_invalid_end_the_run(run, desk, protocol):
    model = RoleModel([call("look_up", query="x")], reflection())
    limits = {"max_reflections": 1, "decision_retries": 1}
    seen = run(model, [desk.search], protocol=protocol, limits=limits)
    assert seen.ending == ("failure", "invalid_decisions")
    assert len(seen.outcome.failures) == 4
    assert not desk.ran
    assert "There is no answer" in seen.answer


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8", "F11", "B11")
def test_the_fallback_is_asked_once_with_question_latest_answer_and_reason(run, protocol):
    rescue = RoleModel([say("Perhaps 11:00; I am not sure.")])
    model = RoleModel([say("10:00"), say("12:00")], reflection())
    limits = {"max_attempts": 2}
    seen = run(model, checks=[refuse], fallback=rescue, protocol=protocol, limits=limits, task="Which hour is free?")
    assert len(rescue.asked) == 1
    text = rescue.asked[0].text
    for part in (
        "Which hour is free?",
        "12:00",
        "no attempt was accepted (attempts allowed: 2)",
        "That hour is taken.",
    ):
        assert part in text
    assert seen.ending == ("failure", "max_attempts"), "not called a success"
    assert seen.answer == seen.outcome.answer
    assert "fallback" in seen.outcome.reason
    assert [attempt.answer for attempt in seen.outcome.attempts] == ["10:00", "12:00"]


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("stop", ["max_steps", "loop", "invalid_decisions", "no_plan", "model_error", "token_budget"])
def test_whatever_ends_the_run_the_fallback_is_asked_once(run, desk, stop):
    stories = {
        "max_steps": (wander(), {"max_steps": 2}),
        "loop": (RoleModel([call("search", query="x")]), {"max_reflections": 0}),
        "invalid_decisions": (RoleModel([call("look_up")]), {"max_reflections": 0}),
        "no_plan": (RoleModel([say("10:00")], reflection("")), {}),
        "model_error": (RoleModel([ConnectionError("down")]), {}),
        "token_budget": (wander(), {"token_budget": 20}),
    }
    model, limits = stories[stop]
    rescue = RoleModel([AIMessage("As far as I can tell: 11:00.")])
    checks = [lambda *_: False] if stop == "no_plan" else []
    seen = run(model, [desk.search], checks=checks, fallback=rescue, limits=limits)
    assert seen.ending == ("failure", stop)
    assert len(rescue.asked) == 1
    assert seen.answer == seen.outcome.answer == "As far as I can tell: 11:00."


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8", "B13")
def test_a_fallback_needs_no_finish_reason_though_the_models_replies_have_one():
    before = [HumanMessage("Hello."), AIMessage("Hello.", response_metadata={"finish_reason": "stop"})]
    model = RoleModel([AIMessage("10:00", response_metadata={"finish_reason": "stop"})])
    rescue, limits = FakeListChatModel(responses=["11:00"]), Limits(max_attempts=1)
    agent = create_reflexion_agent(model, [], checks=[refuse], fallback=rescue, limits=limits, name="planner")
    last = agent.invoke({"messages": [*before, HumanMessage("Which hour?")]})["messages"][-1]
    assert (last.text, last.name) == ("11:00", "planner")


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8")
def test_a_fallback_that_is_down_leaves_the_best_attempt_and_both_reasons(run):
    seen = run(
        RoleModel([say("10:00")], reflection()),
        checks=[lambda *_: 40],
        fallback=RoleModel([ConnectionError("also down")]),
        limits={"max_attempts": 1},
    )
    assert seen.ending == ("failure", "max_attempts")
    assert seen.outcome.answer == "10:00"
    assert "also down" in seen.outcome.reason
    assert "10:00" in seen.answer


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8")
def test_a_wrong_key_of_the_fallback_is_raised(run):
    class WrongKeyError(Exception):
        status_code = 401

    with pytest.raises(WrongKeyError):
        run(
            RoleModel([say("10:00")]),
            checks=[refuse],
            fallback=RoleModel([WrongKeyError()]),
            limits={"max_attempts": 1},
        )


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8", "B13")
@pytest.mark.parametrize(
    "reply",
    [
        AIMessage(""),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "c"}]),
        AIMessage("At eleven o'", response_metadata={"finish_reason": "length"}),
    ],
)
def test_a_fallback_that_says_nothing_is_reported(run, reply):
    model = RoleModel([say("10:00")], reflection())
    seen = run(model, checks=[refuse], fallback=RoleModel([reply]), limits={"max_attempts": 1})
    assert seen.outcome.answer == "10:00"
    assert "The fallback gave no answer either." in seen.outcome.reason
    assert "10:00" in seen.answer


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F8")
def test_calls_of_a_fallback_model_are_left_out_of_its_answer(run, desk):
    eager = AIMessage("Perhaps 11:00.", tool_calls=[{"name": "search", "args": {"query": "x"}, "id": "c"}])
    model = RoleModel([say("10:00")], reflection())
    seen = run(model, [desk.search], checks=[refuse], fallback=RoleModel([eager]), limits={"max_attempts": 1})
    assert seen.answer == seen.outcome.answer == "Perhaps 11:00."
    assert not seen.messages[-1].tool_calls
    assert not desk.ran


@pytest.mark.req("F8")
def test_without_a_fallback_no_model_is_asked_and_the_best_attempt_is_marked_as_not_accepted(run):
    scores = iter([60, 40])
    model = RoleModel([say("first"), say("second")], reflection())
    seen = run(model, checks=[lambda *_: next(scores)], limits={"max_attempts": 2})
    assert seen.answer.endswith("first")
    assert "which was not accepted, score 60" in seen.answer
    assert (seen.outcome.answer, seen.outcome.score) == ("first", 60)
    assert [question.role for question in model.asked] == ["decide", "reflect", "decide"]


@pytest.mark.req("F11", "I1")
def test_the_outcome_has_the_last_and_the_best_attempt(run, desk, advice):
    scores = iter([60, 40])
    model = RoleModel([say("first"), say("second"), call("search", query="x")], advice)
    limits = {"max_attempts": 3, "max_steps": 3, "stalled_attempts": 9}
    outcome = run(model, [desk.search], checks=[lambda *_: next(scores)], limits=limits).outcome
    assert outcome.best is not None
    assert outcome.last is not None
    assert (outcome.best.answer, outcome.best.score) == ("first", 60)
    assert outcome.last.answer is None, "the work that came to no answer is an attempt of its own"


@pytest.mark.req("F11", "I1")
def test_an_attempt_with_an_answer_is_better_than_one_without(run, desk):
    model = RoleModel([say("10:00"), call("search", query="x")], reflection())
    outcome = run(model, [desk.search], checks=[refuse], limits={"max_steps": 2}).outcome
    assert outcome.best is not None
    assert outcome.best.answer == outcome.answer == "10:00"


@pytest.mark.req("F11", "I1")
def test_the_accepted_attempt_of_a_success_is_the_best(run):
    verdicts = iter([Verdict(score=70), Verdict(passed=True, score=50)])
    outcome = run(RoleModel([say("a"), say("b")], reflection()), checks=[lambda *_: next(verdicts)]).outcome
    assert outcome.status == "success"
    assert outcome.best is outcome.last
    assert (outcome.answer, outcome.score) == ("b", 50)


@pytest.mark.req("F11", "I1")
def test_an_attempt_that_was_not_rejected_is_the_best_whatever_was_rejected_before(run):
    verdicts = iter([Verdict(passed=False, score=70), Verdict()])
    outcome = run(RoleModel([say("a"), say("b")], reflection()), checks=[lambda *_: next(verdicts)]).outcome
    assert outcome.status == "unverified"
    assert outcome.best is outcome.last
    assert outcome.answer == outcome.best.answer == "b"


@pytest.mark.req("F11")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("most", [6, 8, 11, 14])
def test_langgraphs_own_limit_is_wrapped_up_before_in_time(run, desk, protocol, most):
    seen = run(wander(), [desk.search], protocol=protocol, config={"recursion_limit": most})
    assert seen.ending == ("failure", "max_steps")
    assert len(seen.nodes) <= most
