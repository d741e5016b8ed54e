"""Off, after, inline, both: who is asked how often, what is kept, and that nobody hears it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_reflexion import Context, Limits, after_run
from langgraph_reflexion.testing import call, say


def look(page: int) -> str:
    """Look at a page."""
    return f"page {page}"


def broken(page: int) -> str:
    """Look at a page."""
    raise ValueError(f"no page {page}")


ON_TRACK = {"on_track": True, "issues": [], "should_replan": False, "next_action": "Go on."}


@pytest.mark.req("G8", "H1", "H4")
@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        ("off", {"main": 6, "errors": 0, "memories": 0, "check": 0}),
        ("after", {"main": 6, "errors": 1, "memories": 1, "check": 0}),
        ("inline", {"main": 6, "errors": 0, "memories": 0, "check": 1}),
        ("both", {"main": 6, "errors": 1, "memories": 1, "check": 1}),
    ],
)
def test_a_mode_decides_who_is_asked_and_how_often(on, agent, notebook, book, mode, counts):
    turns = [*(call("look", page=i) for i in range(5)), say("done")]
    model = on.Cast(turns, {"score": 60, "findings": [on.FINDING]}, {"memories": [on.MEMORY]}, check=ON_TRACK)
    result = agent(model, mode, [look]).invoke({"messages": [("user", on.TASK)]})
    assert {name: len(model.of(name)) for name in counts} == counts
    assert result["outcome"].answer == "done"
    kept = mode in ("after", "both")
    assert [one["suggestion"] for one in notebook.recent()] == [on.FINDING["suggestion"]] * kept
    assert [one.name for one in book.profile()] == ["kebab-case"] * kept


@pytest.mark.req("G8", "S12")
def test_a_finding_of_two_runs_is_counted_twice_and_remembered_once(on, agent, notebook, book):
    model = on.Cast(say("done"), {"score": 60, "findings": [on.FINDING]}, {"memories": [on.MEMORY]})
    made = agent(model, "both")
    for _ in range(2):
        made.invoke({"messages": [("user", on.TASK)]})
    assert notebook.statistics()["total"] == 2
    assert notebook.statistics()["groups"] == 1
    assert len(book.lessons()) == 1


@pytest.mark.req("H10")
def test_auditors_are_not_audited_and_leave_no_episode(on, agent, store):
    model = on.Cast(say("done"), {"score": 60, "findings": [on.FINDING]})
    agent(model).invoke({"messages": [("user", on.TASK)]})
    assert len(model.asked) == 3
    episodes = [item for item in store.search((), limit=100) if "episodes" in item.namespace]
    assert len(episodes) == 1


@pytest.mark.req("I6")
def test_no_token_and_no_event_of_an_auditor_is_streamed_as_the_agents(on, agent):
    model = on.Cast(say("done"), {"score": 60, "findings": [on.FINDING]}, {"memories": [on.MEMORY]})
    modes: Any = ["messages", "custom", "updates"]
    parts = list(agent(model).stream({"messages": [("user", on.TASK)]}, stream_mode=modes))
    texts = [part[0].text for mode, part in parts if mode == "messages"]
    assert "".join(texts).replace("done", "") == ""
    events = [part["type"] for mode, part in parts if mode == "custom"]
    assert events == ["step", "attempt", "outcome", "learned"]
    assert [node for mode, part in parts if mode == "updates" for node in part] == [
        "begin",
        "recall",
        "decide",
        "check",
        "finish",
        "learn",
    ]


@pytest.mark.req("H2", "N3")
def test_both_auditors_stand_side_by_side_in_the_drawing(on, agent):
    drawn = agent(on.Cast()).get_graph(xray=2)
    edges = {(edge.source, edge.target) for edge in drawn.edges}
    ours = {edge for edge in edges if "auditor" in edge[0] or "auditor" in edge[1]}
    assert any(target.endswith("error_auditor") or "error_auditor:" in target for _, target in ours), edges
    assert any(target.endswith("memory_auditor") or "memory_auditor:" in target for _, target in ours)
    assert not [node for node in drawn.nodes if "auditor:" in node], "an auditor is one node, however deep one looks"
    assert "learn" not in agent(on.Cast(), "off").get_graph().nodes


@pytest.mark.req("H5")
def test_the_error_auditor_is_shown_question_answer_conversation_errors_and_session(on, agent):
    model = on.Cast([call("broken", page=7), say("There is no page seven.")], memories=on.NOTHING)
    made = agent(model, "after", [broken], limits=Limits(max_reflections=0))
    outcome = made.invoke({"messages": [("user", on.TASK)]})["outcome"]
    (asked,) = model.of("errors")
    for part_of_it in (on.TASK, "There is no page seven.", "tool_error", "no page 7", outcome.run_id, "[m2]"):
        assert part_of_it in asked.text, part_of_it
    assert "no page 7" not in asked.system


@pytest.mark.req("H1")
def test_an_audit_of_ones_own_may_keep_the_notebook_alone(on, agent, notebook, book):
    heard: list[Any] = []
    model = on.Cast(say("done"), {"score": 60, "findings": [on.FINDING]}, {"memories": [on.MEMORY]})
    mine = after_run(model, notebook=notebook, on_done=heard.append)
    agent(model, mine).invoke({"messages": [("user", on.TASK)]})
    assert (len(model.of("errors")), len(model.of("memories"))) == (1, 0)
    assert [one["score"] for one in heard] == [60]
    assert not book.profile()


@pytest.mark.req("H9")
def test_auditors_have_a_model_of_their_own_and_four_and_five_turns(on, agent, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    main = on.Cast(say("done"))
    endless = on.Cast(
        errors=lambda question: call("read_file", path=f"{len(question.messages)}.txt"),
        memories=lambda question: call("read_file", path=f"{len(question.messages)}.txt"),
    )
    result: list[Any] = []
    mine = after_run(endless, root=tmp_path, on_done=result.append)
    agent(main, mine).invoke({"messages": [("user", on.TASK)]})
    assert len(main.asked) == 1
    assert (len(endless.of("errors")), len(endless.of("memories"))) == (4, 5)
    assert {name: why.split(":")[0] for name, why in result[0]["failed"].items()} == {
        "errors": "max_steps",
        "memories": "max_steps",
    }


@pytest.mark.req("H9")
def test_a_context_that_names_one_of_the_agents_models_says_nothing_of_the_auditors(on, agent, notebook):
    heard: list[Any] = []
    mine = after_run(on.Cast(errors={"score": 60, "findings": [on.FINDING]}), on_done=heard.append)
    models = {"small": on.Cast(say("small")), "big": on.Cast(say("big"))}
    task = {"messages": [("user", on.TASK)]}
    out = agent(models, mine).invoke(task, context=Context(model="big"))
    assert (out["outcome"].answer, heard[0]["failed"]) == ("big", {})
    assert heard[0]["usage"]["errors"]["calls"] == 1
    agent(models, "after").invoke(task, context=Context(model="big"))
    assert len(models["big"].of("errors")) == 1
    assert len(notebook.recent()) == 1


def test_a_run_that_waits_for_a_person_is_not_over_and_not_audited(on, agent):
    from langgraph_reflexion.testing import ask

    model = on.Cast(ask("Which one?"))
    result = agent(model, controls=["ask_user"]).invoke({"messages": [("user", on.TASK)]})
    assert result["outcome"].status == "needs_input"
    assert len(model.asked) == 1


@pytest.mark.req("I6")
def test_on_a_thread_the_second_run_is_audited_alone(on, agent):
    model = on.Cast(say("done"))
    made = agent(model, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    made.invoke({"messages": [("user", "First question about apples.")]}, thread)
    made.invoke({"messages": [("user", "Second question about pears.")]}, thread)
    asked = model.of("errors")[1].text
    assert "Before this run:" in asked
    assert "[m1] human: Second question about pears." in asked
    assert "[before 1] human: First question about apples." in asked


def test_the_smallest_recursion_limit_leaves_room_for_the_auditors(on, agent):
    model = on.Cast(say("done"))
    made = agent(model)
    task = {"messages": [("user", on.TASK)]}
    with pytest.raises(ValueError, match="`recursion_limit` must be 7 or more, got 6"):
        made.invoke(task, {"recursion_limit": 6})
    assert made.invoke(task, {"recursion_limit": 7})["outcome"].answer == "done"
    assert len(model.of("errors")) == 1


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("limit", [7, 8, 9, 13, 19])
def test_no_recursion_limit_ends_a_run_with_auditors_in_an_error(on, agent, limit):
    model = on.Cast(lambda question: call("look", page=len(question.messages)))
    result = agent(model, "after", [look]).invoke({"messages": [("user", on.TASK)]}, {"recursion_limit": limit})
    assert result["outcome"].stop_reason == "max_steps"


async def test_the_async_way_does_the_same(on, agent, notebook, book):
    model = on.Cast(say("done"), {"score": 60, "findings": [on.FINDING]}, {"memories": [on.MEMORY]})
    await agent(model).ainvoke({"messages": [("user", on.TASK)]})
    assert len(await notebook.arecent()) == len(await book.aprofile()) == 1
