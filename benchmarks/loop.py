"""What a step costs: this agent compared with a bare loop and LangGraph's prebuilt agents, in one run.

The model is a script that answers at once, so the figures are the loops' own. Ratios are taken pair by pair against
the bare loop of the same round, because a shared machine drifts. `--short` is for CI: fewer rounds, and it fails only
on a wrong result.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing, nullcontext
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langgraph_reflexion import Limits, create_reflexion_agent

ENOUGH = 100_000
"""A recursion limit that no run here reaches."""


@tool
def look(page: int) -> str:
    """Look at a page."""
    return f"page {page} says {page * 7919}"


class Reader(BaseChatModel):
    """A script, no language model: reads so many pages, one a turn, then answers. It knows its turn from the prompt."""

    pages: int
    delay: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "reader"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind()

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = sum(1 for message in messages if message.type == "ai")
        calls = [{"name": "look", "args": {"page": turn}, "id": f"c{turn}"}] if turn < self.pages else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "read", tool_calls=calls))])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.delay:
            await asyncio.sleep(self.delay)
        return self._generate(messages)


class Talk(TypedDict):
    """The bare loop's state."""

    messages: Annotated[list[AnyMessage], add_messages]


def bare(model: BaseChatModel, saver: Any, door: str) -> Any:
    """A hand-written loop of two nodes and a route, plain functions: what anyone would write first."""
    bound = model.bind_tools([look])

    def decide(state: Talk) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    async def adecide(state: Talk) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    def act(state: Talk) -> dict[str, Any]:
        return {"messages": [_ran(call, look.invoke(call["args"])) for call in state["messages"][-1].tool_calls]}

    async def aact(state: Talk) -> dict[str, Any]:
        return {"messages": [_ran(call, await look.ainvoke(call["args"])) for call in state["messages"][-1].tool_calls]}

    def after(state: Talk) -> str:
        return "act" if state["messages"][-1].tool_calls else END

    graph = StateGraph(Talk)
    graph.add_node("decide", decide if door == "sync" else adecide)
    graph.add_node("act", act if door == "sync" else aact)
    graph.add_edge(START, "decide")
    graph.add_edge("act", "decide")
    graph.add_conditional_edges("decide", after, ["act", END])
    return graph.compile(checkpointer=saver)


def _ran(call: Any, result: str) -> ToolMessage:
    return ToolMessage(result, tool_call_id=call["id"], name=call["name"])


def ours(model: BaseChatModel, saver: Any, _door: str) -> Any:
    """This package's agent, with its defaults."""
    return create_reflexion_agent(model, [look], checkpointer=saver, limits=Limits(max_steps=1_000))


def ready_made(model: BaseChatModel, saver: Any, _door: str) -> Any:
    """`langgraph.prebuilt.create_react_agent`."""
    from langgraph.prebuilt import create_react_agent

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(model, [look], checkpointer=saver)


def langchains(model: BaseChatModel, saver: Any, _door: str) -> Any:
    """`langchain.agents.create_agent`."""
    from langchain.agents import create_agent

    return create_agent(model, [look], checkpointer=saver)


PEERS: dict[str, Callable[[BaseChatModel, Any, str], Any]] = {
    "bare loop": bare,
    "reflexion": ours,
    "create_react_agent": ready_made,
    "create_agent": langchains,
}


def plain_loop(steps: int) -> float:
    """The seconds of a step in a plain Python loop, which show how the model and the messages grow by themselves."""
    model = Reader(pages=steps)
    messages: Any = [HumanMessage("Read.")]
    began = time.perf_counter()
    while (reply := model.invoke(messages)).tool_calls:
        results = [_ran(call, look.invoke(call["args"])) for call in reply.tool_calls]
        messages = add_messages(add_messages(messages, [reply]), results)
    return (time.perf_counter() - began) / steps


def saver_of(kind: str, file: Path) -> Any:
    """No checkpointer, one in memory, or one in a file."""
    if kind == "none":
        return None
    if kind == "memory":
        return InMemorySaver()
    return SqliteSaver(sqlite3.connect(file, check_same_thread=False))


TASK = {"messages": [("user", "Read.")]}


def config(turn: int) -> Any:
    """A new thread for each run."""
    return {"configurable": {"thread_id": str(turn)}, "recursion_limit": ENOUGH}


def check_result(result: dict[str, Any], steps: int) -> None:
    """A figure counts only for a run that did the work."""
    messages = result["messages"]
    if len(messages) != 2 * steps + 2 or messages[-1].text != "read":
        raise SystemExit(f"wrong result: {len(messages)} messages, the last {messages[-1]!r}")


