"""Vectors: exact scores of a query against them, of all of them or of a few candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import faiss
import numpy as np
from numpy.typing import NDArray

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


class Vectors:
    """The vectors of each slot, in one matrix; the vectors of one slot lie side by side."""

    def __init__(self, dims: int, distance: Distance) -> None:
        self.dims = dims
        self.distance = distance
        self.matrix: Floats = np.zeros((0, dims), np.float32)
        self.starts: list[int] = []
        self.owner: Slots = np.zeros(0, np.int64)
        self.rows = 0
        self.many = False
        self.codes: Quantized | None = None
        self._first: Slots | None = None

    def add(self, blobs: Sequence[bytes | None]) -> None:
        """Take in the vectors of the next slots; `None` for a slot that has none."""
        counts = [len(blob) // (4 * self.dims) if blob else 0 for blob in blobs]
        new = sum(counts)
        need = self.rows + new
        if need > len(self.matrix):
            self.reserve(max(need, int(1.5 * len(self.matrix)), 1024))
        first = len(self.starts)
        self.starts += (self.rows + np.concatenate(([0], np.cumsum(counts)[:-1]))).astype(int).tolist()
        self._first = None
        if not new:
            return
        data = np.frombuffer(b"".join(blob for blob in blobs if blob), np.float32).reshape(new, self.dims)
        part = self.matrix[self.rows : need]
        if self.distance == "cosine":
            norms = np.sqrt(np.einsum("ij,ij->i", data, data))[:, None]
            norms[norms == 0] = 1
            np.divide(data, norms, out=part)
        else:
            part[:] = data
        self.owner[self.rows : need] = np.repeat(np.arange(first, first + len(counts)), counts)
        self.many = self.many or max(counts) > 1
        self.rows = need

    @property
    def used(self) -> Floats:
        return self.matrix[: self.rows]

    @property
    def first(self) -> Slots:
        """The first row of each slot, and the end of the last."""
        if self._first is None:
            self._first = np.array([*self.starts, self.rows], np.int64)
        return self._first

    def reserve(self, room: int) -> None:
        """Make room for this many vectors at once."""
        matrix, owner = np.empty((room, self.dims), np.float32), np.empty(room, np.int64)
        matrix[: self.rows], owner[: self.rows] = self.matrix[: self.rows], self.owner[: self.rows]
        self.matrix, self.owner = matrix, owner

    @property
    def large(self) -> bool:
        """Whether codes are worth their while."""
        return self.rows * self.dims > FLAT_WORK and self.dims >= FEWEST_DIMS

    def nearest(self, query: Floats, alive: NDArray[np.bool_], limit: int) -> tuple[Slots, Floats] | None:
        """The best slots of all by their exact similarity, or `None` where the exact way must be gone."""
        if not self.large or limit > CANDIDATES // 4:
            return None
        if self.codes is None:
            self.codes = Quantized(self.dims, self.distance)
        self.codes.extend(self.used)
        rows = self.codes.candidates(self.asked(query), CANDIDATES + 10 * limit + self.rows // 500)
        rows = rows[alive[self.owner[rows]]]
        slots, scores = self._best(self.owner[rows], self._similarity(self.matrix[rows], query))
        # Few live ones among the candidates say little of the others: then all are compared.
        return (slots, scores) if len(slots) >= max(4 * limit, CANDIDATES // 4) else None

    def scores(self, query: Floats, slots: Slots | None) -> tuple[Slots, Floats]:
        """Slots that have vectors, with the similarity of the best one. `None` means every slot."""
        if slots is None:
            if not self.rows:
                return np.zeros(0, np.int64), np.zeros(0, np.float32)
            return self._best(self.owner[: self.rows], self._similarity(self.used, query))
        rows = self._rows_of(slots)
        if len(rows) > self.rows // 3:
            return self._best(self.owner[rows], self._similarity(self.used, query)[rows])
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
