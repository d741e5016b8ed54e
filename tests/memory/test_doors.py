"""A book's sync and async methods are two doors to the same plan."""

from __future__ import annotations

import asyncio
import inspect
import io
import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest
from langgraph.store.base import BaseStore, Op, PutOp, Result, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

from example_lessons import SLOT, a_rule
from langgraph_reflexion.memory import Indexes, LessonBook, access
from langgraph_reflexion.schemas import Episode

NOUNS = ("violin", "glacier", "tractor", "lantern", "harbour")


def test_every_method_has_a_twin_of_the_same_shape() -> None:
    names = [name for name, value in vars(LessonBook).items() if callable(value) and not name.startswith("_")]
    plain = [name for name in names if not (name.startswith("a") and name[1:] in names)]
    assert {f"a{name}" for name in plain} == set(names) - set(plain)
    for name in plain:
        one, twin = getattr(LessonBook, name), getattr(LessonBook, f"a{name}")
        assert inspect.iscoroutinefunction(twin)
        assert not inspect.iscoroutinefunction(one)
        assert inspect.signature(one) == inspect.signature(twin), name
        assert (one.__name__, twin.__name__) == (name, f"a{name}")
        assert one.__doc__
        assert one.__doc__ == twin.__doc__
    assert str(inspect.signature(LessonBook.add).return_annotation) == "Written"
    with pytest.raises(TypeError, match=r"LessonBook\.retire\(\) missing"):
        LessonBook(InMemoryStore()).retire("x")  # type: ignore[call-arg]


async def test_the_twins_do_what_the_methods_do(store: BaseStore, tmp_path: Path) -> None:
    book = LessonBook(store, ("team",))
    id = (await book.aadd(a_rule(sources=["e1"]))).lesson.id  # type: ignore[union-attr]
    await book.acredit(Episode(id="r", task="t", success=True, shown=[id]))
    assert await book.afeedback("r")
    assert await book.aget(id) == book.get(id)
    assert await book.ahas(id)
    assert await book.alessons(kind="rule") == book.lessons(kind="rule")
    assert await book.arecall("Propose a slot that is not busy.") == book.recall("Propose a slot that is not busy.")
    assert await book.asearch("busy slot") == book.search("busy slot")
    assert await book.aepisode("r") == book.episode("r")
    assert await book.ahistory(id) == book.history(id)
    assert await book.aexplain("r") == book.explain("r")
    assert await book.astats() == book.stats()
    assert (await book.aapprove(id)).status == "active"
    assert (await book.aretire(id, "no")).status == "retired"
    assert (await book.arestore(id)).status == "active"
    assert await book.aundo((await book.ahistory(id))[-1].id)
    assert await book.aexport(tmp_path / "out.jsonl") == 1
    assert (await book.aload(io.StringIO((tmp_path / "out.jsonl").read_text()))).unchanged == 1
    await book.aforget(id)
    assert book.lessons() == []


class OneDoor(InMemoryStore):
    """A store without async methods, which notes the threads it is called in."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        self.threads.add(threading.get_ident())
        return super().batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError("there is no async method")


async def test_a_store_without_async_methods_is_called_in_a_thread() -> None:
    store = OneDoor()
    await LessonBook(store).aadd(a_rule())
    assert [lesson.text for lesson in await LessonBook(store).alessons()] == [SLOT]
    assert threading.get_ident() not in store.threads
    assert store.threads


class NoneSkipped(InMemoryStore):
    """A store whose searches cannot skip items. Nor can those of `MongoDBStore`, with this error."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        if any(isinstance(op, SearchOp) and op.offset for op in given):
            raise NotImplementedError("offset is not implemented")
        return super().batch(given)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)


async def test_a_store_whose_searches_cannot_skip_items_is_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "PAGE", 2)
    store, plain = NoneSkipped(), InMemoryStore()
    for book in (LessonBook(store), LessonBook(plain)):
        for noun in NOUNS:
            book.add(a_rule(f"Polish the {noun} before the guests of the {noun} arrive."))
    everything = {lesson.id for lesson in LessonBook(plain).lessons()}
    assert len(everything) == 5
    assert {lesson.id for lesson in LessonBook(store).lessons()} == everything
    assert {lesson.id for lesson in await LessonBook(store).alessons()} == everything
    assert LessonBook(store).stats() == LessonBook(plain).stats()


