"""Served by LangGraph's own server and driven through its SDK, as Studio drives it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

TASK = "Find one hour on 2026-03-03: it starts on the hour, strictly after 09:00, and ends by 14:00."
NODES = {
    "begin",
    "recall",
    "decide",
    "tool",
    "observe",
    "ask",
    "check",
    "reflect",
    "remember",
    "wrap_up",
    "finish",
}
Client = Callable[..., Any]

pytestmark = pytest.mark.slow


def asked(words: str = TASK) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}]}


def lessons(client: Any) -> dict[tuple[str, ...], list[Any]]:
    """The lessons in the server's store, by namespace."""
    places = [tuple(one) for one in client.store.list_namespaces()["namespaces"] if one[-1] == "lessons"]
    return {place: client.store.search_items(place)["items"] for place in places}


@pytest.mark.req("G1", "J1")
def test_it_starts_without_a_key_and_serves_every_graph(shipped: str, client: Client) -> None:
    found = {one["graph_id"] for one in client(shipped).assistants.search(limit=20)}
    assert found == {"demo", "agent"}


@pytest.mark.req("G1")
@pytest.mark.parametrize("graph", ["demo", "agent"])
def test_studio_can_draw_each_node_and_show_the_forms(graph: str, shipped: str, client: Client) -> None:
    here = client(shipped)
    (assistant,) = here.assistants.search(graph_id=graph)
    drawing = here.assistants.get_graph(assistant["assistant_id"])
    assert {node["id"] for node in drawing["nodes"]} == NODES | {"__start__", "__end__"}
    labels = {(edge["source"], edge["target"]): edge.get("data") for edge in drawing["edges"]}
    assert (labels["begin", "recall"], labels["decide", "tool"]) == ("task", "tool calls")
    schemas = here.assistants.get_schemas(assistant["assistant_id"])
    assert {"messages", "feedback"} == set(schemas["input_schema"]["properties"])
    assert {"user_id", "model"} == set(schemas["context_schema"]["properties"])
    assert "outcome" in schemas["output_schema"]["properties"]
    assert "tally" not in json.dumps(schemas["output_schema"]), "what is private stays so"


@pytest.mark.req("G1", "J1", "D4")
def test_the_demo_runs_on_a_thread_learns_and_knows_it_the_next_time(shipped: str, client: Client) -> None:
    here = client(shipped)
    first, second = (here.threads.create()["thread_id"] for _ in range(2))
    modes = ["updates", "values", "messages-tuple", "custom"]
    events = list(here.runs.stream(first, "demo", input=asked(), stream_mode=modes))
    assert not [event.data for event in events if event.event == "error"]
    assert {"updates", "values", "messages", "custom"} <= {event.event for event in events}
    told = [event.data["type"] for event in events if event.event == "custom"]
    assert {"step", "failure", "reflection", "lesson"} <= set(told)
    values = here.threads.get_state(first)["values"]
    assert values["messages"][-1]["content"] == "11:00 is free."
    assert values["outcome"]["status"] == "success"
    assert len(values["outcome"]["lessons_written"]) == 1
    kept = lessons(here)
    assert list(kept) == [("reflexion", "demo", "lessons")]
    assert "weekday" in json.dumps(kept["reflexion", "demo", "lessons"])
    here.runs.wait(second, "demo", input=asked(TASK.replace("03-03", "03-10")))
    again = here.threads.get_state(second)["values"]["outcome"]
    assert again["status"] == "success"
    assert again["lessons_used"] == values["outcome"]["lessons_written"]
    assert not again["failures"]


@pytest.mark.req("G1")
def test_a_thread_continues_and_takes_feedback(shipped: str, client: Client) -> None:
    here = client(shipped)
    thread = here.threads.create()["thread_id"]
    here.runs.wait(thread, "demo", input=asked(), context={"user_id": "ada"})
    here.runs.wait(thread, "demo", input={**asked("Look again."), "feedback": "That was wrong."})
    values = here.threads.get_state(thread)["values"]
    assert values["outcome"]["failures"][0]["signal"] == "feedback"
    assert [message["type"] for message in values["messages"]].count("human") == 2
    assert len(here.threads.get_history(thread, limit=50)) > 10


@pytest.mark.req("G1")
def test_without_a_key_the_other_graph_ends_with_one_clear_sentence(shipped: str, client: Client) -> None:
    here = client(shipped)
    thread = here.threads.create()["thread_id"]
    events = list(here.runs.stream(thread, "agent", input=asked(), stream_mode="values"))
    (error,) = [event.data for event in events if event.event == "error"]
    assert error["error"] == "ModelError"
    assert error["message"].startswith("The model 'openai:gpt-4o-mini' cannot be created: ")
    assert "OPENAI_API_KEY" in error["message"]


