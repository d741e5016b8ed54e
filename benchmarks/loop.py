"""What a step costs: this agent compared with a bare loop and LangGraph's prebuilt agents, in one run.

The model is a script that answers at once, so the figures are the loops' own. Ratios are taken pair by pair against
the bare loop of the same round, because a shared machine drifts. `--short` is for CI: fewer rounds, and it fails only
on a wrong result.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langgraph_reflexion import create_reflexion_agent

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

    def _reply(self, messages: Sequence[BaseMessage]) -> ChatResult:
        turn = sum(1 for message in messages if message.type == "ai")
        calls = [{"name": "look", "args": {"page": turn}, "id": f"c{turn}"}] if turn < self.pages else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "read", tool_calls=calls))])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.delay:
            time.sleep(self.delay)
        return self._reply(messages)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.delay:
            await asyncio.sleep(self.delay)
        return self._reply(messages)


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
    from langgraph_reflexion import Limits

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


def plain(steps: int) -> float:
    """The same story in a plain Python loop: what growth the model and the messages bring by themselves."""
    model = Reader(pages=steps)
    messages: list[AnyMessage] = [HumanMessage("Read.")]
    began = time.perf_counter()
    while True:
        reply = model.invoke(messages)
        messages = add_messages(messages, [reply])  # type: ignore[assignment]
        if not reply.tool_calls:
            return time.perf_counter() - began
        messages = add_messages(messages, [_ran(call, look.invoke(call["args"])) for call in reply.tool_calls])  # type: ignore[assignment]


def config(name: str, turn: int) -> dict[str, Any]:
    """A new thread for each run."""
    return {"configurable": {"thread_id": f"{name}-{turn}"}, "recursion_limit": ENOUGH}


def sure(result: dict[str, Any], steps: int) -> None:
    """A figure counts only for a run that did the work."""
    messages = result["messages"]
    if len(messages) != 2 * steps + 2 or messages[-1].text != "read":
        raise SystemExit(f"wrong result: {len(messages)} messages, the last {messages[-1]!r}")


def once(agent: Any, name: str, turn: int, steps: int) -> float:
    """Seconds of one run through the sync door."""
    began = time.perf_counter()
    result = agent.invoke({"messages": [("user", "Read.")]}, config(name, turn))
    took = time.perf_counter() - began
    sure(result, steps)
    return took


async def aonce(agent: Any, name: str, turn: int, steps: int) -> float:
    """Seconds of one run through the async door."""
    began = time.perf_counter()
    result = await agent.ainvoke({"messages": [("user", "Read.")]}, config(name, turn))
    took = time.perf_counter() - began
    sure(result, steps)
    return took


def rounds_of(kind: str, door: str, steps: int, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Each peer once a round, in turn, after a round that is not counted."""
    if door == "sync":
        savers = {name: saver_of(kind, folder / f"{name}.db") for name in PEERS}
        agents = {name: make(Reader(pages=steps), savers[name], door) for name, make in PEERS.items()}
        times: dict[str, list[float]] = {name: [] for name in PEERS}
        for turn in range(rounds + 1):
            for name, agent in agents.items():
                took = once(agent, name, turn, steps)
                if turn:
                    times[name].append(took)
        return times
    return asyncio.run(_async_rounds(kind, steps, rounds, folder))


async def _async_rounds(kind: str, steps: int, rounds: int, folder: Path) -> dict[str, list[float]]:
    from contextlib import AsyncExitStack

    times: dict[str, list[float]] = {name: [] for name in PEERS}
    async with AsyncExitStack() as stack:
        agents = {}
        for name, make in PEERS.items():
            saver = saver_of(kind, None) if kind != "sqlite" else None
            if saver is None and kind == "sqlite":
                saver = await stack.enter_async_context(_asqlite(folder / f"a-{name}.db"))
            agents[name] = make(Reader(pages=steps), saver, "async")
        for turn in range(rounds + 1):
            for name, agent in agents.items():
                took = await aonce(agent, name, turn, steps)
                if turn:
                    times[name].append(took)
    return times


def saver_of(kind: str, file: Path | None) -> Any:
    """No checkpointer, one in memory, or one in a file."""
    if kind == "none":
        return None
    if kind == "memory":
        return InMemorySaver()
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(sqlite3.connect(str(file), check_same_thread=False))


def _asqlite(file: Path) -> Any:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    return AsyncSqliteSaver.from_conn_string(str(file))


def stored(folder: Path, steps: int) -> dict[str, int]:
    """Bytes of checkpoints and writes that one run leaves in SQLite."""
    import sqlite3

    out = {}
    for name, make in PEERS.items():
        file = folder / f"bytes-{name}.db"
        once(make(Reader(pages=steps), saver_of("sqlite", file), "sync"), name, 0, steps)
        with sqlite3.connect(file) as db:
            out[name] = sum(
                db.execute(f"select coalesce(sum(length({column})), 0) from {table}").fetchone()[0]
                for table, column in (("checkpoints", "checkpoint"), ("checkpoints", "metadata"), ("writes", "value"))
            )
    return out


