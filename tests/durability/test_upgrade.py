"""What version 0.1.0 left in stores and checkpoints, as `docs/upgrading.md` says. The file holds data that it wrote."""

from __future__ import annotations

import base64
import gzip
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import LessonBook, Outcome, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, reflection, say

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
"""About a field of the last run that the next one resets."""

OLD = json.loads((Path(__file__).parents[1] / "data" / "version_0_1_0.json").read_text(encoding="utf-8"))
NAMESPACE = ("reflexion", "planner")
LESSON = "Give the calendar a weekday, never a date."
THREAD: dict[str, Any] = {"configurable": {"thread_id": "old", "checkpoint_ns": ""}}


def book_room(day: str) -> str:
    """Book the meeting room."""
    return f"Booked: {day}"


@pytest.fixture
def store() -> InMemoryStore:
    """The store as version 0.1.0 left it."""
    store = InMemoryStore()
    for namespace, key, value in OLD["store"]:
        store.put(tuple(namespace), key, value)
    return store


@pytest.fixture
def saver() -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        yield SqliteSaver(connection)


def agent_on(thread: str, store: InMemoryStore, saver: SqliteSaver) -> Any:
    """An agent of this version whose checkpointer holds a thread of version 0.1.0."""
    saver.setup()
    checkpoint = gzip.decompress(base64.b64decode(OLD["threads"][thread]))
    id = saver.serde.loads_typed(("msgpack", checkpoint))["id"]
    row = ("old", "", id, None, "msgpack", checkpoint, b'{"step": 12}')
    saver.conn.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    model = RoleModel(say("Booked at 11:00."), reflection("Take another hour."))
    return create_reflexion_agent(
        model, [book_room], approve=["book_room"], store=store, checkpointer=saver, name="planner"
    )


def test_lessons_runs_and_counts_of_version_0_1_0_are_read(store: InMemoryStore) -> None:
    book = LessonBook(store, NAMESPACE)
    (lesson,) = book.lessons()
    assert (lesson.text, lesson.wins, lesson.losses) == (LESSON, 1, 0)
    assert [run.status for run in book.episodes()] == ["success", "success"]
    assert book.explain(book.episodes()[0].id)["shown"][0]["lesson"] == lesson.id


def test_an_export_of_version_0_1_0_is_imported_with_its_counts() -> None:
    book = LessonBook(InMemoryStore(), NAMESPACE)
    assert book.load(io.StringIO(OLD["export"])).added == 1
    assert [(lesson.text, lesson.wins) for lesson in book.lessons()] == [(LESSON, 1)]


def test_a_finished_thread_of_version_0_1_0_goes_on_and_its_outcome_is_typed(
    store: InMemoryStore, saver: SqliteSaver
) -> None:
    agent = agent_on("finished", store, saver)
    old = agent.get_state(THREAD).values
    assert isinstance(old["outcome"], Outcome)
    result = agent.invoke({"messages": [("user", "And the press meeting?")]}, THREAD)
    assert result["outcome"].answer == "Booked at 11:00."
    assert result["messages"][: len(old["messages"])] == old["messages"]


def test_a_run_that_version_0_1_0_paused_is_refused_and_its_thread_takes_a_new_message(
    store: InMemoryStore, saver: SqliteSaver
) -> None:
    agent = agent_on("paused", store, saver)
    with pytest.raises(ValueError, match="finish it with that version, or send its thread a new message"):
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    result = agent.invoke({"messages": [("user", "Leave that. When is the meeting?")]}, THREAD)
    assert result["outcome"].answer == "Booked at 11:00."
