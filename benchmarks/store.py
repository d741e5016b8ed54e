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
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore
from numpy.typing import NDArray

from langgraph_reflexion import FaissStore

Floats = NDArray[np.float32]
QUERIES = 40
SINGLE = 300
TENANTS = 1000
NEW = ("users", "new")
MEMORY = "InMemoryStore"
FILTERS = ("FaissStore", MEMORY)
LOADS = hasattr(sqlite3.Connection, "enable_load_extension")
"""Whether this Python can load the SQLite extension that SqliteStore needs for vectors."""


@dataclass
class Figure:
    """One line of the table; times are milliseconds, `cpu` those that this process worked, where that was measured."""

    items: int
    dims: int
    what: str
    who: str
    p50: float
    p95: float
    recall: float | None = None
    cpu: float | None = None


class Watch:
    """What has passed since it was made, by the clock on the wall and by the processor's."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return 1000 * (time.perf_counter() - self.began[0]), 1000 * (time.process_time() - self.began[1])


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
        # What is asked for one at a time is a list already, as a model would give it; of the rest there are too many.
        self.ready = {f"q{i}": vector.tolist() for i, vector in enumerate(self.queries)}
        self.ready |= {str(i): vector.tolist() for i, vector in enumerate(self.vectors[:SINGLE])}

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.ready[text] if text in self.ready else self.vectors[int(text)].tolist() for text in texts]

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


Ask = Callable[[int], Sequence[str]]
Turn = Callable[[int], None]


def timed(data: Data, what: str, asks: dict[str, Ask], among: NDArray[np.int64] | None = None) -> list[Figure]:
    """Ask every query once of each in turn, so that what else the machine does falls on all alike."""
    everything = np.arange(data.items) if among is None else among
    times: dict[str, list[tuple[float, float]]] = {who: [] for who in asks}
    hits = dict.fromkeys(asks, 0)
    for query in (0, *range(QUERIES)):
        best = data.best(query, everything)
        for who, ask in asks.items():
            watch = Watch()
            found = ask(query)
            times[who].append(watch.read())
            hits[who] += len(set(found) & best) if len(times[who]) > 1 else 0  # the first is not counted
    most = QUERIES * min(5, len(everything))
    return [figure(data, what, who, times[who][1:], hits[who] / most) for who in asks]


def figure(
    data: Data, what: str, who: str, times: Sequence[float | tuple[float, float]], recall: float | None = None
) -> Figure:
    walls = [one[0] if isinstance(one, tuple) else one for one in times]
    worked = [one[1] for one in times if isinstance(one, tuple)]
    cpu = float(np.median(worked)) if worked else None
    made = Figure(
        data.items, data.dims, what, who, float(np.median(walls)), float(np.quantile(walls, 0.95)), recall, cpu
    )
    share = ("" if cpu is None else f" {cpu:>10.3f}") + ("" if recall is None else f"  recall {recall:.3f}")
    print(
        f"{data.items:>7} × {data.dims:<5} {what:<22} {who:<14} {made.p50:>10.3f} {made.p95:>10.3f}{share}", flush=True
    )
    return made


def asking(store: BaseStore, space: tuple[str, ...] = (), **more: Any) -> Callable[[int], list[str]]:
    return lambda query: [item.key for item in store.search(space, query=f"q{query}", limit=5, **more)]


def searches(data: Data, stores: dict[str, BaseStore], plain: dict[str, Ask]) -> list[Figure]:
    """What only some can do within their filters is asked of those that were given for it."""
    every = np.arange(data.items)
    made = timed(data, "search", plain | {who: asking(store) for who, store in stores.items()})
    for what, among, space, more in (
        ("search, 10 % pass", every[every % 10 == 3], (), {"filter": {"ten": 3}}),
        ("search, 0.1 % pass", every[every % 1000 == 3], (), {"filter": {"mille": 3}}),
        ("search of one tenant", every[every % TENANTS == 7], ("users", "u7"), {}),
    ):
        narrow: dict[str, Ask] = {who: asking(store, space, **more) for who, store in stores.items() if who in FILTERS}
        made += timed(data, what, narrow, among)
    return made


def filled(data: Data, store: BaseStore, who: str) -> list[Figure]:
    watch = Watch()
    for ops in data.puts():
        store.batch(ops)
    wall, cpu = watch.read()
    return [figure(data, "bulk put, per item", who, [(wall / data.items, cpu / data.items)])]


def puts(data: Data, what: str, stores: dict[str, BaseStore], path: Path, level: str) -> list[Figure]:
    """Single puts in turn with what one row costs in SQLite itself: the least a put can cost."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute(f"PRAGMA synchronous = {level}")
    raw.execute("CREATE TABLE rows (namespace TEXT, key TEXT, value TEXT, data BLOB, PRIMARY KEY (namespace, key))")

    def commit(i: int) -> None:
        row = ("users.new", f"new{i}", json.dumps({"t": str(i)}), data.vectors[i].tobytes())
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", row)
        raw.execute("COMMIT")

    turns: dict[str, Turn] = {"one commit": commit}
    for who, store in stores.items():
        turns |= {who: putting(store), f"{who}, plain": putting(store, index=False)}
    made = in_turn(data, what, turns)
    raw.close()
    for store in stores.values():
        store.batch([PutOp(NEW, f"new{i}{index}", None) for i in range(SINGLE) for index in (None, False)])
    return made