def peaks(steps: int) -> dict[str, int]:
    """Peak bytes that one run allocates, without a checkpointer."""
    out = {}
    for name, make in PEERS.items():
        agent = make(Reader(pages=steps), None, "sync")
        once(agent, name, 0, steps)
        tracemalloc.start()
        once(agent, name, 1, steps)
        out[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return out


async def crowd(runs: int, delay: float, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Many runs of four steps at once with a model that sleeps, each peer once a round, after one not counted.

    Told are the seconds until the last one ends, the processor's seconds, and the worst lateness of the event loop.
    """
    peers = ("bare loop", "reflexion", "create_agent")
    agents = {name: PEERS[name](Reader(pages=4, delay=delay), None, "async") for name in peers}
    out: dict[str, dict[str, list[float]]] = {name: {"seconds": [], "cpu": [], "late": []} for name in peers}
    for turn in range(rounds + 1):
        for name, agent in agents.items():
            gc.collect()
            late: list[float] = []
            beat = asyncio.ensure_future(_heart(late))
            began, busy = time.perf_counter(), time.process_time()
            await asyncio.gather(*(aonce(agent, name, turn * runs + one, 4) for one in range(runs)))
            took, spent = time.perf_counter() - began, time.process_time() - busy
            beat.cancel()
            if turn:
                for kind, value in (("seconds", took), ("cpu", spent), ("late", max(late, default=0.0))):
                    out[name][kind].append(value)
    return out


async def _heart(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        late.append(time.perf_counter() - began - 0.005)


def ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Each peer against the bare loop of the same round: the median."""
    base = times["bare loop"]
    return {name: statistics.median(a / b for a, b in zip(own, base, strict=True)) for name, own in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, and keep the figures where `--json` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few rounds, for CI")
    parser.add_argument("--steps", type=int, nargs="+", default=None)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None, help="a file for the figures")
    given = parser.parse_args(argv)
    steps_of = given.steps or ([5, 20] if given.short else [5, 20, 50, 200])
    kinds = ["none", "sqlite"] if given.short else ["none", "memory", "sqlite"]
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        print("model: a script. ms a step (median), and the ratio to the bare loop of the same round (median)\n")
        head = "".join(f"{name:>22}" for name in PEERS)
        print(f"{'checkpoints':12}{'door':7}{'steps':>6}{head}")
        for kind in kinds:
            for door in ("sync", "async"):
                for steps in steps_of:
                    folder = Path(tempfile.mkdtemp(dir=place))
                    rounds = given.rounds or (3 if given.short else max(3, 400 // steps))
                    times = rounds_of(kind, door, steps, rounds, folder)
                    ratio = ratios(times)
                    each = {name: statistics.median(own) / steps * 1e3 for name, own in times.items()}
                    figures.append({"checkpoints": kind, "door": door, "steps": steps, "ms": each, "ratio": ratio})
                    row = "".join(f"{each[name]:12.2f} {ratio[name]:6.2f} x " for name in PEERS)
                    print(f"{kind:12}{door:7}{steps:>6}{row}", flush=True)
        last = steps_of[-1]
        sizes = stored(Path(place), last)
        print(f"\nSQLite bytes of a run of {last} steps: " + _beside(sizes))
        peak = peaks(min(last, 50))
        print(f"peak memory of a run of {min(last, 50)} steps: " + _beside(peak))
        growth = min(plain(last) for _ in range(3)) / last / (min(plain(steps_of[0]) for _ in range(3)) / steps_of[0])
        print(f"growth of a step from {steps_of[0]} to {last} steps in a plain Python loop: {growth:.2f} x")
        runs, turns = (20, 1) if given.short else (100, given.rounds or 10)
        print(f"\n{runs} runs at once of 4 steps, the model sleeping 50 ms; medians of {turns}")
        many = asyncio.run(crowd(runs, 0.05, turns))
        times = {kind: ratios({name: said[kind] for name, said in many.items()}) for kind in ("seconds", "cpu")}
        for name, said in many.items():
            middle = {kind: statistics.median(values) for kind, values in said.items()}
            told = [f"{middle[kind]:.2f} s ({times[kind][name]:.2f} x)" for kind in ("seconds", "cpu")]
            print(f"{name:14}{told[0]}, processor {told[1]}, the event loop at most {middle['late'] * 1e3:.0f} ms late")
    if given.json:
        given.json.write_text(json.dumps({"steps": figures, "bytes": sizes, "peak": peak, "at once": many}, indent=1))
    return 0


def _beside(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size / 1e3:.0f} kB ({size / sizes['bare loop']:.2f} x)" for name, size in sizes.items())


if __name__ == "__main__":
    sys.exit(main())
