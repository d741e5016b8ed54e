"""Run: one task for an agent with a real model, shown as it goes."""

from __future__ import annotations

import argparse
import asyncio
import logging
from contextlib import nullcontext
from typing import Any

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.cli.console import INDENT, Page, WrongUse, count_of, summarize, wrong_values
from langgraph_reflexion.cli.loading import load_tools, make_model, run_async
from langgraph_reflexion.cli.stores import open_store
from langgraph_reflexion.cli.trace import STREAM, Trace, show_outcome
from langgraph_reflexion.nodes.decide import decide
from langgraph_reflexion.text.literals import hide_password

BELOW = f"{INDENT}  "
logger = logging.getLogger(__name__)


def run(args: argparse.Namespace, page: Page) -> int:
    """The exit status of one run."""
    if not args.task.strip():
        raise WrongUse("the task is empty")
    model, tools = make_model(args.model, args.base_url), load_tools(args.tools) or ()
    # `decide` logs that the model could not be asked; here the last lines of the run say so.
    decisions = logging.getLogger(decide.__module__)
    level = decisions.level
    decisions.setLevel(logging.ERROR)
    try:
        with open_store(args.store, create=True) if args.store is not None else nullcontext() as store:
            with wrong_values():
                agent = create_reflexion_agent(model, tools, protocol=args.protocol, store=store)
            return run_async(_run(args, page, agent))
    finally:
        decisions.setLevel(level)


async def _run(args: argparse.Namespace, page: Page, agent: Any) -> int:
    """Run the agent and show each step, then how the run ended."""
    trace = Trace(page)
    try:
        async for mode, part in agent.astream({"messages": [("user", args.task)]}, stream_mode=STREAM):
            trace.show(mode, part)
    except asyncio.CancelledError:
        page.line(f"interrupted after {count_of(trace.steps, 'step')}", "yellow", lead=INDENT, mark="✗")
        _show_lessons(args, page, trace)
        return 130
    except Exception as error:  # an error that only a person can fix, of any provider or tool
        logger.debug("The run ended with an exception", exc_info=True)
        page.line(f"{type(error).__name__}: {summarize(error)}", "red", lead=INDENT, mark="✗")
        if args.protocol != "json" and "tool" in str(error) and "support" in str(error):
            page.line("For a model that cannot call tools, add --protocol json.", lead=BELOW)
        return 1
    outcome = trace.outcome
    assert outcome is not None
    show_outcome(page, outcome)
    _show_lessons(args, page, trace)
    return 0 if outcome.status in ("success", "unverified") else 1


def _show_lessons(args: argparse.Namespace, page: Page, trace: Trace) -> None:
    if trace.lessons:
        kept = f"kept in {hide_password(args.store)}" if args.store else ""
        where = kept or "gone with this command; --store FILE keeps them"
        page.line(f"{count_of(len(trace.lessons), 'lesson')} written, {where}", "dim", lead=BELOW)
