"""A trial seen from outside: streamed, drawn, embedded, beside others, on a thread."""

from __future__ import annotations

import asyncio

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_reflexion import Limits, Outcome, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.testing import RoleModel, call, reflection, say


@pytest.mark.req("I8", "D7")
@pytest.mark.slow
async def test_twenty_trials_at_once_mix_nothing(made, thread):
    def answer(question):
        name = question.messages[-1].text
        return say(f"{name} right" if f"{name} wrong" in question.text else f"{name} wrong")

    def plan(question):
        name = next(word for word in question.text.split() if word.startswith("task-"))
        return reflection(f"Write {name} and compare it with the source.")

    worker, reflector = RoleModel(decide=answer, delay=0.01), RoleModel(reflect=plan, delay=0.01)
    graph = made(
        worker, [lambda answer, _run: answer.endswith("right")], reflector=reflector, checkpointer=InMemorySaver()
    )
    tasks = [graph.ainvoke({"messages": [("user", f"task-{i}")]}, thread(str(i))) for i in range(20)]
    for i, result in enumerate(await asyncio.gather(*tasks)):
        outcome = result["outcome"]
        assert [one.answer for one in outcome.attempts] == [f"task-{i} wrong", f"task-{i} right"]
        assert f"task-{i} " in outcome.reflections[0].patch_prompt
    assert len(worker.asked) == 40


@pytest.mark.req("I10")
def test_a_strict_checkpointer_reads_all_of_a_trial_back(made, thinker, scores, caplog, is_it_so, thread, look):
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    model = RoleModel([call("look", page=1), say("no"), say("yes")])
    graph = made(create_agent(model, [look]), [scores("why?", True)], reflector=thinker(), checkpointer=saver)
    graph.invoke(is_it_so, thread(), interrupt_before="*")
    while graph.get_state(thread()).next:
        graph.invoke(None, thread(), interrupt_before="*")
    assert isinstance(graph.get_state(thread()).values["outcome"], Outcome)
    assert not [one for one in caplog.records if "msgpack" in one.getMessage().lower()]


@pytest.mark.req("G1", "G2")
def test_within_a_larger_graph_a_trial_shares_its_messages_and_its_outcome(made, student, thinker, is_it_so, right):
    class Larger(MessagesState):
        outcome: Outcome | None

    trials = made(student("no", "yes"), [right], reflector=thinker())
    graph = StateGraph(Larger).add_node("trials", trials).add_edge(START, "trials").add_edge("trials", END).compile()
    result = graph.invoke(is_it_so)
    assert [one.text for one in result["messages"]] == ["Is it so?", "yes"]
    assert result["outcome"].status == "success"
    assert set(result) == {"messages", "outcome"}


@pytest.mark.req("F13", "F11")
def test_a_trial_ends_before_langgraphs_own_limit_does(made, student, is_it_so):
    graph = made(student(*["no"] * 20), [lambda *_: False], strategy="none")
    outcome = graph.invoke(is_it_so, {"recursion_limit": 9})["outcome"]
    assert (outcome.status, outcome.stop_reason) == ("failure", "max_steps")
    assert "recursion_limit" in outcome.reason


@pytest.mark.req("I6", "I3", "I5")
async def test_a_trial_streams_the_workers_tokens_and_its_events_sync_and_async(
    made, student, thinker, is_it_so, right
):
    def graph():
        return made(student("no it is not", "yes it is"), [right], reflector=thinker())

    modes = ["updates", "custom", "messages"]
    plain = list(graph().stream(is_it_so, stream_mode=modes))
    later = [part async for part in graph().astream(is_it_so, stream_mode=modes)]
    for parts in (plain, later):
        steps = [name for mode, part in parts if mode == "updates" for name in part]
        assert steps == [
            "begin",
            "recall",
            "attempt",
            "check",
            "reflect",
            "remember",
            "recall",
            "attempt",
            "check",
            "finish",
        ]
        events = [part for mode, part in parts if mode == "custom"]
        told = [one["type"] for one in events]
        first, second = ["step", "failure", "attempt", "reflection"], ["step", "attempt", "lesson", "outcome"]
        assert told == [*first, *second]
        tokens = [part[0] for mode, part in parts if mode == "messages" and type(part[0]).__name__ == "AIMessageChunk"]
        assert "".join(one.text for one in tokens) == "no it is notyes it is", "no other model call's"
        first = next(one for one in events if one["type"] == "step")
        assert (first["node"], first["read"], first["usage"]["calls"]) == ("attempt", "no it is not", 1)
        refused = next(one for one in events if one["type"] == "failure")
        assert refused["message_id"] in {one.id for one in tokens}


