"""What a trial costs in addition to its worker: seconds per attempt, and memory over a thousand attempts.

Worker and checks are scripts that answer at once, so the figures are the trial's own: no language model is asked. Each
round calls the worker alone as often as the trial does, and the difference is taken round by round, because a shared
machine drifts. `--short` is for CI: fewer attempts, and it fails only on a wrong result.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
import tracemalloc
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_reflexion import Limits, MemoryPolicy, create_trial_graph

TASK = {"messages": [("user", "Which river crosses the town?")]}
ENDLESS: RunnableConfig = {"recursion_limit": 1_000_000}


def function(_prompt: str) -> str:
    """The least a worker can be."""
    return "Danube"


def graph() -> Any:
    """A worker that is a graph of one node."""
    node = StateGraph(MessagesState).add_node("work", lambda _: {"messages": [AIMessage("Danube")]})
    return node.add_edge(START, "work").add_edge("work", END).compile()


def trial(worker: Any, attempts: int, strategy: Any, saver: Any = None) -> Any:
    """A trial that no answer satisfies before its last attempt."""
    limits = Limits(max_attempts=attempts, stalled_attempts=attempts + 1)
    memory = MemoryPolicy(read=False, write=False)
    return create_trial_graph(
        worker,
        [lambda _answer, _run: "no such river"],
        strategy=strategy,
        limits=limits,
        memory=memory,
        checkpointer=saver,
    )


def sure(result: dict[str, Any], attempts: int) -> None:
    """A figure counts only for a trial that did the work."""
    outcome = result["outcome"]
    if (len(outcome.attempts), outcome.stop_reason) != (attempts, "max_attempts"):
        raise SystemExit(f"wrong result: {len(outcome.attempts)} attempts, {outcome.stop_reason}")


def config(turn: int) -> RunnableConfig:
    """A new thread for each round."""
    return {**ENDLESS, "configurable": {"thread_id": str(turn)}}


def alone(worker: Any, attempts: int) -> float:
    """Seconds of the worker by itself, called as often."""
    began = time.perf_counter()
    for _ in range(attempts):
        if worker is function:
            function("Which river crosses the town?")
        else:
            worker.invoke(TASK)
    return time.perf_counter() - began


def overhead(worker: Any, attempts: int, rounds: int, strategy: str, door: str, saved: bool) -> float:
    """Milliseconds that the trial adds to an attempt: the median of the rounds, the first not counted."""
    ready = trial(worker, attempts, strategy, InMemorySaver() if saved else None)
    added = []
    for turn in range(rounds + 1):
        base = alone(worker, attempts)
        began = time.perf_counter()
        result = ready.invoke(TASK, config(turn)) if door == "sync" else asyncio.run(ready.ainvoke(TASK, config(turn)))
        took = time.perf_counter() - began
        sure(result, attempts)
        added.append((took - base) / attempts * 1_000)
    return statistics.median(added[1:])


def memory_of(attempts: int) -> tuple[float, float]:
    """Peak and lasting megabytes of one trial of so many attempts, without a checkpointer."""
    ready = trial(function, attempts, "last_trial")
    sure(trial(function, 10, "last_trial").invoke(TASK, ENDLESS), 10)
    tracemalloc.start()
    result = ready.invoke(TASK, ENDLESS)
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sure(result, attempts)
    return peak / 1e6, left / 1e6


def main(words: list[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few attempts, for CI")
    parser.add_argument("--attempts", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(words)
    attempts, rounds = (3, 1) if given.short else (given.attempts, given.rounds)
    print(f"What a trial adds to an attempt, ms (median of {rounds} rounds of {attempts} attempts; scripted worker)")
    print(f"{'worker':10}{'strategy':12}{'door':7}{'none':>8}{'in memory':>12}")
    for name, worker in (("function", function), ("graph", graph())):
        for strategy in ("none", "last_trial"):
            for door in ("sync", "async"):
                figures = [overhead(worker, attempts, rounds, strategy, door, saved) for saved in (False, True)]
                print(f"{name:10}{strategy:12}{door:7}{figures[0]:8.2f}{figures[1]:12.2f}")
    for many in (10,) if given.short else (100, 1_000):
        began = time.perf_counter()
        peak, left = memory_of(many)
        took = time.perf_counter() - began
        print(f"{many} attempts: peak {peak:.1f} MB, {left:.1f} MB with its outcome kept, {took:.1f} s while traced")


if __name__ == "__main__":
    sys.exit(main())
