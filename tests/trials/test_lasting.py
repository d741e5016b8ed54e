"""A trial pauses, stops, dies, streams and runs beside others as any graph does."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, say


@pytest.mark.req("I7")
def test_a_trial_stopped_before_every_node_costs_what_it_costs_in_one_go(
    made, student, thinker, scores, is_it_so, thread
):
    worker, reflector, check = student("one", "two", "three"), thinker(), scores(40, 65, 90)
    graph = made(worker, [check], reflector=reflector, checkpointer=InMemorySaver())
    result = graph.invoke(is_it_so, thread(), interrupt_before="*")
    stops = 0
    while graph.get_state(thread()).next:
        stops += 1
        result = graph.invoke(None, thread(), interrupt_before="*")
    assert result["outcome"].status == "success"
    assert stops >= 15
    assert (len(worker.asked), len(reflector.asked), len(check.answers)) == (3, 2, 3)


@pytest.mark.req("I7", "D19")
def test_what_a_worker_read_is_not_stored_again_at_each_step_of_an_attempt(made, thinker, scores, is_it_so, thread):
    @tool
    def read(page: int) -> str:
        """Read a page."""
        return f"The page {page} is long."

    answers = [
        reply for page, said in enumerate(("one", "two", "three")) for reply in (call("read", page=page), say(said))
    ]
    worker, saver = create_agent(RoleModel(answers), [read]), InMemorySaver()
    graph = made(worker, [scores(40, 65, 90)], reflector=thinker(), checkpointer=saver)
    assert len(graph.invoke(is_it_so, thread())["outcome"].reflections) == 2
    stored = [channel for (_, _, channel, _), (_, value) in saver.blobs.items() if b"The page 0 is long." in value]
    ours = [channel for channel in stored if channel != "messages" and not channel.startswith("__")]
    assert ours == ["work", "earlier_outputs", "earlier_outputs"], "once in each attempt"


@pytest.mark.req("I7", "I2")
def test_a_trial_that_died_in_its_second_attempt_continues_there(made, student, thinker, scores, is_it_so, thread):
    worker, reflector, check = student("one", KeyboardInterrupt(), "two"), thinker(), scores(40, 90)
    graph = made(worker, [check], reflector=reflector, checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(is_it_so, thread())
    kept = graph.get_state(thread()).values["attempts"]
    assert [(one["answer"], one["score"]) for one in kept] == [("one", 40)], (
        "what was done is kept, also when the run raised"
    )
    result = graph.invoke(None, thread())
    assert result["outcome"].status == "success"
    assert (len(worker.asked), check.answers, len(reflector.asked)) == (3, ["one", "two"], 1)


@pytest.mark.req("I7")
def test_a_failed_call_is_not_paid_for_again_when_its_retry_dies(made, student, scores, is_it_so, thread):
    worker = student(RuntimeError("once"), KeyboardInterrupt(), "good")
    graph = made(worker, [scores(True)], retries=1, checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(is_it_so, thread())
    outcome = graph.invoke(None, thread())["outcome"]
    assert (outcome.status, len(outcome.attempts), len(worker.asked)) == ("success", 1, 3)


@pytest.mark.slow
@pytest.mark.req("I7")
@pytest.mark.parametrize("moment", ["worker 1", "check 1", "reflector 1", "worker 2", "check 2"])
def test_a_trial_killed_at_any_moment_ends_as_if_it_had_not_been(tmp_path, moment):
    story = Path(__file__).with_name("story.py")

    def told(dies):
        return subprocess.run(
            [sys.executable, str(story), str(tmp_path), dies], capture_output=True, text=True, timeout=60
        )

    killed = told(moment)
    assert killed.returncode == -9, killed.stderr
    ended = told("never")
    assert ended.stdout.strip() == "success 2 ['rule', 'strategy']", ended.stderr
    ledger = (tmp_path / "ledger").read_text().split()
    expected = {"worker": 2, "check": 2, "reflector": 1}
    expected[moment.split()[0]] += 1  # what was under way when it died is done anew, and nothing else
    assert {who: ledger.count(who) for who in expected} == expected


@pytest.mark.req("J5", "I7")
def test_a_worker_that_pauses_for_a_person_continues_without_repeating(made, is_it_so, right, thread):
    seen = []

    def first(_state):
        seen.append("first")
        return {}

    def second(_state):
        return {"messages": [("ai", interrupt("yes or no?"))]}

    graph = StateGraph(MessagesState).add_node(first).add_node(second)
    worker = graph.add_edge(START, "first").add_edge("first", "second").add_edge("second", END).compile()
    ready = made(worker, [right], checkpointer=InMemorySaver(), limits={"deadline": 60})
    paused = ready.invoke(is_it_so, thread())
    assert [one.value for one in paused["__interrupt__"]] == ["yes or no?"]
    inner = ready.get_state(thread(), subgraphs=True).tasks[0].state
    assert inner.next == ("second",), "the worker's own state can be looked into"
    paused = ready.invoke(Command(resume="no"), thread())
    assert paused["__interrupt__"]
    result = ready.invoke(Command(resume="yes"), thread())
    assert result["outcome"].status == "success"
    assert seen == ["first", "first"], "once an attempt"


@pytest.mark.req("J5", "K8")
async def test_our_agent_as_a_worker_asks_for_approval_from_within_the_trial(
    made, thinker, is_it_so, right, thread, look
):
    model = RoleModel([call("look", page=1), say("yes")])
    inner = create_reflexion_agent(model, [look], approve=["look"])
    graph = made(inner, [right], reflector=thinker(), checkpointer=InMemorySaver())
    paused = await graph.ainvoke(is_it_so, thread())
    assert paused["__interrupt__"][0].value["action_requests"][0]["name"] == "look"
    result = await graph.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert result["outcome"].status == "success"
    assert len(model.asked) == 2


@pytest.mark.req("I5", "I7")
@pytest.mark.parametrize("ready_made", [True, False])
def test_the_cost_of_a_worker_before_its_pause_is_counted_too(made, thinker, ready_made, is_it_so, right, thread, look):
    @tool
    def leave() -> str:
        """Ask a person."""
        return interrupt("may I?")

    def tried(pauses: bool):
        model = RoleModel([call("leave" if pauses else "look", **({} if pauses else {"page": 1})), say("yes")])
        worker = create_agent(model, [look, leave]) if ready_made else create_reflexion_agent(model, [look, leave])
        graph = made(worker, [right], reflector=thinker(), checkpointer=InMemorySaver())
        result = graph.invoke(is_it_so, thread())
        return graph.invoke(Command(resume="page 1"), thread()) if pauses else result

    paused, in_one_go = tried(True)["outcome"].usage, tried(False)["outcome"].usage
    assert (paused.calls, paused.total) == (in_one_go.calls, in_one_go.total)
    assert paused.calls == 2


@pytest.mark.req("F9", "I7")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("ready_made", [True, False])
@pytest.mark.parametrize("how", ["asks", "dies"])
async def test_the_model_calls_of_an_attempt_are_counted_over_all_its_pauses_and_crashes(
    made, thinker, ready_made, how, is_it_so, right, thread
):
    @tool
    def leave(page: int) -> str:
        """Ask a person."""
        return interrupt(f"may I, on page {page}?") if how == "asks" else f"you may, on page {page}"

    pages = count()
    model = RoleModel(lambda _: call("leave", page=next(pages)))
    if how == "dies":
        model = RoleModel([part for _ in range(9) for part in (call("leave", page=next(pages)), KeyboardInterrupt())])
    limits = Limits(max_steps=50, loop_threshold=50)
    worker = create_agent(model, [leave]) if ready_made else create_reflexion_agent(model, [leave], limits=limits)
    bounds = {"max_steps": 3, "max_attempts": 1}
    graph = made(worker, [right], reflector=thinker(), checkpointer=InMemorySaver(), limits=bounds)
    given, result = is_it_so, {}
    for _ in range(12):
        try:
            result = graph.invoke(given, thread()) if how == "dies" else await graph.ainvoke(given, thread())
        except KeyboardInterrupt:
            given = None
            continue
        given = Command(resume="yes")
        if "__interrupt__" not in result:
            break
    outcome = result["outcome"]
    assert outcome.stop_reason == "max_attempts"
    assert "no answer in 3 model calls" in outcome.reason
    assert outcome.usage.calls == 3


@pytest.mark.req("F13", "I7")
@pytest.mark.parametrize("by_id", [True, False])
def test_the_time_that_a_person_takes_to_answer_a_worker_is_not_of_the_deadline(
    made, thinker, by_id, is_it_so, right, thread
):
    @tool
    def leave() -> str:
        """Ask a person."""
        return interrupt("may I?")

    now = datetime(2026, 1, 1, tzinfo=UTC)
    worker = create_agent(RoleModel([call("leave"), say("yes")]), [leave])
    more = {"checkpointer": InMemorySaver(), "limits": {"deadline": 60}, "clock": lambda: now}
    graph = made(worker, [right], reflector=thinker(), **more)
    (pause,) = graph.invoke(is_it_so, thread())["__interrupt__"]
    now += timedelta(hours=1)
    result = graph.invoke(Command(resume={pause.id: "yes"} if by_id else "yes"), thread())
    assert (result["outcome"].status, result["outcome"].seconds) == ("success", 0)


def test_a_function_that_pauses_and_a_check_that_pauses_are_resumed_each_in_its_turn(made, is_it_so, thread):
    def worker(_prompt):
        return interrupt("what?")

    def check(answer, _run):
        return interrupt(f"is {answer} right?")

    graph = made(worker, [check], checkpointer=InMemorySaver())
    asked = [graph.invoke(is_it_so, thread())["__interrupt__"][0].value]
    for reply in ("no", False, "yes"):
        asked.append(graph.invoke(Command(resume=reply), thread())["__interrupt__"][0].value)
    assert graph.invoke(Command(resume=True), thread())["outcome"].status == "success"
    assert asked == ["what?", "is no right?", "what?", "is yes right?"]


@pytest.mark.req("F9", "I2")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("make", [create_agent, create_reflexion_agent])
def test_a_worker_that_keeps_its_thread_counts_the_calls_of_this_task_alone(made, make, thread):
    @tool
    def confirm(what: str) -> str:
        """Ask a person."""
        return str(interrupt(what))

    model = RoleModel([turn for _ in range(3) for turn in (call("confirm", what="x"), say("11:00"))])
    graph = made(make(model, [confirm], checkpointer=True), [lambda *_: None], checkpointer=InMemorySaver())
    for _ in range(3):
        graph.invoke({"messages": [("user", "Plan it.")]}, thread())
        outcome = graph.invoke(Command(resume="yes"), thread())["outcome"]
        assert (outcome.status, outcome.usage.calls) == ("success", 2)
