"""Whatever goes wrong, and in whatever order, a run ends with an outcome within its limits and loses nothing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore, Op
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import LessonBook, Limits, MemoryPolicy, Outcome, Verdict, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.schemas import StopReason
from langgraph_reflexion.testing import RoleModel, ask, call, calls, reflection, replan, say

Make = Callable[..., tuple[Any, Any]]
Thread = Callable[[], dict[str, Any]]
ASKED = {"messages": [("user", "Do the work.")]}
STATUS = {
    "accepted": "success",
    "unchecked": "unverified",
    "handed_off": "unverified",
    "asked_user": "needs_input",
}
"""What a run that ended so is called; every other end is a failure."""


class Unreliable(InMemoryStore):
    """A store in which what `fails` names goes wrong: every operation, writing alone, or some at random."""

    def __init__(self, fails: str, seed: int = 0) -> None:
        super().__init__()
        self.fails, self.chance = fails, random.Random(seed)

    def _maybe_raise(self, ops: list[Op]) -> None:
        writes = any(type(op).__name__ == "PutOp" for op in ops)
        at_random = self.fails == "at random" and self.chance.random() < 0.4
        if self.fails == "always" or (self.fails == "writing" and writes) or at_random:
            raise OSError("the disk is gone")

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        self._maybe_raise(wanted := list(ops))
        return super().batch(wanted)

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        self._maybe_raise(wanted := list(ops))
        return await super().abatch(wanted)


REPLIES: dict[str, Any] = {
    "answer": say("42"),
    "other answer": say("forty-two"),
    "work": call("work", how="well"),
    "work otherwise": call("work", how="otherwise"),
    "fail": call("work", how="badly"),
    "be denied": call("sell", what="it"),
    "wait": call("work", how="slowly"),
    "unknown tool": call("rest"),
    "bad arguments": call("work", who=3),
    "replan": replan("Look first."),
    "ask": ask("How?"),
    "empty": "",
    "garbage": '{"action": [}',
    "deep": "[" * 3000,
    "refusal": AIMessage("", additional_kwargs={"refusal": "I will not."}),
    "cut": AIMessage("", invalid_tool_calls=[{"name": "work", "args": '{"ho', "id": "cut", "error": None}]),
    "raise": RuntimeError("the model is away"),
    "timeout": TimeoutError("too slow"),
}
MANY = calls(("work", {"how": "well"}), ("work", {"how": "badly"}), ("sell", {"what": "it"}))
CHECKS: dict[str, Any] = {
    "fine": None,
    "yes": True,
    "no": False,
    "low": 20,
    "high": 90,
    "too high": 1e9,
    "not a number": float("nan"),
    "complaint": "It is wrong.",
    "verdict": Verdict(score=50, issues=["half"]),
    "raise": ZeroDivisionError("the check broke"),
    "nonsense": object(),
}
RULES = [
    {"kind": "rule", "text": f"Always {do} before the work.", "when": "the work is asked for"}
    for do in ("read the manual", "charge the batteries", "warn the neighbours")
]
REFLECTIONS: dict[str, Any] = {
    "good": reflection("Work well instead of badly.", memory_to_write=RULES[:1]),
    "another": reflection("Ask for the manual and read it first.", memory_to_write=RULES[1:]),
    "no plan": reflection(""),
    "be careful": reflection("Be more careful."),
    "garbage": "I am so sorry!",
    "half": {"root_cause": "tool_misuse"},
    "wrong": reflection(root_cause="the moon", confidence=900),
    "raise": RuntimeError("the reflector is away"),
}

limits_of = st.builds(
    Limits,
    max_steps=st.integers(1, 6),
    max_attempts=st.integers(1, 3),
    max_reflections=st.integers(0, 3),
    decision_retries=st.integers(0, 2),
    tool_retries=st.integers(0, 1),
    tool_timeout=st.sampled_from([None, 0.01]),
    loop_threshold=st.integers(2, 3),
    stalled_attempts=st.integers(1, 2),
    token_budget=st.sampled_from([None, None, 60]),
)


def ends_well(outcome: Outcome, messages: list[Any], limits: Limits, questions: list[Any]) -> None:
    """What is true of every end."""
    assert type(outcome) is Outcome
    assert outcome.stop_reason in get_args(StopReason)
    assert outcome.status == STATUS.get(outcome.stop_reason, "failure")
    assert is_paired(messages)
    assert isinstance(messages[-1], (AIMessage, ToolMessage))
    rounds = sum(one.role == "decide" for one in questions)
    assert rounds <= limits.max_steps * (1 + limits.decision_retries)
    assert len(outcome.reflections) <= limits.max_reflections
    assert sum(one.role == "reflect" for one in questions) <= 2 * limits.max_reflections, (
        "each is repaired once at most"
    )
    # An answer each, and at most the work after the last of them.
    assert sum(one.answer is not None for one in outcome.attempts) <= limits.max_attempts
    assert len(outcome.attempts) <= limits.max_attempts + 1
    ids = [call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls]
    assert len(set(ids)) == len(ids)
    assert outcome.answer is not None or outcome.status in ("failure", "unverified")


@pytest.mark.slow
@pytest.mark.req("F1", "F2", "F9", "F11", "A2", "E8", "C1", "I2")
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(
    script=st.lists(st.sampled_from([*REPLIES, "many"]), min_size=1, max_size=8),
    verdicts=st.lists(st.sampled_from(list(CHECKS)), max_size=4),
    reflections=st.lists(st.sampled_from(list(REFLECTIONS)), min_size=1, max_size=3),
    protocol=st.sampled_from(["tools", "json"]),
    fails=st.sampled_from(["never", "never", "always", "writing", "at random"]),
    checkpoints=st.booleans(),
    awaited=st.booleans(),
    limits=limits_of,
    seed=st.integers(0, 9),
)
def test_any_schedule_of_faults_ends_with_an_outcome_within_the_limits(
    script: list[str],
    verdicts: list[str],
    reflections: list[str],
    protocol: str,
    fails: str,
    checkpoints: bool,
    awaited: bool,
    limits: Limits,
    seed: int,
) -> None:
    def work(how: str) -> str:
        """Do the work."""
        if how == "badly":
            raise ValueError("it broke")
        if how == "slowly" and limits.tool_timeout is not None:
            time.sleep(0.03)
        return f"worked {how}"

    def sell(what: str) -> str:
        """Sell it."""
        raise AssertionError(f"a denied tool ran: {what}")

    said = iter([*verdicts, *verdicts, *verdicts, *verdicts])

    def check(_answer: Any, _run: Any) -> Any:
        verdict = CHECKS[next(said, "yes")]
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    many = MANY if protocol == "tools" else REPLIES["work"]
    replies = [{**REPLIES, "many": many}[one] for one in script]
    model = RoleModel(decide=replies, reflect=[REFLECTIONS[one] for one in reflections])
    store = Unreliable(fails, seed)
    agent = create_reflexion_agent(
        model,
        [work, sell],
        checks=[check] if verdicts else [],
        deny=["sell"],
        controls=["replan", "ask_user"],
        limits=limits,
        protocol=protocol,
        store=store,
        checkpointer=InMemorySaver() if checkpoints else None,
    )
    config: Any = {"configurable": {"thread_id": "one"}} if checkpoints else {}

    def run(given: Any) -> Any:
        return asyncio.run(agent.ainvoke(given, config)) if awaited else agent.invoke(given, config)

    result = run(ASKED)
    for _ in range(limits.max_steps):
        if "__interrupt__" in result:
            result = run(Command(resume="Well."))
    ends_well(result["outcome"], result["messages"], limits, model.asked)
    store.fails = "never"
    book = LessonBook(store)
    texts = [lesson.text for lesson in book.lessons()]
    assert len(set(texts)) == len(texts), "a lesson is doubled"
    assert set(result["outcome"].lessons_written) <= {lesson.id for lesson in book.lessons()}, "a lesson is lost"
    if fails == "never":
        asked_for = {memo.text for one in result["outcome"].reflections for memo in one.memory_to_write}
        stopped = result["outcome"].stop_reason in ("reflections_alike", "no_plan")
        assert stopped or asked_for == set(texts), "what was to be remembered is remembered"
        assert book.episode(result["outcome"].run_id) is not None


@pytest.mark.req("D7")
@pytest.mark.parametrize("fails", ["always", "writing"])
async def test_a_broken_store_costs_lessons_and_not_the_answer(make: Make, thread: Thread, fails: str) -> None:
    for run in ("sync", "async"):
        _, agent = make(store=Unreliable(fails))
        result = agent.invoke(ASKED, thread()) if run == "sync" else await agent.ainvoke(ASKED, thread())
        assert result["outcome"].answer == "11:00"
        assert len(result["outcome"].reflections) == 1
        assert not result["outcome"].lessons_written


@pytest.mark.req("D7", "D19")
def test_run_memory_is_gone_on_every_way_out(make: Make, thread: Thread) -> None:
    for end in (say("11:00"), RuntimeError("the model is away"), ask("Which day?"), call("search", query="?")):
        model, agent = make(
            [call("search", query="2026"), end, say("12:00")], controls=["ask_user"], limits=Limits(max_steps=3)
        )
        config = thread()
        agent.invoke(ASKED, config)
        model.decide, model._given = say("12:00"), {}
        seen = len(model.asked)
        second = agent.invoke({"messages": [("user", "Something else.")]}, config)
        assert second["outcome"].answer == "12:00"
        assert not second["outcome"].failures
        assert not second["outcome"].reflections
        assert "Search by the weekday." not in model.asked[seen].text
        assert len(second["outcome"].attempts) == 1


def test_a_log_line_shows_no_key_of_a_providers_or_a_stores_error(caplog: pytest.LogCaptureFixture) -> None:
    key = "AIzaSyA9dVnQ2rT7kLmX4bC8eF1gH5jK3pW6zY0"
    address = ConnectionError(f"Max retries exceeded with url: /v1/models/small:generate?key={key}")

    class Locked(InMemoryStore):
        def batch(self, ops: Iterable[Op]) -> Any:
            raise address

    def guard(_text: str) -> None:
        raise address

    for store, model, fallback, policy in (
        (Locked(), RoleModel(say("10:00")), None, MemoryPolicy()),
        (None, RoleModel(address), RoleModel(address), MemoryPolicy()),
        (
            None,
            RoleModel([say("10:00"), say("11:00")], reflection(memory_to_write=["Ask first."])),
            None,
            MemoryPolicy(guard=guard),
        ),
    ):
        agent = create_reflexion_agent(
            model, store=store, fallback=fallback, memory=policy, checks=[lambda answer, _run: answer == "11:00"]
        )
        agent.invoke(ASKED)
    logged = caplog.text
    for said in ("recall failed", "The model could not", "The fallback model could not", "guard"):
        assert said in logged
    assert key not in logged


@pytest.mark.req("D7")
def test_a_store_that_is_no_store_is_refused_or_broken_but_never_silent(caplog: pytest.LogCaptureFixture) -> None:
    class Mute(BaseStore):
        def batch(self, ops: Iterable[Op]) -> list[Any]:
            raise PermissionError("the method is locked")

        async def abatch(self, ops: Iterable[Op]) -> list[Any]:
            raise PermissionError("the method is locked")

    agent = create_reflexion_agent(RoleModel(decide=say("42")), store=Mute())
    outcome = agent.invoke(ASKED)["outcome"]
    assert outcome.answer == "42"
    assert f"run {outcome.run_id} of 'reflexion_agent' continues without it" in caplog.text
    assert "the method is locked" in caplog.text


@pytest.mark.req("D15")
def test_lessons_go_to_the_given_store_even_if_it_is_false_while_it_is_empty() -> None:
    class Sized(InMemoryStore):
        def __len__(self) -> int:
            return sum(map(len, self._data.values()))

    store = Sized()
    create_reflexion_agent(RoleModel(decide=say("42")), store=store).invoke(ASKED)
    assert len(store)
