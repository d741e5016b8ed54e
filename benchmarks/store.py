"""What a store costs: FaissStore beside InMemoryStore, SqliteStore and bare FAISS, on the same data in one run.

Vectors are random points around a few hundred centres, made before the clock starts: the figures are the stores' own.
Every search is also asked of an exact comparison, and the share of its five best that were found is printed beside the
time. `--short` is for CI and fails only on a wrong answer; `--full` adds 100,000 items and 1536 dimensions, and takes
some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from numpy.typing import NDArray

from langgraph_reflexion import FaissStore

Floats = NDArray[np.float32]
QUERIES = 40
TENANTS = 1000


@dataclass
class Figure:
    """One line of the table; times are milliseconds."""

    items: int
    dims: int
    what: str
    who: str
    p50: float
    p95: float
    recall: float | None = None


class Data:
    """Vectors and queries around the same centres, and the true five best of every query."""

    def __init__(self, items: int, dims: int) -> None:
        rng = np.random.default_rng(items + dims)
        centres = rng.standard_normal((200, dims))
        points = centres[rng.integers(0, 200, items + QUERIES)] + 0.8 * rng.standard_normal((items + QUERIES, dims))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        self.items, self.dims = items, dims
        self.vectors = points[:items].astype(np.float32)
        self.queries = points[items:].astype(np.float32)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [(self.queries[int(t[1:])] if t[0] == "q" else self.vectors[int(t)]).tolist() for t in texts]

    @property
    def index(self) -> Any:
        return {"dims": self.dims, "embed": self.embed, "fields": ["t"], "text_fields": ["t"]}

    def puts(self) -> list[list[PutOp]]:
        ops = [
            PutOp(("users", f"u{i % TENANTS}"), str(i), {"t": str(i), "ten": i % 10, "mille": i % 1000})
            for i in range(self.items)
        ]
        return [ops[at : at + 500] for at in range(0, len(ops), 500)]

    def best(self, query: int, among: NDArray[np.int64]) -> set[str]:
        scores = self.vectors[among] @ self.queries[query]
        return {str(i) for i in among[np.argsort(-scores)[:5]]}


def timed(
    data: Data, what: str, who: str, ask: Callable[[int], Sequence[str]], among: NDArray[np.int64] | None = None
) -> Figure:
    """Ask every query once, after one that is not counted."""
    ask(0)
    times, hits = [], 0
    everything = np.arange(data.items) if among is None else among
    for query in range(QUERIES):
        began = time.perf_counter()
        found = ask(query)
        times.append(1000 * (time.perf_counter() - began))
        hits += len(set(found) & data.best(query, everything))
    recall = hits / (QUERIES * min(5, len(everything)))
    return figure(data, what, who, times, recall)


def figure(data: Data, what: str, who: str, times: Sequence[float], recall: float | None = None) -> Figure:
    made = Figure(data.items, data.dims, what, who, float(np.median(times)), float(np.quantile(times, 0.95)), recall)
    share = "" if recall is None else f"  recall {recall:.3f}"
    print(
        f"{data.items:>7} × {data.dims:<5} {what:<22} {who:<14} {made.p50:>10.3f} {made.p95:>10.3f}{share}", flush=True
    )
    return made


def asking(store: BaseStore, space: tuple[str, ...] = (), **more: Any) -> Callable[[int], list[str]]:
    return lambda query: [item.key for item in store.search(space, query=f"q{query}", limit=5, **more)]


def searches(data: Data, store: BaseStore, who: str) -> list[Figure]:
    every = np.arange(data.items)
    return [
        timed(data, "search", who, asking(store)),
        timed(data, "search, 10 % pass", who, asking(store, filter={"ten": 3}), every[every % 10 == 3]),
        timed(data, "search, 0.1 % pass", who, asking(store, filter={"mille": 3}), every[every % 1000 == 3]),
        timed(data, "search of one tenant", who, asking(store, ("users", "u7")), every[every % TENANTS == 7]),
    ]


def filled(data: Data, store: BaseStore, who: str) -> list[Figure]:
    began = time.perf_counter()
    for ops in data.puts():
        store.batch(ops)
    return [figure(data, "bulk put, per item", who, [1000 * (time.perf_counter() - began) / data.items])]


def puts(data: Data, store: BaseStore, who: str, what: str = "put") -> Figure:
    times = []
    for i in range(100):
        began = time.perf_counter()
        store.put(("users", "new"), f"new{i}", {"t": str(i)})
        times.append(1000 * (time.perf_counter() - began))
    for i in range(100):
        store.delete(("users", "new"), f"new{i}")
    return figure(data, what, who, times)


def commits(data: Data, folder: Path, level: str, what: str) -> Figure:
    """What one durable row costs in SQLite itself: the least a put can cost."""
    raw = sqlite3.connect(folder / f"raw-{level}.db", isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute(f"PRAGMA synchronous = {level}")
    raw.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT, data BLOB)")
    times = []
    for i in range(100):
        began = time.perf_counter()
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("INSERT INTO rows (text, data) VALUES (?, ?)", (f"row {i}", data.vectors[i].tobytes()))
        raw.execute("COMMIT")
        times.append(1000 * (time.perf_counter() - began))
    raw.close()
    return figure(data, what, "one commit", times)


def bare(data: Data, graph: bool) -> list[Figure]:
    flat = faiss.IndexFlatIP(data.dims)
    indexes: list[tuple[str, Any]] = [("FAISS flat", flat)]
    if graph:
        hnsw = faiss.IndexHNSWFlat(data.dims, 32, faiss.METRIC_INNER_PRODUCT)
        hnsw.hnsw.efSearch = 64
        indexes.append(("FAISS HNSW", hnsw))
    made = []
    for who, index in indexes:
        index.add(data.vectors)
        ask = lambda query, index=index: [str(i) for i in index.search(data.queries[query][None], 5)[1][0]]  # noqa: E731
        made.append(timed(data, "search", who, ask))
    return made


async def mixed(store: Any) -> tuple[list[float], float]:
    """64 tasks that put and search: how long the loop stood still, and operations a second."""
    gaps: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            gaps.append(1000 * (time.perf_counter() - began - 0.001))

    async def work(number: int) -> None:
        for i in range(5):
            await store.aput(("users", f"u{number}"), f"m{i}", {"t": str(i)})
            await store.asearch(("users",), query=f"q{number % QUERIES}", limit=5)

    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(64)))
    seconds = time.perf_counter() - began
    watching.cancel()
    return gaps, 640 / seconds


def opening(data: Data, path: Path) -> Figure:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        with FaissStore(path, index=data.index) as store:
            store.search((), query="q0", limit=5)
            times.append(1000 * (time.perf_counter() - began))
    return figure(data, "open, first answer", "FaissStore", times)


def measured(items: int, dims: int, graph: int = 10_000, plain: int = 1000) -> list[Figure]:
    """All figures of one set of data; some of the others only up to a size for which they take seconds."""
    data = Data(items, dims)
    made = bare(data, graph=items <= graph)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made.append(commits(data, folder, "NORMAL", "put"))
        made.append(commits(data, folder, "FULL", "put that outlives power"))
        with FaissStore(folder / "power.db", index=data.index, durability="power") as store:
            made.append(puts(data, store, "FaissStore", "put that outlives power"))
        path = folder / "lessons.db"
        with FaissStore(path, index=data.index) as store:
            for take in (filled, searches):
                made += take(data, store, "FaissStore")
            made.append(puts(data, store, "FaissStore"))
            gaps, rate = asyncio.run(mixed(store))
            made.append(figure(data, "loop held, 64 tasks", "FaissStore", gaps))
            made.append(figure(data, "mixed, per operation", "FaissStore", [1000 / rate]))
        made.append(opening(data, path))
        beside = sum(file.stat().st_size for file in folder.glob("lessons.db*"))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{items:>7} × {dims:<5} file {beside / 2**20:.0f} MB ({beside / items / dims / 4:.2f} × the vectors), "
              f"this process at most {memory:.0f} MB")  # fmt: skip
        if items <= plain:
            peer: BaseStore = InMemoryStore(index=data.index)
            made += [*filled(data, peer, "InMemoryStore"), *searches(data, peer, "InMemoryStore")]
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            print("SqliteStore is left out: this Python cannot load the SQLite extension that it needs for vectors")
            return made
        sqlite = stack.enter_context(SqliteStore.from_conn_string(str(folder / "peer.db"), index=data.index))
        sqlite.setup()
        made += filled(data, sqlite, "SqliteStore")
        made += [timed(data, "search", "SqliteStore", asking(sqlite)), puts(data, sqlite, "SqliteStore")]
    return made


def ratios(made: Sequence[Figure]) -> None:
    """Each figure of ours beside the others' of the same data; above 1 we are slower."""
    for one in made:
        if one.who != "FaissStore":
            continue
        others = [
            other for other in made if other.who != one.who and (other.items, other.dims) == (one.items, one.dims)
        ]
        told = [f"{one.p50 / other.p50:.3g} × {other.who}" for other in others if other.what == one.what and other.p50]
        if told:
            print(f"{one.items:>7} × {one.dims:<5} {one.what:<22} {', '.join(told)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one small set")
    parser.add_argument("--full", action="store_true", help="up to 100,000 items and 1536 dimensions")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    asked = parser.parse_args()
    sizes = [(1000, 384)]
    if not asked.short:
        sizes.append((10_000, 384))
    if asked.full:
        sizes += [(1000, 1536), (10_000, 1536), (100_000, 384)]
    made: list[Figure] = []
    print(f"{'items × dims':<15} {'what':<22} {'who':<14} {'p50 ms':>10} {'p95 ms':>10}")
    for items, dims in sizes:
        made += measured(items, dims)
    print()
    ratios(made)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in made], indent=1), encoding="utf-8")
    wrong = [one for one in made if one.who == "FaissStore" and one.recall is not None and one.recall < 0.99]
    for one in wrong:
        print(f"WRONG: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
