"""Run: one task for an agent with a real model, shown as it goes; Ctrl-C leaves a run that can be resumed."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shlex
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StateSnapshot

from langgraph_reflexion import Limits, Outcome, ReflexionError, create_reflexion_agent
from langgraph_reflexion.cli.console import INDENT, Page, WrongUse, count_of, summarize
from langgraph_reflexion.cli.parts import load_tools, make_model, open_checkpoints, run_async
from langgraph_reflexion.cli.stores import open_store
from langgraph_reflexion.cli.trace import STREAM, Trace, show_outcome
from langgraph_reflexion.nodes.decide import decide
from langgraph_reflexion.text.literals import hide_password

BELOW = f"{INDENT}  "
logger = logging.getLogger(__name__)


def run(args: argparse.Namespace, page: Page) -> int:
    """The exit status of one run."""
    if args.thread is not None and args.state is None:
        raise WrongUse("--thread needs --state FILE, where runs are saved")
    if args.task is None and args.thread is None:
        raise WrongUse("pass a TASK, or name a run to resume with --state FILE and --thread ID")
    if args.task is not None and not args.task.strip():
        raise WrongUse("the task is empty")
    model, tools = make_model(args.model, args.base_url), load_tools(args.tools)
    # `decide` logs that the model could not be asked; here the last lines of the run say so.
    decisions = logging.getLogger(decide.__module__)
    level = decisions.level
    decisions.setLevel(logging.ERROR)
    try:
        return run_async(_run(args, page, model, tools))
    finally:
        decisions.setLevel(level)


async def _run(args: argparse.Namespace, page: Page, model: Any, tools: Any) -> int:
    async with AsyncExitStack() as files:
        saver = await files.enter_async_context(
            open_checkpoints(args.state, page, "--state keeps nothing without another package")
        )
        store = files.enter_context(open_store(args, create=True)) if args.store is not None else None
        deadline = args.deadline
        if deadline is not None and saver is not None and args.task is None:
            deadline += await _seconds_stopped(saver, args.thread)
        wanted = {"max_steps": args.max_steps, "deadline": deadline}
        limits = Limits(**{name: value for name, value in wanted.items() if value is not None})
        try:
            agent = create_reflexion_agent(
                model, tools, limits=limits, protocol=args.protocol, checkpointer=saver, store=store
            )
        except (ValueError, ReflexionError) as error:
            raise WrongUse(summarize(error)) from error
        thread = (args.thread or uuid4().hex[:8]) if saver is not None else None
        return await _Session(args, page, agent, thread).run()


async def _seconds_stopped(saver: BaseCheckpointSaver[str], thread: str) -> float:
    """Seconds since a stopped run saved its last step, which do not count towards its deadline."""
    last = await saver.aget({"configurable": {"thread_id": thread}})
    return (datetime.now(UTC) - datetime.fromisoformat(last["ts"])).total_seconds() if last is not None else 0.0


class _Session:
    """One run of the agent. Without a thread, nothing of it is saved."""

    def __init__(self, args: argparse.Namespace, page: Page, agent: Any, thread: str | None) -> None:
        self.args, self.page, self.agent, self.thread = args, page, agent, thread
        self.config: RunnableConfig = {"configurable": {"thread_id": thread}} if thread is not None else {}
        self.trace = Trace(page)

    async def run(self) -> int:
        """Run the agent and show each step, then how the run ended."""
        page, trace = self.page, self.trace
        # Each step is saved before the next one starts, so that a stopped run can be resumed there.
        options: Any = {} if self.thread is None else {"durability": "sync"}
        try:
            start = await self._find_start()
            trace.from_start = isinstance(start, dict)
            async for mode, part in self.agent.astream(start, self.config, stream_mode=STREAM, **options):
                trace.show(mode, part)
            outcome = trace.outcome or self._outcome_of(await self.agent.aget_state(self.config))
        except asyncio.CancelledError:
            trace.end_line()
            await self._show_interrupted()
            return 130
        except (WrongUse, BrokenPipeError):  # ours, and of our own output
            raise
        except Exception as error:  # an error that only a person can fix, of any provider or tool
            trace.end_line()
            logger.debug("The run ended with an exception", exc_info=True)
            page.line(f"{type(error).__name__}: {summarize(error)}", "red", lead=INDENT, mark="✗")
            if self.args.protocol != "json" and "tool" in str(error) and "support" in str(error):
                page.line("For a model that cannot call tools, add --protocol json.", lead=BELOW)
            return 1
        show_outcome(page, outcome)
        self._show_kept(outcome)
        if self.args.json:
            Page(sys.stdout).data(outcome.model_dump(mode="json"))
        return 0 if outcome.status in ("success", "unverified") else 1

    async def _find_start(self) -> Any:
        """The input of the run: a task, the answer to a question, or nothing if it is only resumed."""
        task, place = self.args.task, f"thread {self.args.thread!r} in {self.args.state}"
        before = await self.agent.aget_state(self.config) if self.thread is not None else None
        question = _question_in(before)
        if task is None and question is not None:
            raise WrongUse(f"{place} waits for an answer: pass it as the task. The question: {question}")
        if task is None and (before is None or not before.tasks):
            raise WrongUse(f"there is nothing to resume on {place}")
        if question is not None:
            self.page.line(question, "yellow", lead=INDENT, mark="?")
            return Command(resume=task)
        return None if task is None else {"messages": [("user", task)]}

    def _outcome_of(self, snapshot: StateSnapshot) -> Outcome:
        """The outcome of a run that did not stream one, because it had already ended or has paused."""
        if not snapshot.interrupts and isinstance(ended := snapshot.values.get("outcome"), Outcome):
            return ended
        return Outcome(
            run_id=self.trace.run_id,
            status="needs_input",
            stop_reason="asked_user",
            answer=_question_in(snapshot),
            failures=self.trace.failures,
            lessons_written=self.trace.lessons,
        )

    async def _show_interrupted(self) -> None:
        page = self.page
        page.line(f"interrupted after {count_of(self.trace.steps, 'step')}", "yellow", lead=INDENT, mark="✗")
        self._show_lessons()
        if self.thread is None:
            page.line("The run itself is not kept; --state FILE keeps one.", lead=BELOW)
        elif not (await self.agent.aget_state(self.config)).tasks:
            page.line("Nothing of the run was kept yet.", lead=BELOW)
        else:
            page.line(f"Its finished steps are saved in {self.args.state}. To continue:", lead=BELOW)
            page.command(self._resume_command(), "bold", lead=BELOW)

    def _show_kept(self, outcome: Outcome) -> None:
        self._show_lessons()
        if self.thread is None:
            return
        if outcome.status == "needs_input":
            self.page.line("To answer:", lead=BELOW)
            self.page.command(self._resume_command("YOUR ANSWER"), "bold", lead=BELOW)
        else:
            place = f"{self.args.state}, thread {self.thread}"
            self.page.line(f"The conversation is kept in {place}", "dim", lead=BELOW)

    def _show_lessons(self) -> None:
        if self.trace.lessons:
            kept = f"kept in {hide_password(self.args.store)}" if self.args.store else ""
            where = kept or "gone with this command; --store FILE keeps them"
            self.page.line(f"{count_of(len(self.trace.lessons), 'lesson')} written, {where}", "dim", lead=BELOW)

    def _resume_command(self, *task: str) -> str:
        names = ("model", "base_url", "tools", "protocol", "max_steps", "deadline", "store", "state")
        options = {name: getattr(self.args, name) for name in names} | {"thread": self.thread}
        given = [
            part
            for name, value in options.items()
            if value is not None and (name, value) != ("protocol", "auto")
            for part in (f"--{name.replace('_', '-')}", str(value))
        ]
        return shlex.join(["langgraph-reflexion", "run", *task, *given])


def _question_in(snapshot: StateSnapshot | None) -> str | None:
    """What a paused run asks."""
    if snapshot is None or not snapshot.interrupts:
        return None
    value = snapshot.interrupts[0].value
    return str(value["question"] if isinstance(value, dict) and "question" in value else value)
