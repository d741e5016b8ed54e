"""Who says whether an answer stands: what a check may return, and what all of them together decide."""

from __future__ import annotations

import asyncio
import warnings
from decimal import Decimal
from unittest.mock import AsyncMock, Mock

import numpy as np
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import LessonBook, Limits, Verdict, create_reflexion_agent
from langgraph_reflexion.schemas import Dimension
from langgraph_reflexion.testing import RoleModel, ask, call, reflection, say

ONCE = {"max_attempts": 1}


@pytest.mark.req("E4", "E8", "F3", "B11")
@pytest.mark.fast_cases(9)
@pytest.mark.parametrize(
    ("said", "accepted"),
    [
        (True, True),
        (False, False),
        (None, True),
        ("It is taken.", False),
        ("", False),
        (79, False),
        (79.9, False),
        (80, True),
        (100, True),
        (1.0, False),
        (0, False),
        (Verdict(passed=True), True),
        (Verdict(passed=False), False),
        (Verdict(passed=True, score=20), True),
        (Verdict(passed=False, score=95), False),
        (Verdict(score=80), True),
        (Verdict(score=79), False),
    ],
)
def test_a_checks_decision_is_final_and_without_one_the_score_decides(run, protocol, said, accepted):
    seen = run(RoleModel([say("11:00")]), checks=[lambda *_: said], protocol=protocol, limits=ONCE)
    assert seen.ending == (("success", "accepted") if accepted else ("failure", "max_attempts"))
    assert seen.signals == ([] if accepted else ["check_failed"])


@pytest.mark.req("E8")
@pytest.mark.parametrize(
    ("said", "status"),
    [(np.int64(90), "success"), (np.int64(70), "failure"), (np.bool_(True), "success"), (Decimal(80), "success")],
)
def test_a_check_may_count_with_numpy_and_decimals(run, said, status):
    assert run(RoleModel([say("x")]), checks=[lambda *_: said], limits=ONCE).outcome.status == status


@pytest.mark.req("E4", "F3")
def test_the_score_asked_for_can_be_set(run):
    for score, status in ((49, "failure"), (50, "success")):
        limits = {"success_score": 50, **ONCE}
        assert run(RoleModel([say("x")]), checks=[lambda _a, _r, s=score: s], limits=limits).outcome.status == status


@pytest.mark.req("E4")
def test_the_score_is_the_mean_and_one_refusal_refuses(run):
    seen = run(RoleModel([say("x")]), checks=[lambda *_: 100, lambda *_: 60, lambda *_: True], limits=ONCE)
    assert seen.outcome.status == "failure"
    assert seen.outcome.score == 80


@pytest.mark.req("E4")
@pytest.mark.parametrize(("passed", "score", "word"), [(False, 95, "rejects"), (True, 20, "accepts")])
def test_a_verdict_that_contradicts_its_score_says_so_among_its_issues(run, passed, score, word):
    seen = run(RoleModel([say("x")]), checks=[lambda *_: Verdict(passed=passed, score=score)], limits=ONCE)
    (verdict,) = seen.outcome.attempts[0].verdicts
    assert verdict.passed is passed
    assert verdict.score == score
    assert word in verdict.issues[-1]
    assert str(score) in verdict.issues[-1]


@pytest.mark.req("E4", "E8")
@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (150, 100),
        (-3, 0),
        (float("nan"), 0),
        (Verdict(score=1000), 100),
        (Verdict(score=Decimal("100.5")), 100),
        (Verdict(score=np.float32("nan")), 0),
        (Verdict(score="-3"), 0),
    ],
)
def test_a_score_out_of_range_is_clamped_and_reported(run, given, counts):
    seen = run(RoleModel([say("x")]), checks=[lambda *_: given], limits=ONCE)
    (verdict,) = seen.outcome.attempts[0].verdicts
    assert verdict.score == counts
    assert "outside 0 to 100" in verdict.issues[0]


