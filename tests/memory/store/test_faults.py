"""Faults: of a disk, a file or another program. One clear error each, and the data are as they were."""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from langgraph.store.base import PutOp

from langgraph_reflexion import FaissStore
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store import database

NS = ("team",)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def filled(path: Path, items: int = 300) -> None:
    with FaissStore(path) as store:
        store.batch([PutOp(NS, f"k{i}", {"text": f"word{i} " + "x" * 300}) for i in range(items)])


@pytest.mark.parametrize("start", [0, 16, 100], ids=["its name", "its settings", "its first page"])
def test_a_damaged_head_is_refused(path: Path, start: int) -> None:
    filled(path)
    data = bytearray(path.read_bytes())
    data[start : start + 64] = bytes(range(128, 192))
    path.write_bytes(data)
    before = digest(path)
    with pytest.raises(StoreError, match=r"lessons\.db.*(not a database|malformed|another program|version)"):
        FaissStore(path)
    assert digest(path) == before


def test_a_damaged_page_of_a_file_too_large_to_be_checked_is_found_when_it_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, 3000)
    data = bytearray(path.read_bytes())
    for page in range(8, len(data) // 4096):
        data[4096 * page : 4096 * page + 8] = b"\xff" * 8
    path.write_bytes(data)
    before = digest(path)
    monkeypatch.setattr(database, "CHECK_BYTES", 0)
    with FaissStore(path) as store:
        for read in (lambda: store.search(NS, query="word2900"), lambda: store.search(NS, limit=3000)):
            with pytest.raises(StoreError, match=r"lessons\.db.*(damaged|malformed)"):
                read()
    assert digest(path) == before


def test_a_damaged_value_is_reported_as_such(path: Path) -> None:
    filled(path, 3)
    path.write_bytes(path.read_bytes().replace(b'{"text":"word1 ', b'{"text":}word1 '))
    with FaissStore(path) as store:
        assert store.get(NS, "k0") is not None
        for read in (lambda: store.get(NS, "k1"), lambda: store.search(NS), lambda: store.search(NS, query="word2")):
            with pytest.raises(StoreError, match=r"lessons\.db.*(damaged|malformed)"):
                read()


def test_another_program_that_locks_the_file_is_waited_for_and_then_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, 3)
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.1)
    with FaissStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"lessons\.db.*locked"):
            store.put(NS, "new", {"n": 1})
        assert len(store.search(NS)) == 3
        other.execute("ROLLBACK")
        other.close()
        store.put(NS, "new", {"n": 1})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"lessons\.db.*locked"):
        FaissStore(path)
    other.close()
    with FaissStore(path) as store:
        assert len(store.search(NS)) == 4


@pytest.mark.slow
def test_a_file_that_may_not_be_written_is_refused_and_untouched() -> None:
    folder = Path(tempfile.mkdtemp())
    path = folder / "lessons.db"
    try:
        filled(path, 3)
        before = digest(path)
        path.chmod(0o444)
        folder.chmod(0o555)
        code = (
            "import os, sys\nfrom langgraph_reflexion import FaissStore\n"
            "if os.geteuid() == 0:\n    os.setuid(65534)  # to the superuser no file is read-only\n"
            "FaissStore(sys.argv[1])\n"
        )
        run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
        done = subprocess.run(run, capture_output=True, text=True, cwd=folder, timeout=60)
        assert done.returncode == 1
        assert re.search(r"StoreError.*lessons\.db.*readonly", done.stderr.splitlines()[-1])
        assert digest(path) == before
        assert [file.name for file in folder.iterdir()] == ["lessons.db"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_full_disk_fails_the_put_at_hand_and_nothing_else(path: Path) -> None:
    filled(path, 3)
    code = (
        "import resource, signal, sys\nfrom langgraph_reflexion import FaissStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = FaissStore(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))\n"
        "for i in range(1000):\n"
        "    try:\n        store.put(('team',), f'n{i}', {'text': 'x' * 3000})\n"
        "    except Exception as fault:\n        print(type(fault).__name__, fault)\n        break\n"
        "print(i, len(store.search(('team',), limit=5000)))\n"
    )
    run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
    said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert said[0].startswith("StoreError the store")
    assert "lessons.db" in said[0]
    assert "disk" in said[0]
    done, held = map(int, said[1].split())
    assert held == done + 3
    with FaissStore(path) as store:
        assert len(store.search(NS, limit=5000)) == held
        store.put(NS, "after", {"n": 1})


@pytest.mark.slow
def test_on_a_disk_without_room_for_another_copy_of_the_file_deleted_data_is_overwritten(path: Path) -> None:
    filled(path)
    code = (
        "import os, resource, signal, sys\nfrom langgraph_reflexion import FaissStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = FaissStore(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(sys.argv[1]), resource.RLIM_INFINITY))\n"
        "store.delete(('team',), 'k7')\n"
        "try:\n    store.settle()\nexcept Exception as fault:\n    print(type(fault).__name__, fault)\n"
        "print(*[name for name in (sys.argv[1], sys.argv[1] + '-wal') if b'word7 ' in open(name, 'rb').read()])\n"
    )
    run = [sys.executable, "-W", "ignore", "-c", code, str(path)]
    said = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert said[0].startswith("StoreError the store")
    assert said[1] == ""
