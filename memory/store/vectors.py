"""Vectors: exact scores of a query against them, of all of them or of a few candidates."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence

import faiss
import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.columns import grown
from langgraph_reflexion.memory.store.quantized import Quantized
from langgraph_reflexion.memory.store.settings import Distance

Floats = NDArray[np.float32]
Slots = NDArray[np.int64]

FLAT_WORK = 8_000_000
"""Numbers up to which every vector is compared; beyond, FAISS picks candidates by short codes."""

FEWEST_DIMS = 64
"""Dimensions below which codes are too short to tell vectors apart, and comparing them all is cheap."""

CANDIDATES = 400
"""Rows whose true similarity is computed, with ten more for each item asked for and two for each thousand vectors."""


AT_ONCE = 250
"""Slots whose vectors are read together: few enough for them to stay in the processor's own memory."""


class Vectors:
    """The vectors of each slot, in one matrix; the vectors of one slot lie side by side.

    Those that were only counted are read from the file when they are first compared: `read` gives them by slot.
    """

    def __init__(self, dims: int, distance: Distance, read: Callable[[Slots], list[bytes | None]]) -> None:
        self.dims = dims
        self.distance = distance
        self._read = read
        self.matrix: Floats = np.zeros((0, dims), np.float32)
        self.owner: Slots = np.zeros(0, np.int64)
        self.rows = 0
        self.slots = 0
        self.many = False
        self.codes: Quantized | None = None
        self._first: Slots = np.zeros(1, np.int64)
        self._absent = np.zeros(0, bool)
        self.partly = False

    def add(self, blobs: Sequence[bytes | None]) -> None:
        """Take in the vectors of the next slots; `None` for a slot that has none."""
        start = self.rows
        self._count([len(blob) if blob else 0 for blob in blobs])
        self._fill(slice(start, self.rows), blobs)

    def expect(self, sizes: Sequence[int | None]) -> None:
        """The same, by how many bytes they are in the file."""
        start = self.rows
        self._count([size or 0 for size in sizes])
        self._absent[start : self.rows] = self.partly = True

    def ready(self, rows: Slots | None = None) -> None:
        """Have the vectors of these rows, or of all, here; what is gone from the file stays nothing."""
        if not self.partly:
            return
        wanted = np.flatnonzero(self._absent[: self.rows]) if rows is None else rows[self._absent[rows]]
        slots = np.unique(self.owner[wanted])
        for start in range(0, len(slots), AT_ONCE):
            some = slots[start : start + AT_ONCE]
            blobs = self._read(some)
            there = np.fromiter((blob is not None for blob in blobs), bool, len(blobs))
            self._fill(self._rows_of(some[there]), blobs)
            self._absent[self._rows_of(some)] = False
        self.partly = rows is not None

    def read_on(self) -> bool:
        """Read some of the vectors that are not here yet; False where none is left."""
        left = np.flatnonzero(self._absent[: self.rows]) if self.partly else np.zeros(0, np.int64)
        self.ready(left[:AT_ONCE])
        self.partly = len(left) > AT_ONCE
        return self.partly

    def _count(self, sizes: Sequence[int]) -> None:
        counts = np.array(sizes, np.int64) // (4 * self.dims)
        ends = self.rows + np.cumsum(counts)
        need, last = int(ends[-1]), self.slots + len(counts)
        if need > len(self.matrix):
            self.reserve(max(need, int(1.5 * len(self.matrix)), 1024))
        if last >= len(self._first):
            self._first = grown(self._first, max(last + 1, 2 * len(self._first), 1024))
        self._first[self.slots + 1 : last + 1] = ends
        self.owner[self.rows : need] = np.repeat(np.arange(self.slots, last), counts)
        self.many = self.many or int(counts.max()) > 1
        self.rows, self.slots = need, last

    def _fill(self, rows: slice | Slots, blobs: Sequence[bytes | None]) -> None:
        data = np.frombuffer(b"".join([blob for blob in blobs if blob]), np.float32).reshape(-1, self.dims)
        if self.distance == "cosine" and len(data):
            norms = np.sqrt(np.einsum("ij,ij->i", data, data))[:, None]
            norms[norms == 0] = 1
            data = data / norms
        self.matrix[rows] = data

    @property
    def used(self) -> Floats:
        return self.matrix[: self.rows]

    @property
    def first(self) -> Slots:
        """The first row of each slot, and the end of the last."""
        return self._first[: self.slots + 1]

    def reserve(self, room: int, sparse: bool = False) -> None:
        """Make room for this many vectors at once; what is not used takes no memory, nor what lies between where it
        is to be `sparse`."""
        matrix = _sparse(room, self.dims) if sparse else np.zeros((room, self.dims), np.float32)
        matrix[: self.rows] = self.matrix[: self.rows]
        self.matrix, self.owner, self._absent = matrix, grown(self.owner, room), grown(self._absent, room)

    @property
    def large(self) -> bool:
        """Whether codes are worth their while."""
        return self.rows * self.dims > FLAT_WORK and self.dims >= FEWEST_DIMS

    def nearest(self, query: Floats, alive: NDArray[np.bool_], limit: int) -> tuple[Slots, Floats] | None:
        """The best slots of all by their exact similarity, or `None` where the exact way must be gone."""
        if not self.large or limit > CANDIDATES // 4:
            return None
        rows = self.coded().candidates(self.asked(query), CANDIDATES + 10 * limit + self.rows // 500)
        rows = rows[alive[self.owner[rows]]]
        self.ready(rows)
        slots, scores = self._best(self.owner[rows], self._similarity(self.matrix[rows], query))
        # Few live ones among the candidates say little of the others: then all are compared.
        return (slots, scores) if len(slots) >= max(4 * limit, CANDIDATES // 4) else None

    def coded(self) -> Quantized:
        """The codes of all rows, made where there are none yet."""
        if self.codes is None:
            self.codes = Quantized(self.dims, self.distance)
        if self.codes.outgrown(self.rows):
            self.ready()
        self.codes.extend(self.used)
        return self.codes

    def scores(self, query: Floats, slots: Slots | None) -> tuple[Slots, Floats]:
        """Slots that have vectors, with the similarity of the best one. `None` means every slot."""
        if slots is None:
            if not self.rows:
                return np.zeros(0, np.int64), np.zeros(0, np.float32)
            self.ready()
            return self._best(self.owner[: self.rows], self._similarity(self.used, query))
        rows = self._rows_of(slots)
        if len(rows) > self.rows // 3:
            self.ready()
            return self._best(self.owner[rows], self._similarity(self.used, query)[rows])
        self.ready(rows)
        return self._best(self.owner[rows], self._similarity(self.matrix[rows], query))

    def asked(self, query: Floats) -> Floats:
        """The query as it is compared."""
        norm = math.sqrt(np.dot(query, query))
        return (query / norm).astype(np.float32) if self.distance == "cosine" and norm > 0 else query

    def _rows_of(self, slots: Slots) -> Slots:
        first = self.first[slots]
        counts = self.first[slots + 1] - first
        if not self.many:
            return first[counts > 0]
        total = int(counts.sum())
        ends = np.cumsum(counts)
        return np.repeat(first - (ends - counts), counts) + np.arange(total)

    def _similarity(self, rows: Floats, query: Floats) -> Floats:
        # FAISS's own loops: one thread, as several would wait for each other longer than they work, and no copies.
        asked = self.asked(query)
        scores = np.empty(len(rows), np.float32)
        compare = getattr(faiss, "fvec_L2sqr_ny" if self.distance == "l2" else "fvec_inner_products_ny")
        compare(faiss.swig_ptr(scores), faiss.swig_ptr(asked), faiss.swig_ptr(rows), self.dims, len(rows))
        if self.distance == "cosine":
            np.minimum(scores, 1.0, out=scores)  # rounding alone says more
        return -np.sqrt(scores) if self.distance == "l2" else scores

    def _best(self, owners: Slots, scores: Floats) -> tuple[Slots, Floats]:
        if not self.many or not len(owners):
            return owners, scores
        order = np.argsort(owners, kind="stable")
        owners, scores = owners[order], scores[order]
        first = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
        return owners[first], np.maximum.reduceat(scores, first)


def _sparse(rows: int, dims: int) -> Floats:
    """Zeros of which each page takes memory when it is first written to; numpy would ask for pages of 2 MB."""
    memory = mmap.mmap(-1, 4 * rows * dims)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.float32).reshape(rows, dims)