@pytest.mark.req("E1")
def test_a_dimension_out_of_range_is_clamped_and_reported_too(run):
    sides = {
        "clarity": Dimension(score=130, feedback="Plain."),
        "depth": Dimension(score=-1),
        "tone": Dimension(score=7),
    }
    seen = run(RoleModel([say("x")]), checks=[lambda *_: Verdict(score=90, dimensions=sides)], limits=ONCE)
    (verdict,) = seen.outcome.attempts[0].verdicts
    assert {name: side.score for name, side in verdict.dimensions.items()} == {"clarity": 100, "depth": 0, "tone": 7}
    assert verdict.dimensions["clarity"].feedback == "Plain."
    assert verdict.issues == [
        "the score 130 of clarity is outside 0 to 100 and counts as 100",
        "the score -1 of depth is outside 0 to 100 and counts as 0",
    ]


def test_a_check_without_a_name_is_named_by_its_position(run):
    checks = [lambda *_: None, lambda *_: "Too short."]
    seen = run(RoleModel(decide=say("11"), reflect=reflection()), checks=checks, limits={"max_attempts": 1})
    assert [one.check for one in seen.outcome.attempts[0].verdicts] == ["check 1", "check 2"]
    assert seen.outcome.failures[0].evidence.endswith("check 2: Too short.")


@pytest.mark.req("E4", "E8")
def test_if_no_check_gives_a_verdict_the_answer_is_unverified(run):
    seen = run(RoleModel([say("x")]), checks=[lambda *_: Verdict(feedback="I cannot tell.")])
    assert seen.ending == ("unverified", "unchecked")
    assert seen.outcome.attempts[0].verdicts[0].feedback == "I cannot tell."


@pytest.mark.req("E8", "A9", "B11")
def test_a_check_that_raises_refuses_with_its_error_and_is_counted_apart(run, protocol, reflected, caplog):
    def broken(*_):
        raise ZeroDivisionError("no rooms to divide by, said the server with the key sk-proj-abc123def456ghi789")

    model = RoleModel([say("11:00")], reflection())
    seen = run(model, checks=[broken], protocol=protocol, limits={"max_attempts": 2})
    assert seen.ending == ("failure", "max_attempts")
    assert [(one.signal, one.error_class) for one in seen.outcome.failures] == [("check_failed", "exception")] * 2
    assert "ZeroDivisionError: no rooms to divide by" in seen.outcome.failures[0].evidence
    assert "no rooms to divide by" in reflected(model)[0].text
    assert [record.getMessage().count("in broken\n") for record in caplog.records] == [1] * 2  # with its traceback
    assert "no rooms to divide by" in caplog.text
    assert "sk-proj" not in caplog.text
    refused = run(RoleModel([say("11:00")]), checks=[lambda *_: False], limits=ONCE)
    assert refused.outcome.failures[0].error_class is None


@pytest.mark.req("E8")
@pytest.mark.parametrize("deadline", [None, 9])
async def test_a_check_that_finds_nothing_next_is_waited_for_no_longer_than_it_takes(deadline):
    limits = Limits(**ONCE, deadline=deadline)
    agent = create_reflexion_agent(RoleModel([say("x")]), checks=[lambda *_: next(iter([]))], limits=limits)
    given = {"messages": [("user", "Plan an hour.")]}
    for result in (agent.invoke(given), await asyncio.wait_for(agent.ainvoke(given), 5)):
        assert result["outcome"].status == "failure"
        assert "StopIteration" in result["outcome"].failures[0].evidence


@pytest.mark.req("E8")
@pytest.mark.parametrize(("given", "why"), [({"passed": True}, "dict"), (10**400, "int too large")])
def test_a_check_may_give_only_what_is_a_verdict(run, given, why):
    seen = run(RoleModel([say("x")]), checks=[lambda *_: given], limits=ONCE)
    assert seen.outcome.status == "failure"
    assert why in seen.outcome.failures[0].evidence


@pytest.mark.req("E8")
async def test_a_check_may_be_async():
    async def free(answer, _run):
        return answer == "11:00"

    agent = create_reflexion_agent(RoleModel([say("11:00")]), checks=[free])
    result = await agent.ainvoke({"messages": [("user", "Plan an hour.")]})
    assert result["outcome"].status == "success"
    with pytest.raises(RuntimeError, match="use `ainvoke`"):
        agent.invoke({"messages": [("user", "Plan an hour.")]})


