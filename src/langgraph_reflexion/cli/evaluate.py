"""The eval command: run an experiment, and resume it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import socket
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from rich.console import Console
from rich.progress import Progress

from langgraph_reflexion import FaissStore, ReflexionError
from langgraph_reflexion.cli.compare import flatten
from langgraph_reflexion.cli.console import Page, WrongUse, count_of, wrong_use, wrong_values
from langgraph_reflexion.cli.loading import load_object, load_tools, make_model, run_async
from langgraph_reflexion.evals.curves import draw_curves
from langgraph_reflexion.evals.experiment import Experiment, run_in_locked
from langgraph_reflexion.evals.figures import compare_with_baselines, format_table, make_rows
from langgraph_reflexion.evals.ledger import RESULTS, LedgerError, Result, figures_of, load_results, lock_folder
from langgraph_reflexion.evals.setups import find_setups
from langgraph_reflexion.evals.student import SIMULATION, is_simulated, make_student
from langgraph_reflexion.evals.tasks import Task, load_tasks

OPTIONS = ("protocol", "context", "reflection", "trials", "steps", "reflections", "repeats", "run_memory")
"""Options that an experiment has under the same names."""
RETRIES = 10
"""Retries of a call by the provider's client, which waits as long as the provider asks: about a minute."""


def evaluate(args: argparse.Namespace, page: Page) -> int:
    """The exit status of an experiment: 1 if a task broke."""
    folder = args.out or Path(f"eval-{Path(args.tasks).stem}")
    page = Page(sys.stderr) if args.json else page  # the figures alone go to the standard output
    with wrong_values():
        if args.check is not None and args.judge is not None:
            raise WrongUse("answers are checked by --check or judged by --judge: pass only one of the two")
        check = None if args.check is None else load_object("--check", args.check, "office:is_free")
        tasks, setups = load_tasks(args.tasks, checked=check is not None)[: args.limit], find_setups(args.setups)
        experiment = Experiment(
            tasks,
            setups,
            _make_model(args, "model", tasks),
            judge=_make_model(args, "judge", tasks),
            reflector=_make_model(args, "reflector", tasks),
            check=check,
            tools=load_tools(args.tools),
            **{name: getattr(args, name) for name in OPTIONS},
        )
    if args.dry_run:
        repeats = f" × {args.repeats} repeats" if args.repeats > 1 else ""
        counts = f"{count_of(len(tasks), 'task')} × {count_of(len(setups), 'set-up')}{repeats}"
        page.line(f"{counts} = {len(experiment.jobs())} to do")
        return 0
    try:
        return run_async(_evaluate(args, experiment, folder, page))
    except LedgerError as error:
        raise WrongUse(str(error)) from error
    except BrokenPipeError:  # from our own output
        raise
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise ReflexionError(f"{folder}: {why}. Finished tasks are saved: run the same command to continue") from error


def _make_model(args: argparse.Namespace, role: str, tasks: Sequence[Task]) -> Any:
    """The model of a role, `None` if none is named. In a dry run, which needs no key, it is simulated."""
    name, address = getattr(args, role), getattr(args, f"{role}_base_url", None)
    if name is not None and is_simulated(name):
        return make_student(tasks, name)
    if name is not None and args.dry_run:
        return make_student(tasks)
    if role == "model" or (name or "").startswith("openai:"):
        address = address or args.base_url
    temperature = args.temperature if role == "model" else None
    return make_model(name, address, f"--{role}", temperature=temperature, max_retries=RETRIES)


def _check_server(address: str) -> None:
    """Refuse an address at which no server answers: with its retries, each task would take minutes to fail."""
    url = urlsplit(address)
    with wrong_use(OSError, f"no server answers at {address}"):
        socket.create_connection((url.hostname, url.port or (443 if url.scheme == "https" else 80)), 5).close()


async def _evaluate(args: argparse.Namespace, experiment: Experiment, folder: Path, page: Page) -> int:
    began = time.monotonic()
    with lock_folder(folder):
        wanted = {(setup.name, task.id, repeat) for setup, task, repeat in experiment.jobs()}
        kept = [result for result in flatten(load_results(folder)) if result.error is None]
        done = sum((result.setup, result.task, result.repeat) in wanted for result in kept)
        new: list[Result] = []
        addresses = {args.base_url, args.judge_base_url, args.reflector_base_url} - {None}
        for address in addresses if done < len(wanted) and not getproxies() else ():
            _check_server(address)
        if done:
            page.line(f"{done} of {len(wanted)} are done already, in {folder}", "dim")
        with ExitStack() as files:
            if args.lessons:
                experiment = replace(experiment, lessons=files.enter_context(FaissStore(folder / "lessons.db")))
            console = Console(stderr=True)
            bar = files.enter_context(Progress(console=console, disable=not console.is_terminal))
            row = bar.add_task("tasks", total=len(wanted), completed=done)

            def add(result: Result) -> None:
                new.append(result)
                bar.advance(row)

            try:
                results = await run_in_locked(folder, experiment, args.concurrency, add)
            except asyncio.CancelledError:
                bar.stop()
                page.line(f"interrupted: {len(new)} more tasks are saved in {folder}. To continue:", "yellow", mark="✗")
                page.line("  " + shlex.join(["langgraph-reflexion", *sys.argv[1:]]), "bold")  # no lead: it is copied
                return 130
        ids = {task.id for task in experiment.tasks}
        found = {name: [result for result in all_ if result.task in ids] for name, all_ in results.items()}
        _show_results(args, experiment, folder, found, page)
        if new:
            seconds = time.monotonic() - began
            page.line(f"{count_of(len(new), 'task')} in {seconds:,.1f} s, up to {args.concurrency} at once")
        return 1 if any(result.error for result in flatten(found)) else 0


def _show_results(
    args: argparse.Namespace, experiment: Experiment, folder: Path, results: dict[str, list[Result]], page: Page
) -> None:
    figures = figures_of(experiment.plan())
    notes = [SIMULATION] if is_simulated(args.model) else []
    if any(setup.context for setup in experiment.setups):
        shown = "all passages" if args.context == "all" else "the supporting passages, or all if none is marked"
        notes.append(f"Context: {shown}.")
    curves = folder / "curves.svg"
    rows = make_rows(results, args.trials)
    lines = {f"{row.setup} {row.accuracy:.0f} %": row.by_trial for row in rows}
    curves.write_text(draw_curves(lines, figures), encoding="utf-8")
    for line in (*format_table(results, args.trials, figures), *notes):
        page.line(line, wrap=True)
    page.line(f"Curves: {curves}. Trials: {folder / RESULTS}.")
    if args.json:
        gains = {name: gain.as_data() for name, gain in compare_with_baselines(results).items()}
        Page(sys.stdout).data(
            [
                {"figures": figures, **asdict(row), "accuracy": row.accuracy, "gain": gains.get(row.setup)}
                for row in rows
            ]
        )
