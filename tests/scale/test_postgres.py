"""One PostgreSQL and several processes: they share what they learn at once, and a recall reads little."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from langgraph_reflexion import Episode, Lesson, LessonBook, MemoryPolicy

DSN = os.environ.get("POSTGRES_DSN", "")
pytestmark = [pytest.mark.external, pytest.mark.skipif(not DSN, reason="$POSTGRES_DSN names no server")]

RUN = """
import sys
from langgraph.store.postgres import PostgresStore
from langgraph_reflexion import MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.testing import ScriptedModel, call, reflection, say

def book(day: str) -> str:
    '''Book the room for a day.'''
    if day != "Tuesday":
        raise ValueError(f"{day} is no weekday")
    return f"booked for {day}"

learned = reflection(
    patch_prompt="Call `book` with a weekday.",
    memory_to_write=[{"kind": "rule", "text": "Give `book` a weekday, never a date.", "when": "booking a room"}],
    confidence=90,
)
with PostgresStore.from_conn_string(sys.argv[1]) as store:
    model = ScriptedModel([call("book", day="10 March"), call("book", day="Tuesday"), say("Booked.")])
    memory = MemoryPolicy(namespace=(sys.argv[2],))
    agent = create_reflexion_agent(model, [book], reflector=ScriptedModel([learned]), memory=memory, store=store)
    while input():
        result = agent.invoke({"messages": [("user", "Book a room for the press meeting.")]})
        print(result["outcome"].status, len(result["outcome"].lessons_written), flush=True)
"""


@pytest.fixture
def connection() -> Iterator[Any]:
    import psycopg
    from psycopg.rows import dict_row

    class Counting(psycopg.Cursor[Any]):
        queries = rows = 0

        def execute(self, *args: Any, **kwargs: Any) -> Any:
            Counting.queries += 1
            return super().execute(*args, **kwargs)

        def fetchall(self) -> Any:
            found = super().fetchall()
            Counting.rows += len(found)
            return found

    options: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row, "cursor_factory": Counting}
    with psycopg.connect(DSN, **options) as made:
        yield made


@pytest.fixture
def place(connection: Any) -> Iterator[tuple[str, ...]]:
    """A namespace of this test alone."""
    from langgraph.store.postgres import PostgresStore

    PostgresStore(connection).setup()
    name = f"scale-{uuid4().hex[:8]}"
    yield (name,)
    connection.execute("DELETE FROM store WHERE prefix LIKE %s", (f"{name}%",))


@pytest.mark.req("O2")
def test_what_one_process_learns_the_next_recall_of_another_process_finds(
    connection: Any, place: tuple[str, ...]
) -> None:
    from langgraph.store.postgres import PostgresStore

    ours = LessonBook(PostgresStore(connection), place)
    for i in range(60):
        ours.add(Lesson(kind="rule", text=f"Weigh crate {i} beside the busy harbour {'x' * i}.", when=f"crate {i}"))
    assert ours.recall("Book a room for the press meeting.", ["book"]) == []
    run = [sys.executable, "-c", RUN, DSN, *place]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as theirs:
        assert theirs.stdin is not None
        assert theirs.stdout is not None
        print("go", file=theirs.stdin, flush=True)
        assert theirs.stdout.readline() == "unverified 1\n"
        [lesson] = ours.recall("Book a room for the press meeting.", ["book"])
        assert lesson.text == "Give `book` a weekday, never a date."
        print("", file=theirs.stdin, flush=True)


@pytest.mark.req("O1")
def test_a_recall_on_postgresql_takes_at_most_three_queries_and_few_rows(
    connection: Any, place: tuple[str, ...]
) -> None:
    from langgraph.store.postgres import PostgresStore

    book = LessonBook(PostgresStore(connection), place, MemoryPolicy())
    for i in range(60):
        book.add(Lesson(kind="rule", text=f"Weigh crate {i} beside the busy harbour {'x' * i}.", when=f"crate {i}"))
    lesson = book.add(Lesson(kind="rule", text="Tune the violin.", when="a violin is to be tuned")).lesson
    assert lesson is not None
    for i in range(30):
        book.credit(Episode(id=f"run-{i}", task="Tune the violin.", topic="general", success=True, shown=[lesson.id]))
    assert book.recall("Tune the violin.")
    counting = connection.cursor_factory
    counting.queries = counting.rows = 0
    assert [one.wins for one in book.recall("Tune the violin.")] == [30]
    assert counting.queries <= 3
    assert counting.rows <= 200