@pytest.mark.req("E8")
@pytest.mark.parametrize("double", [Mock, AsyncMock])
async def test_a_mock_may_be_a_check(double):
    agent = create_reflexion_agent(RoleModel([say("11:00")]), checks=[double(return_value=True)])
    result = await agent.ainvoke({"messages": [("user", "Plan an hour.")]})
    assert result["outcome"].status == "success"


@pytest.mark.req("E8")
async def test_a_check_in_a_wrapper_is_awaited_as_without_it():
    class Judge:
        def __call__(self, answer, run):
            raise AssertionError("only `acall` is used under `ainvoke`")

        async def acall(self, answer, run):
            return answer == "11:00"

    class Wrapper:
        def __call__(self, answer, run):
            return Judge()(answer, run)

        def __getattr__(self, name):
            return getattr(Judge(), name)

    agent = create_reflexion_agent(RoleModel([say("11:00")]), checks=[Wrapper()])
    result = await agent.ainvoke({"messages": [("user", "Plan an hour.")]})
    assert result["outcome"].status == "success"


@pytest.mark.req("E8", "K3")
def test_a_check_is_given_the_answer_and_the_run_it_came_from(run, desk):
    told = []

    def look(answer, run):
        told.append((answer, run))
        return answer == "11:00"

    model = RoleModel([call("search", query="Tuesday"), say("10:00"), say("11:00")], reflection())
    run(model, [desk.search], checks=[look], task=[("user", "Hello."), ("ai", "Yes?"), ("user", "Plan an hour.")])
    (first, second) = told
    assert [answer for answer, _ in told] == ["10:00", "11:00"]
    assert (first[1].task, first[1].attempt, second[1].attempt) == ("Plan an hour.", 1, 2)
    assert first[1].observations == ("Tuesday: eleven is free",)
    assert first[1].step == 2
    assert second[1].step == 3


