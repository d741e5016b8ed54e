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
    assert copy_store(source, middle) == (4, 28)
    assert copy_store(middle, back) == (4, 28)
    assert everything(back) == everything(source)
    assert [item.key for item in back.search(("a",))] == [item.key for item in source.search(("a",))]


def test_a_copy_continues_after_an_interruption(source: FaissStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PAGE", 4)
    target = Failing()
    with pytest.raises(ConnectionError):
        copy_store(source, target)
    assert 0 < len(everything(target)) < 28
    assert copy_store(source, target) == (4, 28)
    assert everything(target) == everything(source)


def test_items_that_the_target_does_not_keep_are_counted(source: FaissStore) -> None:
    with pytest.raises(StoreError, match=r"1 of 7 items of the namespace 'a' "):
        copy_store(source, Forgetful())


def test_nothing_in_the_target_is_overwritten(source: FaissStore) -> None:
    target = InMemoryStore()
    target.put(("a",), "k3", {"n": 1})
    target.put(("z",), "mine", {"n": 1})
    with pytest.raises(StoreError, match=r"another value of 'k3' in the namespace 'a'"):
        copy_store(source, target)
    assert everything(target) == {(("a",), "k3"): {"n": 1}, (("z",), "mine"): {"n": 1}}


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
