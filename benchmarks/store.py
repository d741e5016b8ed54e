"""What a store costs: FaissStore compared with InMemoryStore, SqliteStore and bare FAISS, on the same data.

Vectors are random points around 200 centres, made before the clock starts: the figures are the stores' own. Every
search is also answered by an exact comparison, and the share of its five best that were found is printed as the recall.
`--short` takes seconds, for CI; `--full` adds 100,000 items and 1536 dimensions and takes some minutes. Wrong answers
make it fail, slow ones do not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
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
from langgraph.store.sqlite import SqliteStore
from numpy.typing import NDArray

from langgraph_reflexion import FaissStore

QUERIES = 40
PUTS = 300
NAMESPACES = 1000
NEW = ("users", "new")
LOADS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
"""Whether this Python can load the SQLite extension that SqliteStore needs for vectors."""

Search = Callable[[int], Sequence[str]]


@dataclass
class Figure:
    """One line of the table: milliseconds by the clock, the median and the 95th percentile, and of processor time."""

    items: int
    dims: int
    what: str
    store: str
    p50: float
    p95: float
    cpu: float
    recall: float | None = None


class Timer:
    """Milliseconds since it was made, by the clock and of this thread's processor time."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.thread_time()

    def read(self) -> tuple[float, float]:
        return 1000 * (time.perf_counter() - self.start[0]), 1000 * (time.thread_time() - self.start[1])


class Data:
    """Vectors and queries around the same centres."""

    def __init__(self, items: int, dims: int) -> None:
        rng = np.random.default_rng(items + dims)
        centres = rng.standard_normal((200, dims))
        points = centres[rng.integers(0, 200, items + QUERIES)] + 0.8 * rng.standard_normal((items + QUERIES, dims))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        self.items, self.dims = items, dims
        self.vectors = points[:items].astype(np.float32)
        self.queries = points[items:].astype(np.float32)
        # A vector that is asked for alone is a list already, as a model would return it.
        self.lists = {f"q{i}": vector.tolist() for i, vector in enumerate(self.queries)}
        self.lists |= {str(i): vector.tolist() for i, vector in enumerate(self.vectors[:PUTS])}

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.lists[text] if text in self.lists else self.vectors[int(text)].tolist() for text in texts]

    @property
    def index(self) -> Any:
        return {"dims": self.dims, "embed": self.embed, "fields": ["t"]}

    def batches(self) -> list[list[PutOp]]:
        ops = [
            PutOp(("users", f"u{i % NAMESPACES}"), str(i), {"t": str(i), "ten": i % 10, "mille": i % 1000})
            for i in range(self.items)
        ]
        return [ops[start : start + 500] for start in range(0, len(ops), 500)]

    def best(self, query: int, among: NDArray[np.int64]) -> set[str]:
        scores = self.vectors[among] @ self.queries[query]
        return {str(i) for i in among[np.argsort(-scores)[:5]]}


def figure(
    data: Data, what: str, store: str, times: Sequence[tuple[float, float]], recall: float | None = None
) -> Figure:
    clock = [time for time, _ in times]
    cpu = float(np.median([time for _, time in times]))
    made = Figure(
        data.items, data.dims, what, store, float(np.median(clock)), float(np.quantile(clock, 0.95)), cpu, recall
    )
    found = "" if recall is None else f"  recall {recall:.3f}"
    size = f"{data.items:>7} × {data.dims:<5}"
    print(f"{size} {what:<24} {store:<18} {made.p50:>10.3f} {made.p95:>10.3f} {cpu:>10.3f}{found}", flush=True)
    return made


def measure_searches(
    data: Data, what: str, searches: dict[str, Search], among: NDArray[np.int64] | None = None
) -> list[Figure]:
    """Each query goes to all of them in turn, so that what else the machine does falls on all alike."""
    candidates = np.arange(data.items) if among is None else among
    times: dict[str, list[tuple[float, float]]] = {store: [] for store in searches}
    hits = dict.fromkeys(searches, 0)
    for query in (0, *range(QUERIES)):
        best = data.best(query, candidates)
        for store, search in searches.items():
            timer = Timer()
            found = search(query)
            times[store].append(timer.read())
            hits[store] += len(set(found) & best) if len(times[store]) > 1 else 0  # the first is a warm-up
    possible = QUERIES * min(5, len(candidates))
    return [figure(data, what, store, times[store][1:], hits[store] / possible) for store in searches]


def search_in(store: BaseStore, namespace: tuple[str, ...] = (), **more: Any) -> Search:
    return lambda query: [item.key for item in store.search(namespace, query=f"q{query}", limit=5, **more)]


def search(data: Data, stores: dict[str, BaseStore], bare: dict[str, Search]) -> list[Figure]:
    every = np.arange(data.items)
    made = measure_searches(data, "search", bare | {name: search_in(store) for name, store in stores.items()})
    for what, among, namespace, more in (
        ("search, 10 % pass", every[every % 10 == 3], (), {"filter": {"ten": 3}}),
        ("search, 0.1 % pass", every[every % 1000 == 3], (), {"filter": {"mille": 3}}),
        ("search of a namespace", every[every % NAMESPACES == 7], ("users", "u7"), {}),
    ):
        # SqliteStore filters after it has cut the page, so its answers would be wrong.
        exact = {name: search_in(store, namespace, **more) for name, store in stores.items() if name != "SqliteStore"}
        made += measure_searches(data, what, exact, among)
    return made


