"""Runs that fail, learn and go on, on the files of one folder: the agent, a trial and the auditors, each by a script.

`python workload.py FOLDER COUNT` finishes as many threads as it is told, and first what a killed process left of each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import BaseStore

from langgraph_reflexion import (
    ErrorNotebook,
    FaissStore,
    MemoryPolicy,
    after_run,
    create_reflexion_agent,
    create_trial_graph,
)
from langgraph_reflexion.testing import Question, RoleModel, call, reflection, say

NAMESPACE = ("chaos",)
RULE = {"kind": "rule", "text": "Always give the calendar a weekday by name.", "when": "searching the calendar"}
TRIAL_RULE = {
    "kind": "rule",
    "text": "Compare an hour with the busy ones before you name it.",
    "when": "naming an hour",
}
FINDING = {
    "category": "tool_misuse",
    "description": "The calendar was asked for a date.",
    "cause": "The form of the query was guessed.",
    "suggestion": "Name the weekday when you ask the calendar.",
    "severity": "medium",
    "evidence": [],
}
POLICY = MemoryPolicy(namespace=NAMESPACE, control_share=0.0)


def search(query: str) -> str:
    """Look up free hours in the calendar."""
    if any(char.isdigit() for char in query):
        raise ValueError(f"{query} is not a weekday")
    return f"eleven is free on {query}"


def decide(question: Question) -> Any:
    """The script, told by what stands in the prompt, so that any process can go on with it."""
    if "missed_optimization" in question.text:
        return json.dumps({"score": 60, "findings": [FINDING]})
    if "Find out what is worth remembering" in question.text:
        return json.dumps({"memories": [], "forget": []})
    if not question.tools:  # the worker of a trial
        return say("11:00" if "too early" in question.text or "Compare an hour" in question.text else "10:00")
    if "eleven is free" in question.text:
        return say("11:00")
    return call("search", query="Tuesday" if "weekday" in question.text else "2026-03-03")


def reflect(question: Question) -> Any:
    if "too early" in question.text:
        return reflection("Name the hour after it.", memory_to_write=[TRIAL_RULE])
    return reflection("Search by the weekday.", memory_to_write=[RULE])


def is_late_enough(answer: str, _run: Any) -> bool | str:
    return True if answer == "11:00" else f"{answer} is too early"


def graphs(saver: BaseCheckpointSaver[Any] | None, store: BaseStore, model: Any = None) -> list[Any]:
    """The agent, the agent with auditors in its graph, and trials around a plain model."""
    model = model or RoleModel(decide=decide, reflect=reflect, other=decide)
    shared: dict[str, Any] = {"memory": POLICY, "store": store, "checkpointer": saver}
    auditors = after_run(model, notebook=ErrorNotebook(store, NAMESPACE))
    return [
        create_reflexion_agent(model, [search], **shared),
        create_reflexion_agent(model, [search], self_reflection=auditors, **shared),
        create_trial_graph(model, [is_late_enough], **shared),
    ]


@contextmanager
def opened(folder: Path) -> Iterator[tuple[SqliteSaver, FaissStore]]:
    with SqliteSaver.from_conn_string(str(folder / "runs.db")) as saver, FaissStore(folder / "lessons.db") as store:
        yield saver, store


def asked(number: int) -> dict[str, Any]:
    return {"messages": [("user", f"Find a free hour on Tuesday for meeting {'abcdefghij'[number % 10]}.")]}


def config(number: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": f"thread-{number}"}}


def main(folder: Path, count: int) -> None:
    with opened(folder) as (saver, store):
        made = graphs(saver, store)
        print("ready", flush=True)
        for number in range(count):
            graph, thread = made[number % 3], config(number)
            state = graph.get_state(thread)
            if state.values.get("outcome") is None or state.next:
                graph.invoke(None if state.next else asked(number), thread, durability="sync")
        print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
