"""Short codes: FAISS compares a query with half a byte for each two dimensions of a vector, and names the best rows.

Vectors are first turned by fixed random rotations, after which every dimension is nearly normal whatever model made
them; so the code book is that of the normal distribution, moved and scaled to the data, and nothing has to be learned
for seconds. The rows it names are only candidates: their true similarity is computed from the vectors themselves.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import faiss
import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.settings import Distance

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
BLOCK = 128
CHUNK = 8192
SMALL = 16
"""Rows that are turned together."""

FEW = 1024
"""Rows up to which codes are made in one thread."""

TOLD = 5 * CHUNK
"""Codes whose making takes so long that the log says how far it is."""


class Quantized:
    """Codes of the rows of a matrix: `rows` says of each code which row it is of, -1 where that row is gone."""

    def __init__(self, dims: int, distance: Distance) -> None:
        self.dims = dims
        self.width = -(-dims // 4) * 4
        self.metric = faiss.METRIC_L2 if distance == "l2" else faiss.METRIC_INNER_PRODUCT
        self.index: faiss.IndexPQFastScan | None = None
        self.fitted = 0
        self.rows: Rows = np.zeros(0, np.int64)
        self._mean = np.zeros(self.width, np.float32)
        self._tail: Rows = np.zeros(0, np.int64)
        self._seen = 0

    def extend(self, matrix: Floats) -> None:
        """Take in the rows that are new at the end of the matrix, and fit anew when it has grown fourfold."""
        self._tail = np.concatenate([self._tail, np.arange(self._seen, len(matrix))])
        self._seen = len(matrix)
        if self.index is None or self.outgrown(len(matrix)):
            self.make(matrix, np.arange(len(matrix)))
        # A handful of new rows is cheaper to compare as it is than to pack into blocks of codes one by one.
        elif len(self._tail) > 256:
            self._encode(self.index, matrix, self._tail)

    def outgrown(self, rows: int) -> bool:
        """Whether codes have to be made for all of this many rows."""
        return rows > 4 * self.fitted

    def make(self, matrix: Floats, rows: Rows) -> None:
        """Fit to these rows, and make the codes of them and no others."""
        sample = matrix[rows[np.linspace(0, len(rows) - 1, min(len(rows), 20_000)).astype(int)]]
        self.index, self.rows = self._fitted(self._turned(sample)), np.zeros(0, np.int64)
        self.fitted = self._seen = len(matrix)
        self._encode(self.index, matrix, rows)

    def _encode(self, index: faiss.IndexPQFastScan, matrix: Floats, rows: Rows) -> None:
        if len(rows) <= FEW:
            with _one_thread():
                index.add(self._turned(matrix[rows]) - self._mean)
        else:
            self._encode_many(index, matrix, rows)
        self.rows = np.concatenate([self.rows, rows])
        self._tail = np.zeros(0, np.int64)

    def _encode_many(self, index: faiss.IndexPQFastScan, matrix: Floats, rows: Rows) -> None:
        if len(rows) > TOLD:
            logger.info("Making the short codes of %d vectors", len(rows))
        for start in range(0, len(rows), CHUNK):
            index.add(self._turned(matrix[rows[start : start + CHUNK]]) - self._mean)
            if len(rows) > TOLD and (start // CHUNK) % 8 == 7:
                logger.info("%d of %d short codes are made", start + CHUNK, len(rows))

    def blank(self, places: Rows) -> None:
        """Wipe out these codes."""
        assert self.index is not None, "`make` comes first"
        packer = self.index.get_CodePacker()  # type: ignore[attr-defined]
        blocks = faiss.rev_swig_ptr(self.index.codes.data(), self.index.codes.size()).reshape(-1, packer.block_size)
        nothing = np.zeros(packer.code_size, np.uint8)
        for place in places.tolist():
            packer.pack_1(nothing, place, blocks)
        self.rows[places] = -1

    def kept(self) -> bytes:
        """All of it as bytes, for `restored`."""
        assert self.index is not None, "`extend` comes first"
        head = np.array([self.fitted], np.int64).tobytes() + self._mean.astype(np.float32).tobytes()
        return head + faiss.serialize_index(self.index).tobytes()

    def restored(self, data: memoryview, count: int) -> bool:
        """Take what `kept` gave; False, and nothing taken, where it is not of this kind and number."""
        start = 8 + 4 * self.width
        try:
            index = faiss.deserialize_index(np.frombuffer(data, np.uint8, offset=start))
        except (RuntimeError, ValueError):
            return False
        if not isinstance(index, faiss.IndexPQFastScan) or (index.d, index.metric_type, index.ntotal) != (
            self.width,
            self.metric,
            count,
        ):
            return False
        self.fitted = int(np.frombuffer(data, np.int64, 1)[0])
        self._mean = np.frombuffer(data, np.float32, self.width, 8).copy()
        self.index = index
        return True

    def belong(self, rows: Rows, size: int) -> Rows:
        """Say which rows of a matrix the restored codes are of; gives back the others, which have none yet."""
        self.rows = rows
        left = np.ones(size, bool)
        left[rows[rows >= 0]] = False
        self._tail, self._seen = np.flatnonzero(left), size
        return self._tail

    def live(self, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which codes are of a row that is alive."""
        found = self.rows >= 0
        found[found] = alive[self.rows[found]]
        return found

    def candidates(self, query: Floats, limit: int) -> Rows:
        """The rows that look best, among them all that have no code yet."""
        assert self.index is not None, "`extend` comes first"
        asked = self._turned(query[None])
        if self.metric == faiss.METRIC_L2:
            asked = asked - self._mean
        _, found = self.index.search(asked, min(limit, self.index.ntotal))
        rows = self.rows[found[0][found[0] >= 0]]
        return np.concatenate([rows[rows >= 0], self._tail])

    def _fitted(self, sample: Floats) -> faiss.IndexPQFastScan:
        index = faiss.IndexPQFastScan(self.width, self.width // 2, 4, self.metric)
        # What all vectors have in common says nothing of which is nearer, and would drown the rest in half a byte.
        self._mean = sample.mean(axis=0)
        parts = sample.std(axis=0).reshape(-1, 1, 2) * _normal_book()[None]
        faiss.copy_array_to_vector(np.ascontiguousarray(parts, np.float32).ravel(), index.pq.centroids)
        index.is_trained = True
        return index

    def _turned(self, rows: Floats) -> Floats:
        order, blocks = _rotation(self.dims)
        # A stack of small matrices, which numpy's library multiplies in this thread. Several threads, as it takes for
        # larger ones or for a single row, wait for each other a hundred times longer where the machine is busy.
        size = min(max(len(rows), 2), SMALL)
        stack = np.zeros((-(-len(rows) // size), size, self.dims), np.float32)
        stack.reshape(-1, self.dims)[: len(rows)] = rows[:, order]
        turned = np.zeros((*stack.shape[:2], self.width), np.float32)
        start = 0
        for block in blocks:
            end = start + len(block)
            np.matmul(stack[..., start:end], block, out=turned[..., start:end])
            start = end
        return turned.reshape(-1, self.width)[: len(rows)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """FAISS works in this thread alone, as several would wait for each other longer than they work."""
    several = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(several)


@cache
def _rotation(dims: int) -> tuple[NDArray[np.int64], tuple[Floats, ...]]:
    """Dimensions in a shuffled order, and a random rotation for each block of them; the same for ever."""
    rng = np.random.default_rng(zlib.crc32(b"rotation") + dims)
    order = rng.permutation(dims)
    sizes = [len(part) for part in np.array_split(order, -(-dims // BLOCK))]
    return order, tuple(_upright(rng.standard_normal((n, n))) for n in sizes)


def _upright(rows: NDArray[np.float64]) -> Floats:
    """Rows made orthogonal, one after the other: numpy's own way has threads wait for threads."""
    for i in range(len(rows)):
        rows[i] /= np.sqrt(np.einsum("i,i", rows[i], rows[i]))
        rows[i + 1 :] -= np.einsum("ij,j->i", rows[i + 1 :], rows[i])[:, None] * rows[i]
    return rows.astype(np.float32)


@cache
def _normal_book() -> Floats:
    """Sixteen points that stand best for the normal distribution of two dimensions."""
    rng = np.random.default_rng(zlib.crc32(b"book"))
    points = rng.standard_normal((4000, 2))
    book = points[:16].copy()
    for _ in range(30):
        nearest = (points @ book.T - (book**2).sum(axis=1) / 2).argmax(axis=1)
        sums = [np.bincount(nearest, points[:, axis], 16) for axis in (0, 1)]
        counts = np.bincount(nearest, minlength=16)
        book = np.where(counts[:, None], np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None], book)
    return book.astype(np.float32)
