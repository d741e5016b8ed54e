"""One PostgreSQL and several processes: they share what they learn at once, and a recall reads little."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from langgraph.store.base import PutOp

from langgraph_reflexion import Episode, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory.evidence import Evidence
from langgraph_reflexion.memory.items import item_value

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

def pay(amount: str) -> str:
    '''Pay an amount.'''
    if not amount.isdecimal():
        raise ValueError(f"{amount} is no number of cents")
    return f"paid {amount}"

TASKS = {"book": "Book a room for the press meeting.", "pay": "Pay the invoice of the florist."}
FAILS = {
    "book": [call("book", day="10 March"), call("book", day="Tuesday")],
    "pay": [call("pay", amount="12 euros"), call("pay", amount="1200")],
}
RULES = {
    "book": {"text": "Give `book` a weekday, never a date.", "when": "booking a room"},
    "pay": {"text": "Give `pay` a number of cents, never euros.", "when": "paying an invoice"},
}

def learned(tool):
    rule = {"kind": "rule", **RULES[tool]}
    return reflection(patch_prompt=f"Call `{tool}` as it asks.", memory_to_write=[rule], confidence=90)

steps = [step.split("-") for step in sys.argv[3:]]
with PostgresStore.from_conn_string(sys.argv[1]) as store:
    replies = [reply for how, tool in steps for reply in [*(FAILS[tool] if how == "learn" else []), say("Done.")]]
    reflector = ScriptedModel([learned(tool) for how, tool in steps if how == "learn"])
    memory = MemoryPolicy(namespace=(sys.argv[2],))
    agent = create_reflexion_agent(ScriptedModel(replies), [book, pay], reflector=reflector, memory=memory, store=store)
    for _, tool in steps:
        input()
        outcome = agent.invoke({"messages": [("user", TASKS[tool])]})["outcome"]
        print(len(outcome.lessons_written), len(outcome.lessons_used), flush=True)
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
def test_a_lesson_of_one_process_is_shown_in_the_next_run_of_the_other_both_ways(
    connection: Any, place: tuple[str, ...]
) -> None:
    from langgraph.store.postgres import PostgresStore

    book = LessonBook(PostgresStore(connection), place)
    for i in range(60):
        book.add(Lesson(kind="rule", text=f"Weigh crate {i} beside the busy harbour {'x' * i}.", when=f"crate {i}"))

    def agent(*steps: str) -> subprocess.Popen[str]:
        run = [sys.executable, "-c", RUN, DSN, *place, *steps]
        return subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(process: subprocess.Popen[str]) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        print("go", file=process.stdin, flush=True)
        return process.stdout.readline()

    with agent("learn-book", "use-pay", "use-pay") as ours, agent("use-book", "use-book", "learn-pay") as theirs:
        assert step(theirs) == "0 0\n"  # its index of the namespace is made now
        assert step(ours) == "1 0\n"
        assert step(theirs) == "0 1\n"
        assert step(ours) == "0 0\n"
        assert step(theirs) == "1 0\n"
        assert step(ours) == "0 1\n"


@pytest.mark.req("O1")
def test_statistics_of_10_000_lessons_on_postgresql_take_few_queries_and_a_sample(
    connection: Any, place: tuple[str, ...]
) -> None:
    from langgraph.store.postgres import PostgresStore

    store, now = PostgresStore(connection), datetime.now(UTC)
    book = LessonBook(store, place)
    ops: list[PutOp] = []
    for i in range(10_000):
        lesson = Lesson(id=f"{i:016x}", kind="rule", text=f"Weigh crate {i}.", created_at=now, origin="told")
        ops.append(PutOp((*place, "lessons"), lesson.id, item_value(lesson), False))
        ops.append(PutOp((*place, "evidence"), lesson.id, Evidence().snapshot_record(), False))
        run = Episode(id=f"run-{i}", task="Weigh the crates.", topic="general", success=True, created_at=now)
        ops.append(PutOp((*place, "episodes"), run.id, run.model_dump(mode="json"), False))
    for start in range(0, len(ops), 3000):
        store.batch(ops[start : start + 3000])
    counting = connection.cursor_factory
    counting.queries = counting.rows = 0
    found = book.stats()
    assert (found["lessons"], found["sampled"], found["episodes"]) == (10_000, 1000, 10_000)
    assert counting.queries <= 50
    assert counting.rows <= 3100


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


@pytest.mark.req("O1")
def test_lessons_and_runs_of_a_large_namespace_on_postgresql_are_all_read_and_undone(
    connection: Any, place: tuple[str, ...]
) -> None:
    from langgraph.store.postgres import PostgresStore

    store, now = PostgresStore(connection), datetime.now(UTC)
    ops: list[PutOp] = []
    for i in range(12_000):
        lesson = Lesson(id=f"{i:016x}", kind="rule", text=f"Weigh crate {i}.", created_at=now, origin="told")
        ops.append(PutOp((*place, "lessons"), lesson.id, item_value(lesson), False))
    store.batch(ops)
    assert len(LessonBook(store, place).lessons()) == len(ops)
    runs = [Episode(id=f"run-{i}", task="Weigh the crates.", success=False, created_at=now) for i in range(17_000)]
    values = [run.model_dump(mode="json") for run in runs]
    for start in range(0, len(runs), 8_500):
        part = values[start : start + 8_500]
        store.batch([PutOp((*place, "episodes"), value["id"], value, False) for value in part])
    LessonBook(store, place).undo(since=now)
    assert all(item.value["undone"] for item in store.search((*place, "episodes"), limit=20_000))


@pytest.mark.req("O1")
def test_threads_on_a_database_that_refuses_to_overwrite_each_other_lose_nothing(
    connection: Any, place: tuple[str, ...]
) -> None:
    import psycopg
    from langgraph.store.postgres import PostgresStore
    from psycopg.rows import dict_row

    book = LessonBook(PostgresStore(connection), place)
    lesson = book.add(Lesson(kind="rule", text="Tune the violin.", when="a violin is to be tuned")).lesson
    assert lesson is not None
    strict = "-c default_transaction_isolation=repeatable\\ read"

    def work(who: int) -> None:
        options: Any = {"autocommit": True, "row_factory": dict_row, "options": strict}
        with psycopg.connect(DSN, **options) as own:
            mine = LessonBook(PostgresStore(own), place)
            for i in range(10):
                mine.credit(Episode(id=f"{who}-{i}", task="Tune it.", success=True, shown=[lesson.id]))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert [one.wins for one in book.lessons()] == [60]
