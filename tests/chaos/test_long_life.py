"""An agent that runs for long takes no more time, memory, threads or open files than at the start."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.testing import Question, RoleModel, call, say

RUNS = 2_000
TURNS = 300
MEGABYTE = 2**20


def memory() -> int:
    """Bytes of memory this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("I8", "D18")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_two_thousand_runs_stay_as_light_as_the_first_ones(tmp_path: Path, workload: ModuleType) -> None:
    with FaissStore(tmp_path / "lessons.db") as store:
        made = workload.graphs(None, store)
        spent, held = [], []
        for number in range(RUNS):
            if number % 200 == 0:
                held.append((memory(), threading.active_count(), open_files()))
            began = time.process_time()
            outcome = made[2 * (number % 2)].invoke(workload.asked(number))["outcome"]
            spent.append(time.process_time() - began)
            assert outcome.status in ("success", "unverified")
        held.append((memory(), threading.active_count(), open_files()))
    # The quickest tenth: what else the machine does makes some runs slow, and growth makes all of them slow.
    early, late = sorted(spent[200:400])[20], sorted(spent[-200:])[20]
    assert late < 2 * early, f"a run took {early:.4f} s, and takes {late:.4f} s"
    bytes_of, threads, files = zip(*held, strict=True)
    assert bytes_of[-1] - bytes_of[2] < 40 * MEGABYTE, bytes_of
    assert max(threads[2:]) - threads[1] <= 2, threads
    assert max(files[2:]) - files[1] <= 2, files


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("D19", "I7")
def test_a_thread_of_three_hundred_turns_stays_light_and_valid() -> None:
    def look(query: str) -> str:
        """Look something up."""
        return f"found {query}"

    def decide(question: Question) -> object:
        number = question.last.text.split()[-1]
        return say(f"done {number}") if question.last.type == "tool" else call("look", query=number)

    saver = InMemorySaver()
    agent = create_reflexion_agent(RoleModel(decide=decide), [look], checkpointer=saver, store=InMemoryStore())
    config = {"configurable": {"thread_id": "long"}}
    spent, sizes = [], []
    for turn in range(TURNS):
        began = time.process_time()
        result = agent.invoke({"messages": [("user", f"Look up number {turn}")]}, config, durability="exit")
        spent.append(time.process_time() - began)
        assert result["outcome"].answer == f"done {turn}"
        values = saver.get_tuple(config).checkpoint["channel_values"]  # type: ignore[union-attr]
        sizes.append(len(saver.serde.dumps_typed({k: v for k, v in values.items() if k != "messages"})[1]))
    assert is_paired(result["messages"])
    assert len(result["messages"]) == 4 * TURNS
    assert max(sizes[-20:]) - max(sizes[:20]) < 100, "what is ours does not grow with the conversation"
    early, late = sorted(spent[20:70])[5], sorted(spent[-50:])[5]
    assert late < early + 0.1, f"a turn took {early:.4f} s, and takes {late:.4f} s"
