"""FaissStore: a LangGraph store in one SQLite file, searched by vectors, by words, or by both."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, get_args

from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, Op, Result, SearchItem, SearchOp

from langgraph_reflexion.driver import Wait, Waits, run_async, run_sync
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.arguments import check_choice
from langgraph_reflexion.memory.store import items
from langgraph_reflexion.memory.store.database import Database, last_seq, read_meta
from langgraph_reflexion.memory.store.items import Changes, Reader
from langgraph_reflexion.memory.store.operations import (
    Batch,
    check_batch,
    check_characters,
    pack_vectors,
    texts_to_embed,
)
from langgraph_reflexion.memory.store.settings import WHOLE_VALUE, Durability, read_index, read_ttl
from langgraph_reflexion.memory.store.words import WordIndex
from langgraph_reflexion.text.literals import hide_password, is_address

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langgraph_reflexion.memory.store.vectors import VectorIndex

logger = logging.getLogger(__name__)
T = TypeVar("T")

CHECKED_ON_LOOP = 32
"""Operations that are checked on the event loop, which takes under 1 ms. More go to the store's thread."""

EMBEDDED_AT_ONCE = 256
"""Items per embedding request, as providers accept them."""


Vectors = Mapping[str, bytes]
"""Texts with their vectors, as the file keeps them."""

Stale = list[tuple[int, int, str, tuple[str, ...]]]
"""Items to embed: id, number of the last write, fields and texts."""


class _StaleError(Exception):
    """Ends a search because items must be embedded first."""

    def __init__(self, stale: Stale) -> None:
        super().__init__(len(stale))
        self.stale = stale


