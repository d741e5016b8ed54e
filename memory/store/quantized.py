"""Short codes: FAISS compares a query with half a byte for each two dimensions of a vector, and names the best rows.

Vectors are first turned by fixed random rotations, after which every dimension is nearly normal whatever model made
them; so the code book is that of the normal distribution, moved and scaled to the data, and nothing has to be learned
for seconds. The rows it names are only candidates: their true similarity is computed from the vectors themselves.
"""

from __future__ import annotations

import zlib
from functools import cache

import faiss
import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.settings import Distance

Floats = NDArray[np.float32]
BLOCK = 128
CHUNK = 8192


class Quantized:
    """The codes of the first rows of a matrix."""

    def __init__(self, dims: int, distance: Distance) -> None:
        self.dims = dims
        self.width = -(-dims // 4) * 4
        self.metric = faiss.METRIC_L2 if distance == "l2" else faiss.METRIC_INNER_PRODUCT
        self.index: faiss.IndexPQFastScan | None = None
        self.fitted = 0
        self._mean = np.zeros(self.width, np.float32)
        self._tail = np.zeros(0, np.int64)

    def extend(self, matrix: Floats) -> None:
        """Take in the rows that are new at the end of the matrix, and fit anew when it has grown fourfold."""
        done = self.index.ntotal if self.index is not None else 0
        if self.index is None or len(matrix) > 4 * self.fitted:
            sample = matrix[np.linspace(0, len(matrix) - 1, min(len(matrix), 20_000)).astype(int)]
            self.index, done = self._fitted(self._turned(sample)), 0
            self.fitted = len(matrix)
        # A handful of new rows is cheaper to compare as it is than to pack into blocks of codes one by one.
        if len(matrix) - done > (256 if done else 0):
            for start in range(done, len(matrix), CHUNK):
                self.index.add(self._turned(matrix[start : start + CHUNK]) - self._mean)
            done = len(matrix)
        self._tail = np.arange(done, len(matrix))

    @property
    def coded(self) -> int:
        return 0 if self.index is None else int(self.index.ntotal)

    def kept(self) -> bytes:
        """All of it as bytes, for `restored`."""
        assert self.index is not None, "`extend` comes first"
        head = np.array([self.fitted], np.int64).tobytes() + self._mean.astype(np.float32).tobytes()
        return head + faiss.serialize_index(self.index).tobytes()

    def restored(self, data: bytes) -> bool:
        """Take what `kept` gave; False, and nothing taken, where it is not of this kind."""
        start = 8 + 4 * self.width
        try:
            index = faiss.deserialize_index(np.frombuffer(data, np.uint8, offset=start))
        except (RuntimeError, ValueError):
            return False
        if not isinstance(index, faiss.IndexPQFastScan) or (index.d, index.metric_type) != (self.width, self.metric):
            return False
        self.fitted = int(np.frombuffer(data, np.int64, 1)[0])
        self._mean = np.frombuffer(data, np.float32, self.width, 8).copy()
        self.index = index
        return True

    def candidates(self, query: Floats, limit: int) -> NDArray[np.int64]:
        """The rows that look best, among them all that have no code yet."""
        assert self.index is not None, "`extend` comes first"
        asked = self._turned(query[None])
        if self.metric == faiss.METRIC_L2:
            asked = asked - self._mean
        _, found = self.index.search(asked, min(limit, self.index.ntotal))
        rows = found[0]
        return np.concatenate([rows[rows >= 0], self._tail]).astype(np.int64)

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
        turned = np.zeros((len(rows), self.width), np.float32)
        start = 0
        for block in blocks:
            part = order[start : start + len(block)]
            turned[:, start : start + len(block)] = rows[:, part] @ block
            start += len(block)
        return turned


@cache
def _rotation(dims: int) -> tuple[NDArray[np.int64], tuple[Floats, ...]]:
    """Dimensions in a shuffled order, and a random rotation for each block of them; the same for ever."""
    rng = np.random.default_rng(zlib.crc32(b"rotation") + dims)
    order = rng.permutation(dims)
    sizes = [len(part) for part in np.array_split(order, -(-dims // BLOCK))]
    return order, tuple(np.linalg.qr(rng.standard_normal((n, n)))[0].astype(np.float32) for n in sizes)


@cache
def _normal_book() -> Floats:
    """Sixteen points that stand best for the normal distribution of two dimensions."""
    rng = np.random.default_rng(zlib.crc32(b"book"))
    points = rng.standard_normal((4000, 2))
    book = points[:16].copy()
    for _ in range(30):
        nearest = ((points[:, None] - book[None]) ** 2).sum(axis=2).argmin(axis=1)
        book = np.array([points[nearest == i].mean(axis=0) if (nearest == i).any() else book[i] for i in range(16)])
    return book.astype(np.float32)
