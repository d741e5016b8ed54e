"""Opening: a large store answers before it has read its vectors, and its snapshot is held against the data."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from langgraph.store.base import PutOp, SearchItem

from langgraph_reflexion import FaissStore
from langgraph_reflexion.memory.store import ahead, vectors

NS = ("team",)
DATA = np.random.default_rng(12).standard_normal((1500, 64)).astype(np.float32)
TRUTH = DATA / np.linalg.norm(DATA, axis=1, keepdims=True)
INDEX = {"dims": 64, "embed": lambda texts: [DATA[int(text)].tolist() for text in texts], "fields": ["t"]}


def keys(found: list[SearchItem]) -> list[str]:
    return [item.key for item in found]


def best(query: int, among: dict[int, int], limit: int = 3) -> list[str]:
    """The keys that are nearest, of keys and the texts that they hold."""
    return [str(key) for key in sorted(among, key=lambda key: -float(TRUTH[among[key]] @ TRUTH[query]))[:limit]]


@pytest.fixture
def large(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], FaissStore]:
    """A file with codes beside it, to be opened; nothing is read ahead."""
    monkeypatch.setattr(vectors, "FLAT_WORK", 500 * 64)
    monkeypatch.setattr(vectors, "CANDIDATES", 200)
    monkeypatch.setattr(ahead.Ahead, "start", lambda *_: None)
    with FaissStore(path, index=INDEX) as store:
        store.batch([PutOp(NS, str(i), {"t": str(i), "even": i % 2 == 0}) for i in range(1000)])
        store.search(NS, query="1000", limit=3)
    return lambda: FaissStore(path, index=INDEX)


def unread(store: FaissStore) -> int:
    assert store._mirror.vectors is not None
    return int(store._mirror.vectors._absent[: store._mirror.vectors.rows].sum())


def test_the_first_answer_reads_the_vectors_that_it_needs(large: Callable[[], FaissStore]) -> None:
    with large() as store:
        assert keys(store.search(NS, query="1000", limit=3)) == best(1000, {i: i for i in range(1000)})
        assert 500 < unread(store) < 900


def test_what_was_not_read_yet_is_found_changed_filtered_and_deleted_like_the_rest(
    large: Callable[[], FaissStore],
) -> None:
    with large() as store, large() as other:
        held = {i: i for i in range(1000)}
        store.search(NS, query="1001", limit=3)
        other.batch([PutOp(NS, str(i), {"t": str(i + 400), "even": True}) for i in range(30)])
        held |= {i: i + 400 for i in range(30)}
        other.batch([PutOp(NS, str(i), None) for i in range(100, 130)])
        held = {key: text for key, text in held.items() if not 100 <= key < 130}
        for query in range(1000, 1020):
            assert keys(store.search(NS, query=str(query), limit=3)) == best(query, held)
        assert unread(store) > 0
        even = {key: text for key, text in held.items() if key < 30 or key % 2 == 0}
        found = store.search(NS, query="1200", limit=3, filter={"even": True})
        assert keys(found) == best(1200, even)
        assert [item.score for item in found] == [
            pytest.approx(float(TRUTH[held[int(item.key)]] @ TRUTH[1200]), abs=1e-5) for item in found
        ]
        assert len(store.search(NS, query="1201", limit=2000)) == len(held)
        assert unread(store) == 0


def test_the_rest_is_read_meanwhile(large: Callable[[], FaissStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(vectors, "FLAT_WORK", 500 * 64)
    monkeypatch.setattr(vectors, "CANDIDATES", 200)
    with large() as store:
        store.search(NS, query="1000", limit=3)
        end = time.monotonic() + 10
        while unread(store) and time.monotonic() < end:
            store.put(NS, "new", {"t": "1000"})
            time.sleep(0.002)
        assert unread(store) == 0
        assert keys(store.search(NS, query="1000", limit=1)) == ["new"]
    assert not [one for one in threading.enumerate() if "ahead" in one.name]
    with large() as store:
        store.search(NS, query="1000", limit=3)  # closed in the midst of it
    assert not [one for one in threading.enumerate() if "ahead" in one.name]


def test_a_snapshot_of_what_became_of_a_copy_is_not_taken_for_this_files(
    large: Callable[[], FaissStore], path: Path
) -> None:
    """Both go on from the same state, in writes of the same numbers: each code must be of its own file's vectors."""
    home = path.parent
    shutil.copytree(home, home.with_name("copy"))
    with large() as store:
        store.batch([PutOp(NS, str(i), {"t": str(i + 500)}) for i in range(300)])
        store.search(NS, query="1000", limit=3)
    with FaissStore(home.with_name("copy") / path.name, index=INDEX) as copy:
        copy.batch([PutOp(NS, str(i), {"t": str(i + 200)}) for i in range(300)])
        copy.search(NS, query="1000", limit=3)
    shutil.copy(home.with_name("copy") / f"{path.name}.faiss", f"{path}.faiss")
    held = {i: i + 500 if i < 300 else i for i in range(1000)}
    with large() as store:
        for query in range(1000, 1030):
            assert keys(store.search(NS, query=str(query), limit=3)) == best(query, held)