def fill(data: Data, name: str, store: BaseStore) -> Figure:
    batches = data.batches()
    timer = Timer()
    for ops in batches:
        store.batch(ops)
    clock, cpu = timer.read()
    return figure(data, "put 500 at once, an item", name, [(clock / data.items, cpu / data.items)])


def put(data: Data, what: str, stores: dict[str, BaseStore], path: Path, synchronous: str) -> list[Figure]:
    """Single puts in turn with a commit of the same row and vector, which is the least that a put can cost."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute(f"PRAGMA synchronous = {synchronous}")
    raw.execute("CREATE TABLE rows (namespace TEXT, key TEXT, value TEXT, data BLOB, PRIMARY KEY (namespace, key))")

    def commit(i: int) -> None:
        raw.execute("BEGIN IMMEDIATE")
        row = ("users.new", f"new{i}", json.dumps({"t": str(i)}), data.vectors[i].tobytes())
        raw.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", row)
        raw.execute("COMMIT")

    def put_into(store: BaseStore, index: Literal[False] | None) -> Callable[[int], None]:
        return lambda i: store.put(NEW, f"new{i}{index}", {"t": str(i)}, index)

    turns: dict[str, Callable[[int], None]] = {"one commit": commit}
    for name, store in stores.items():
        turns |= {name: put_into(store, None), f"{name}, no vector": put_into(store, False)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for i in range(PUTS):
        for name, turn in turns.items():
            timer = Timer()
            turn(i)
            times[name].append(timer.read())
    raw.close()
    for store in stores.values():
        store.batch([PutOp(NEW, f"new{i}{index}", None) for i in range(PUTS) for index in (None, False)])
    return [figure(data, what, name, each[20:]) for name, each in times.items()]


def bare_faiss(data: Data, path: Path) -> dict[str, Search]:
    """FAISS alone, and FAISS with the least that a store must do around it: embed the query, fetch the rows."""
    flat, other = faiss.IndexFlatIP(data.dims), faiss.IndexFlatIP(data.dims)
    flat.add(data.vectors)
    other.add(data.vectors)  # vectors of its own, as the stores have: neither finds them in the processor's cache
    rows = sqlite3.connect(path)
    rows.execute("CREATE TABLE items (key TEXT PRIMARY KEY, value TEXT)")
    values = ((str(i), json.dumps({"t": str(i), "ten": i % 10, "mille": i % 1000})) for i in range(data.items))
    rows.executemany("INSERT INTO items VALUES (?, ?)", values)
    rows.commit()

    def with_rows(query: int) -> list[str]:
        found = other.search(np.asarray(data.embed([f"q{query}"]), np.float32), 5)[1][0]
        wanted = f"SELECT key, value FROM items WHERE key IN ({','.join('?' * 5)})"
        return [key for key, value in rows.execute(wanted, [str(i) for i in found]) if json.loads(value)]

    return {
        "FAISS flat": lambda query: [str(i) for i in flat.search(data.queries[query][None], 5)[1][0]],
        "FAISS flat, rows": with_rows,
    }


async def hold_loop(data: Data, store: BaseStore) -> list[Figure]:
    """How late the event loop comes back to a task that slept 1 ms, while 64 tasks put and search."""

    async def watch(delays: list[tuple[float, float]]) -> None:
        while True:
            timer = Timer()
            await asyncio.sleep(0.001)
            clock, cpu = timer.read()
            delays.append((clock - 1, cpu))

    async def work(number: int) -> None:
        for i in range(5):
            await store.aput(("users", f"u{number}"), f"m{i}", {"t": str(i)})
            await store.asearch(("users",), query=f"q{number % QUERIES}", limit=5)

    made = []
    for name, work_done in (("nobody", [asyncio.sleep(1)]), ("FaissStore", [work(number) for number in range(64)])):
        delays: list[tuple[float, float]] = []
        watching = asyncio.create_task(watch(delays))
        await asyncio.gather(*work_done)
        watching.cancel()
        made.append(figure(data, "loop held, 64 tasks", name, delays))
    return made


def open_file(data: Data, path: Path) -> Figure:
    times = []
    for _ in range(5):
        timer = Timer()
        with FaissStore(path, index=data.index) as store:
            store.search((), query="q0", limit=5)
            times.append(timer.read())
    return figure(data, "open, first answer", "FaissStore", times)


def words(data: Data, path: Path) -> list[Figure]:
    """Search by words: texts of twenty words, of which some are frequent and most are rare."""
    rng = random.Random(data.items)
    known = ["".join(rng.choices("abcdefghijklmnoprstu", k=rng.randint(4, 10))) for _ in range(20_000)]
    texts = [" ".join(rng.choices(known, [1 / (10 + i) for i in range(20_000)], k=20)) for _ in range(data.items)]
    with FaissStore(path) as store:
        for start in range(0, data.items, 500):
            some = range(start, min(start + 500, data.items))
            store.batch([PutOp(("notes",), str(i), {"text": texts[i]}) for i in some])
    timer = Timer()
    with FaissStore(path) as store:
        store.search((), query=texts[0], limit=5)
        made = [figure(data, "words: open, first answer", "FaissStore", [timer.read()])]
        times, hits = [], 0
        for i in range(QUERIES):
            query = " ".join(rng.sample(texts[i].split(), 5))
            timer = Timer()
            found = store.search((), query=query, limit=5)
            times.append(timer.read())
            hits += str(i) in [item.key for item in found]
    return [*made, figure(data, "words: search of five", "FaissStore", times, hits / QUERIES)]


def sizes(data: Data, path: Path) -> list[Figure]:
    """Megabytes, not milliseconds: of the file, and of what a process grows by when it opens and searches it."""
    code = (
        "import resource, sys, faiss, numpy\nfrom langgraph_reflexion import FaissStore\n"
        "path, dims = sys.argv[1], int(sys.argv[2])\n"
        "now = lambda: int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 2**20\n"
        "before = now()\n"
        "embed = lambda texts: [[1.0] * dims for _ in texts]\n"
        "with FaissStore(path, index={'dims': dims, 'embed': embed, 'fields': ['t']}) as store:\n"
        "    store.search((), query='x', limit=5)\n    print(now() - before)\n"
    )
    found = {"the vectors": data.vectors.nbytes / 2**20, "FaissStore, file": path.stat().st_size / 2**20}
    if Path("/proc/self/statm").exists():
        run = [sys.executable, "-c", code, str(path), str(data.dims)]
        found["FaissStore, memory"] = float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    return [figure(data, "size, MB", name, [(size, 0.0)]) for name, size in found.items()]


def measure(items: int, dims: int) -> list[Figure]:
    """All figures of one set of data; InMemoryStore and SqliteStore only where they take seconds."""
    data = Data(items, dims)
    made: list[Figure] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bare = bare_faiss(data, folder / "rows.db")
        path = folder / "lessons.db"
        ours = stack.enter_context(FaissStore(path, index=data.index))
        stores: dict[str, BaseStore] = {"FaissStore": ours}
        if items <= 1000:
            stores["InMemoryStore"] = InMemoryStore(index=data.index)
        if LOADS_EXTENSIONS and items <= 10_000:
            index = {**data.index, "text_fields": ["t"]}  # its name for `fields`
            sqlite = stack.enter_context(SqliteStore.from_conn_string(str(folder / "peer.db"), index=index))
            sqlite.setup()
            stores["SqliteStore"] = sqlite
        made += [fill(data, name, store) for name, store in stores.items()]
        made += search(data, stores, bare)
        made += put(data, "put", {"FaissStore": ours}, folder / "raw.db", "NORMAL")
        with FaissStore(path, index=data.index, durability="power") as store:
            made += put(data, "put, durability power", {"FaissStore": store}, folder / "full.db", "FULL")
        made += asyncio.run(hold_loop(data, ours))
        ours.close()
        made += [open_file(data, path), *words(data, folder / "words.db"), *sizes(data, path)]
    return made


def print_ratios(made: Sequence[Figure]) -> None:
    """Processor time of ours as a multiple of the others'; above 1 we are slower."""
    for ours in (each for each in made if each.store.startswith("FaissStore")):
        size = ours.items, ours.dims
        ratios = [
            f"{ours.cpu / other.cpu:.3g} × {other.store}"
            for other in made
            if not other.store.startswith("FaissStore") and (other.items, other.dims) == size and other.cpu
            if other.what == ours.what or ("search" in ours.what and other.store.startswith("FAISS flat"))
        ]
        if ratios and "words" not in ours.what and "loop" not in ours.what:
            what = ours.what + ours.store.removeprefix("FaissStore")
            print(f"{ours.items:>7} × {ours.dims:<5} {what:<32} {', '.join(ratios)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one small set")
    parser.add_argument("--full", action="store_true", help="up to 100,000 items and 1536 dimensions")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    sets = [(1000, 384)]
    if not options.short:
        sets.append((10_000, 384))
    if options.full:
        sets += [(1000, 1536), (10_000, 1536), (100_000, 384), (100_000, 1536)]
    faiss.omp_set_num_threads(1)  # for one query FAISS's threads only wait for each other
    print(f"{'items × dims':<15} {'what':<24} {'store':<18} {'p50 ms':>10} {'p95 ms':>10} {'cpu ms':>10}")
    made = [each for items, dims in sets for each in measure(items, dims)]
    if not LOADS_EXTENSIONS:
        print("SqliteStore is left out: this Python cannot load the SQLite extension that it needs for vectors")
    print()
    print_ratios(made)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in made], indent=1), encoding="utf-8")
    wrong = [each for each in made if each.store == "FaissStore" and (each.recall or 1) < 0.99]
    for each in wrong:
        print(f"WRONG: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