class FaissStore(BaseStore):
    """Keeps items in the SQLite file at `path`, or in memory for `":memory:"`.

    Any number of threads, tasks and processes may use one file at once. A batch is written completely or not at all,
    and its reads see the state before it. With `durability="process"` a finished write survives the end of the process,
    with `"power"` also a power failure. `index` is LangGraph's `IndexConfig` with two more keys, `distance_type`
    (`cosine`, `inner_product`, `l2`) and `rank` (`vectors`, `words`, `fused`); without an index, it searches by words.
    `ttl` is LangGraph's `TTLConfig`: expired items are never returned, and reading an item restarts its time to live
    unless `refresh_on_read` is false. In a search by vectors, items that are not indexed come last and have no score.
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
        if not isinstance(path, (str, os.PathLike)) or not str(path) or is_address(str(path)):
            raise ValueError(f"`path` must be a file's path or ':memory:', got {hide_password(repr(path))}")
        self._settings = read_index(index)
        self.ttl_config = read_ttl(ttl)
        self.index_config = None if index is None else dict(index)
        self.embeddings = self._settings.embedder
        self._database = Database(path, check_choice(durability, "durability", get_args(Durability)))
        try:
            self._check_index()
        except BaseException:
            self._database.close()
            raise
        self._swept = time.monotonic()
        self._pid = os.getpid()
        self._index_lock = threading.Lock()
        self._words: WordIndex | None = None
        self._vectors: VectorIndex | None = None
        self._threads: tuple[int, ThreadPoolExecutor] | None = None
        self._finalizer = weakref.finalize(self, self._database.close)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run all operations or none. The results are in the order of the operations."""
        return run_sync(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like `batch`, without blocking the event loop, on whichever loop it is called."""
        return await run_async(self._batch(list(ops)))

    def changes(self, namespace: tuple[str, ...], since: int) -> Changes | None:
        """What was written to exactly this namespace since a write, or all of it if that write is too long ago.

        `None` if items can expire, because that is not recorded.
        """
        check_characters(*namespace)
        with self._database.reading() as connection:
            return Reader(connection).changes(namespace, since)

    async def achanges(self, namespace: tuple[str, ...], since: int) -> Changes | None:
        """Like `changes`, without blocking the event loop."""
        return await self._in_thread(lambda: self.changes(namespace, since))

    def sweep_ttl(self) -> int:
        """Delete expired items and return their number."""
        with self._database.writing() as connection:
            return items.sweep(connection)

    async def asweep_ttl(self) -> int:
        """Like `sweep_ttl`, without blocking the event loop."""
        return await self._in_thread(self.sweep_ttl)

    def settle(self) -> None:
        """Remove deleted data from memory, and overwrite it in the log, unless another process is reading that."""
        with self._index_lock:
            self._vectors = self._words = None  # the next search reads the file again
        self._database.empty_log()

    async def asettle(self) -> None:
        """Like `settle`, without blocking the event loop."""
        await self._in_thread(self.settle)

    def close(self) -> None:
        """Close the file. Closing twice is fine. Any other use after closing is a `StoreError`."""
        threads, self._threads = self._threads, None
        if threads is not None and threads[0] == os.getpid():
            threads[1].shutdown(wait=True)
        self._finalizer()

    def setup(self) -> None:
        """Do nothing, because the file is ready once it is open. Other stores have this method."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"FaissStore({self._database.path!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied: open its path again, or share the store itself")

    def _batch(self, ops: Sequence[Op]) -> Waits[list[Result]]:
        if len(ops) <= CHECKED_ON_LOOP:
            batch = check_batch(ops, self._settings)
        else:
            batch = yield self._call(lambda: check_batch(ops, self._settings))
        vectors = yield from self._embed(batch.texts)
        queries = yield from self._embed(batch.queries, as_queries=True)
        while True:
            try:
                results: list[Result] = yield self._call(lambda: self._do(batch, vectors, queries))
                return results
            except _StaleError as error:
                yield from self._embed_again(error.stale)

    def _do(self, batch: Batch, vectors: Vectors, queries: Vectors) -> list[Result]:
        results: list[Result] = [None] * batch.size
        if not batch.puts:
            with self._database.reading() as connection:
                used = self._read(connection, batch, queries, results)
            if used:
                with self._database.writing() as connection:
                    items.refresh_ttl(connection, used)
            return results
        with self._database.writing() as connection:
            if batch.reads:
                items.refresh_ttl(connection, self._read(connection, batch, queries, results))
            items.write_items(connection, batch.puts.values(), vectors)
            minutes = None if self.ttl_config is None else self.ttl_config.get("sweep_interval_minutes")
            if minutes is not None and time.monotonic() - self._swept >= minutes * 60:
                self._swept = time.monotonic()
                items.sweep(connection)
        return results

    def _read(self, connection: sqlite3.Connection, batch: Batch, queries: Vectors, results: list[Result]) -> list[int]:
        reader = Reader(connection)
        for place, op in batch.reads.items():
            if isinstance(op, GetOp):
                results[place] = reader.get(op)
            elif isinstance(op, ListNamespacesOp):
                results[place] = reader.list_namespaces(op)
            elif not op.query:
                results[place] = reader.list_items(op)
            else:
                results[place] = self._search(reader, op, queries.get(op.query))
        return reader.used

    def _search(self, reader: Reader, op: SearchOp, query: bytes | None) -> list[SearchItem]:
        if self._pid != os.getpid():  # in a child process, a thread of the parent may have held the lock
            self._pid, self._index_lock, self._vectors, self._words = os.getpid(), threading.Lock(), None, None
        vectors = words = None
        with self._index_lock:  # an index whose update is cut off, as by Ctrl-C, is not kept
            if self._settings.by_vectors:
                # FAISS and numpy take longest to import, and many programs search only by words.
                from langgraph_reflexion.memory.store.vectors import VectorIndex

                vectors, self._vectors = self._vectors or VectorIndex(self._settings), None
                vectors.catch_up(reader.connection)
                self._vectors = vectors
                if vectors.stale:
                    raise _StaleError(self._read_stale(reader.connection, vectors.stale))
            if self._settings.by_words:
                words, self._words = self._words or WordIndex(), None
                known = read_meta(reader.connection, "fields")
                fields = self._settings.fields or (tuple(json.loads(known)) if known else WHOLE_VALUE)
                words.catch_up(reader.connection, fields)
                self._words = words
            return reader.search(op, vectors, query, words)

    def _embed(self, texts: list[str], *, as_queries: bool = False) -> Waits[dict[str, bytes]]:
        model = self._settings.embedder
        if not texts or model is None:
            return {}
        wait = Wait(lambda: model.embed_documents(texts), lambda: model.aembed_documents(texts))
        if as_queries:
            wait = Wait(lambda: _embed_queries(model, texts), lambda: asyncio.gather(*map(model.aembed_query, texts)))
        return pack_vectors(texts, (yield wait), self._settings.dims)

    def _read_stale(self, connection: sqlite3.Connection, stale: set[int]) -> Stale:
        left = sorted(stale)
        logger.info("%s: %d items are yet to be embedded for this index", self._database.path, len(left))
        chosen = "SELECT id, seq, coalesce(fields, ?), value FROM items WHERE id IN (SELECT value FROM json_each(?))"
        rows = connection.execute(chosen, (self._settings.embedded_fields, json.dumps(left[:EMBEDDED_AT_ONCE])))
        return [
            (item, seq, fields, texts_to_embed(json.loads(value), json.loads(fields)))
            for item, seq, fields, value in rows
        ]

    def _embed_again(self, stale: Stale) -> Waits[None]:
        """Embed items that were written without this index, or with other fields."""
        vectors = yield from self._embed(list(dict.fromkeys(text for *_, texts in stale for text in texts)))
        yield self._call(lambda: self._save_vectors(stale, vectors))

    def _save_vectors(self, stale: Stale, vectors: Vectors) -> None:
        with self._database.writing() as connection:
            next_seq = last_seq(connection) + 1
            for item, seq, fields, texts in stale:
                # An item that was changed meanwhile is left to the next search.
                changed = connection.execute("UPDATE items SET seq = ? WHERE id = ? AND seq = ?", (next_seq, item, seq))
                if changed.rowcount:
                    items.write_vectors(connection, item, fields, (vectors[text] for text in texts))

    def _check_index(self) -> None:
        """Compare the index with that of the file, and save its settings for opening the file without an index."""
        settings = self._settings
        fields = None if settings.fields is None else json.dumps(settings.fields)
        named = {"dims": settings.dims, "model": settings.model, "fields": fields}
        current = {name: value for name, value in named.items() if value}  # a plain function does not name its model
        with self._database.reading() as connection:
            known = {name: read_meta(connection, name) for name in current}
            others = [name for name in ("dims", "model") if known.get(name) and known[name] != current[name]]
            used = others and connection.execute("SELECT 1 FROM vectors WHERE data != x'' LIMIT 1").fetchone()
        if used:
            name = others[0]
            raise StoreError(
                f"the store {self._database.path!r} has vectors of another index: its {name} is {known[name]!r}, "
                f"this index has {current[name]!r}. Open it with that index, or copy its items to a new file"
            )
        if known != current:
            with self._database.writing() as connection:
                connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(current.items()))

    def _call(self, call: Callable[[], T]) -> Wait:
        return Wait(call, lambda: self._in_thread(call))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._database.closed:
            raise StoreError(f"the store {self._database.path!r} is closed")
        threads = self._threads
        if threads is None or threads[0] != os.getpid():
            threads = self._threads = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="faiss-store")
        return await asyncio.get_running_loop().run_in_executor(threads[1], call)


def _embed_queries(model: Embeddings, queries: list[str]) -> list[list[float]]:
    """The vectors of these queries. Several are embedded at once, because each may be a request to a server."""
    if len(queries) == 1:
        return [model.embed_query(queries[0])]
    from langchain_core.runnables.config import ContextThreadPoolExecutor  # imported late: most searches have one query

    with ContextThreadPoolExecutor() as pool:
        return list(pool.map(model.embed_query, queries))