def alone(data: Data, what: str, who: str, store: BaseStore) -> list[Figure]:
    made = in_turn(data, what, {who: putting(store)})
    store.batch([PutOp(NEW, f"new{i}None", None) for i in range(SINGLE)])
    return made


def putting(store: BaseStore, index: Literal[False] | None = None) -> Turn:
    return lambda i: store.put(NEW, f"new{i}{index}", {"t": str(i)}, index)


def in_turn(data: Data, what: str, turns: dict[str, Turn]) -> list[Figure]:
    times: dict[str, list[tuple[float, float]]] = {who: [] for who in turns}
    for i in range(SINGLE):
        for who, turn in turns.items():
            watch = Watch()
            turn(i)
            times[who].append(watch.read())
    return [figure(data, what, who, each[20:]) for who, each in times.items()]


def bare(data: Data, path: Path, graph: bool) -> dict[str, Ask]:
    """FAISS alone, and FAISS with the least that a store must do around it: embed the query, fetch the rows."""
    flat, other = faiss.IndexFlatIP(data.dims), faiss.IndexFlatIP(data.dims)
    flat.add(data.vectors)
    other.add(data.vectors)  # each has vectors of its own, as the stores do: none finds them warm from another's turn
    rows = sqlite3.connect(path)

    def named(index: Any) -> Ask:
        return lambda query: [str(i) for i in index.search(data.queries[query][None], 5)[1][0]]

    def fetched(query: int) -> list[str]:
        found = other.search(np.asarray(data.embed([f"q{query}"]), np.float32), 5)[1][0]
        wanted = f"SELECT key, value, created_at, updated_at FROM items WHERE key IN ({','.join('?' * 5)})"
        values = {row[0]: json.loads(row[1]) for row in rows.execute(wanted, [str(i) for i in found])}
        return list(values)

    rows.execute("CREATE TABLE items (key TEXT PRIMARY KEY, value TEXT, created_at TEXT, updated_at TEXT)")
    values = ((str(i), json.dumps({"t": str(i), "ten": i % 10, "mille": i % 1000}), "", "") for i in range(data.items))
    rows.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", values)
    rows.commit()
    made = {"FAISS flat": named(flat), "FAISS flat, rows": fetched}
    if graph:
        hnsw = faiss.IndexHNSWFlat(data.dims, 32, faiss.METRIC_INNER_PRODUCT)
        hnsw.hnsw.efSearch = 64
        faiss.omp_set_num_threads(os.cpu_count() or 1)
        hnsw.add(data.vectors)
        faiss.omp_set_num_threads(1)
        made["FAISS HNSW"] = named(hnsw)
    return made


async def mixed(data: Data, store: Any, who: str) -> list[Figure]:
    """64 tasks that put and search: how long the loop stood still, and what an operation took."""
    gaps: list[float] = []
    alone: list[float] = []

    async def watch(late: list[float]) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append(1000 * (time.perf_counter() - began - 0.001))

    async def work(number: int) -> None:
        for i in range(5):
            await store.aput(("users", f"u{number}"), f"m{i}", {"t": str(i)})
            await store.asearch(("users",), query=f"q{number % QUERIES}", limit=5)

    watching = asyncio.create_task(watch(alone))
    await asyncio.sleep(1)
    watching.cancel()
    watching = asyncio.create_task(watch(gaps))
    began = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(64)))
    each = 1000 * (time.perf_counter() - began) / 640
    watching.cancel()
    return [
        figure(data, "loop held, 64 tasks", "nobody", alone),
        figure(data, "loop held, 64 tasks", who, gaps),
        figure(data, "mixed, per operation", who, [each]),
    ]


def opening(data: Data, path: Path) -> Figure:
    times = []
    for _ in range(5):
        watch = Watch()
        with FaissStore(path, index=data.index) as store:
            store.search((), query="q0", limit=5)
            times.append(watch.read())
    return figure(data, "open, first answer", "FaissStore", times)


