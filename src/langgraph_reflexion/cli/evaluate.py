"""The eval and compare commands: run an experiment, resume it, and compare two of them."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from langgraph_reflexion import FaissStore, create_trial_graph
from langgraph_reflexion.cli.console import Page, WrongUse, summarize
from langgraph_reflexion.cli.parts import load_object, make_model, open_checkpoints, run_async
from langgraph_reflexion.errors import ReflexionError
from langgraph_reflexion.evals.experiment import Experiment, planned_calls, run
from langgraph_reflexion.evals.figures import difference
from langgraph_reflexion.evals.grading import must_be_gradable
from langgraph_reflexion.evals.ledger import Ledger, LedgerError, Result, alone_in, plan_in, results_in
from langgraph_reflexion.evals.pacing import Pace, PacedModel
from langgraph_reflexion.evals.report import write_report
from langgraph_reflexion.evals.setups import setups_named
from langgraph_reflexion.evals.simulated import SIMULATION, is_simulated, student
from langgraph_reflexion.evals.table import comparison, rows_of, table
from langgraph_reflexion.evals.tasks import Task, tasks_in

PLANNED = ("model", "judge", "check", "reflector", "trials", "steps", "reflections", "run_memory", "lessons")
"""Options that may not change between two calls on one folder."""
BAR = 24
"""Columns of the progress bar."""
QUIET = 15.0
"""Seconds between two lines of progress where there is no terminal."""
Price = tuple[float, float]


def evaluate(asked: argparse.Namespace, page: Page) -> int:
    """The exit status of an experiment: 1 where a task broke."""
    folder = asked.out or Path(f"eval-{Path(asked.tasks).stem}")
    try:
        if asked.check is not None and asked.judge is not None:
            raise WrongUse("answers are checked by --check or judged by --judge: give one of the two")
        setups, check = setups_named(asked.setups), _load_check(asked.check)
        every = tasks_in(asked.tasks, checked=check is not None)
        tasks = every[: asked.limit]
        for task in tasks if check is None else ():
            must_be_gradable(task, judged=asked.judge is not None)
        experiment = Experiment(
            tasks,
            setups,
            trials=asked.trials,
            steps=asked.steps,
            reflections=asked.reflections,
            run_memory=asked.run_memory,
            judged=asked.judge is not None,
            check=check,
        )
        if asked.dry_run:
            _show_plan(page, experiment)
            return 0
        return run_async(_evaluate(asked, experiment, folder, _plan(asked, every), page))
    except ReflexionError as error:
        raise WrongUse(str(error)) from error
    except ValueError as error:
        raise WrongUse(summarize(error)) from error
    except BrokenPipeError:
        raise
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"{folder}: {summarize(error)}. What is done is kept: the same command goes on") from error


def _load_check(place: str | None) -> Callable[..., Any] | None:
    """The check that `module:name` holds: a function of (answer, run)."""
    if place is None:
        return None
    found = load_object("--check", place, "office:is_free")
    try:
        create_trial_graph(lambda _: "", [found])  # refuses what is no check
    except ValueError as error:
        raise WrongUse(str(error).replace("`checks[0]`", f"--check {place}", 1)) from error
    check: Callable[..., Any] = found
    return check


def _plan(asked: argparse.Namespace, tasks: Sequence[Task]) -> dict[str, Any]:
    """What may not change between two calls on one folder; the number of tasks may."""
    text = "\n".join(json.dumps(task.model_dump()) for task in tasks)
    return {
        "tasks": Path(asked.tasks).name,
        "digest": hashlib.sha256(text.encode()).hexdigest()[:16],
        **{name: getattr(asked, name) for name in PLANNED},
    }


def _show_plan(page: Page, experiment: Experiment) -> None:
    least, most = planned_calls(experiment)
    count = len(experiment.jobs())
    page.line(f"{len(experiment.tasks)} tasks × {len(experiment.setups)} set-ups = {count} to do")
    page.line(
        f"{least:,} to {most:,} model calls, of up to {experiment.trials} trials a task; a reply that cannot be read "
        "costs one more. Nothing was asked or written."
    )


async def _evaluate(
    asked: argparse.Namespace, experiment: Experiment, folder: Path, plan: dict[str, Any], page: Page
) -> int:
    began, pace = time.monotonic(), Pace(asked.concurrency)
    experiment = _with_models(asked, experiment, pace)
    with alone_in(folder):
        ledger = Ledger(folder, plan)
        jobs = experiment.jobs()
        done = [ledger.results[setup.name][task.id] for setup, task in jobs if ledger.has(setup.name, task.id)]
        progress = Progress(sys.stderr, len(jobs), done, asked.price, lambda: pace.refusals)
        if done:
            page.line(f"{len(done)} of {len(jobs)} are done already, in {folder}", "dim")
        fresh: list[Result] = []

        def finished(result: Result) -> None:
            fresh.append(result)
            progress.add(result)

        async with AsyncExitStack() as files:
            without = "A task that is stopped begins anew next time"
            saver = await files.enter_async_context(open_checkpoints(folder / "runs.sqlite", page, without))
            if asked.lessons:
                store = files.enter_context(FaissStore(folder / "lessons.db"))
                experiment = replace(experiment, lessons=store)
            try:
                await run(experiment, ledger, pace, saver, finished)
            except asyncio.CancelledError:
                progress.end()
                page.line(f"interrupted: {len(fresh)} more tasks are kept in {folder}. To go on:", "yellow", mark="✗")
                page.command(shlex.join(["langgraph-reflexion", *sys.argv[1:]]), "bold", lead="  ")
                return 130
            except Exception as error:
                if error is not pace.fault:
                    raise
                page.line(f"a model refuses: {summarize(error)} What is done is kept in {folder}.", "red", mark="✗")
                return 1
            finally:
                progress.end()
        _show_end(asked, experiment, ledger, fresh, time.monotonic() - began, page)
        return 1 if any(result.error for found in ledger.results.values() for result in found.values()) else 0


def _with_models(asked: argparse.Namespace, experiment: Experiment, pace: Pace) -> Experiment:
    def paced(name: str, option: str) -> PacedModel:
        if is_simulated(name):
            return PacedModel(student(experiment.tasks, name), pace)
        return PacedModel(make_model(name, asked.base_url, option), pace)

    return replace(
        experiment,
        model=paced(asked.model, "--model"),
        judge=paced(asked.judge, "--judge") if asked.judge else None,
        reflector=paced(asked.reflector, "--reflector") if asked.reflector else None,
    )


def _show_end(
    asked: argparse.Namespace,
    experiment: Experiment,
    ledger: Ledger,
    fresh: Sequence[Result],
    wall: float,
    page: Page,
) -> None:
    wanted = {task.id for task in experiment.tasks}
    results = {
        name: [result for result in found.values() if result.task in wanted] for name, found in ledger.results.items()
    }
    about = f"{len(wanted)} tasks of {asked.tasks}, model {asked.model}, up to {asked.trials} trials a task"
    if is_simulated(asked.model):
        about += f". {SIMULATION}"
        page.line(SIMULATION, "yellow")
    report = write_report(ledger.folder, results, experiment.tasks, asked.trials, about)
    for line in table(results, asked.trials):
        page.command(line)
    serial = sum(min(result.seconds, wall) for result in fresh)  # a resumed task has stood still between two calls
    if fresh and wall > 0:
        money = format_cost(sum(r.input for r in fresh), sum(r.output for r in fresh), asked.price)
        page.line(
            f"{format_seconds(wall)} for {format_seconds(serial)} of work one after another: "
            f"{serial / wall:.1f} × as fast. {money}"
        )
    page.line(f"Transcripts and curves: {report}")
    if asked.json:
        rows = [{**asdict(row), "accuracy": row.accuracy} for row in rows_of(results, asked.trials)]
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")


# ------------------------------------------------------------ progress


class Progress:
    """How far an experiment is: one line that is redrawn on a terminal, and a line now and then elsewhere.

    What an earlier call has done counts as done and solved; tokens, cost and time are those of this call.
    """

    def __init__(
        self, file: TextIO, total: int, before: Sequence[Result], price: Price | None, refusals: Callable[[], int]
    ) -> None:
        self._file, self._total, self._price, self._refusals = file, total, price, refusals
        self._before, self._finished, self._broken = len(before), 0, 0
        self._solved = sum(result.solved_at is not None for result in before)
        self._input = self._output = 0
        self._began = self._last = time.monotonic()
        self._live = file.isatty()

    def add(self, result: Result) -> None:
        """One more task is done."""
        self._finished += 1
        self._solved += result.solved_at is not None
        self._broken += result.error is not None
        self._input += result.input
        self._output += result.output
        now = time.monotonic()
        if self._live:
            self._write(f"\r\x1b[2K{self.line()}")
        elif now - self._last >= QUIET:
            self._last = now
            self._write(self.line() + "\n")

    def end(self) -> None:
        """Leave the line as it stands."""
        if self._live and self._finished:
            self._write("\n")
            self._live = False

    def line(self) -> str:
        """How it stands now."""
        done = self._before + self._finished
        full = round(BAR * done / max(self._total, 1))
        left = (time.monotonic() - self._began) / max(self._finished, 1) * (self._total - done)
        parts = [
            f"[{'#' * full}{'.' * (BAR - full)}] {done}/{self._total}",
            f"{100 * self._solved / max(done, 1):.0f} % solved",
            f"{self._input + self._output:,} tokens",
            format_cost(self._input, self._output, self._price),
            f"{self._broken} broken" if self._broken else "",
            f"slowed down {self._refusals()} times" if self._refusals() else "",
            f"{format_seconds(left)} left" if done < self._total else "",
        ]
        return "  ".join(part for part in parts if part)

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


def format_cost(given: int, got: int, price: Price | None) -> str:
    """What the tokens cost, where the price of a million is known."""
    return "" if price is None else f"${(given * price[0] + got * price[1]) / 1e6:,.4f}"


def format_seconds(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# ------------------------------------------------------------ compare


def compare(asked: argparse.Namespace, page: Page) -> int:
    """Compare two runs, set-up by set-up: the two that are named, else those they share, else the only ones."""
    first, second = asked.first, asked.second
    try:
        same_tasks = plan_in(first).get("digest") == plan_in(second).get("digest")
        ours, theirs = results_in(first), results_in(second)
        pairs = _named_pair(asked, ours, theirs) if asked.setups is not None else _shared_pairs(ours, theirs)
        if not pairs:
            have = f"{first} ({_names(ours)}) and {second} ({_names(theirs)})"
            raise WrongUse(f"{have} share no set-up: name one of each by --setups A,B")
        found = {
            a if a == b else f"{a} and {b}": difference(list(ours[a].values()), list(theirs[b].values()))
            for a, b in pairs
        }
    except ReflexionError as error:
        raise WrongUse(str(error)) from error
    except ValueError as error:
        raise WrongUse(summarize(error)) from error
    if not same_tasks:
        text = "the two runs were given different tasks: those of the same id are taken for the same"
        Page(sys.stderr).line(text, "yellow")
    if asked.json:
        data = {name: {**asdict(one), "points": one.points} for name, one in found.items()}
        sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
        return 0
    page.line(f"{first} → {second}", "bold")
    for name, one in found.items():
        for line in comparison(name, one):
            page.command(line)
    return 0


def _shared_pairs(ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, str]]:
    if len(ours) == len(theirs) == 1:
        return [(next(iter(ours)), next(iter(theirs)))]
    return [(name, name) for name in ours if name in theirs]


def _named_pair(asked: argparse.Namespace, ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, str]]:
    if len(asked.setups) != 2:
        raise WrongUse(f"--setups names one set-up of each run, got {', '.join(asked.setups) or 'none'}")
    for name, folder, found in ((asked.setups[0], asked.first, ours), (asked.setups[1], asked.second, theirs)):
        if name not in found:
            raise WrongUse(f"{folder} has no set-up {name!r}; it has {_names(found)}")
    return [(asked.setups[0], asked.setups[1])]


def _names(results: dict[str, Any]) -> str:
    return ", ".join(results) or "nothing done"
