"""How close twenty concurrent tasks come to the ideal time: 100 tasks of 5 calls of 50 ms, with scripted models.

    python benchmarks/evals.py [--short]

The ideal is the time of the calls if nothing else took time. The same 500 calls are made in three ways: by an
experiment with the set-up `cot+reflexion`, whose tasks fail twice (three answers and two reflections); by trials of
five attempts around an async function; and, as the least that LangGraph costs, by a bare graph of two nodes. Wall-clock
time is unreliable on a shared machine, so the loop has its own clock: it advances with the processor time of this
process, and skips the time that it would have slept, in whole milliseconds like an operating system. Runs that start
together stay together: they compute in turn and then all wait, as the bare graph shows. Fails only if a task is lost,
duplicated or ends differently than it must.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import selectors
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_reflexion import Limits, MemoryPolicy, create_trial_graph
from langgraph_reflexion.evals.experiment import Experiment, run_experiment
from langgraph_reflexion.evals.setups import find_setups
from langgraph_reflexion.evals.student import PLANS
from langgraph_reflexion.evals.tasks import Task
from langgraph_reflexion.testing import Question, RoleModel, reflection, say

DELAY, AT_ONCE, CALLS, ROUNDS = 0.05, 20, 5, 3
TASK = {"messages": [("user", "What is right?")]}


class Skipping(selectors.DefaultSelector):
    """Waits for nothing but what is there, and counts the time that it would have waited."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0 if timeout is not None else None)
        if timeout and not events:  # as epoll does, whole milliseconds
            self.skipped += math.ceil(timeout * 1000) / 1000
        return events


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is that of a machine with nothing else to do."""

    def __init__(self) -> None:
        self._sleep = Skipping()
        super().__init__(self._sleep)

    def time(self) -> float:
        return time.process_time() + self._sleep.skipped


async def experiment(count: int) -> None:
    """The harness: right once the worker has been told two plans."""

    def decide(question: Question) -> object:
        return say(f"Answer: {'right' if PLANS[1] in question.text else 'wrong'}")

    def reflect(question: Question) -> object:
        return reflection(PLANS[1] if PLANS[0] in question.text else PLANS[0], failure_signal="check_failed")

    scripted = RoleModel(decide=decide, reflect=reflect, delay=DELAY)
    tasks = [Task(id=f"t{number}", task=f"What is right in case {number}?", answer="right") for number in range(count)]
    asked = Experiment(tasks, find_setups(["cot+reflexion"]), scripted)
    with tempfile.TemporaryDirectory() as folder:
        found = (await run_experiment(asked, folder, concurrency=AT_ONCE))["cot+reflexion"]
    assert {result.task: result.solved_at for result in found} == {task.id: 3 for task in tasks}
    assert len(scripted.asked) == CALLS * count


async def work(_prompt: str) -> str:
    await asyncio.sleep(DELAY)
    return "wrong"


async def trials(count: int) -> None:
    """Five attempts of a function, none of them accepted."""

    async def refuse(_answer: Any, _run: Any) -> bool:
        return False

    limits, memory = Limits(max_attempts=CALLS, stalled_attempts=CALLS + 1), MemoryPolicy(read=False, write=False)
    graph = create_trial_graph(work, [refuse], strategy="last_trial", limits=limits, memory=memory)
    ended = await together(count, lambda: graph.ainvoke(TASK))
    assert [len(result["outcome"].attempts) for result in ended] == [CALLS] * count


async def bare(count: int) -> None:
    """Two nodes of LangGraph, one that calls and one that looks at what came."""

    async def call(_state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(await work(""))]}

    async def look(_state: MessagesState) -> dict[str, Any]:
        return {}

    async def after(state: MessagesState) -> str:
        return END if len(state["messages"]) > CALLS else "call"

    graph = StateGraph(MessagesState).add_node("call", call).add_node("look", look)
    ready = graph.add_edge(START, "call").add_edge("call", "look").add_conditional_edges("look", after).compile()
    assert {len(result["messages"]) for result in await together(count, lambda: ready.ainvoke(TASK))} == {CALLS + 1}


async def together(count: int, run: Callable[[], Awaitable[Any]]) -> list[Any]:
    """So many runs, twenty at once."""
    left, ended = iter(range(count)), []

    async def worker() -> None:
        for _ in left:
            ended.append(await run())

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return ended


def measured(way: Callable[[int], Awaitable[None]], count: int) -> tuple[float, float]:
    """Seconds by the loop's own clock, and those of the processor among them: the best of some rounds."""

    async def round() -> tuple[float, float]:
        clock = asyncio.get_running_loop().time
        began, busy = clock(), time.process_time()
        await way(count)
        return clock() - began, time.process_time() - busy

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(way(AT_ONCE))  # type: ignore[arg-type] # imports and compiles
        return min(runner.run(round()) for _ in range(ROUNDS))


def main() -> None:
    """Print the times and their ratios to the ideal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="20 tasks")
    count = 20 if parser.parse_args().short else 100
    ideal = count * CALLS * DELAY / AT_ONCE
    print(f"{count} tasks × {CALLS} calls × {DELAY * 1000:.0f} ms, {AT_ONCE} at once (scripted): ideal {ideal:.2f} s")
    for way in (bare, trials, experiment):
        took, busy = measured(way, count)
        print(f"{way.__name__:12}{took / ideal:5.2f} × the ideal, {busy / count / CALLS * 1000:5.2f} ms a call")


if __name__ == "__main__":
    main()
