"""What a recall and a run read and leave behind stays the same, however much a namespace holds."""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, Op, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langgraph_reflexion import Episode, FaissStore, Lesson, LessonBook, MemoryPolicy, Reflection
from langgraph_reflexion.driver import run_sync
from langgraph_reflexion.memory import access, history, index, upkeep, writing
from langgraph_reflexion.memory.credit import TOPIC_SLOTS
from langgraph_reflexion.memory.index import Indexes
from langgraph_reflexion.testing import reflection

MANY = 60
"""More lessons than are read as a whole each time."""


class Counting(InMemoryStore):
    """Counts the reads, and the items that they give."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = self.rows = 0

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        asked = list(ops)
        results = super().batch(asked)
        reads = [(op, result) for op, result in zip(asked, results, strict=True) if not isinstance(op, PutOp)]
        # A database gets all that it is asked for in one namespace as one query.
        self.queries += len({(type(op), getattr(op, "namespace", op)) for op, _ in reads})
        self.rows += sum(len(found) if isinstance(found, list) else found is not None for _, found in reads)
        return results


@pytest.fixture(params=["memory", "sqlite", "faiss"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    if request.param == "memory":
        yield InMemoryStore()
    elif request.param == "faiss":
        with FaissStore(tmp_path / "lessons.db") as made:
            yield made
    else:
        with SqliteStore.from_conn_string(str(tmp_path / "lessons.db")) as made:
            made.conn.execute("PRAGMA synchronous = OFF")
            made.setup()
            yield made


class Clock:
    now = datetime(2031, 3, 4, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def filled(store: BaseStore, lessons: int = MANY, **settings: Any) -> LessonBook:
    book = LessonBook(store, ("team",), MemoryPolicy(**{"max_kept": 10_000, **settings}), Clock())
    rows = (
        {"kind": "rule", "text": f"Weigh crate {i} beside the busy harbour.", "when": f"crate {i}"}
        for i in range(lessons)
    )
    book.load(io.StringIO("".join(f"{json.dumps(row)}\n" for row in rows)))
    return book


def a_run(id: str, shown: list[str], success: bool = True) -> Episode:
    return Episode(id=id, task="Tune the violin.", topic="general", success=success, shown=shown)


def violin(words: str = "the violin before each concert") -> Lesson:
    return Lesson(kind="rule", text=f"Tune {words}.", when="tuning a violin", origin="verified")


@pytest.mark.req("O1")
def test_a_recall_reads_little_whatever_the_namespace_holds() -> None:
    store = Counting()
    book = filled(store)
    lesson = book.add(violin()).lesson
    assert lesson is not None
    for i in range(40):
        book.credit(a_run(f"run-{i}", [lesson.id]))
    assert book.recall("Tune the violin.")
    store.queries = store.rows = 0
    assert [one.wins for one in book.recall("Tune the violin.")] == [40]
    assert store.queries <= 3
    assert store.rows <= 200
    LessonBook(store, ("team",), clock=Clock()).add(violin("a violin to the oboe"))
    store.queries = store.rows = 0
    assert book.recall("Tune the violin.")
    assert store.queries <= 3, "the notes, the changed lesson, and the records with the topic's runs"
    assert store.rows <= 200


@pytest.mark.slow
@pytest.mark.req("O2")
def test_the_next_recall_sees_what_another_agent_added_changed_and_forgot(store: BaseStore) -> None:
    ours = filled(store)
    theirs = LessonBook(store, ("team",), ours.policy)
    assert ours.recall("Tune the violin.") == []
    added = theirs.add(violin()).lesson
    assert added is not None
    assert [one.id for one in ours.recall("Tune the violin.")] == [added.id]
    theirs.retire(added.id, "wrong")
    assert ours.recall("Tune the violin.") == []
    theirs.restore(added.id)
    assert [one.id for one in ours.recall("Tune the violin.")] == [added.id]
    theirs.forget(added.id)
    assert ours.recall("Tune the violin.") == []
    assert "violin" not in str(vars(ours._shelf.index))
    assert "Tune the violin before" not in str([item.value for item in store.search(("team",), limit=10_000)])


@pytest.mark.slow
@pytest.mark.req("O2")
def test_an_index_that_missed_too_many_changes_reads_the_namespace_again(store: BaseStore) -> None:
    ours = filled(store)
    assert ours.recall("Tune the violin.") == []
    theirs = LessonBook(store, ("team",), ours.policy)
    added = theirs.add(violin()).lesson
    assert added is not None
    for item in store.search(ours._shelf.notes, limit=1000):
        store.delete(item.namespace, item.key)
    for i in range(40):
        theirs.retire(added.id, f"reason {i}")
    theirs.restore(added.id)
    assert [one.id for one in ours.recall("Tune the violin.")] == [added.id]


@pytest.mark.slow
@pytest.mark.req("O1")
def test_indexes_of_many_namespaces_are_bounded_by_their_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MAX_INDEXED_LESSONS", 100)
    indexes, store = Indexes(), InMemoryStore()
    for name in ("ada", "bob", "eve"):
        book = LessonBook(store, (name,), indexes=indexes)
        book.load(io.StringIO("".join(f'{{"kind": "rule", "text": "Weigh crate {i}."}}\n' for i in range(60))))
        assert len(book.search("crate", limit=100)) == 60
    indexes.index(store, ("eve", "lessons"))
    assert list(indexes._of[store]) == [("eve", "lessons")]


@pytest.mark.slow
@pytest.mark.req("O1")
def test_old_runs_are_counted_together_and_each_stays_counted_once(store: BaseStore) -> None:
    clock = Clock()
    book = LessonBook(store, ("team",), MemoryPolicy(), clock)
    lesson = book.add(violin()).lesson
    assert lesson is not None
    for i in range(230):
        clock.now += timedelta(seconds=20)
        book.credit(a_run(f"run-{i}", [lesson.id], success=i % 10 != 9))
    assert len(store.search(("team", "evidence", lesson.id), limit=1000)) < 120
    now = book.get(lesson.id)
    assert now is not None
    assert (now.shown, now.wins, now.losses) == (230, 207, 23)
    assert book.search("violin")[0].lesson.wins == 207
    # A run that was counted long ago and one that is listed still: the user says that both were wrong, twice.
    for run in ("run-0", "run-228", "run-0", "run-228"):
        assert book.feedback(run)
    book.credit(a_run("run-1", [lesson.id], success=False))
    now = book.get(lesson.id)
    assert now is not None
    assert (now.shown, now.wins, now.losses) == (230, 204, 26)
    assert book.search("violin")[0].lesson.losses == 26


@pytest.mark.slow
@pytest.mark.req("O1")
def test_a_credit_reads_at_most_200_items_at_a_hundred_runs_a_second() -> None:
    clock, store = Clock(), Counting()
    book = LessonBook(store, ("team",), MemoryPolicy(), clock)
    lesson = book.add(violin()).lesson
    assert lesson is not None
    rows = []
    for i in range(300):
        clock.now += timedelta(milliseconds=10)
        assert book.recall("Tune the violin.")
        store.rows = 0
        book.credit(a_run(f"run-{i}", [lesson.id]))
        rows.append(store.rows)
    assert statistics.median(rows[150:]) <= 200  # one that sums up reads twice that
    assert [(one.shown, one.wins) for one in book.lessons()] == [(300, 300)]


@pytest.mark.req("O1")
def test_a_run_that_is_recorded_late_while_a_slow_writer_sums_up_is_not_lost() -> None:
    clock, store = Clock(), InMemoryStore()
    book = LessonBook(store, ("team",), MemoryPolicy(), clock)
    lesson = book.add(violin()).lesson
    assert lesson is not None
    for i in range(30):
        book.credit(a_run(f"run-{i}", [lesson.id]))
    clock.now += timedelta(seconds=10)
    book.credit(a_run("young", [lesson.id]))
    plan = upkeep.sum_up_runs(book._shelf, lesson.id)
    read = access._answer(store, next(plan))  # the evidence
    clock.now -= timedelta(seconds=0.5)
    book.credit(a_run("late", [lesson.id]))
    clock.now += timedelta(seconds=1.7)
    run_sync(upkeep.sum_up_runs(book._shelf, lesson.id), lambda ops: access._answer(store, ops))
    clock.now += timedelta(seconds=5)
    with suppress(StopIteration):
        while True:
            read = access._answer(store, plan.send(read))
    assert [(one.shown, one.wins) for one in book.lessons()] == [(32, 32)]


@pytest.mark.slow
@pytest.mark.req("O1")
@pytest.mark.parametrize("both_count", [True, False])
def test_two_who_count_the_same_runs_together_lose_and_double_nothing(both_count: bool) -> None:
    clock, store = Clock(), InMemoryStore()
    book = LessonBook(store, ("team",), MemoryPolicy(), clock)
    lesson = book.add(violin()).lesson
    assert lesson is not None
    for i in range(60):
        book.credit(a_run(f"run-{i}", [lesson.id]))
    clock.now += timedelta(minutes=5)
    plan = upkeep.sum_up_runs(book._shelf, lesson.id)
    writes = plan.send(store.batch(next(plan)))  # it has read, and is about to write
    for i in range(30):
        book.credit(a_run(f"later-{i}", [lesson.id]))
    clock.now += timedelta(minutes=5)
    if both_count:
        run_sync(upkeep.sum_up_runs(book._shelf, lesson.id), lambda ops: access._answer(store, ops))
    access._answer(store, writes)
    assert [(one.shown, one.wins) for one in book.lessons()] == [(90, 90)]
    assert [one.lesson.wins for one in book.search("violin")] == [90]


@pytest.mark.slow
@pytest.mark.req("O1")
def test_the_latest_episodes_stay_and_the_counts_of_the_rest(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_NOTES", 1)
    clock = Clock()
    book = LessonBook(store, ("team",), MemoryPolicy(keep_runs=500), clock)
    lesson = book.add(violin()).lesson
    assert lesson is not None
    for i in range(30):
        clock.now += 2 * upkeep.SUM_UP_AGE
        book.credit(a_run(f"run-{i}", [lesson.id]))
    small = LessonBook(store, ("team",), MemoryPolicy(keep_runs=20), clock)
    access.run(store, upkeep.sum_up_runs(small._shelf, lesson.id))
    access.run(store, upkeep.drop_old(small._shelf))
    assert isinstance(store, FaissStore) or len(store.search(book._shelf.notes, limit=100)) == 1
    left = [item.key for item in store.search(("team", "episodes"), limit=100)]
    assert len(left) == 20
    assert isinstance(store, SqliteStore) or set(left) == {f"run-{i}" for i in range(10, 30)}  # it counts in seconds
    assert small.stats()["wins"] == 30


@pytest.mark.req("O1")
@pytest.mark.slow
def test_a_book_to_which_lessons_are_only_added_keeps_few_notes_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_NOTES", 5)
    monkeypatch.setattr(writing, "NOTES_EACH", 3)
    store = InMemoryStore()
    book = filled(store)
    for i in range(30):
        book.add(Lesson(kind="project", text=f"Depot {i} opens at eight.", when=f"depot {i}"))
    notes = store.search(("team", "evidence", "~changes"), limit=1_000)
    assert len(notes) < 20 < len(book.lessons()) - MANY


@pytest.mark.req("O1")
@pytest.mark.slow
def test_statistics_read_a_sample_and_count_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SAMPLE", 20)
    store = Counting()
    book = filled(store, lessons=73)
    for i in range(45):
        book.credit(a_run(f"run-{i}", []))
    store.queries = store.rows = 0
    found = book.stats()
    assert (found["lessons"], found["sampled"], found["live"], found["episodes"]) == (73, 20, 20, 45)
    assert found["topics"].keys() == {"general"}
    assert store.rows <= 3 * 20 + TOPIC_SLOTS
    monkeypatch.setattr(history, "SAMPLE", 73)
    assert (book.stats()["lessons"], book.stats()["live"]) == (73, 73)
    assert "sampled" not in book.stats()


def pauses(book: LessonBook, plan: access.Plan[Any]) -> int:
    """How often the work of a plan lets other tasks of the event loop run between two calls of the store."""
    made = []
    access.run_sync(
        plan, lambda request: (made.append(request is access.PAUSE), access._answer(book.store, request))[1]
    )
    return sum(made)


@pytest.mark.req("I6")
def test_work_on_all_records_of_a_book_gives_way_to_other_tasks() -> None:
    clock, rows = Clock(), 250
    book = LessonBook(InMemoryStore(), ("team",), clock=clock)
    lines = "".join(f'{{"kind": "rule", "text": "Weigh crate {i} with care."}}\n' for i in range(rows))
    assert pauses(book, book._load(io.StringIO(lines))) >= 4, "to read them, and to write them"
    items = access.run(book.store, book._shelf.current_items()).values()
    assert pauses(book, book._shelf.read_snapshots(items)) == 4, "for their evidence, and for the lessons"
    added = LessonBook(InMemoryStore(), ("team",))
    for i in range(100):
        added.add(Lesson(kind="rule", text=f"Weigh crate {i} with care."))
    items = access.run(added.store, added._shelf.current_items()).values()
    assert pauses(added, added._shelf.read_snapshots(items)) == 2, "for their snapshots, and for the lessons"
    lesson = book.add(violin()).lesson
    assert lesson is not None
    about = Reflection.model_validate(reflection("Listen first."))
    run = a_run("run", []).model_copy(update={"reflections": [about], "created_at": clock.now})
    for i in range(rows):
        value = run.model_copy(update={"id": f"run-{i}"}).model_dump(mode="json")
        book.store.put(("team", "episodes"), f"run-{i}", value)
    assert pauses(book, book._episodes()) == pauses(book, book._forget(lesson.id)) == 2
    assert pauses(book, book._episodes(5)) == 0, "no more are read than asked for"
    assert pauses(book, upkeep.drop_old(book._shelf)) == 2
    for i in range(rows):
        item = book.store.get(("team", "episodes"), f"run-{i}")
        assert item is not None
        item.updated_at -= timedelta(days=1)
    assert pauses(book, upkeep.drop_old(book._shelf)) == 0, "`forget` itself has read those that were there before it"
    undo = book._undo(since=clock.now - timedelta(days=1))
    assert pauses(book, undo) >= pauses(book, book._lessons()) + 2
