"""Processes: killed in the middle of writing, and many at once on one file."""

from __future__ import annotations

import hashlib
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from langgraph_reflexion import FaissStore

NS = ("team",)
SECONDS = 12
"""How long four processes write: long beside the time in which one begins before another."""

CHILD = """
import hashlib, sys, time
from langgraph.store.base import PutOp
from langgraph_reflexion import FaissStore

def embed(texts):
    return [[b / 127.5 - 1 for b in hashlib.sha512(t.encode()).digest()] for t in texts]

def say(*words):
    print(*words, flush=True)

name = sys.argv[2]
INDEX = {"dims": 64, "embed": embed, "fields": ["text", "of"][: 1 + (name in ("r1", "r3", "r6"))]}
store = FaissStore(sys.argv[1], index=INDEX)
NS = ("team",)
"""

AIMS = ("put", "batch", "delete", "embed")
ROUNDS = 6 * len(AIMS)

WRITES = """
import random

aim, left, chance = sys.argv[3], 0, random.Random(name)

def here(what):
    "From now on the parent may be told to kill us, some steps from here."
    global left
    left = chance.randint(1, 60) if what == aim and round > 2 else 0

def step():
    global left
    left -= 1
    if left == 0:
        say("inside", aim)
        time.sleep(60)

def opened():
    store = FaissStore(sys.argv[1], index=INDEX)
    store._database._writer.set_progress_handler(step, 5)  # in the middle of a statement
    return store

store.close()
round, store = 0, opened()
while True:
    key = f"{name}-{round}"
    here("put"); store.put(NS, key, {"text": key}); here(""); say("put", key)
    here("batch")
    store.batch([PutOp(NS, f"{key}-{i}", {"text": f"{key}-{i}", "of": key}) for i in range(5)])
    here(""); say("batch", key)
    if round % 3 == 2:
        say("going", f"{name}-{round - 1}")
        here("delete"); store.delete(NS, f"{name}-{round - 1}"); here(""); say("gone", f"{name}-{round - 1}")
    assert store.search(NS, query=key, limit=1)[0].score > 0.999
    with FaissStore(sys.argv[1]) as plain:
        plain.put(NS, f"plain-{key}", {"text": f"plain-{key}"})
    here("embed"); assert store.search(NS, query=f"plain-{key}", limit=1)[0].score > 0.999; here("")
    store.close()
    store = opened()
    round += 1
"""

SHARES = """
import mmap
number, seconds = int(name[1:]), float(sys.argv[3])
with open(sys.argv[4], "r+b") as file:
    told = memoryview(mmap.mmap(file.fileno(), 32)).cast("q")  # what each has had acknowledged
store.search(NS, query="first")  # FAISS is imported here, and not while the clock runs
done = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    store.put(NS, f"{name}-{done}", {"text": f"{name}-{done}"})
    done += 1
    told[number] = done
    other = (number + done) % 4
    if done % 10 == 0 and told[other]:
        wanted = f"p{other}-{told[other] - 1}"
        [found] = store.search(NS, query=wanted, limit=1)
        assert (found.key, found.score > 0.999) == (wanted, True), "what was acknowledged elsewhere is not found"
say(done)
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
    bare = "SELECT count(*) FROM items WHERE key NOT LIKE 'plain%' AND id NOT IN (SELECT id FROM vectors)"
    assert raw.execute(bare).fetchone() == (0,)
    assert raw.execute("SELECT count(*) FROM vectors WHERE id NOT IN (SELECT id FROM items)").fetchone() == (0,)
    raw.close()
    with FaissStore(path) as store:
        return {item.key: item.value for item in store.search(NS, limit=10_000_000)}


def embed(texts: list[str]) -> list[list[float]]:
    """As the children do."""
    return [[b / 127.5 - 1 for b in hashlib.sha512(text.encode()).digest()] for text in texts]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_processes_lose_nothing_they_had_acknowledged(path: Path) -> None:
    """Kill processes in the middle of what each of them is to be hit at."""
    hits: Counter[str] = Counter()
    known: set[str] = set()
    gone: set[str] = set()
    going: set[str] = set()  # a delete that was begun may be done before it is told
    for number in range(ROUNDS):
        child = start(WRITES, path, f"r{number}", AIMS[number % 4])
        assert child.stdout is not None
        for line in child.stdout:
            done, key = line.split()
            if done == "inside":
                hits[key] += 1
                break
            if done in ("gone", "going"):
                (gone if done == "gone" else going).add(key)
            else:
                known |= {key} if done == "put" else {f"{key}-{i}" for i in range(5)}
        child.kill()
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
        found = whole(path)
        assert known - going <= set(found), "an acknowledged write is lost"
        assert not gone & set(found), "an acknowledged delete is lost"
        for key in {value["of"] for value in found.values() if "of" in value}:
            assert {f"{key}-{i}" for i in range(5)} <= set(found), "half a batch is there"
        with FaissStore(path, index={"dims": 64, "embed": embed, "fields": ["text"]}) as store:
            for key in random.Random(number).sample(sorted(found), 5):
                assert store.search(NS, query=key, limit=1)[0].key == key
    assert hits == dict.fromkeys(AIMS, ROUNDS // len(AIMS))
    assert len(list(path.parent.iterdir())) <= 3, "what killed processes left behind piles up"


@pytest.mark.slow
def test_processes_share_a_file_and_none_is_starved(path: Path) -> None:
    acknowledged = path.with_name("acknowledged")
    acknowledged.write_bytes(bytes(32))
    children = [start(SHARES, path, f"p{number}", SECONDS, acknowledged) for number in range(4)]
    told = [child.communicate(timeout=100)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    found = whole(path)
    done = sorted(map(int, told))
    assert len(found) == sum(done)
    assert done[0] > sum(done) / 40, "a process was starved"


@pytest.mark.slow
def test_writes_of_another_process_are_found_at_once(path: Path) -> None:
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
            assert [item.key for item in store.search(NS, query=word)] == [word]
    child.stdin.close()
    child.stdout.close()
    assert child.wait() == 0