def sync_rounds(kind: str, steps: int, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Seconds of a run: each peer once a round, in turn, after a round that is not counted."""
    agents = {
        name: make(Reader(pages=steps), saver_of(kind, folder / f"{name}.db"), "sync") for name, make in PEERS.items()
    }
    times: dict[str, list[float]] = {name: [] for name in PEERS}
    for turn in range(rounds + 1):
        for name, agent in agents.items():
            began = time.perf_counter()
            result = agent.invoke(TASK, config(turn))
            times[name].append(time.perf_counter() - began)
            check_result(result, steps)
    return {name: own[1:] for name, own in times.items()}


async def async_rounds(kind: str, steps: int, rounds: int, folder: Path) -> dict[str, list[float]]:
    """The same under `ainvoke`."""
    times: dict[str, list[float]] = {name: [] for name in PEERS}
    async with AsyncExitStack() as stack:
        agents = {}
        for name, make in PEERS.items():
            file = folder / f"{name}.db"
            sqlite = kind == "sqlite"
            opened = AsyncSqliteSaver.from_conn_string(str(file)) if sqlite else nullcontext(saver_of(kind, file))
            agents[name] = make(Reader(pages=steps), await stack.enter_async_context(opened), "async")
        for turn in range(rounds + 1):
            for name, agent in agents.items():
                began = time.perf_counter()
                result = await agent.ainvoke(TASK, config(turn))
                times[name].append(time.perf_counter() - began)
                check_result(result, steps)
    return {name: own[1:] for name, own in times.items()}


def stored(folder: Path, steps: int) -> dict[str, int]:
    """Bytes of checkpoints and writes that one run leaves in SQLite."""
    columns = (("checkpoints", "checkpoint"), ("checkpoints", "metadata"), ("writes", "value"))
    sync_rounds("sqlite", steps, 0, folder)
    sizes = {}
    for name in PEERS:
        with closing(sqlite3.connect(folder / f"{name}.db")) as db:
            sums = (db.execute(f"select coalesce(sum(length({column})), 0) from {table}") for table, column in columns)
            sizes[name] = sum(found.fetchone()[0] for found in sums)
    return sizes


def peaks(steps: int) -> dict[str, int]:
    """Peak bytes that one run allocates, without a checkpointer."""
    sizes = {}
    for name, make in PEERS.items():
        agent = make(Reader(pages=steps), None, "sync")
        agent.invoke(TASK, config(0))
        tracemalloc.start()
        agent.invoke(TASK, config(1))
        sizes[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return sizes


async def crowd(runs: int, delay: float, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Many runs of four steps at once with a model that sleeps, each peer once a round, after one not counted.

    Returns the seconds until the last one ends, the processor's seconds, and the worst lateness of the event loop.
    """

    async def watch(late: list[float]) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - began - 0.005)

    agents = {name: make(Reader(pages=4, delay=delay), None, "async") for name, make in PEERS.items()}
    figures: dict[str, dict[str, list[float]]] = {name: {"seconds": [], "cpu": [], "late": []} for name in PEERS}
    for turn in range(rounds + 1):
        for name, agent in agents.items():
            gc.collect()
            late = [0.0]
            watching = asyncio.create_task(watch(late))
            began, busy = time.perf_counter(), time.process_time()
            results = await asyncio.gather(*(agent.ainvoke(TASK, config(turn * runs + i)) for i in range(runs)))
            now = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - busy, "late": max(late)}
            watching.cancel()
            for result in results:
                check_result(result, 4)
            for kind, value in now.items() if turn else ():
                figures[name][kind].append(value)
    return figures


def ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Each peer against the bare loop of the same round: the median."""
    base = times["bare loop"]
    return {name: statistics.median(a / b for a, b in zip(own, base, strict=True)) for name, own in times.items()}


def beside(sizes: dict[str, int]) -> str:
    """Sizes with their ratios to that of the bare loop."""
    return ", ".join(f"{name} {size / 1e3:.0f} kB ({size / sizes['bare loop']:.2f} x)" for name, size in sizes.items())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few rounds, for CI")
    parser.add_argument("--steps", type=int, nargs="+")
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    steps_of = given.steps or ([5, 20] if given.short else [5, 20, 50, 200])
    kinds = ["none", "sqlite"] if given.short else ["none", "memory", "sqlite"]
    with tempfile.TemporaryDirectory() as place:
        print("model: a script. ms a step (median), and the ratio to the bare loop of the same round (median)\n")
        print(f"{'checkpoints':12}{'door':7}{'steps':>6}" + "".join(f"{name:>22}" for name in PEERS))
        for kind in kinds:
            for door in ("sync", "async"):
                for steps in steps_of:
                    folder = Path(tempfile.mkdtemp(dir=place))
                    rounds = given.rounds or (3 if given.short else max(3, 400 // steps))
                    asked = kind, steps, rounds, folder
                    times = sync_rounds(*asked) if door == "sync" else asyncio.run(async_rounds(*asked))
                    each = {name: statistics.median(own) / steps * 1e3 for name, own in times.items()}
                    row = "".join(f"{each[name]:12.2f} {ratio:6.2f} x " for name, ratio in ratios(times).items())
                    print(f"{kind:12}{door:7}{steps:>6}{row}", flush=True)
        first, last = steps_of[0], steps_of[-1]
        print(f"\nSQLite bytes of a run of {last} steps: {beside(stored(Path(tempfile.mkdtemp(dir=place)), last))}")
    print(f"peak memory of a run of {min(last, 50)} steps: {beside(peaks(min(last, 50)))}")
    growth = min(plain_loop(last) for _ in range(3)) / min(plain_loop(first) for _ in range(3))
    print(f"growth of a step from {first} to {last} steps in a plain Python loop: {growth:.2f} x")
    runs, turns = (20, 1) if given.short else (100, given.rounds or 10)
    print(f"\n{runs} runs at once of 4 steps, the model sleeping 50 ms; medians of {turns}")
    figures = asyncio.run(crowd(runs, 0.05, turns))
    seconds, cpu = (ratios({name: own[kind] for name, own in figures.items()}) for kind in ("seconds", "cpu"))
    for name, own in figures.items():
        middle = {kind: statistics.median(values) for kind, values in own.items()}
        print(
            f"{name:20}{middle['seconds']:.2f} s ({seconds[name]:.2f} x), processor {middle['cpu']:.2f} s "
            f"({cpu[name]:.2f} x), the event loop at most {middle['late'] * 1e3:.0f} ms late"
        )


if __name__ == "__main__":
    main()
