"""The file: what may be opened, what a fault says, and what is left of it."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from langgraph_reflexion import FaissStore, NgramEmbeddings
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store import database

NS = ("team",)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refused(path: Path, told: str, **settings: Any) -> None:
    before = digest(path) if path.is_file() else ""
    with pytest.raises(StoreError, match=told) as fault:
        FaissStore(path, **settings)
    assert path.name in str(fault.value)
    assert before == (digest(path) if path.is_file() else "")


def test_a_file_that_cannot_be_opened_is_named_and_not_changed(path: Path, tmp_path: Path) -> None:
    refused(tmp_path / "nowhere" / "lessons.db", "nowhere")
    refused(tmp_path, "folder")
    path.write_bytes(b"no database at all" * 300)
    refused(path, "damaged|malformed|not a database")
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (a)")
    other.commit()
    other.close()
    refused(path, "another program")


def test_a_newer_version_is_refused(path: Path) -> None:
    FaissStore(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    refused(path, "version is 99.*upgrade the package")


def test_a_file_of_an_older_version_is_refused(path: Path) -> None:
    FaissStore(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 3")
    raw.close()
    refused(path, "version is 3.*export its lessons with the release that wrote it")


def test_a_damaged_page_is_found_on_opening(path: Path) -> None:
    with FaissStore(path) as store:
        for i in range(200):
            store.put(NS, f"k{i}", {"text": "x" * 200})
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 9] = os.urandom(4096 * 6)
    path.write_bytes(data)
    refused(path, "damaged|malformed|not a database")


def test_a_cut_file_is_refused(path: Path) -> None:
    with FaissStore(path) as store:
        for i in range(200):
            store.put(NS, f"k{i}", {"text": "x" * 200})
    path.write_bytes(path.read_bytes()[: 4096 * 5])
    refused(path, "damaged|malformed|not a database")


def test_other_dimensions_are_refused_until_no_vector_is_left(opened: Callable[..., FaissStore], path: Path) -> None:
    def index(dims: int) -> dict[str, Any]:
        return {"dims": dims, "embed": lambda texts: [[1.0] * dims for _ in texts]}

    store = opened(index=index(3))
    store.put(NS, "a", {"text": "x"})
    refused(path, r"(?s)3.*5", index=index(5))
    store.delete(NS, "a")
    store.close()
    assert opened(index=index(5)).search(NS, query="x") == []


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with FaissStore(str(path)) as store:
        store.put(NS, "a", {"n": 1})
    assert FaissStore(path).get(NS, "a") is not None


def test_deleted_data_is_in_neither_the_file_nor_its_log_once_it_is_settled(path: Path) -> None:
    with FaissStore(path) as store, FaissStore(path):
        store.put(NS, "a", {"text": "private"})
        store.delete(NS, "a")
        store.settle()
        assert not [file for file in path.parent.iterdir() if b"private" in file.read_bytes()]


def test_deleted_data_is_also_gone_from_where_it_was_before_its_row_moved_to_another_page(path: Path) -> None:
    with FaissStore(path) as store:
        for many in (60, 190):  # the rows grow, so the pages that held them are split
            for key in range(20):
                store.put(NS, str(key), {"text": "private " * many})
        for key in range(20):
            store.put(NS, str(key), {"text": "public"})
        store.settle()
        assert b"private" not in path.read_bytes()


def test_a_relative_path_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with FaissStore("lessons.db") as store:
        monkeypatch.chdir(tmp_path / "there")
        store.put(NS, "a", {"text": "kept"})
        assert [item.key for item in store.search(NS, query="kept")] == ["a"]
    assert [file.name for file in tmp_path.rglob("*.db")] == ["lessons.db"]
    assert (tmp_path / "here" / "lessons.db").exists()


def test_a_store_is_neither_pickled_nor_copied(opened: Callable[..., FaissStore]) -> None:
    store = opened()
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"FaissStore.*lessons\.db.*open its path"):
            way(store)


def test_a_file_that_is_removed_or_replaced_is_noticed_at_the_next_call(path: Path) -> None:
    with FaissStore(path) as store, FaissStore(path) as other:
        store.put(NS, "a", {"text": "x"})
        for file in list(path.parent.iterdir()):
            file.unlink()
        with pytest.raises(StoreError, match=r"lessons\.db.*removed or replaced"):
            store.put(NS, "b", {"text": "x"})
        with FaissStore(path) as again:
            again.put(NS, "c", {"text": "x"})
            for call in (lambda: other.put(NS, "d", {"n": 1}), lambda: other.search(NS, query="x")):
                with pytest.raises(StoreError, match="removed or replaced"):
                    call()
            store.close()
            again.put(NS, "e", {"text": "x"})
            assert [item.key for item in again.search(NS)] == ["c", "e"]
    with FaissStore(path) as again:
        assert [item.key for item in again.search(NS)] == ["c", "e"], "who closes the removed file harms no other"


async def test_a_closed_store_says_so(path: Path) -> None:
    async with FaissStore(path) as store:
        await store.aput(NS, "a", {"n": 1})
    store.close()
    for call in (lambda: store.get(NS, "a"), lambda: store.put(NS, "b", {}), lambda: store.search(NS, query="x")):
        with pytest.raises(StoreError, match="closed"):
            call()
    with pytest.raises(StoreError, match="closed"):
        await store.aget(NS, "a")


def test_each_durability_has_its_setting(opened: Callable[..., FaissStore], tmp_path: Path) -> None:
    for durability, level in (("process", 1), ("power", 2)):
        store = opened(path=tmp_path / durability, durability=durability)
        with store._database.writing() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_another_model_is_refused_until_no_vector_is_left(opened: Callable[..., FaissStore], path: Path) -> None:
    class Named(NgramEmbeddings):
        model = "small"

    class Other(NgramEmbeddings):
        model = "large"

    store = opened(index={"dims": 512, "embed": Named()})
    store.put(NS, "a", {"text": "x"})
    refused(path, r"(?s)Named:small.*Other:large", index={"dims": 512, "embed": Other()})
    opened(index={"dims": 512, "embed": lambda texts: Named().embed_documents(texts)}).close()
    refused(path, "Named:small", index={"dims": 512, "embed": Other()})
    assert opened().get(NS, "a") is not None
    store.delete(NS, "a")
    store.close()
    assert opened(index={"dims": 512, "embed": Other()}).search(NS, query="x") == []


@pytest.mark.slow
def test_faiss_is_imported_when_vectors_are_searched_and_not_before() -> None:
    code = (
        "import sys\nfrom langgraph_reflexion import FaissStore, NgramEmbeddings\n"
        "with FaissStore(':memory:') as store:\n"
        "    store.put(('a',), 'b', {'text': 'c'})\n    store.search((), query='c')\n"
        "assert 'faiss' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_forked_child_uses_connections_and_locks_of_its_own(path: Path) -> None:
    code = (
        "import os, sys\nfrom langgraph_reflexion import FaissStore\n"
        "store = FaissStore(sys.argv[1])\nstore.put(('a',), 'parent', {'text': 'word'})\n"
        "store.search(('a',), query='word')\n"
        "with store._index_lock:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        store.put(('a',), 'child', {'text': 'word'}); os._exit(len(store.search(('a',), query='word')))\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2\n"
        "assert len(store.search(('a',), query='word')) == 2\nstore.close()\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], check=True, timeout=60)


@pytest.mark.parametrize("statement", ["BEGIN", "COMMIT"])
@pytest.mark.parametrize("work", ["open", "read", "write"])
def test_ctrl_c_as_a_transaction_begins_or_ends_leaves_the_file_free(
    path: Path, monkeypatch: pytest.MonkeyPatch, work: str, statement: str
) -> None:
    armed: list[bool] = []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *values)
            if sql.startswith(statement) and armed:
                armed.clear()
                raise KeyboardInterrupt
            return found

    monkeypatch.setattr(database.sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.1)
    with FaissStore(path) as store:
        store.put(NS, "a", {"n": 1})
        at_work: dict[str, Callable[[], Any]] = {
            "open": lambda: FaissStore(path),
            "read": lambda: store.get(NS, "a"),
            "write": lambda: store.put(NS, "b", {"n": 2}),
        }
        armed.append(True)
        with pytest.raises(KeyboardInterrupt) as interrupt:
            at_work[work]()
        with FaissStore(path) as other:
            other.put(NS, "c", {"n": 3})
            store.put(NS, "d", {"n": 4})
            wanted = {"a", "c", "d"} | ({"b"} if (work, statement) == ("write", "COMMIT") else set())
            assert {item.key for item in store.search(NS)} == {item.key for item in other.search(NS)} == wanted
        assert interrupt.tb is not None  # held until now, as a notebook holds the last one
