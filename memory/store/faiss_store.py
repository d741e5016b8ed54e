"""FaissStore: a LangGraph store in one SQLite file, found by vectors, by words, or by both."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, get_args

import numpy as np
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, Op, Result, SearchItem, SearchOp

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store.agreeing import agree
from langgraph_reflexion.memory.store.ahead import Ahead
from langgraph_reflexion.memory.store.embedding import Packed, aembed, embed
from langgraph_reflexion.memory.store.file import File
from langgraph_reflexion.memory.store.mirror import Mirror
from langgraph_reflexion.memory.store.renewing import StaleError
from langgraph_reflexion.memory.store.searching import Changes, Reader, changes
from langgraph_reflexion.memory.store.settings import Durability, Settings, checked_ttl
from langgraph_reflexion.memory.store.values import now
from langgraph_reflexion.memory.store.work import Work, work_of
from langgraph_reflexion.memory.store.writing import PUT, refresh, row, sweep, write

logger = logging.getLogger(__name__)
T = TypeVar("T")

SMALL = 32
"""Operations that are checked on the event loop itself; more go to a thread."""


class _OlderError(Exception):
    """A view of the file is older than what the mirror has seen."""


class FaissStore(BaseStore):
    """Keeps items in the SQLite file at `path`, or in memory for `":memory:"`.

    Any number of threads, tasks and processes may use one file at once. A batch is written whole or not at all, and its
    reads see what was there before it. With `durability="process"` an acknowledged write outlives the process, with
    `"power"` also the machine's power. `index` is LangGraph's `IndexConfig` with `distance_type` (`cosine`,
    `inner_product`, `l2`) and `rank` (`vectors`, `words`, `fused`) beside; without one, words and their spelling find
    items. `ttl` is LangGraph's `TTLConfig`: what has expired is never given back, and reading an item lets its time
    begin anew where `refresh_on_read` says so. With vectors, what is not indexed comes last and has no score.
    """

    supports_ttl = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        durability: Durability = "process",
    ) -> None:
        super().__init__()
        if not isinstance(path, (str, os.PathLike)):
            raise ValueError(f"`path` is a file's path or ':memory:', got {path!r}")
        if durability not in get_args(Durability):
            raise ValueError(f"`durability` must be one of {', '.join(get_args(Durability))}, got {durability!r}")
        self._settings = Settings.of(index)
        self.ttl_config = checked_ttl(ttl)
        self.index_config = None if index is None else dict(index)
        self.embeddings = self._settings.embedder
        self._file = File(path, durability)
        try:
            agree(self._file, self._settings)
        except BaseException:
            self._file.close()
            raise
        beside = None if self._file.in_memory else Path(f"{self._file.path}.faiss")
        self._mirror = Mirror(self._settings, beside)
        self._ahead = Ahead()
        self._swept = time.monotonic()
        self._threads: tuple[int, ThreadPoolExecutor] | None = None
        self._finalizer = weakref.finalize(self, self._file.close)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do all of these or none; the results stand in the order of the operations."""
        work = work_of(ops, self._settings)
        texts, queries = embed(self._settings, work.texts, work.queries)
        while True:
            try:
                return self._done(work, texts, queries)
            except StaleError as stale:
                self._renew(stale, embed(self._settings, self._texts(stale), ())[0])

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same without blocking the event loop, on whichever loop it is called."""
        ops = list(ops)
        if len(ops) <= SMALL:
            work = work_of(ops, self._settings)
        else:
            work = await self._in_thread(lambda: work_of(ops, self._settings))
        texts, queries = await aembed(self._settings, work.texts, work.queries)
        while True:
            try:
                return await self._in_thread(lambda: self._done(work, texts, queries))
            except StaleError as stale:
                found = (await aembed(self._settings, self._texts(stale), ()))[0]
                await self._in_thread(partial(self._renew, stale, found))

    def changes(self, namespace: tuple[str, ...], since: int) -> Changes | None:
        """What has changed in exactly this namespace after a write; all it holds where that is too long ago.

        `None` where items expire: then nobody writes what changes.
        """
        with self._file.reading() as connection:
            return changes(connection, namespace, since)

    async def achanges(self, namespace: tuple[str, ...], since: int) -> Changes | None:
        """The same, awaited."""
        return await self._in_thread(lambda: self.changes(namespace, since))

    def sweep_ttl(self) -> int:
        """Delete what has expired, and say how many items that were."""
        with self._file.writing() as connection:
            return sweep(connection)

    async def asweep_ttl(self) -> int:
        return await self._in_thread(self.sweep_ttl)

    def settle(self) -> None:
        """Leave nothing of what was deleted in the log beside the file, as far as no other process reads just now."""
        self._file.settle()

    async def asettle(self) -> None:
        """The same, awaited."""
        await self._in_thread(self.settle)

    def close(self) -> None:
        """Let go of the file. Closing twice is fine; anything else afterwards is a `StoreError`."""
        if self._file.closed:
            return
        threads, self._threads = self._threads, None  # who comes meanwhile gets one of its own, or is told it is closed
        if threads is not None and threads[0] == os.getpid():
            threads[1].shutdown(wait=True)
        self._ahead.stop()
        try:
            with self._file.reading() as connection, self._mirror.alone():
                self._mirror.save(connection)
        except StoreError as fault:
            logger.warning("Closed without a snapshot: %s", fault)
        finally:
            self._finalizer()

    def setup(self) -> None:
        """Nothing to do: the file is ready once it is open. Here for those who know other stores."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"FaissStore({self._file.path!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is neither pickled nor copied: open its path once more, or share the store itself")

    def _done(self, work: Work, texts: Packed, queries: Packed) -> list[Result]:
        results: list[Result] = [None] * work.size
        if work.size == 1 and self._put_alone(work, texts):
            return results
        if not work.puts:
            used = self._read_anew(work, queries, results)
            if used:
                with self._file.writing() as connection:
                    refresh(connection, used)
            return results
        with self._file.writing() as connection:
            if work.reads:
                refresh(connection, self._read(connection, work, queries, results))
            write(connection, work.puts.values(), texts)
            if self._sweeps_now():
                self._swept = time.monotonic()
                sweep(connection)
        return results

    def _put_alone(self, work: Work, texts: Mapping[str, bytes]) -> bool:
        """Most writes are one item as any other: they take one statement, and False is for those that do not."""
        for put in work.puts.values():
            if put.value is not None and put.recipe in (None, self._settings.usual) and not self._sweeps_now():
                self._file.write(PUT, row(put, texts, now()))
                return True
        return False

    def _read_anew(self, work: Work, queries: Packed, results: list[Result]) -> list[int]:
        while True:
            try:
                with self._file.reading() as connection:
                    return self._read(connection, work, queries, results)
            except _OlderError:
                continue  # another thread was quicker: what it has seen is there for us too

    def _read(self, connection: sqlite3.Connection, work: Work, queries: Packed, results: list[Result]) -> list[int]:
        reader = Reader(connection)
        for place, op in work.reads.items():
            if isinstance(op, GetOp):
                results[place] = reader.get(op)
            elif isinstance(op, ListNamespacesOp):
                results[place] = reader.namespaces(op)
            elif not op.query:
                results[place] = reader.listed(op)
            else:
                results[place] = self._search(reader, op, queries.get(op.query))
        return reader.used

    def _search(self, reader: Reader, op: SearchOp, query: bytes | None) -> list[SearchItem]:
        with (mirror := self._mirror).alone():
            if not mirror.catch_up(reader.connection, words=self._settings.by_words):
                raise _OlderError
            if mirror.stale and self._settings.embedder is not None:
                raise StaleError(reader.connection, mirror.stale)
            slots, scores = reader.ranked(op, mirror, None if query is None else np.frombuffer(query, np.float32))
            ids = mirror.ids[slots].tolist()
            if mirror.partly:
                self._ahead.start(self._read_on)
        return reader.page(ids, scores.tolist(), op.refresh_ttl)

    def _read_on(self) -> bool:
        """Read some of what no search has needed yet; False where nothing is left."""
        with self._file.reading() as connection, self._mirror.alone():
            return not self._mirror.catch_up(connection) or self._mirror.read_on()

    def _texts(self, stale: StaleError) -> list[str]:
        logger.info("%s: %d items are yet to be embedded for the index it is opened with", self._file.path, stale.left)
        return stale.texts(self._settings)

    def _renew(self, stale: StaleError, vectors: Mapping[str, bytes]) -> None:
        with self._file.writing() as connection:
            stale.renew(connection, self._settings, vectors)

    def _sweeps_now(self) -> bool:
        minutes = None if self.ttl_config is None else self.ttl_config.get("sweep_interval_minutes")
        return minutes is not None and time.monotonic() - self._swept >= minutes * 60

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._file.closed:
            raise StoreError(f"the store {self._file.path!r} is closed")
        threads = self._threads
        if threads is None or threads[0] != os.getpid():
            threads = self._threads = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="faiss-store")
        return await asyncio.get_running_loop().run_in_executor(threads[1], call)
