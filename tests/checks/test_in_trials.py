"""The same checks stand around any worker of trials."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_reflexion import create_trial_graph
from langgraph_reflexion.checks import human_review, llm_judge, rule
from langgraph_reflexion.testing import RoleModel, say

THREAD = {"configurable": {"thread_id": "t"}}
TASK = {"messages": [("user", "Who invented the telephone?")]}


@pytest.mark.req("E3", "E7", "G2")
def test_a_worker_judges_itself_and_a_person_edits_its_answer():
    def reply(question):
        return '{"passed": true, "score": 95}' if "Judge an answer" in question.text else say("Bell")

    graph = create_trial_graph(RoleModel(decide=reply), [llm_judge(), human_review()], checkpointer=InMemorySaver())
    (paused,) = graph.invoke(TASK, THREAD)["__interrupt__"]
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
    assert graph.invoke(TASK)["outcome"].status == "failure"
    assert judged == []


def test_a_judge_without_any_model_is_refused_when_the_graph_is_built():
    with pytest.raises(ValueError, match="llm_judge"):
        create_trial_graph(lambda prompt: prompt, [llm_judge()], strategy="none")
