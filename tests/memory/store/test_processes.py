"""Processes: killed in the middle of writing, and many at once on one file."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from langgraph_reflexion import FaissStore

NS = ("team",)

CHILD = """
import hashlib, sys, time
from langgraph.store.base import PutOp
from langgraph_reflexion import FaissStore
from langgraph_reflexion.memory.store import vectors

vectors.FLAT_WORK = 64 * 5  # so that few items have an index beside the file

def embed(texts):
    return [[b / 127.5 - 1 for b in hashlib.sha512(t.encode()).digest()] for t in texts]

def say(*words):
    print(*words, flush=True)

name = sys.argv[2]
INDEX = {"dims": 64, "embed": embed, "fields": ["text", "of"][: 1 + (name in ("r1", "r3", "r6"))]}
store = FaissStore(sys.argv[1], index=INDEX)
NS = ("team",)
"""

WRITES = """
round = 0
while True:
    key = f"{name}-{round}"
    store.put(NS, key, {"text": key}); say("put", key)
    store.batch([PutOp(NS, f"{key}-{i}", {"text": f"{key}-{i}", "of": key}) for i in range(5)]); say("batch", key)
    if round % 3 == 2:
        say("going", f"{name}-{round - 1}"); store.delete(NS, f"{name}-{round - 1}"); say("gone", f"{name}-{round - 1}")
    assert store.search(NS, query=key, limit=1)[0].score > 0.999
    store.close()
    store = FaissStore(sys.argv[1], index=INDEX)
    round += 1
"""

SHARES = """
worst = 0.0
end = time.monotonic() + float(sys.argv[3])
done = 0
while time.monotonic() < end:
    began = time.perf_counter()
    store.put(NS, f"{name}-{done}", {"text": f"{name}-{done}"})
    worst = max(worst, time.perf_counter() - began)
    done += 1
    if done % 20 == 0:
        assert store.search(NS, query=f"{name}-{done - 1}", limit=1)[0].score > 0.999
say(done, worst)
store.close()
"""


def start(body: str, *args: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD + body, *map(str, args)], stdout=subprocess.PIPE, text=True
    )


def whole(path: Path) -> dict[str, Any]:
    """The items of a file that is sound, each with its vectors."""
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert raw.execute("SELECT count(*) FROM items WHERE vectors IS NULL").fetchone() == (0,)
    raw.close()
    with FaissStore(path) as store:
        return {item.key: item.value for item in store.search(NS, limit=10_000_000)}


def killed(path: Path, rounds: int) -> None:
    """Kill a process that puts, deletes, writes its index down, reads it, and makes it anew where it is spoilt."""
    beside = path.with_name(f"{path.name}.faiss")
    snapshots = 0
    known: set[str] = set()
    gone: set[str] = set()
    going: set[str] = set()  # a delete that was begun may be done before it is told
    for number in range(rounds):
        snapshots += beside.exists()
        if number % 4 == 3 and beside.exists():
            beside.write_bytes(beside.read_bytes()[: number * 100])
        child = start(WRITES, path, f"r{number}")
        assert child.stdout is not None
        chance = random.Random(number)
        told = [child.stdout.readline() for _ in range(chance.randint(1, 12))]
        time.sleep(chance.uniform(0, 0.05))
        child.kill()
        told += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        for line in told:
            if not line.endswith("\n"):
                continue
            done, key = line.split()
            if done in ("gone", "going"):
                (gone if done == "gone" else going).add(key)
            else:
                known |= {key} if done == "put" else {f"{key}-{i}" for i in range(5)}
        found = whole(path)
        assert known - going <= set(found), "an acknowledged write is lost"
        assert not gone & set(found), "an acknowledged delete is lost"
        for key in {value["of"] for value in found.values() if "of" in value}:
            assert {f"{key}-{i}" for i in range(5)} <= set(found), "half a batch is there"
    assert snapshots >= rounds // 3
    assert len(list(path.parent.iterdir())) <= 5, "what killed processes left half written piles up"


@pytest.mark.slow
def test_a_killed_process_loses_nothing_it_had_acknowledged(path: Path) -> None:
    killed(path, 3)


@pytest.mark.slow
def test_fifty_killed_processes_lose_nothing_they_had_acknowledged(path: Path) -> None:
    killed(path, 50)


def shared(path: Path, seconds: float) -> None:
    children = [start(SHARES, path, f"p{number}", seconds) for number in range(4)]
    told = [child.communicate(timeout=seconds + 60)[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    found = whole(path)
    assert len(found) == sum(int(done) for done, _ in told)
    assert max(float(worst) for _, worst in told) < 3, "a process was starved"


@pytest.mark.slow
def test_processes_share_a_file_and_none_is_starved(path: Path) -> None:
    shared(path, 1.5)


@pytest.mark.slow
def test_processes_share_a_file_for_half_a_minute(path: Path) -> None:
    shared(path, 30)


@pytest.mark.slow
def test_what_another_process_wrote_is_found_at_once(path: Path) -> None:
    body = "for line in sys.stdin:\n    store.put(NS, line.strip(), {'text': line.strip()}); say(line.strip())\n"
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD + body, str(path), "x"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    with FaissStore(path) as store:
        for word in ("volcano", "zanzibar", "meadow"):
            child.stdin.write(f"{word}\n")
            child.stdin.flush()
            assert child.stdout.readline().strip() == word
            began = time.perf_counter()
            assert [item.key for item in store.search(NS, query=word)] == [word]
            assert time.perf_counter() - began < 0.1
    child.stdin.close()
    child.stdout.close()
    assert child.wait() == 0
