"""The vector index: FAISS in memory proposes the nearest items, and their vectors in the file give the exact scores.

The index follows the file by its numbered writes and may lag or have rows of items that have changed or gone. That is
harmless: its proposals are read from the file again, which decides filters, deletes and the true similarities.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import faiss
import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.database import REMEMBERED, last_seq
from langgraph_reflexion.memory.store.operations import NOT_INDEXED, Scored
from langgraph_reflexion.memory.store.settings import Settings

Floats = NDArray[np.float32]
T = TypeVar("T")

FLAT_NUMBERS = 8_000_000
"""Largest index, in numbers, in which every vector is compared: 1 ms for one thread. Above, 4-bit codes take a
twentieth."""

TRAINING_ROWS = 2000
"""Vectors that the codes are learned from: with 1,000 or 10,000 the recall at 100,000 items is the same."""

CANDIDATES = 200
"""Rows that codes propose, and ten more for each item asked for: at 100,000 items of 384 dimensions, clustered or pure
noise, the five best are then among them in 0.998 of cases (0.96 with 100 rows), the twenty best in 0.993."""

CHUNK = 4096
"""Items that are read from the file at a time, which bounds the memory."""


class VectorIndex:
    """The FAISS index of a file's vectors. Used by one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self.stale: set[int] = set()
        """Items that must be embedded with the current fields before they can be found."""
        self._settings = settings
        self._metric = faiss.METRIC_L2 if settings.distance == "l2" else faiss.METRIC_INNER_PRODUCT
        self.clear()

    def clear(self) -> None:
        """Clear the index. The next search reads the file again."""
        self._seq = -1
        self._built = self._changed = 0
        self._coded = False
        self._faiss = self._create("Flat")
        self.stale.clear()

    def catch_up(self, connection: sqlite3.Connection) -> None:
        """Update the index with the changes in the file. A view older than the index changes nothing."""
        last = last_seq(connection)
        if last <= self._seq:
            return
        [new] = connection.execute("SELECT count(*) FROM items WHERE seq > ?", (self._seq,)).fetchone()
        # Rebuilt when half of it is new: the codes are learned from what it held, and rows of gone items pile up.
        if self._seq < last - REMEMBERED or self._changed + new > 1000 + self._built // 2:
            self._rebuild(connection)
        else:
            for [item] in connection.execute("SELECT id FROM gone WHERE seq > ?", (self._seq,)):
                self.stale.discard(item)
                self._changed += 1
            self._changed += new
            self._read(connection, "items.seq > ?", self._seq)
        self._seq = last

    def nearest(self, query: Floats, end: int, narrowed: bool) -> list[int]:
        """The items nearest to a query: enough for `end` of them, and more if a search is filtered."""
        wanted = 16 + 2 * end if not self._coded and not narrowed else CANDIDATES + 10 * end
        rows = min(self._faiss.ntotal, 2 * wanted if narrowed else wanted)
        if not rows:
            return []
        _, ids = self._faiss.search(query[None], rows)
        return list(dict.fromkeys(ids[0][ids[0] >= 0].tolist()))

    def prepare(self, query: bytes) -> Floats:
        """A query prepared for comparison."""
        row: Floats = self._normalize(np.frombuffer(query, np.float32)[None])[0]
        return row

    def rank(self, rows: Iterable[tuple[int, bytes | None]], query: Floats) -> tuple[Scored, list[int]]:
        """Items with their exact similarity, best first, and the ids of items without a vector."""
        ids: list[int] = []
        scores: list[Floats] = []
        rest: list[int] = []
        for some in _chunks(rows):
            rest += [item for item, data in some if not data]
            kept = [(item, data) for item, data in some if data]
            ids += [item for item, _ in kept]
            scores.append(self._best_scores([data for _, data in kept], query))
        found = np.concatenate([np.empty(0, np.float32), *scores])
        order = np.lexsort((np.array(ids), -found))  # equal scores keep the order of writing
        return [(ids[place], float(found[place])) for place in order], sorted(rest)

    def _rebuild(self, connection: sqlite3.Connection) -> None:
        self.clear()
        [count, highest] = connection.execute("SELECT count(*), max(id) FROM items").fetchone()
        dims = self._settings.dims
        if count * dims > FLAT_NUMBERS:
            ids = np.unique(np.linspace(1, highest, TRAINING_ROWS).astype(int)).tolist()
            sample = "SELECT data FROM vectors WHERE id IN (SELECT value FROM json_each(?))"
            rows = self._normalize(self._matrix([data for [data] in connection.execute(sample, (json.dumps(ids),))]))
            if len(rows) >= TRAINING_ROWS // 2:
                self._coded = True
                # A code covers two numbers, so an odd number of dimensions has none.
                self._faiss = self._create("SQ8" if dims % 2 else f"PQ{dims // 2}x4fs")
                self._faiss.train(rows)
        self._read(connection, "+items.seq > ?", -1)
        self._built = count

    def _create(self, factory: str) -> Any:
        return faiss.index_factory(self._settings.dims, f"IDMap,{factory}", self._metric)

    def _read(self, connection: sqlite3.Connection, where: str, since: int) -> None:
        """Add the vectors of items that were written since."""
        rows = connection.execute(
            "SELECT items.id, coalesce(items.fields, ?), vectors.fields, data FROM items "
            f"LEFT JOIN vectors ON vectors.id = items.id WHERE {where}",
            (self._settings.embedded_fields, since),
        )
        for some in _chunks(rows):
            ids: list[int] = []
            blobs: list[bytes] = []
            for item, wanted, fields, data in some:
                self.stale.discard(item)
                if wanted == NOT_INDEXED:
                    continue
                if fields != wanted:
                    self.stale.add(item)
                else:
                    ids += [item] * (len(data) // (4 * self._settings.dims))
                    blobs.append(data)
            self._faiss.add_with_ids(self._normalize(self._matrix(blobs)), np.array(ids, np.int64))

    def _matrix(self, blobs: list[bytes]) -> Floats:
        return np.frombuffer(b"".join(blobs), np.float32).reshape(-1, self._settings.dims)

    def _normalize(self, rows: Floats) -> Floats:
        return rows / _norms(rows)[:, None] if self._settings.distance == "cosine" else rows

    def _best_scores(self, blobs: list[bytes], query: Floats) -> Floats:
        """For each item the similarity of its best vector."""
        rows = self._matrix(blobs)
        if self._settings.distance == "l2":
            scores: Floats = -np.linalg.norm(rows - query, axis=1)
        else:
            scores = np.einsum("ij,j->i", rows, query)  # on one thread, because several would wait for each other
        if self._settings.distance == "cosine":
            scores = np.minimum(scores / _norms(rows), 1)  # more than 1 is a rounding error
        if len(rows) == len(blobs):
            return scores
        counts = [len(blob) // (4 * self._settings.dims) for blob in blobs]
        best: Floats = np.maximum.reduceat(scores, np.cumsum([0, *counts[:-1]]))
        return best


def _norms(rows: Floats) -> Floats:
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)).astype(np.float32)
    norms[norms == 0] = 1
    return norms


def _chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    """The rows in chunks."""
    each = iter(rows)
    while some := list(islice(each, CHUNK)):
        yield some