class InAnyOrder(InMemoryStore):
    """Puts what was written at the same time in another order in each search, as PostgreSQL does."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        found = super().batch(op._replace(limit=1000, offset=0) if isinstance(op, SearchOp) else op for op in given)
        for at, op in enumerate(given):
            if isinstance(op, SearchOp):
                items = list(cast("list[SearchItem]", found[at]))
                random.shuffle(items)
                found[at] = items[op.offset : op.offset + op.limit]
        return found


@pytest.mark.req("O1")
def test_all_lessons_are_read_from_a_store_that_orders_them_differently_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "PAGE", 2)
    book = LessonBook(InAnyOrder())
    for noun in NOUNS:
        book.add(a_rule(f"Polish the {noun} before the guests of the {noun} arrive."))
    for _ in range(5):
        assert len(book.lessons()) == len(NOUNS)


class RolledBackError(Exception):
    """What a database says about a batch that it rolled back because of others."""

    sqlstate = "40P01"


class Failing(InMemoryStore):
    """A database in which the first of every `of` writes fails."""

    def __init__(self, fault: Exception, of: int) -> None:
        super().__init__()
        self.fault, self.of, self.writes = fault, of, 0

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        if any(isinstance(op, PutOp) for op in given):
            self.writes += 1
            if self.writes % self.of == 1 % self.of:
                raise self.fault
        return super().batch(given)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)


@pytest.mark.req("O1")
async def test_a_batch_that_a_database_rolled_back_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    book = LessonBook(Failing(RolledBackError("deadlock detected"), of=2))
    lesson = book.add(a_rule()).lesson
    assert lesson is not None
    await book.acredit(Episode(id="r", task="t", success=True, shown=[lesson.id]))
    assert [one.wins for one in book.lessons()] == [1]
    assert not caplog.records


def test_a_write_to_a_store_without_an_index_is_not_repeated_without_vectors(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing(ConnectionError("the database is down"), of=1)
    with pytest.raises(ConnectionError, match="the database is down"):
        LessonBook(store).add(a_rule())
    assert store.writes == 1
    assert not caplog.records


def test_a_store_without_an_index_is_not_asked_for_vectors(caplog: pytest.LogCaptureFixture) -> None:
    class Unindexed(InMemoryStore):
        """As `MongoDBStore` and `RedisStore` are without an index."""

        def __init__(self) -> None:
            super().__init__()
            del self.embeddings
            self.index_config = {}  # type: ignore[typeddict-item]

        def batch(self, ops: Iterable[Op]) -> list[Result]:
            given = list(ops)
            assert not any(isinstance(op, SearchOp) and op.query for op in given)
            return super().batch(given)

    book = LessonBook(Unindexed())
    book.add(a_rule())
    assert len(book.recall("Propose a slot that is not busy.")) == 1
    assert not caplog.records


async def test_a_store_with_async_methods_is_never_called_by_the_others() -> None:
    class Async(InMemoryStore):
        def batch(self, ops: Iterable[Op]) -> list[Result]:
            raise AssertionError("this would block the loop")

    book = LessonBook(Async())
    await book.aadd(a_rule())
    assert len(await book.arecall("Propose a slot that is not busy.")) == 1


async def test_an_error_of_the_store_is_raised_unchanged() -> None:
    class Down(InMemoryStore):
        def batch(self, ops: Iterable[Op]) -> list[Result]:
            raise ConnectionError("the store is down")

        async def abatch(self, ops: Iterable[Op]) -> list[Result]:
            raise ConnectionError("the store is down")

    book = LessonBook(Down())
    for call in (lambda: book.add(a_rule()), lambda: book.recall("x"), lambda: book.credit(Episode(id="r", task="t"))):
        with pytest.raises(ConnectionError):
            call()
    with pytest.raises(ConnectionError):
        await book.aadd(a_rule())
    with pytest.raises(ConnectionError):
        await book.arecall("x")


@pytest.mark.slow
def test_a_recall_costs_a_few_questions_whatever_the_evidence() -> None:
    class Counted(InMemoryStore):
        asked = 0

        def batch(self, ops: Iterable[Op]) -> list[Result]:
            self.asked += 1
            return super().batch(ops)

    store = Counted()
    book = LessonBook(store)
    for noun in ("violin", "glacier", "tractor", "lantern"):
        id = book.add(a_rule(f"Polish the {noun} before the guests of the {noun} arrive.")).lesson.id  # type: ignore[union-attr]
        for i in range(20):
            book.credit(Episode(id=f"{noun}-{i}", task="t", success=True, shown=[id]))
    before = store.asked
    assert book.recall("Polish the violin and the lantern for the guests.")
    assert store.asked - before <= 3


@pytest.mark.slow
@pytest.mark.req("I8")
async def test_a_book_of_many_lessons_lets_others_on_the_loop_have_their_turn() -> None:
    book = LessonBook(InMemoryStore(), ("team",))
    lines = "".join(f'{{"kind": "rule", "text": "Weigh crate {i} beside the busy harbour."}}\n' for i in range(1000))
    await book.aload(io.StringIO(lines))
    turns = [0]

    async def somebody_else() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(somebody_else())
    for work in (book.arecall("A crate at the harbour is busy."), book.aadd(a_rule()), book.alessons()):
        turns[0] = 0
        await work
        assert turns[0] >= 8
    other.cancel()


def test_books_that_share_indexes_analyse_a_text_once() -> None:
    indexes, store = Indexes(), InMemoryStore()
    books = [LessonBook(store, ("team",), indexes=indexes) for _ in range(2)]
    books[0].add(a_rule())
    assert books[0].recall("Propose a slot that is not busy.")
    about = next(iter(indexes.index(store, ("team", "lessons")).entries.values())).words
    assert books[1].recall("Propose a slot that is not busy.")
    assert next(iter(indexes.index(store, ("team", "lessons")).entries.values())).words is about
    one, two = (LessonBook(InMemoryStore(), (name,), indexes=indexes) for name in ("ada", "bob"))
    one.add(a_rule())
    assert one.recall("Propose a slot that is not busy.")
    assert two.recall("Propose a slot that is not busy.") == []
