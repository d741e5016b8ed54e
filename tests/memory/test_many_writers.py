"""Threads, tasks and processes that write at once lose nothing and count nothing twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Episode, Lesson

SLOT = "Check a proposed slot against every busy time before you answer."
NOUNS = ["violin", "glacier", "tractor", "lantern", "passport", "orchid", "compass", "saddle"]


def slot(source: str) -> Lesson:
    return Lesson(kind="rule", text=SLOT, origin="verified", sources=[source])


def polish(noun: str) -> Lesson:
    return Lesson(kind="rule", text=f"Polish the {noun} before the guests of the {noun} arrive.", origin="told")


def at_once(work: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, i) for i in range(count)]:
            done.result(60)


@pytest.mark.req("I8", "S12")
def test_threads_that_write_at_once_lose_and_double_nothing(store: BaseStore) -> None:
    def work(i: int) -> None:
        book = LessonBook(store, ("team",))
        book.add(slot(f"e{i}"))
        book.add(polish(NOUNS[i]))
        for n in range(5):
            book.credit(Episode(id=f"r{i}-{n}", task="t", success=n > 1, shown=[lesson_id]))

    book = LessonBook(store, ("team",))
    first = book.add(slot("e"))
    assert first.lesson is not None
    lesson_id = first.lesson.id
    at_once(work, 8)
    kept = {lesson.text: lesson for lesson in book.lessons()}
    assert len(kept) == 9
    assert {f"e{i}" for i in range(8)} <= set(kept[SLOT].sources)
    assert (kept[SLOT].shown, kept[SLOT].wins, kept[SLOT].losses) == (40, 24, 16)


@pytest.mark.req("I8")
def test_a_decision_is_not_lost_to_a_writer_of_the_same_lesson(store: BaseStore) -> None:
    book = LessonBook(store, ("team",))
    first = book.add(slot("e")).lesson
    assert first is not None

    def work(i: int) -> None:
        if i == 3:
            book.retire(first.id, "not wanted")
        else:
            LessonBook(store, ("team",)).add(slot(f"e{i}").model_copy(update={"tags": [f"tag-{i}"]}))

    at_once(work, 8)
    assert [lesson.status for lesson in book.lessons()] == ["retired"]
    assert book.recall("Propose a slot that is not busy.") == []


@pytest.mark.req("I8")
async def test_tasks_that_write_at_once_lose_nothing(store: BaseStore) -> None:
    book = LessonBook(store, ("team",))

    async def work(i: int) -> None:
        mine = LessonBook(store, ("team",))
        await mine.aadd(slot(f"e{i}"))
        await mine.aadd(polish(NOUNS[i]))
        await mine.arecall("Propose a slot that is not busy.")

    await asyncio.gather(*(work(i) for i in range(8)))
    kept = {lesson.text: lesson for lesson in await book.alessons()}
    assert len(kept) == 9
    assert set(kept[SLOT].sources) == {f"e{i}" for i in range(8)}


CHILD = """
import sys
from langgraph.store.sqlite import SqliteStore
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Episode, Lesson

file, who, text = sys.argv[1:]
with SqliteStore.from_conn_string(file) as store:
    store.setup()
    book = LessonBook(store, ("team",))
    for i in range(5):
        id = book.add(Lesson(kind="rule", text=text, origin="verified", sources=[f"{who}-{i}"])).lesson.id
        book.credit(Episode(id=f"run-{who}-{i}", task="t", success=True, shown=[id]))
"""


@pytest.mark.slow
@pytest.mark.req("S12", "I8")
def test_processes_that_learn_the_same_at_once_leave_one_lesson(tmp_path: Path) -> None:
    file = str(tmp_path / "lessons.db")
    with SqliteStore.from_conn_string(file) as store:
        store.setup()
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, file, str(who), SLOT], stderr=subprocess.PIPE, text=True)
        for who in range(3)
    ]
    for child in children:
        _, said = child.communicate(timeout=90)
        assert child.returncode == 0, said
    with SqliteStore.from_conn_string(file) as store:
        [kept] = LessonBook(store, ("team",)).lessons()
    assert set(kept.sources) == {f"{who}-{i}" for who in range(3) for i in range(5)}
    assert (kept.shown, kept.wins, kept.status) == (15, 15, "active")


class StopError(Exception):
    """The process dies here."""


class Dying(InMemoryStore):
    """A store whose process dies before its n-th write."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def batch(self, ops: Any) -> Any:
        given = list(ops)
        if self.left is not None and any(isinstance(op, PutOp) for op in given):
            if self.left == 0:
                raise StopError
            self.left -= 1
        return super().batch(given)


@pytest.mark.req("I8")
@pytest.mark.parametrize("writes", range(6))
def test_a_crash_between_any_two_writes_leaves_the_book_right_when_the_work_is_done_again(writes: int) -> None:
    """Every step of a life, cut off before each of its writes, and done again by whoever opens the book next."""

    def life(book: LessonBook, after: int | None) -> None:
        store = book.store
        assert isinstance(store, Dying)

        def step(what: Callable[[], object]) -> None:
            store.left = after
            try:
                what()
            except StopError:
                store.left = None
                what()  # the next process finds what was left, and does it again
            finally:
                store.left = None

        ids: list[str] = []

        def added(text: str, source: str) -> None:
            written = book.add(Lesson(kind="rule", text=text, origin="verified", sources=[source]))
            assert written.lesson is not None
            ids.append(written.lesson.id)

        step(lambda: added("Always retry a failed upload of a file at once.", "e1"))
        step(lambda: added("Never retry a failed upload of a file at once.", "e2"))
        step(lambda: added(SLOT, "e3"))
        step(lambda: added(f"{SLOT[:-1]} the guests.", "e4"))
        for i in range(2):
            done = Episode(id=f"r{i}", task="t", success=True, status="success", shown=[ids[-1]])
            step(lambda done=done: book.credit(done))  # type: ignore[misc]
        step(lambda: book.retire(ids[0], "not wanted"))
        step(lambda: book.distill())

    def seen(book: LessonBook) -> list[tuple[object, ...]]:
        return [(one.text, one.status, one.shown, one.wins, one.losses, sorted(one.sources)) for one in book.lessons()]

    whole, cut = LessonBook(Dying(), ("team",)), LessonBook(Dying(), ("team",))
    life(whole, None)
    life(cut, writes)
    assert seen(cut) == seen(whole)