@pytest.mark.req("E8", "B7", "B11")
def test_checks_after_a_reply_still_see_observations_from_before_the_question(desk, protocol):
    told = []
    model = RoleModel([call("search", query="Tuesday"), ask("Which room?"), say("11:00")])
    agent = create_reflexion_agent(
        model,
        [desk.search],
        checks=[lambda _, run: told.append((run.task, run.observations))],
        controls=["ask_user"],
        protocol=protocol,
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", "Plan an hour.")]}, thread)
    agent.invoke(Command(resume="The red one."), thread)
    assert (told[0][0], told[0][1][0]) == ("Plan an hour.", "Tuesday: eleven is free")


@pytest.mark.req("K3")
def test_a_judge_that_asks_of_task_and_answer_sees_nothing_of_patches_thoughts_or_lessons(run, protocol):
    judge = RoleModel([say("no"), say("yes")])

    def judged(answer, run):
        verdict = judge.invoke([HumanMessage(f"Question: {run.task}\nAnswer: {answer}\nIs it right?")])
        return verdict.text == "yes"

    judged.asks_model = True
    model = RoleModel([say("10:00", thought="I shall guess."), say("11:00")], reflection("Read the calendar."))
    run(model, checks=[judged], protocol=protocol, task="Which hour is free?")
    assert [question.text for question in judge.asked] == [
        f"Question: Which hour is free?\nAnswer: {answer}\nIs it right?" for answer in ("10:00", "11:00")
    ]


@pytest.mark.req("E8")
def test_checks_that_ask_a_model_come_after_those_that_do_not(run):
    order = []

    def dear(*_):
        order.append("dear")

    def cheap(*_):
        order.append("cheap")

    dear.asks_model = True
    run(RoleModel([say("x")]), checks=[dear, cheap])
    assert order == ["cheap", "dear"]


@pytest.mark.graph_only("an error of the model is raised")
@pytest.mark.req("K1", "B11")
def test_text_that_is_not_an_answer_is_never_judged(run, desk, protocol):
    judged = []
    down = RoleModel([call("search", query="x"), ConnectionError("down")])
    seen = run(down, [desk.search], protocol=protocol, checks=[lambda answer, _: judged.append(answer)])
    assert seen.ending == ("failure", "model_error")
    assert judged == []
    endless = RoleModel(lambda _: call("search", query=f"room {len(endless.asked)}"))
    seen = run(
        endless,
        [desk.search],
        protocol=protocol,
        checks=[lambda answer, _: judged.append(answer)],
        limits={"max_steps": 2},
    )
    assert seen.ending == ("failure", "max_steps")
    assert judged == []
    assert [(attempt.answer, attempt.verdicts) for attempt in seen.outcome.attempts] == [(None, [])]


@pytest.mark.req("A7", "B11")
def test_a_refused_answer_is_evidence_and_not_in_the_conversation(run, protocol, decided):
    complain = {"10:00": "Ten is taken.", "11:00": None}
    model = RoleModel([say("10:00"), say("11:00")], reflection("Take the next hour."))
    seen = run(model, checks=[lambda answer, _: complain[answer]], protocol=protocol)
    assert seen.ending == ("success", "accepted")
    assert seen.answer == "11:00"
    assert [(m.type, m.text) for m in seen.messages[1:]] == [("ai", "11:00")]
    assert [attempt.answer for attempt in seen.outcome.attempts] == ["10:00", "11:00"]
    assert "10:00" in seen.outcome.failures[0].evidence
    assert "Ten is taken." in decided(model)[1].text


@pytest.mark.req("F3")
def test_a_score_asked_for_without_a_check_warns_when_the_agent_is_built_and_not_when_it_runs():
    with pytest.warns(UserWarning, match="success_score"):
        agent = create_reflexion_agent(RoleModel([say("x")]), limits=Limits(success_score=90))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.invoke({"messages": [("user", "hi")]})
        create_reflexion_agent(RoleModel([say("x")]), limits=Limits(success_score=90), checks=[lambda *_: 95])
        create_reflexion_agent(RoleModel([say("x")]), limits=Limits(max_steps=3))


class Doored:
    """A check with an async method of its own, that asks the agent's model."""

    name = "doored"
    asks_model = wants_model = True

    def __init__(self):
        self.by = []

    def __call__(self, _answer, run):
        self.by.append(("sync", run.model.invoke("Is it so?").text))

    async def acall(self, _answer, run):
        self.by.append(("async", (await run.model.ainvoke("Is it so?")).text))


@pytest.mark.req("E3", "E8")
async def test_a_check_may_be_sync_and_async_and_ask_the_agents_own_model():
    check = Doored()
    agent = create_reflexion_agent(
        RoleModel(decide=[say("11:00"), "so it is", say("11:00"), "so it is"]), checks=[check]
    )
    task = {"messages": [("user", "Plan an hour.")]}
    result = agent.invoke(task)
    again = await agent.ainvoke(task)
    assert check.by == [("sync", "so it is"), ("async", "so it is")]
    assert result["outcome"].usage.calls == again["outcome"].usage.calls == 2


@pytest.mark.req("E3")
def test_an_answer_that_a_person_edits_is_judged_again_and_stands(run):
    asked = []

    def on_the_hour(answer, _run):
        asked.append(answer)
        return answer.endswith(":00")

    def person(answer, _run):
        return Verdict(passed=True, edited="11:00") if answer != "11:00" else True

    seen = run(RoleModel([say("11:30")]), checks=[on_the_hour, person, on_the_hour], limits=ONCE)
    assert asked == ["11:30", "11:00", "11:00"]
    assert seen.ending == ("success", "accepted")
    assert seen.outcome.answer == seen.result["messages"][-1].content == "11:00"
    assert [verdict.passed for verdict in seen.outcome.attempts[0].verdicts] == [True] * 3


@pytest.mark.req("E8", "D9")
def test_a_check_that_raises_teaches_nothing_that_is_verified():
    broken = iter([ConnectionError("the judge is down")])

    def flaky(_answer, _run):
        for error in broken:
            raise error

    store, memo = InMemoryStore(), {"kind": "rule", "text": "Write the minutes, too.", "when": "proposing an hour"}
    advice = reflection("Write the minutes, too.", memory_to_write=[memo])
    agent = create_reflexion_agent(RoleModel(say("11:00"), advice), checks=[flaky], store=store)
    assert agent.invoke({"messages": [("user", "Propose an hour.")]})["outcome"].status == "success"
    assert [(lesson.kind, lesson.origin) for lesson in LessonBook(store).lessons()] == [("rule", "observed")]