@pytest.mark.req("B7", "K8", "G1")
def test_a_question_and_an_approval_pause_the_run_and_are_answered(signed_in: str, client: Client) -> None:
    here = client(signed_in, "ada")
    thread = here.threads.create()["thread_id"]
    here.runs.wait(thread, "asking", input=asked("Book an hour."))
    (question,) = [pause for task in here.threads.get_state(thread)["tasks"] for pause in task["interrupts"]]
    assert question["value"] == {"type": "question", "question": "Which day?"}
    here.runs.wait(thread, "asking", command={"resume": "On Tuesday."})
    (leave,) = [pause for task in here.threads.get_state(thread)["tasks"] for pause in task["interrupts"]]
    assert leave["value"]["action_requests"][0]["name"] == "book"
    approved = {"decisions": [{"type": "approve"}]}
    here.runs.wait(thread, "asking", command={"resume": {leave["id"]: approved}})
    state = here.threads.get_state(thread)
    assert not state["next"]
    assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert state["values"]["messages"][-1]["content"] == "Done."


@pytest.mark.req("N3", "K8")
def test_the_demo_greets_and_books_after_an_approval(shipped: str, client: Client) -> None:
    here = client(shipped)
    thread = here.threads.create()["thread_id"]
    careful = {"user_id": "hugo", "model": "careful"}
    greeted = here.runs.wait(thread, "demo", input=asked("hello"), context=careful)
    assert "Ask me, for instance" in greeted["messages"][-1]["content"]
    here.runs.wait(thread, "demo", input=asked(f"{TASK} And book it."), context=careful)
    [pause] = [one for task in here.threads.get_state(thread)["tasks"] for one in task["interrupts"]]
    assert pause["value"]["action_requests"][0]["name"] == "book"
    no = {"decisions": [{"type": "reject", "message": "not on a Tuesday"}]}
    done = here.runs.wait(thread, "demo", command={"resume": no}, context=careful)
    assert done["messages"][-1]["content"] == "11:00 is free, and not booked."
    assert done["outcome"]["status"] == "success"
    places = here.store.list_namespaces()["namespaces"]
    assert ["reflexion", "demo", "hugo", "episodes"] in places


@pytest.mark.req("G1")
def test_on_a_server_with_authentication_lessons_are_kept_per_user(signed_in: str, client: Client) -> None:
    for user in ("ada", "bob.b"):
        here = client(signed_in, user)
        thread = here.threads.create()["thread_id"]
        here.runs.wait(thread, "demo", input=asked(), context={"user_id": "somebody else"})
        outcome = here.threads.get_state(thread)["values"]["outcome"]
        assert not outcome["lessons_used"], "the other's lessons are not theirs"
        assert len(outcome["lessons_written"]) == 1
    ada = client(signed_in, "ada")
    assert ada.store.search_items(("reflexion", "demo", "ada", "lessons"))["items"]
    for foreign in (("reflexion", "demo", "bob~2eb", "lessons"), ("reflexion", "demo"), ()):
        with pytest.raises(httpx.HTTPStatusError, match="Only your own memory"):
            ada.store.search_items(foreign)
    with pytest.raises(httpx.HTTPStatusError, match="Only your own memory"):
        ada.store.list_namespaces()


@pytest.mark.req("J2")
def test_the_example_of_a_client_shows_what_the_demo_learned(shipped: str) -> None:
    example = Path(__file__).parents[2] / "examples" / "server_client.py"
    done = subprocess.run([sys.executable, example, shipped], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "answered: 11:00 is free. success"


@pytest.mark.req("M5")
def test_it_learns_for_each_user_streams_its_events_and_keeps_what_is_private(
    signed_in: str, client: Callable[..., Any]
) -> None:
    here = client(signed_in, "ada")
    failures = []
    for _ in range(2):
        thread = here.threads.create()["thread_id"]
        given = {"messages": [{"role": "user", "content": "Plan an hour."}]}
        events = list(here.runs.stream(thread, "planning", input=given, stream_mode=["custom", "values"]))
        assert not [event.data for event in events if event.event == "error"]
        assert [event.data["type"] for event in events if event.event == "custom"][-1] == "outcome"
        values = here.threads.get_state(thread)["values"]
        assert values["messages"][-1]["content"] == "11:00"
        assert values["outcome"]["stop_reason"] == "unchecked"
        failures.append(len(values["outcome"]["failures"]))
    assert failures == [1, 0], "the second run knows the lesson"
    (assistant,) = here.assistants.search(graph_id="planning")
    schemas = here.assistants.get_schemas(assistant["assistant_id"])
    assert {"messages", "feedback"} == set(schemas["input_schema"]["properties"])
    assert "reflexion" not in schemas["output_schema"]["properties"]
    assert here.store.search_items(("reflexion", "planning", "ada", "lessons"))["items"]
