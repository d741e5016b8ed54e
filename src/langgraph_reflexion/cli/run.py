"""Run: one task for an agent with a real model, told as it goes; Ctrl-C leaves what can be gone on with."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StateSnapshot

from langgraph_reflexion.cli.daemons import Daemons
from langgraph_reflexion.cli.keeping import runs_in
from langgraph_reflexion.cli.opening import opened, told_place
from langgraph_reflexion.cli.page import INDENT, Page, told
from langgraph_reflexion.cli.parts import model_of, tools_of
from langgraph_reflexion.cli.trace import STREAM, Trace, ending
from langgraph_reflexion.cli.wrong_use import WrongUse, sentence
from langgraph_reflexion.context import Limits
from langgraph_reflexion.errors import ReflexionError
from langgraph_reflexion.graph.agent import create_reflexion_agent
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.nodes.exceptions import lacks_tools
from langgraph_reflexion.schemas import Outcome

BELOW = f"{INDENT}  "
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wish:
    """What was asked for on the command line."""

    task: str | None
    model: str
    base_url: str | None = None
    tools: str | None = None
    protocol: Literal["auto", "tools", "json"] = "auto"
    max_steps: int | None = None
    deadline: float | None = None
    store: str | None = None
    state: Path | None = None
    thread: str | None = None
    json: bool = False


def run(wish: Wish, page: Page) -> int:
    """The exit status of one run."""
    if wish.thread is not None and wish.state is None:
        raise WrongUse("--thread goes with --state FILE, where runs are kept")
    if wish.task is None and wish.thread is None:
        raise WrongUse("say what to do, or name a run to go on with by --state FILE and --thread ID")
    if wish.task is not None and not wish.task.strip():
        raise WrongUse("the task is empty")
    model, tools = model_of(wish.model, wish.base_url), tools_of(wish.tools)
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Daemons())
        return runner.run(_run(wish, page, model, tools))


@dataclass(frozen=True)
class _Kept:
    """What of a run outlives the command, and the command that goes on with it."""

    wish: Wish
    thread: str | None

    @property
    def config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.thread}} if self.thread is not None else {}

    def command(self, *task: str) -> str:
        wish = self.wish
        options = {
            "--model": wish.model,
            "--base-url": wish.base_url,
            "--tools": wish.tools,
            "--protocol": None if wish.protocol == "auto" else wish.protocol,
            "--max-steps": wish.max_steps,
            "--deadline": wish.deadline,
            "--store": wish.store,
            "--state": wish.state,
            "--thread": self.thread,
        }
        given = [part for name, value in options.items() if value is not None for part in (name, str(value))]
        return shlex.join(["langgraph-reflexion", "run", *task, *given])


async def _run(wish: Wish, page: Page, model: Any, tools: Any) -> int:
    async with AsyncExitStack() as files:
        saver = await files.enter_async_context(runs_in(wish.state, page))
        store = files.enter_context(opened(wish.store, create=True)) if wish.store is not None else None
        deadline = wish.deadline
        if deadline is not None and saver is not None and wish.task is None:
            deadline += await _stood_still(saver, wish.thread)
        wanted: dict[str, Any] = {"max_steps": wish.max_steps, "deadline": deadline}
        limits = Limits(**{name: value for name, value in wanted.items() if value is not None})
        try:
            agent = create_reflexion_agent(
                model, tools, limits=limits, protocol=wish.protocol, checkpointer=saver, store=store
            )
        except (ValueError, ReflexionError) as fault:
            raise WrongUse(sentence(fault)) from fault
        thread = (wish.thread or uuid4().hex[:8]) if saver is not None else None
        return await _told(page, agent, _Kept(wish, thread))


async def _stood_still(saver: BaseCheckpointSaver[str], thread: str | None) -> float:
    """Seconds since a run that was stopped last kept a step; they are not of its time."""
    last = await saver.aget({"configurable": {"thread_id": thread}})
    return (datetime.now(UTC) - datetime.fromisoformat(last["ts"])).total_seconds() if last is not None else 0.0


async def _told(page: Page, agent: Graph, kept: _Kept) -> int:
    """Run it and tell it; how it ended is the last thing said."""
    trace = Trace(page)
    # Each step is kept before the next begins: only so can a run that was stopped go on where it stood.
    how: Any = {} if kept.thread is None else {"durability": "sync"}
    try:
        start = await _start(page, agent, kept)
        trace.from_start = isinstance(start, dict)
        async for mode, part in agent.astream(start, kept.config, stream_mode=STREAM, **how):
            trace.tell(mode, part)
        outcome = trace.outcome or _left(trace, await agent.aget_state(kept.config))
    except asyncio.CancelledError:
        trace.hush()
        await _interrupted(page, agent, kept, trace)
        return 130
    except (WrongUse, BrokenPipeError):  # ours, and of our own output
        raise
    except Exception as fault:  # what only a person can mend comes as it is, of any provider or tool
        trace.hush()
        logger.debug("The run ended with an exception", exc_info=True)
        page.line(f"{type(fault).__name__}: {sentence(fault)}", "red", indent=INDENT, mark="✗")
        if kept.wish.protocol != "json" and lacks_tools(fault):
            page.line("A model that cannot call tools is asked in words by --protocol json.", indent=BELOW)
        return 1
    ending(page, outcome)
    _note(page, kept, outcome, trace)
    if kept.wish.json:
        sys.stdout.write(json.dumps(outcome.model_dump(mode="json"), ensure_ascii=False, indent=2) + "\n")
        sys.stdout.flush()
    return 0 if outcome.status in ("success", "unverified") else 1


async def _start(page: Page, agent: Graph, kept: _Kept) -> Any:
    """What the run begins with: a task, the answer to a question, or nothing where it only goes on."""
    task, place = kept.wish.task, f"thread {kept.wish.thread!r} in {kept.wish.state}"
    before = await agent.aget_state(kept.config) if kept.thread is not None else None
    question = _question(before)
    if task is None and question is not None:
        raise WrongUse(f"{place} waits for an answer, give it as the task: {question}")
    if task is None and (before is None or not before.tasks):
        raise WrongUse(f"there is nothing to go on with on {place}")
    if question is not None:
        page.line(question, "yellow", indent=INDENT, mark="?")
        return Command(resume=task)
    return None if task is None else {"messages": [("user", task)]}


def _question(snapshot: StateSnapshot | None) -> str | None:
    """What a run that has paused waits to be told."""
    asked = [one.value for one in snapshot.interrupts] if snapshot is not None else []
    return next((str(one["question"] if isinstance(one, dict) and "question" in one else one) for one in asked), None)


def _left(trace: Trace, snapshot: StateSnapshot) -> Outcome:
    """The outcome of a run that told none: one that had ended before it was gone on with, or one that has paused."""
    if not snapshot.interrupts and isinstance(ended := snapshot.values.get("outcome"), Outcome):
        return ended
    return Outcome(
        run_id=trace.run_id,
        status="needs_input",
        stop_reason="asked_user",
        answer=_question(snapshot),
        failures=trace.failures,
        lessons_written=trace.lessons,
    )


async def _interrupted(page: Page, agent: Graph, kept: _Kept, trace: Trace) -> None:
    """Say what was done, what of it is kept, and how to go on."""
    page.line(f"interrupted after {told(trace.steps, 'step')}", "yellow", indent=INDENT, mark="✗")
    _tell_lessons(page, kept, trace)
    if kept.thread is None:
        page.line("The run itself is not kept; --state FILE keeps one.", indent=BELOW)
    elif not (await agent.aget_state(kept.config)).tasks:
        page.line("Nothing of the run was kept yet.", indent=BELOW)
    else:
        page.line(f"Its finished steps are kept in {kept.wish.state}. To go on:", indent=BELOW)
        page.line(kept.command(), "bold", indent=BELOW, fold=False)


def _note(page: Page, kept: _Kept, outcome: Outcome, trace: Trace) -> None:
    _tell_lessons(page, kept, trace)
    if kept.thread is None:
        return
    if outcome.status == "needs_input":
        page.line("To answer:", indent=BELOW)
        page.line(kept.command("YOUR ANSWER"), "bold", indent=BELOW, fold=False)
    else:
        page.line(f"The conversation is kept in {kept.wish.state}, thread {kept.thread}", "dim", indent=BELOW)


def _tell_lessons(page: Page, kept: _Kept, trace: Trace) -> None:
    if trace.lessons:
        where = (
            f"kept in {told_place(kept.wish.store)}"
            if kept.wish.store
            else "gone with this command; --store FILE keeps them"
        )
        page.line(f"{told(len(trace.lessons), 'lesson')} written, {where}", "dim", indent=BELOW)
