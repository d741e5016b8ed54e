"""LangGraph's own limit, which a parent may set lower than the agent's: the run wraps up in time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from typing_extensions import TypedDict

from langgraph_reflexion import Limits, Outcome, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import NOT_RUN
from langgraph_reflexion.testing import Question, RoleModel, ask, call, calls, reflection, replan, say

ASKED = {"messages": [("user", "Find a free hour on Tuesday.")]}
ROOMY = Limits(max_steps=99, max_attempts=50, max_reflections=50, min_improvement=0, stalled_attempts=50)


class Talk(TypedDict, total=False):
    """A parent's state."""

    messages: Annotated[list[AnyMessage], add_messages]
    outcome: Outcome | None


def parent_of(agent: Any, **compiled: Any) -> Any:
    graph = StateGraph(Talk)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    return graph.compile(**compiled)


def look(at: int) -> str:
    """Look at an hour."""
    if at % 2:
        raise ValueError(f"no hour {at} in shelf {chr(97 + at % 26)}")
    return f"hour {at} is taken"


def endless(kind: str) -> RoleModel:
    """A model that never comes to an end in one way or another, and never twice the same."""
    numbers = count()
    words = ("river", "stone", "window", "garden", "letter", "engine", "market", "winter", "copper", "island")

    def thought(_question: Question) -> Any:
        n = next(numbers)
        first, second = words[n % 10], words[n // 10 % 10]
        return reflection(f"Use the {first} {second} instead of number {n}, then compare it with {second * 2}.")

    def decide(question: Question) -> Any:
        n = next(numbers)
        several = [("look", {"at": 2 * n}), ("look", {"at": 2 * n + 1})]
        turn = calls(*several[: 1 if question.in_json else 2])
        return {
            "calls": call("look", at=2 * n),
            "errors": call("look", at=2 * n + 1),
            "turns": turn,
            "plans": replan(f"plan {n}"),
            "refused": say(f"answer {n}"),
            "invalid": call("nothing", at=n),
            "approved": call("look", at=2 * n),
            "questions": ask(f"question {n}?"),
        }[kind]

    return RoleModel(decide, thought)


KINDS = ["calls", "errors", "turns", "plans", "refused", "invalid", "approved", "questions"]


@pytest.mark.slow
@pytest.mark.req("F1", "G1")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_every_run_ends_within_whatever_limit_there_is(kind: str, protocol: str, valid: Callable[[Any], None]) -> None:
    agent = create_reflexion_agent(
        endless(kind),
        [look],
        controls=["replan", "ask_user"],
        checks=[lambda answer, _run: f"{answer} will not do"] if kind == "refused" else [],
        approve=["look"] if kind == "approved" else [],
        limits=ROOMY if kind not in ("approved", "questions") else Limits(max_steps=4),
        protocol=protocol,
    )
    parent = parent_of(agent, checkpointer=InMemorySaver())
    for limit in range(6, 17):
        config: Any = {"recursion_limit": limit, "configurable": {"thread_id": f"{kind}-{limit}"}}
        result = parent.invoke(ASKED, config)
        while "__interrupt__" in result:
            said = result["__interrupt__"][0].value
            reply = "whatever" if "question" in said else {"decisions": [{"type": "approve"}]}
            result = parent.invoke(Command(resume=reply), config)
        outcome = result["outcome"]
        assert outcome.status == "failure", (limit, outcome)
        expected = {"invalid_decisions", "max_steps"} if kind == "invalid" else {"max_steps"}
        assert outcome.stop_reason in expected, (limit, outcome.stop_reason)
        valid(result["messages"])


@pytest.mark.req("F1")
def test_a_larger_limit_gives_more_steps() -> None:
    def steps(limit: int) -> int:
        model = endless("calls")
        create_reflexion_agent(model, [look], limits=ROOMY).invoke(ASKED, {"recursion_limit": limit})
        return len(model.asked)

    counts = [steps(limit) for limit in (6, 9, 12, 24)]
    assert counts == sorted(set(counts))


@pytest.mark.req("F1")
def test_a_call_for_which_no_step_is_left_is_answered_as_not_run_and_the_conversation_is_not_rewritten() -> None:
    last = []
    for limit in range(6, 11):
        agent = create_reflexion_agent(endless("calls"), [look], limits=ROOMY)
        *_, update = agent.stream(ASKED, {"recursion_limit": limit}, stream_mode="updates")
        last.append([message.text for message in update["finish"]["messages"]])
    assert any(NOT_RUN in texts for texts in last)
    assert all(texts[-1].startswith("The run stopped") and len(texts) <= 3 for texts in last)


@pytest.mark.req("F1")
def test_the_smallest_limit_is_enough_for_an_answer() -> None:
    agent = create_reflexion_agent(RoleModel(say("11:00")), checks=[lambda _answer, _run: True])
    result = agent.invoke(ASKED, {"recursion_limit": 6})
    assert result["outcome"].status == "success"


@pytest.mark.req("F1")
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_too_small_for_any_run_is_refused_before_a_model_is_asked(limit: int) -> None:
    model = RoleModel(say("11:00"))
    for graph in (create_reflexion_agent(model), parent_of(create_reflexion_agent(model))):
        with pytest.raises(ValueError, match=f"`recursion_limit` must be 6 or more, got {limit}"):
            graph.invoke(ASKED, {"recursion_limit": limit})
    assert not model.asked


@pytest.mark.req("F1")
def test_a_fallback_is_still_asked_when_the_limit_is_near(valid: Callable[[Any], None]) -> None:
    fallback = RoleModel("Perhaps eleven.")
    agent = create_reflexion_agent(endless("calls"), [look], fallback=fallback, limits=ROOMY)
    result = parent_of(agent).invoke(ASKED, {"recursion_limit": 8})
    assert isinstance(result["messages"][-1], AIMessage)
    assert result["messages"][-1].text == "Perhaps eleven."
    assert result["outcome"].status == "failure"
    valid(result["messages"])