def sizes_of(data: Data, path: Path) -> list[Figure]:
    """Megabytes, not milliseconds: of the file with what lies beside it, and of a process that opens and searches."""
    file = sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*")) / 2**20
    found = {"the vectors": data.vectors.nbytes / 2**20, "FaissStore, file": file}
    found["FaissStore, memory"] = memory(path, data.dims)
    return [figure(data, "size, MB", who, [size]) for who, size in found.items()]


def measured(items: int, dims: int, graph: int = 40_000_000, plain: int = 1000) -> list[Figure]:
    """All figures of one set of data; some of the others only up to a size for which they take seconds."""
    data = Data(items, dims)
    made: list[Figure] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        asks = bare(data, folder / "rows.db", graph=items * dims <= graph)
        stores: dict[str, Any] = {}
        path = folder / "lessons.db"
        stores["FaissStore"] = stack.enter_context(FaissStore(path, index=data.index))
        if items <= plain:
            stores[MEMORY] = InMemoryStore(index=data.index)
        if LOADS:
            sqlite = SqliteStore.from_conn_string(str(folder / "peer.db"), index=data.index)
            stores["SqliteStore"] = stack.enter_context(sqlite)
            stores["SqliteStore"].setup()
        for who, store in stores.items():
            made += filled(data, store, who)
        made += searches(data, stores, asks)
        made += puts(data, "put", {"FaissStore": stores["FaissStore"]}, folder / "raw.db", "NORMAL")
        if LOADS:  # by itself: it waits for the disk, after which whoever is next is slow
            made += alone(data, "put", "SqliteStore", stores["SqliteStore"])
        with FaissStore(path, index=data.index, durability="power") as store:
            made += puts(data, "put, outlives power", {"FaissStore": store}, folder / "full.db", "FULL")
        made += asyncio.run(mixed(data, stores["FaissStore"], "FaissStore"))
        if LOADS and items <= 10_000:
            made += asyncio.run(beside(data, folder / "peer.db"))
        stores["FaissStore"].close()
        made.append(opening(data, path))
        made += sizes_of(data, path)
    return made


def memory(path: Path, dims: int) -> float:
    """What a process grows by when it opens the file and searches it, in MB; 0 where the system does not say."""
    if not Path("/proc/self/statm").exists():
        return 0.0
    code = (
        "import resource, sys\nfrom langgraph_reflexion import FaissStore\n"
        "path, dims = sys.argv[1], int(sys.argv[2])\n"
        "page = resource.getpagesize() / 2**20\n"
        "now = lambda: int(open('/proc/self/statm').read().split()[1]) * page\nbefore = now()\n"
        "embed = lambda texts: [[1.0] * dims for _ in texts]\n"
        "with FaissStore(path, index={'dims': dims, 'embed': embed, 'fields': ['t']}) as store:\n"
        "    store.search((), query='x', limit=5)\n    print(now() - before)\n"
    )
    run = [sys.executable, "-c", code, str(path), str(dims)]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


async def beside(data: Data, path: Path) -> list[Figure]:
    async with AsyncSqliteStore.from_conn_string(str(path), index=data.index) as store:
        return await mixed(data, store, "AsyncSqliteStore")


def ratios(made: Sequence[Figure]) -> None:
    """Each figure of ours beside those of the others; above 1 we are slower. On a busy machine trust the cpu."""
    for one in made:
        if not one.who.startswith("FaissStore"):
            continue
        others = [
            each
            for each in made
            if not each.who.startswith("FaissStore") and (each.items, each.dims) == (one.items, one.dims)
        ]
        told = [
            f"{one.p50 / other.p50:.3g} × {other.who}"
            + (f" (cpu {one.cpu / other.cpu:.3g} ×)" if one.cpu and other.cpu else "")
            for other in others
            if other.p50 and (other.what == one.what or ("search" in one.what and other.who.startswith("FAISS flat")))
        ]
        if told:
            what = one.what + one.who.removeprefix("FaissStore")
            print(f"{one.items:>7} × {one.dims:<5} {what:<22} {', '.join(told)}")


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
        sizes += [(1000, 1536), (10_000, 1536), (100_000, 384), (100_000, 1536)]
    faiss.omp_set_num_threads(1)  # for one query FAISS's threads only wait for each other
    made: list[Figure] = []
    print(f"{'items × dims':<15} {'what':<22} {'who':<14} {'p50 ms':>10} {'p95 ms':>10} {'cpu ms':>10}")
    for items, dims in sizes:
        made += measured(items, dims)
    if not LOADS:
        print("SqliteStore is left out: this Python cannot load the SQLite extension that it needs for vectors")
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
