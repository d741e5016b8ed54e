"""A run in which nearly everything happens, made to die at any of its moments, each time in a process of its own.

`python story.py FOLDER MOMENTS` tells it once whole and then once for each moment of a JSON list, an empty one meaning
all: a process runs until it is killed there, and another, which knows nothing but the files, goes on. What came of it
is left in FOLDER/results.json.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import Op
from langgraph.store.sqlite import SqliteStore

from langgraph_reflexion import LessonBook, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.testing import Question, RoleModel, calls, reflection

TASK = "Find a free hour on Tuesday."
CONFIG = {"configurable": {"thread_id": "story"}}
NAMESPACE = ("story",)
KILLED = 9
Moment = tuple[str, int, str]
"""What is at work, which time, and whether before or after its work."""


class Ledger:
    """Everything that cost something, one line each, on disk before it counts; and the moment to die at."""

    def __init__(self, file: Path, moment: Moment | None) -> None:
        self.file, self.moment = file, moment
        self.seen: dict[str, int] = {}
        self.counting = threading.Lock()

    def at_work(self, who: str, what: str = "") -> int:
        """Write it down; die where that is the moment."""
        with self.counting:  # the calls of a turn are at work side by side
            count = self.seen[who] = self.seen.get(who, 0) + 1
            with self.file.open("a") as lines:
                lines.write(f"{who} {what}".strip() + "\n")
        self.pass_by(who, count, "before")
        return count

    def pass_by(self, who: str, time_of: int, when: str) -> None:
        if self.moment == (who, time_of, when):
            if who == "tool" and time_of > 1:
                self.wait_for_the_call_beside()
            os._exit(KILLED)

    def wait_for_the_call_beside(self) -> None:
        """Let the other call of the turn be kept: then it has finished, and may not run again."""
        newest = "(select max(checkpoint_id) from checkpoints)"
        kept = f"select count(distinct task_id) from writes where checkpoint_id = {newest}"
        with closing(sqlite3.connect(self.file.with_name("runs.db"))) as runs:
            for _ in range(400):
                if runs.execute(kept).fetchone()[0]:
                    return
                time.sleep(0.05)


class Store(SqliteStore):
    """A store in whose midst the process may die."""

    ledger: Ledger

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        count = self.ledger.at_work("store")
        done = super().batch(ops)
        self.ledger.pass_by("store", count, "after")
        return done


def decide(question: Question) -> Any:
    """The script, told by what stands in the prompt, so that any process can go on with it."""
    if "too early" in question.text:
        return "11:00"
    if "eleven is free" in question.text:
        return "10:00"
    if "not a weekday" in question.text:
        return calls(("search", {"query": "Tuesday"}), ("note", {"text": "by weekday"}))
    return calls(("search", {"query": "2026-03-03"}))


def reflect(question: Question) -> dict[str, Any]:
    if "too early" in question.text:
        rule = "Always compare an hour with the busy ones before naming it."
        memo = {"kind": "rule", "text": rule, "when": "naming an hour"}
        return reflection("Name the hour that the calendar calls free.", memory_to_write=[memo])
    rule = "Always give the calendar a weekday by name."
    memo = {"kind": "rule", "text": rule, "when": "searching the calendar"}
    return reflection("Search by the weekday.", memory_to_write=[memo])


def told(folder: Path, moment: Moment | None, given: Any) -> dict[str, Any]:
    """Run, or go on with, the story on the files of this folder, and say what came of it."""
    ledger = Ledger(folder / "ledger", moment)

    class Model(RoleModel):
        def _reply(self, question: Question) -> Any:
            count = ledger.at_work("model", question.role)
            reply = super()._reply(question)
            ledger.pass_by("model", count, "after")
            return reply

    def search(query: str) -> str:
        """Look up free hours in the calendar."""
        count = ledger.at_work("tool", f"search {query}")
        if query != "Tuesday":
            raise ValueError(f"{query} is not a weekday")
        ledger.pass_by("tool", count, "after")
        return "eleven is free"

    def note(text: str) -> str:
        """Write a note."""
        count = ledger.at_work("tool", f"note {text}")
        ledger.pass_by("tool", count, "after")
        return "noted"

    def free(answer: str, _run: Any) -> bool | str:
        count = ledger.at_work("check", answer)
        ledger.pass_by("check", count, "after")
        return True if answer == "11:00" else f"{answer} is too early"

    lessons = sqlite3.connect(folder / "lessons.db", check_same_thread=False, isolation_level=None)
    with SqliteSaver.from_conn_string(str(folder / "runs.db")) as saver, closing(lessons) as connection:
        store = Store(connection)
        store.ledger = ledger
        if given is not None:
            SqliteStore(connection).setup()
        agent = create_reflexion_agent(
            Model(decide=decide, reflect=reflect),
            [search, note],
            checks=[free],
            store=store,
            checkpointer=saver,
            memory=MemoryPolicy(namespace=NAMESPACE),
        )
        kept = agent.get_state(CONFIG)
        result = agent.invoke(given, CONFIG, durability="sync")
        book = LessonBook(SqliteStore(connection), NAMESPACE, MemoryPolicy(namespace=NAMESPACE))
        return {
            "outcome": result["outcome"].model_dump(mode="json"),
            "messages": [[one.type, one.text, getattr(one, "tool_calls", [])] for one in result["messages"]],
            "paired": is_paired(result["messages"]),
            "answers": sum(isinstance(one, ToolMessage) for one in result["messages"]),
            "lessons": [one.model_dump(mode="json") for one in book.lessons()],
            "episodes": len(book.store.search((*NAMESPACE, "episodes"))),
            "next": list(kept.next),
        }


def in_a_process(folder: Path, moment: Moment | None, given: Any, file: str) -> int:
    """Tell it in a process of its own and give back that one's exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        (folder / file).write_text(json.dumps(told(folder, moment, given)))
    except BaseException:  # noqa: BLE001 — a process of its own: nothing may leave it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def moments_of(lines: list[str]) -> list[Moment]:
    """Before and after everything that was at work."""
    found: list[Moment] = []
    for who in ("model", "tool", "check", "store"):
        times = sum(line.split()[0] == who for line in lines)
        found += [(who, one, when) for one in range(1, times + 1) for when in ("before", "after")]
    # The tool that raises is never done: there is no moment after its work.
    return [moment for moment in found if moment != ("tool", 1, "after")]


def main(folder: Path, chosen: list[Moment]) -> None:
    """Tell it whole, and then once for each of these moments, or for all there are."""
    asked = {"messages": [("user", TASK)]}
    whole = folder / "whole"
    whole.mkdir()
    assert in_a_process(whole, None, asked, "end.json") == 0
    lines = (whole / "ledger").read_text().splitlines()
    results = []
    for moment in chosen or moments_of(lines):
        place = folder / "-".join(map(str, moment))
        place.mkdir()
        died = in_a_process(place, moment, asked, "end.json")
        went_on = in_a_process(place, None, None, "end.json")
        end = json.loads((place / "end.json").read_text()) if went_on == 0 else None
        ledger = (place / "ledger").read_text().splitlines()
        results.append({"moment": moment, "died": died, "went_on": went_on, "end": end, "ledger": ledger})
    told_whole = {"end": json.loads((whole / "end.json").read_text()), "ledger": lines}
    (folder / "results.json").write_text(json.dumps({"whole": told_whole, "killed": results}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [tuple(moment) for moment in json.loads(sys.argv[2])])
