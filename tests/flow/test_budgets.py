"""Time and tokens hold in every loop of a run, and what was done until then is given back."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.exceptions import ModelAuthenticationError
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from langgraph_reflexion import Limits, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.nodes import recall
from langgraph_reflexion.nodes.budget import Budget, new_tally
from langgraph_reflexion.testing import RoleModel, call, calls, reflection, say
from text_only import TextOnlyRoleModel


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 3, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def after(self, seconds, given):
        """The reply of a model that takes so long."""

        def reply(_question):
            self.now += timedelta(seconds=seconds)
            return given

        return reply


def refuse(*_):
    return "That hour is taken."


@pytest.mark.req("F13", "B11")
def test_a_deadline_ends_the_loop_of_steps_and_what_was_done_is_given_back(run, desk, protocol):
    clock = Clock()
    steps = [clock.after(4, call("search", query=f"room {i}")) for i in range(9)]
    seen = run(RoleModel(steps), [desk.search], protocol=protocol, clock=clock, limits={"deadline": 10})
    assert seen.ending == ("failure", "deadline")
    assert desk.ran == ["room 0", "room 1", "room 2"]
    assert "10" in seen.outcome.reason
    assert seen.outcome.seconds == 12


@pytest.mark.req("F13")
def test_a_clock_that_goes_back_by_an_hour_does_not_give_the_run_more_time(run, desk):
    clock = Clock()
    steps = [clock.after(4, call("search", query=f"room {i}")) for i in range(9)]
    steps[1] = clock.after(-3600, call("search", query="room 1"))
    seen = run(RoleModel(steps), [desk.search], clock=clock, limits={"deadline": 10})
    assert seen.ending == ("failure", "deadline")
    assert desk.ran == ["room 0", "room 1", "room 2", "room 3"]
    assert seen.outcome.seconds == seen.outcome.attempts[0].seconds == 12


@pytest.mark.req("F13", "K8")
def test_after_a_clock_went_back_the_time_until_a_person_answers_is_still_not_counted():
    clock = Clock()

    def confirm(what: str) -> str:
        """Have a person confirm it."""
        return str(interrupt(what))

    agent = create_reflexion_agent(
        RoleModel(
            [clock.after(-3600, calls(("confirm", {"what": "ten"}), ("confirm", {"what": "red"}))), say("Done.")]
        ),
        [confirm],
        limits=Limits(deadline=10),
        checkpointer=InMemorySaver(),
        clock=clock,
    )
    thread = {"configurable": {"thread_id": "1"}}
    result = agent.invoke({"messages": [("user", "Plan an hour.")]}, thread)
    for what in ("red", "ten"):
        clock.now += timedelta(minutes=10)
        (pause,) = [each for each in result["__interrupt__"] if each.value == what]
        result = agent.invoke(Command(resume={pause.id: "yes"}), thread)
    assert result["outcome"].status == "unverified"
    assert result["outcome"].seconds == 0


@pytest.mark.req("F13", "B11")
def test_a_deadline_ends_the_repairs_of_one_round(run, desk, protocol):
    clock = Clock()
    model = RoleModel([clock.after(6, call("look_up"))])
    seen = run(model, [desk.search], protocol=protocol, clock=clock, limits={"deadline": 10, "decision_retries": 9})
    assert seen.ending == ("failure", "deadline")
    assert len(model.asked) == 2
    assert [failure.signal for failure in seen.outcome.failures] == ["unknown_tool"] * 2


@pytest.mark.req("F13")
def test_a_deadline_ends_the_repair_of_a_reflection_and_no_decision_follows(run, desk, decided, reflected):
    clock = Clock()
    desk.answers = lambda _: LookupError("no such day")
    model = RoleModel([call("search", query="x"), say("11:00")], [clock.after(20, "nothing to read")])
    seen = run(model, [desk.search], clock=clock, limits={"deadline": 10})
    assert seen.ending == ("failure", "deadline")
    assert len(reflected(model)) == len(decided(model)) == 1


@pytest.mark.req("F13")
def test_a_deadline_ends_the_attempts_with_the_best_of_them(run, advice):
    clock = Clock()
    scores = iter([30, 60, 70])
    model = RoleModel([clock.after(6, say(name)) for name in ("first", "second", "third")], advice)
    limits = {"deadline": 10, "max_attempts": 9}
    seen = run(model, checks=[lambda *_: next(scores)], clock=clock, limits=limits)
    assert seen.ending == ("failure", "deadline")
    assert seen.outcome.answer == "second"
    assert [attempt.seconds for attempt in seen.outcome.attempts] == [6, 6]


@pytest.mark.req("F13", "F12")
def test_an_answer_that_is_accepted_is_one_however_late(run):
    clock = Clock()
    model = RoleModel([clock.after(20, say("11:00"))])
    seen = run(model, checks=[lambda *_: clock.now.hour == 9], clock=clock, limits={"deadline": 30})
    assert seen.ending == ("success", "accepted")
    assert seen.outcome.seconds == 20


@pytest.mark.req("F13", "B11")
def test_a_token_budget_ends_the_loop_of_steps(run, desk, protocol):
    model = RoleModel(lambda _: call("search", query=f"room {len(model.asked)}"), usage=(80, 20))
    seen = run(model, [desk.search], protocol=protocol, limits={"token_budget": 250})
    assert seen.ending == ("failure", "token_budget")
    assert len(model.asked) == 3
    assert seen.outcome.usage.total == 300


@pytest.mark.req("F13", "B11")
def test_a_token_budget_holds_if_the_provider_reports_no_usage(run, desk, protocol):
    desk.answers = lambda query: LookupError(f"{query}: " + "the shelf is empty, " * 40)
    model = RoleModel(lambda _: call("search", query=f"room {len(model.asked)}"), reflection(), usage=None)
    seen = run(model, [desk.search], protocol=protocol, limits={"token_budget": 900})
    assert seen.ending == ("failure", "token_budget")
    assert seen.outcome.usage.total + seen.outcome.usage.reflection.total >= 900
    assert len(model.asked) <= 4
    assert run(RoleModel([say("x")], usage=None)).outcome.usage.total == 0, "where none is to hold, none is made up"


@pytest.mark.req("F13", "B11")
def test_a_token_budget_ends_the_repairs_of_one_round(run, desk, protocol):
    model = RoleModel([call("look_up")], usage=(80, 20))
    seen = run(model, [desk.search], protocol=protocol, limits={"token_budget": 150, "decision_retries": 9})
    assert seen.ending == ("failure", "token_budget")
    assert len(model.asked) == 2


@pytest.mark.req("F13", "B11")
def test_reflections_count_against_the_token_budget_and_no_decision_follows(run, protocol, decided, reflected):
    model = RoleModel([say("10:00")], reflection(), usage=(80, 20))
    limits = {"token_budget": 150, "max_attempts": 9}
    seen = run(model, checks=[refuse], protocol=protocol, limits=limits)
    assert seen.ending == ("failure", "token_budget")
    assert len(decided(model)) == len(reflected(model)) == 1
    assert (seen.outcome.usage.total, seen.outcome.usage.reflection.total) == (100, 100)


@pytest.mark.req("F13")
def test_a_reflection_that_cannot_be_read_is_not_repaired_on_a_spent_budget(run, reflected):
    model = RoleModel([say("10:00")], "nothing to read", usage=(80, 20))
    run(model, checks=[refuse], limits={"token_budget": 150, "max_attempts": 9})
    assert len(reflected(model)) == 1


@pytest.mark.req("F13", "E8")
def test_a_check_that_waits_for_a_person_does_not_use_up_the_time():
    clock = Clock()
    agent = create_reflexion_agent(
        RoleModel([say("10:00"), say("11:00")], reflection("Take eleven.")),
        checks=[lambda answer, _: interrupt({"answer": answer})],
        limits=Limits(deadline=10),
        checkpointer=InMemorySaver(),
        clock=clock,
    )
    thread = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", "Plan an hour.")]}, thread)
    for said in ("Ten is taken.", True):
        clock.now += timedelta(hours=1)
        result = agent.invoke(Command(resume=said), thread)
    assert result["outcome"].status == "success"
    assert result["outcome"].seconds == 0
    assert [failure.signal for failure in result["outcome"].failures] == ["check_failed"]


@pytest.mark.req("F13")
@pytest.mark.parametrize("node", ["tool", "decide", "finish"])
def test_a_run_that_its_caller_interrupted_does_not_use_up_the_time_until_it_is_resumed(desk, node):
    clock = Clock()
    agent = create_reflexion_agent(
        RoleModel([call("search", query="rooms"), say("11:00")]),
        [desk.search],
        limits=Limits(deadline=10),
        checkpointer=InMemorySaver(),
        clock=clock,
    )
    thread = {"configurable": {"thread_id": "1"}}
    result = agent.invoke({"messages": [("user", "Plan an hour.")]}, thread, interrupt_before=[node])
    while agent.get_state(thread).next:
        clock.now += timedelta(hours=1)
        result = agent.invoke(None, thread)
    assert result["outcome"].status == "unverified"
    assert result["outcome"].seconds == 0


@pytest.mark.req("F13", "I2")
def test_the_time_until_an_earlier_checkpoint_is_replayed_is_not_counted(desk):
    clock, thread = Clock(), {"configurable": {"thread_id": "1"}}
    agent = create_reflexion_agent(
        RoleModel([clock.after(4, call("search", query="room 1")), clock.after(2, say("Done."))]),
        [desk.search],
        limits=Limits(deadline=60),
        checkpointer=InMemorySaver(),
        clock=clock,
    )
    agent.invoke({"messages": [("user", "Plan an hour.")]}, thread)
    (before,) = [state for state in agent.get_state_history(thread) if state.next == ("observe",)]
    clock.now += timedelta(hours=1)
    outcome = agent.invoke(None, before.config)["outcome"]
    assert (outcome.stop_reason, outcome.seconds) == ("unchecked", 6)


@pytest.mark.req("F13", "I2")
def test_a_run_that_raises_when_it_is_resumed_has_not_spent_the_time_before_that():
    clock, events = Clock(), []
    agent = create_reflexion_agent(
        RoleModel(ModelAuthenticationError("wrong key")), checkpointer=InMemorySaver(), clock=clock
    )
    for given in ({"messages": [("user", "Plan an hour.")]}, None):
        with pytest.raises(ModelAuthenticationError):
            events += agent.stream(given, {"configurable": {"thread_id": "1"}}, stream_mode="custom")
        clock.now += timedelta(hours=1)
    assert [event["outcome"]["seconds"] for event in events if event["type"] == "outcome"] == [0, 0]


@pytest.fixture
def slowly():
    """Makes a reply, a verdict or a result come only after the test, or after a minute."""
    ended = threading.Event()

    def late(given):
        def later(*_):
            ended.wait(60)
            return given

        return later

    yield late
    ended.set()


@pytest.mark.req("F13")
@pytest.mark.parametrize("slow", ["decide", "reflect", "check", "tool"])
def test_nothing_that_hangs_exceeds_the_deadline_by_much(run, desk, slowly, slow):
    desk.answers = slowly("eleven") if slow == "tool" else desk.answers
    answer, said = slowly(say("10:00")) if slow == "decide" else say("10:00"), reflection()
    model = RoleModel([call("search", query="x"), answer], slowly(said) if slow == "reflect" else said)
    check = slowly("Taken.") if slow == "check" else refuse
    began = time.monotonic()
    seen = run(model, [desk.search], checks=[check], limits={"deadline": 0.15, "max_attempts": 9})
    assert time.monotonic() - began < 30
    assert seen.ending[0] == "failure"
    assert seen.outcome.stop_reason in ("deadline", "reflections_alike")


@pytest.mark.graph_only("the prompt is LangChain's")
@pytest.mark.req("F13")
def test_a_prompt_function_that_hangs_is_given_up_too(run, slowly):
    began = time.monotonic()
    seen = run(RoleModel([say("10:00")]), prompt=slowly("You plan meetings."), limits={"deadline": 0.15})
    assert time.monotonic() - began < 30
    assert seen.ending == ("failure", "deadline")


@pytest.mark.graph_only("no fallback")
@pytest.mark.req("F13", "F8")
def test_a_fallback_that_hangs_is_given_up_too(run, slowly):
    began = time.monotonic()
    limits = {"deadline": 1, "max_attempts": 1}
    seen = run(RoleModel([say("10:00")]), checks=[refuse], fallback=RoleModel([slowly("11:00")]), limits=limits)
    assert time.monotonic() - began < 30
    assert seen.outcome.answer == "10:00"


@pytest.mark.graph_only("structured responses are LangChain's")
@pytest.mark.req("F13")
@pytest.mark.parametrize("kind", [RoleModel, TextOnlyRoleModel])
def test_an_answer_that_is_put_into_shape_too_slowly_is_given_up(run, slowly, kind):
    class Hour(BaseModel):
        hour: str

    began = time.monotonic()
    slow = slowly({"hour": "11:00"})
    model = kind(lambda asked: slow(asked) if '"properties"' in asked.text else say("Eleven."), reflection(), slow)
    seen = run(model, response_format=Hour, limits={"deadline": 0.15})
    assert time.monotonic() - began < 30
    assert (seen.ending, seen.outcome.structured) == (("failure", "deadline"), None)


@pytest.mark.req("F13")
async def test_the_deadline_holds_under_ainvoke_too():
    model = RoleModel([say("10:00")], delay=60)
    agent = create_reflexion_agent(model, limits=Limits(deadline=timedelta(seconds=0.15)))
    began = time.monotonic()
    result = await agent.ainvoke({"messages": [("user", "Plan an hour.")]})
    assert result["outcome"].stop_reason == "deadline"
    assert time.monotonic() - began < 30


class Hanging(InMemoryStore):
    """Answers in its own time."""

    def batch(self, ops):
        time.sleep(60)
        return super().batch(ops)

    async def abatch(self, ops):
        await asyncio.sleep(60)
        return await super().abatch(ops)


@pytest.mark.req("F13")
def test_a_store_that_hangs_costs_a_part_of_the_time_and_not_the_answer(monkeypatch):
    monkeypatch.setattr(recall, "WRITE_GRACE", 0.05)
    agent = create_reflexion_agent(RoleModel([say("11:00")]), store=Hanging(), limits=Limits(deadline=2))
    asked = {"messages": [("user", "Find a free hour.")]}
    for result in (agent.invoke(asked), asyncio.run(agent.ainvoke(asked))):
        assert result["messages"][-1].text == "11:00"
        assert result["outcome"].stop_reason == "unchecked"
        assert result["outcome"].seconds < 30


@pytest.mark.req("F13")
def test_a_topics_function_that_hangs_costs_a_part_of_the_time_and_not_the_answer(monkeypatch):
    """F13: the deadline holds in every loop, so also where a reflection is remembered."""
    monkeypatch.setattr(recall, "WRITE_GRACE", 0.05)
    model = RoleModel(["", say("11:00")], reflection(memory_to_write=["Answer with an hour."]))
    done = threading.Event()
    policy, limits = MemoryPolicy(topics=lambda _: str(done.wait(60))), Limits(deadline=4, decision_retries=0)
    agent = create_reflexion_agent(model, memory=policy, limits=limits)
    try:
        result = agent.invoke({"messages": [("user", "Find a free hour.")]})
    finally:
        done.set()
    assert (result["outcome"].answer, result["outcome"].stop_reason) == ("11:00", "unchecked")
    assert result["outcome"].seconds < 4


def test_a_count_that_an_older_version_did_not_keep_starts_at_zero():
    tally = new_tally(0)
    del tally["meta"]
    assert Budget(Limits(), Clock()).tally({"tally": tally, "resumed_at": 0.0}, meta=1)["meta"] == 1