@pytest.mark.req("I6")
def test_a_workers_own_steps_can_be_streamed(made, is_it_so, right, look):
    worker = create_agent(RoleModel([call("look", page=1), say("yes")]), [look])
    parts = list(made(worker, [right]).stream(is_it_so, stream_mode="updates", subgraphs=True))
    within = [name for place, part in parts if place for name in part]
    assert within == ["model", "tools", "model"]


@pytest.mark.req("G1")
def test_a_trial_is_drawn_with_every_step_and_its_worker(right, look):
    worker = create_agent(RoleModel(), [look])
    graph = create_trial_graph(worker, [right], name="trials")
    drawn = graph.get_graph()
    assert set(drawn.nodes) == {
        *("__start__", "begin", "recall", "attempt", "check", "reflect", "remember", "wrap_up", "finish", "__end__")
    }
    assert ("check", "attempt") in {(edge.source, edge.target) for edge in drawn.edges}
    assert [name for name, _ in graph.get_subgraphs()] == ["attempt"]


@pytest.mark.req("G1", "L4")
def test_a_trial_without_memory_has_no_steps_of_it(made, student, thinker, is_it_so, right):
    graph = made(student("no", "yes"), [right], reflector=thinker(), memory={"read": False, "write": False})
    assert {"recall", "remember"}.isdisjoint(graph.get_graph().nodes)
    steps = [name for part in graph.stream(is_it_so, stream_mode="updates") for name in part]
    assert steps == ["begin", "attempt", "check", "reflect", "attempt", "check", "finish"]


@pytest.mark.req("I7")
def test_an_answer_edited_by_a_person_is_judged_in_its_place(made, student, scores, is_it_so, thread):
    check = scores(False, True)
    graph = made(student("no", "never asked"), [check], strategy="none", checkpointer=InMemorySaver())
    graph.invoke(is_it_so, thread(), interrupt_after=["attempt"])
    graph.update_state(thread(), {"messages": [("ai", "perhaps")]}, as_node="attempt")
    result = graph.invoke(None, thread(), interrupt_before=["attempt"])
    assert check.answers == ["perhaps"]
    assert result.get("outcome") is None


@pytest.mark.req("I8", "D7")
def test_a_second_task_on_a_thread_starts_without_the_state_of_the_first(
    made, student, thinker, scores, is_it_so, thread
):
    worker = student("no", "yes", "again yes")
    graph = made(worker, [scores(False, True, True)], reflector=thinker(), checkpointer=InMemorySaver())
    graph.invoke(is_it_so, thread())
    outcome = graph.invoke({"messages": [("user", "And now?")]}, thread())["outcome"]
    assert (len(outcome.attempts), outcome.reflections) == (1, [])
    assert [one.text for one in worker.asked[2].messages][:3] == ["Is it so?", "yes", "And now?"]


def test_limits_are_those_of_the_trial_and_the_workers_its_own(is_it_so, right, look):
    inner = create_reflexion_agent(
        RoleModel([call("look", page=i) for i in range(4)]), [look], limits=Limits(max_steps=2)
    )
    outcome = create_trial_graph(inner, [right], limits=Limits(max_attempts=2)).invoke(is_it_so)["outcome"]
    assert [len(one.failures) for one in outcome.attempts] == [1, 1]
    assert outcome.stop_reason == "max_attempts"
    assert "no steps left (2 were allowed)" in outcome.reason
