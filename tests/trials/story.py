"""A trial that dies at one moment: `python story.py FOLDER "worker 2"`; with `never` it goes on from what is there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from langgraph_reflexion import LessonBook, create_trial_graph
from langgraph_reflexion.testing import RoleModel, reflection

folder, dies = sys.argv[1], sys.argv[2]


def paid(who):
    """Write down what is about to cost something, and die here if this is the moment."""
    ledger = Path(folder, "ledger")
    with ledger.open("a") as file:
        file.write(f"{who}\n")
    if dies == f"{who} {ledger.read_text().count(who)}":
        os.kill(os.getpid(), 9)


def worker(prompt):
    paid("worker")
    return "yes" if "Take the second" in prompt else "no"


def check(answer, _run):
    paid("check")
    return answer == "yes" or "It is wrong."


memo = {"kind": "rule", "text": "Compare both sides before you choose.", "when": "choosing", "tags": []}


def reflected(_question):
    paid("reflector")
    return reflection("Take the second of the two.", memory_to_write=[memo])


with (
    SqliteSaver.from_conn_string(f"{folder}/state.db") as saver,
    SqliteStore.from_conn_string(f"{folder}/kept.db") as store,
):
    store.setup()
    graph = create_trial_graph(worker, [check], reflector=RoleModel(reflect=reflected), checkpointer=saver, store=store)
    config = {"configurable": {"thread_id": "t"}}
    begun = graph.get_state(config).values
    result = graph.invoke(None if begun else {"messages": [("user", "Is it so?")]}, config, durability="sync")
    lessons = LessonBook(store, ("reflexion", "trials")).lessons()
    print(result["outcome"].status, len(result["outcome"].attempts), sorted(one.kind for one in lessons))
