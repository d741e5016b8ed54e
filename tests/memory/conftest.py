"""The stores that a book must work on alike, and a book on each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, Op, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langgraph_reflexion import FaissStore
from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.testing import WordEmbeddings

POSTGRES = "POSTGRES_DSN"
NAMESPACE = ("team",)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2031, 3, 4, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **time: float) -> None:
        self.now += timedelta(**time)


class Interrupted(InMemoryStore):
    """A store in which something else happens just before or just after the next write."""

    first: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        given = list(ops)
        if self.first is not None and any(isinstance(op, PutOp) for op in given):
            first, self.first = self.first, None
            first()
        found = super().batch(given)
        if self.after is not None and any(isinstance(op, PutOp) for op in given):
            after, self.after = self.after, None
            after()
        return found


@pytest.fixture
def interrupted() -> Interrupted:
    return Interrupted()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(name: str, folder: Path) -> Iterator[BaseStore]:
    if name == "plain":
        yield InMemoryStore()
    elif name == "indexed":
        yield InMemoryStore(index={"dims": 64, "embed": WordEmbeddings(dims=64), "fields": ["text"]})
    elif name == "faiss":
        with FaissStore(folder / "lessons.db") as store:
            yield store
    elif name == "faiss indexed":
        index = {"dims": 64, "embed": WordEmbeddings(dims=64), "fields": ["text"]}
        with FaissStore(folder / "lessons.db", index=index) as store:
            yield store
    elif name == "sqlite":
        with SqliteStore.from_conn_string(str(folder / "lessons.db")) as store:
            store.conn.execute("PRAGMA synchronous = OFF")  # no test loses power, and waiting for the disk is slow
            store.setup()
            yield store
    else:
        postgres = pytest.importorskip("langgraph.store.postgres")
        with postgres.PostgresStore.from_conn_string(os.environ[POSTGRES]) as store:
            store.setup()
            for item in store.search(NAMESPACE, limit=10_000):
                store.delete(item.namespace, item.key)
            yield store


@pytest.fixture(
    params=[
        "plain",
        pytest.param("indexed", marks=pytest.mark.slow),
        pytest.param("sqlite", marks=pytest.mark.slow),
        pytest.param("faiss", marks=pytest.mark.slow),
        "faiss indexed",
        pytest.param("postgres", marks=pytest.mark.external),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStore]:
    """Each sort of store in turn. Every time: in memory and by words, in a file and by vectors too."""
    if request.param == "postgres" and POSTGRES not in os.environ:
        pytest.skip(f"${POSTGRES} names no server")
    yield from opened(request.param, tmp_path)


@pytest.fixture
def book_on(clock: Clock) -> Any:
    """A book on a store, under a policy of these settings."""

    def made(store: BaseStore, namespace: tuple[str, ...] = NAMESPACE, **settings: Any) -> LessonBook:
        return LessonBook(store, namespace, MemoryPolicy(**settings), clock)

    return made


@pytest.fixture
def book(store: BaseStore, book_on: Any) -> LessonBook:
    made: LessonBook = book_on(store)
    return made