def test_two_that_keep_a_snapshot_at_once_do_not_complain(
    large: Callable[[], FaissStore], path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def too_late(new: Path, old: Path, real: Callable[[Path, Path], Path] = Path.replace) -> Path:
        real(new, old)  # as another process did, a moment before
        return real(new, old)

    monkeypatch.setattr(Path, "replace", too_late)
    beside = path.with_name("lessons.db.faiss")
    before = beside.read_bytes()
    with large() as store:
        store.batch([PutOp(NS, str(i), {"t": str(i + 500)}) for i in range(300)])
        store.search(NS, query="1000", limit=3)
    assert beside.read_bytes() != before
    assert not caplog.records


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_does_not_wait_for_a_thread_of_its_parent(large: Callable[[], FaissStore]) -> None:
    with large() as store:
        store.search(NS, query="1000", limit=3)
        with store._mirror.alone():
            child = os.fork()
            if child == 0:
                found = keys(store.search(NS, query="1001", limit=3))
                os._exit(0 if found == best(1001, {i: i for i in range(1000)}) else 1)
            end = time.monotonic() + 20
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
                time.sleep(0.01)
        assert done == (child, 0)


def test_a_snapshot_is_used_for_unchanged_items_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "FLAT_WORK", 500 * 64)
    monkeypatch.setattr(vectors, "CANDIDATES", 100)
    rng = np.random.default_rng(8)
    data = rng.standard_normal((1100, 64)).astype(np.float32)
    index = {"dims": 64, "embed": lambda texts: [data[int(text)] for text in texts], "fields": ["t"]}
    with FaissStore(path, index=index) as store:
        store.batch([PutOp(NS, str(i), {"t": str(i)}) for i in range(1000)])
        store.search(NS, query="1000", limit=3)
    beside = path.with_name("lessons.db.faiss")
    kept = beside.read_bytes()
    with FaissStore(path, index=index) as store:
        store.batch([PutOp(NS, str(i), {"t": str(i + 50)}) for i in range(40)])
        store.delete(NS, "500")
    for found in (kept, kept[:-100], b"", b"{}", b"no snapshot", kept.replace(b'"format": 4', b'"format": 9')):
        beside.write_bytes(found)
        with FaissStore(path, index=index) as store:
            assert keys(store.search(NS, query="55", limit=2)) == ["5", "55"]
            assert "500" not in keys(store.search(NS, query="500", limit=5))
            assert len(store.search(NS, query="1001", limit=1000)) == 999


def test_a_snapshot_keeps_no_codes_of_what_was_deleted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "FLAT_WORK", 100 * 64)
    data = np.random.default_rng(10).standard_normal((600, 64)).astype(np.float32)
    index = {"dims": 64, "embed": lambda texts: [data[int(text)] for text in texts], "fields": ["t"]}
    beside = path.with_name("lessons.db.faiss")

    def items_of_codes() -> list[int]:
        head, body = beside.read_bytes().split(b"\n", 1)
        return np.frombuffer(body, np.int64, json.loads(head)["codes"]).tolist()

    with FaissStore(path, index=index) as store:
        store.batch([PutOp(NS, str(i), {"t": str(i)}) for i in range(600)])
        store.search(NS, query="0", limit=1)
    assert sorted(items_of_codes()) == list(range(1, 601))
    whole = beside.stat().st_size
    for gone in (range(3), range(3, 400), range(400, 599)):
        with FaissStore(path, index=index) as store:
            store.batch([PutOp(NS, str(i), None) for i in gone])
            assert keys(store.search(NS, query="599", limit=1)) == ["599"]
        left = set(range(gone.stop + 1, 601))
        assert not beside.exists() or set(items_of_codes()) - {-1} == left
    assert not beside.exists(), "one vector needs no index"
    assert whole > 600 * 16
