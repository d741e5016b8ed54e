"""A person reviews: the run pauses with the question and the answer, and goes on with their word."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_serializer

from langgraph_reflexion import Limits, Run, Verdict, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.checks import all_of, first_failing, human_review, llm_judge, rule, weighted
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, reflection, say

THREAD = {"configurable": {"thread_id": "t"}}
TASK = {"messages": [("user", "When?")]}


def agent_of(*checks, answers=("11:30", "12:00"), attempts=1, **settings):
    model = RoleModel([say(one) for one in answers], reflection())
    limits = Limits(max_attempts=attempts)
    return create_reflexion_agent(model, checks=checks, limits=limits, checkpointer=InMemorySaver(), **settings)


@pytest.mark.req("E3")
async def test_a_run_pauses_with_question_and_answer_and_continues_when_accepted():
    agent = agent_of(human_review())
    (paused,) = agent.invoke(TASK, THREAD)["__interrupt__"]
    assert {name: paused.value[name] for name in ("type", "question", "answer")} == {
        "type": "review",
        "question": "When?",
        "answer": "11:30",
    }
    result = await agent.ainvoke(Command(resume=True), THREAD)
    assert (result["outcome"].status, result["outcome"].answer) == ("success", "11:30")


@pytest.mark.req("E3", "A9")
def test_a_refusal_with_its_reason_is_evidence_and_the_next_answer_is_shown_too():
    agent = agent_of(human_review(), attempts=2)
    agent.invoke(TASK, THREAD)
    (again,) = agent.invoke(Command(resume={"refuse": "Meetings start on the hour."}), THREAD)["__interrupt__"]
    assert again.value["answer"] == "12:00"
    outcome = agent.invoke(Command(resume=True), THREAD)["outcome"]
    assert outcome.status == "success"
    assert "Meetings start on the hour." in outcome.failures[0].evidence


@pytest.mark.req("E3")
@pytest.mark.parametrize("way", ["alone", "all_of", "first_failing"])
def test_an_edited_answer_is_the_answer_and_the_other_checks_judge_it(way):
    asked = []

    def on_the_hour(answer, _run):
        asked.append(answer)
        return answer.endswith(":00") or "on the hour"

    parts = [on_the_hour, human_review()]
    if way == "first_failing":
        parts.reverse()
    checks = {"alone": parts, "all_of": [all_of(*parts)], "first_failing": [first_failing(*parts)]}[way]
    agent = agent_of(*checks)
    agent.invoke(TASK, THREAD)
    result = agent.invoke(Command(resume={"edit": "11:00"}), THREAD)
    assert result["outcome"].status == "success"
    assert result["outcome"].answer == result["messages"][-1].content == "11:00"
    assert len(result["messages"]) == 2
    assert asked[-1] == "11:00"


@pytest.mark.req("E3")
def test_an_edit_that_another_check_refuses_is_refused():
    agent = agent_of(rule(lambda answer: answer.endswith(":00") or "on the hour"), human_review())
    agent.invoke(TASK, THREAD)
    outcome = agent.invoke(Command(resume={"edit": "11:45"}), THREAD)["outcome"]
    assert (outcome.status, outcome.answer) == ("failure", "11:45")
    assert "on the hour" in outcome.failures[0].evidence


class Slot(BaseModel):
    hour: int


@pytest.mark.req("E3")
@pytest.mark.parametrize(("text", "status"), [('{"hour": 12}', "success"), ("noon", "failure")])
def test_an_edit_must_fit_the_form_asked_for(text, status):
    agent = agent_of(human_review(), answers=['{"hour": 11}'], response_format=Slot)
    agent.invoke(TASK, THREAD)
    result = agent.invoke(Command(resume={"edit": text}), THREAD)
    assert result["outcome"].status == status
    if status == "success":
        assert result["structured_response"] == Slot(hour=12)


@pytest.mark.req("E3")
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
async def test_a_person_reviews_the_value_that_is_returned(method):
    model = RoleModel(say("Eleven is free."), other=[{"hour": 11}, {"hour": 12}])
    settings = {"response_format": Slot, "checks": [human_review()], "checkpointer": InMemorySaver()}
    agent = create_reflexion_agent(model, **settings)

    async def run(given):
        return agent.invoke(given, THREAD) if method == "invoke" else await agent.ainvoke(given, THREAD)

    paused = await run(TASK)
    assert paused["__interrupt__"][0].value["answer"] == '{"hour": 11}'
    result = await run(Command(resume=True))
    assert result["structured_response"] == Slot(hour=11)
    assert result["outcome"].answer == "Eleven is free."
    assert result["outcome"].usage.calls == len(model.asked) == 2


class Renamed(BaseModel):
    """A free hour."""

    hour: int = Field(alias="theHour")


class Doubled(BaseModel):
    """A free hour."""

    model_config = ConfigDict(extra="forbid")
    hour: int

    @computed_field
    def twice(self) -> int:
        return 2 * self.hour


class Written(BaseModel):
    """A free hour."""

    hour: int

    @field_serializer("hour")
    def in_words(self, hour: int) -> str:
        return f"{hour} o'clock"


@pytest.mark.req("E3")
@pytest.mark.parametrize(("form", "name"), [(Renamed, "theHour"), (Doubled, "hour"), (Written, "hour")])
def test_a_person_may_review_a_value_whose_data_have_another_form(form, name):
    model = RoleModel(say("Eleven is free."), other=[{name: 11}] * 3)
    settings = {"response_format": form, "checks": [human_review()], "checkpointer": InMemorySaver()}
    agent = create_reflexion_agent(model, **settings)
    assert "__interrupt__" in agent.invoke(TASK, THREAD)
    assert agent.invoke(Command(resume=True), THREAD)["structured_response"] == form(**{name: 11})


@pytest.mark.req("E3")
def test_a_person_reviews_the_value_of_a_tools_direct_answer_that_is_returned():
    from langchain_core.tools import tool

    @tool(return_direct=True)
    def clock() -> str:
        """Tell the time."""
        return "eleven"

    model = RoleModel(call("clock"), other=[{"hour": 11}, {"hour": 12}])
    settings = {"response_format": Slot, "checks": [human_review()], "checkpointer": InMemorySaver()}
    agent = create_reflexion_agent(model, [clock], **settings)
    paused = agent.invoke(TASK, THREAD)
    assert paused["__interrupt__"][0].value["answer"] == '{"hour": 11}'
    result = agent.invoke(Command(resume=True), THREAD)
    assert result["structured_response"] == Slot(hour=11)
    assert result["outcome"].usage.calls == len(model.asked) == 2


@pytest.mark.req("E3")
def test_an_answer_that_cannot_be_converted_is_not_converted_again():
    model = RoleModel(say("Eleven is free."), reflection("Say the hour."), other=[{"hour": "eleven"}, {"hour": 11}])
    settings = {"response_format": Slot, "checks": [human_review()], "checkpointer": InMemorySaver()}
    agent = create_reflexion_agent(model, limits=Limits(max_attempts=1), **settings)
    outcome = agent.invoke(TASK, THREAD)["outcome"]
    assert [failure.signal for failure in outcome.failures] == ["check_failed"]
    assert outcome.usage.calls == len(model.asked) == 2


@pytest.mark.req("E3")
def test_a_tools_direct_answer_may_be_edited():
    from langchain_core.tools import tool

    @tool(return_direct=True)
    def clock() -> str:
        """Tell the time."""
        return "11:30"

    model = RoleModel(call("clock"))
    agent = create_reflexion_agent(model, [clock], checks=[human_review()], checkpointer=InMemorySaver())
    agent.invoke(TASK, THREAD)
    result = agent.invoke(Command(resume={"edit": "11:00"}), THREAD)
    assert [one.type for one in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["outcome"].answer == result["messages"][-1].content == "11:00"
    assert result["messages"][-2].content == "11:30"


@pytest.mark.req("E3")
@pytest.mark.parametrize("reply", ["yes", 1, {"refuse": 3}, {"accept": True, "edit": "x"}])
def test_a_reply_nobody_can_read_is_asked_for_again_with_the_reason(reply):
    agent = agent_of(human_review())
    agent.invoke(TASK, THREAD)
    (again,) = agent.invoke(Command(resume=reply), THREAD)["__interrupt__"]
    assert "The reply is true" in again.value["error"]
    assert agent.invoke(Command(resume=True), THREAD)["outcome"].status == "success"


@pytest.mark.req("E3")
def test_a_share_of_the_answers_is_shown_and_always_the_same_ones():
    check, run = human_review(share=0.3), Run(task="When?")
    shown = [str(i) for i in range(1000) if check(str(i), run).issues]
    assert 250 < len(shown) < 350
    assert shown == [str(i) for i in range(1000) if human_review(share=0.3)(str(i), run).issues]
    assert check(next(str(i) for i in range(1000) if str(i) not in shown), run) == Verdict(check="human_review")


@pytest.mark.req("E3")
def test_an_answer_outside_the_share_has_no_verdict():
    outcome = agent_of(human_review(share=0.0)).invoke(TASK, THREAD)["outcome"]
    assert (outcome.status, outcome.attempts[0].verdicts) == ("unverified", [])


@pytest.mark.req("E3")
def test_if_nobody_can_be_asked_the_answer_is_not_judged_and_the_verdict_and_the_log_say_so(caplog):
    agent = create_reflexion_agent(RoleModel(say("11:00")), checks=[human_review()])
    outcome = agent.invoke(TASK)["outcome"]
    assert outcome.status == "unverified"
    assert "checkpointer" in outcome.attempts[0].verdicts[0].issues[0]
    assert "compile the graph with a checkpointer" in caplog.text
    assert "checkpointer" in human_review()("11:00").issues[0]


@pytest.mark.req("E3", "I7")
def test_a_judge_is_asked_once_after_the_person_and_never_for_the_pause():
    judge = ScriptedModel(['{"passed": true, "score": 90}'])
    agent = agent_of(llm_judge(judge), human_review())
    agent.invoke(TASK, THREAD)
    assert not judge.asked
    assert agent.invoke(Command(resume=True), THREAD)["outcome"].score == 90
    assert len(judge.asked) == 1


@pytest.mark.req("E3")
def test_a_weighted_judge_is_asked_after_the_person_and_keeps_its_weight():
    judge = ScriptedModel(['{"passed": true, "score": 70}'])
    agent = agent_of(weighted((llm_judge(judge), 3), (human_review(), 1), pass_score=75))
    agent.invoke(TASK, THREAD)
    assert not judge.asked
    outcome = agent.invoke(Command(resume={"edit": "11:00"}), THREAD)["outcome"]
    assert (outcome.status, outcome.score) == ("success", 77.5)
    assert len(judge.asked) == 1
    assert "11:00" in str(judge.asked[0])


@pytest.mark.parametrize("share", [-0.1, 1.1, "half", True, None])
def test_a_share_that_cannot_be_is_refused_when_built(share):
    with pytest.raises(ValueError, match="`share`"):
        human_review(share=share)


# ---------------------------------------------------------------- in a trial


INVENTION = {"messages": [("user", "Who invented the telephone?")]}


@pytest.mark.req("E3", "E7", "G2")
def test_a_worker_judges_itself_and_a_person_edits_its_answer():
    def reply(question):
        return '{"passed": true, "score": 95}' if "Judge an answer" in question.text else say("Bell")

    graph = create_trial_graph(RoleModel(decide=reply), [llm_judge(), human_review()], checkpointer=InMemorySaver())
    (paused,) = graph.invoke(INVENTION, THREAD)["__interrupt__"]
    assert paused.value["answer"] == "Bell"
    result = graph.invoke(Command(resume={"edit": "Bell, in 1876"}), THREAD)
    outcome = result["outcome"]
    assert (outcome.status, outcome.answer, outcome.score) == ("success", "Bell, in 1876", 95)
    assert result["messages"][-1].content == "Bell, in 1876"
    assert outcome.usage.calls == 2


@pytest.mark.req("K1")
def test_an_attempt_that_failed_is_not_judged():
    judged = []

    def worker(_prompt):
        raise OSError("no line")

    graph = create_trial_graph(worker, [rule(lambda answer: judged.append(answer))])
    assert graph.invoke(INVENTION)["outcome"].status == "failure"
    assert judged == []


def test_a_judge_without_any_model_is_refused_when_the_graph_is_built():
    with pytest.raises(ValueError, match="llm_judge"):
        create_trial_graph(lambda prompt: prompt, [llm_judge()], strategy="none")
