"""Copying: from one store to another with everything, again after an interruption, and checked by counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from langgraph.store.base import Op, PutOp
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, FaissStore, Lesson, LessonBook
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store import copy_store, copying

SPACES = [("a",), ("a", "b"), ("a", "b", "c"), ("ab",)]
Opened = Callable[..., FaissStore]


@pytest.fixture
def source(opened: Opened) -> FaissStore:
    store = opened(path=":memory:")
    store.batch([PutOp(space, f"k{i}", {"text": f"lesson {i}", "n": i}) for space in SPACES for i in range(7)])
    return store


def everything(store: Any) -> dict[tuple[Any, str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


class Failing(InMemoryStore):
    """Fails at its third write, until it is mended."""

    writes = 0

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        ops = list(ops)
        writes = any(isinstance(op, PutOp) for op in ops)
        self.writes += writes
        if writes and self.writes == 3:
            raise ConnectionError("the server is down")
        return super().batch(ops)


class Forgetful(InMemoryStore):
    """Keeps all but one item."""

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        return super().batch([op for op in ops if not (isinstance(op, PutOp) and op.key == "k3")])


def test_everything_is_copied_there_and_back(source: FaissStore, opened: Opened) -> None:
    middle, back = InMemoryStore(), opened()
    assert copy_store(source, middle) == (4, 28, 28)
    assert copy_store(middle, back) == (4, 28, 28)
    assert everything(back) == everything(source)
    assert [item.key for item in back.search(("a",))] == [item.key for item in source.search(("a",))]


def test_a_copy_continues_after_an_interruption(source: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PAGE", 4)
    target = Failing()
    with pytest.raises(ConnectionError):
        copy_store(source, target)
    half = len(everything(target))
    assert 0 < half < 28
    source.put(("a",), "k0", {"text": "changed"})
    assert copy_store(source, target) == (4, 28, 28 - half + 1)
    assert everything(target) == everything(source)
    assert copy_store(source, target).written == 0


def test_items_that_the_target_does_not_keep_are_counted(source: FaissStore) -> None:
    with pytest.raises(StoreError, match=r"1 of 7 items of the namespace 'a' "):
        copy_store(source, Forgetful())


def test_other_items_of_the_target_stay(source: FaissStore) -> None:
    target = InMemoryStore()
    target.put(("a",), "mine", {"n": 1})
    target.put(("z",), "mine", {"n": 1})
    copy_store(source, target)
    assert len(everything(target)) == 30


def test_the_caller_says_what_is_embedded(
    source: FaissStore, opened: Opened, index: dict[str, Any], angles: Any
) -> None:
    copy_store(source, opened(index=index), index=lambda item: ["text"] if item.namespace == ("ab",) else False)
    assert sorted(angles.seen) == [f"lesson {i}" for i in range(7)]


@pytest.mark.req("D15")
def test_a_book_is_the_same_in_the_copy(opened: Opened) -> None:
    book = LessonBook(opened(), ("team", "ada"))
    written = book.add(Lesson(kind="rule", text="Give every date a weekday.", when="planning", origin="told"))
    assert written.lesson is not None
    book.approve(written.lesson.id)
    book.credit(Episode(
        id="run-1", task="Plan a week.", topic="general", success=True, score=100, shown=[written.lesson.id],
        withheld=[], failures=[], reflections=[], created_at=written.lesson.created_at, seconds=1.0,
    ))  # fmt: skip
    target = InMemoryStore()
    copy_store(book.store, target)
    copy = LessonBook(target, ("team", "ada"))
    assert copy.lessons() == book.lessons()
    assert copy.history(written.lesson.id) == book.history(written.lesson.id)
    assert copy.stats() == book.stats()
    assert copy.explain("run-1") == book.explain("run-1")


RUNS = Episode(id="", task="Plan a week.", topic="general", success=True)


def planned(book: LessonBook) -> str:
    written = book.add(Lesson(kind="rule", text="Give every date a weekday.", when="planning", origin="told"))
    assert written.lesson is not None
    return written.lesson.id


def run_some(book: LessonBook, clock: Any, id: str, *runs: int) -> None:
    for n in range(*runs):
        book.credit(RUNS.model_copy(update={"id": f"r{n}", "shown": [id], "created_at": clock()}))
        clock.pass_by(minutes=2)


def counts(book: LessonBook, id: str) -> tuple[int, int]:
    lesson = book.get(id)
    assert lesson is not None
    return lesson.shown, lesson.wins


@pytest.mark.req("D15", "O1")
def test_a_second_copy_brings_what_is_new_and_counts_each_run_once(book_on: Any, clock: Any) -> None:
    book, copy = book_on(InMemoryStore()), book_on(InMemoryStore())
    id = planned(book)
    run_some(book, clock, id, 30)
    copy_store(book.store, copy.store)
    run_some(book, clock, id, 30, 100)
    copy_store(book.store, copy.store)
    assert counts(copy, id) == counts(book, id) == (100, 100)
    run_some(copy, clock, id, 100, 170)
    copy.approve(id)
    copy_store(book.store, copy.store)
    assert counts(copy, id) == (170, 170), "what the copy counted since stays"
    assert [(found.status, found.wins) for found in copy.recall("Planning a week with a date.")] == [("active", 170)]


@pytest.mark.req("D15", "O2")
def test_an_open_book_sees_what_is_copied_and_what_it_forgot_stays_so(book_on: Any) -> None:
    book, copy = book_on(InMemoryStore()), book_on(InMemoryStore())
    for n in range(55):
        copy.add(Lesson(kind="rule", text=f"Weigh crate {n}x before {n}y is sent.", when="a crate is sent"))
    id = planned(book)
    assert copy.recall("Planning a date.") == []
    copy_store(book.store, copy.store)
    assert [found.id for found in copy.recall("Planning a date.")] == [id]
    copy.forget(id)
    copy_store(book.store, copy.store)
    assert copy.recall("Planning a date.") == []
    assert "weekday" not in str([item.value for item in copy.store.search((), limit=1000)])


def test_a_run_that_was_undone_before_it_was_summed_up_is_not_taken_off_twice(book_on: Any, clock: Any) -> None:
    source, target = InMemoryStore(), InMemoryStore()
    book, copied = book_on(source), book_on(target)
    id = book.add(Lesson(kind="rule", text="Ask for the next page.")).lesson.id
    for number in range(25):
        clock.pass_by(seconds=1)
        book.credit(Episode(id=f"r{number}", task="t", success=True, status="success", shown=[id]))
    clock.pass_by(seconds=1)
    book.undo("r5")
    copy_store(source, target)
    clock.pass_by(minutes=1)
    assert book.sweep().runs
    copy_store(source, target)
    assert (book.get(id).wins, copied.get(id).wins) == (24, 24)
