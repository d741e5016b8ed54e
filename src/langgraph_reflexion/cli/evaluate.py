"""Eval: an experiment asked for, followed, and gone on with."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import shlex
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from langgraph_reflexion.cli.daemons import Daemons
from langgraph_reflexion.cli.keeping import runs_in
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.parts import check_of, model_of
from langgraph_reflexion.cli.progress import Price, Progress, clock, cost
from langgraph_reflexion.cli.wrong_use import WrongUse, sentence
from langgraph_reflexion.errors import ReflexionError
from langgraph_reflexion.evals.experiment import Experiment, planned_calls, run
from langgraph_reflexion.evals.grading import must_be_gradable
from langgraph_reflexion.evals.ledger import Ledger, LedgerError, Result, alone_in
from langgraph_reflexion.evals.pacing import Pace, PacedModel
from langgraph_reflexion.evals.report import write_report
from langgraph_reflexion.evals.setups import setups_named
from langgraph_reflexion.evals.simulated import SIMULATION, is_simulated, student
from langgraph_reflexion.evals.table import rows_of, table
from langgraph_reflexion.evals.tasks import Task, tasks_in
from langgraph_reflexion.memory.store import FaissStore


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    tasks: str
    setups: Sequence[str]
    model: str
    judge: str | None = None
    check: str | None = None
    reflector: str | None = None
    base_url: str | None = None
    trials: int = 5
    steps: int = 5
    reflections: int = 4
    concurrency: int = 20
    limit: int | None = None
    run_memory: bool = True
    lessons: bool = False
    price: Price | None = None
    out: Path | None = None
    dry_run: bool = False
    json: bool = False

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self.out or Path(f"eval-{Path(self.tasks).stem}")

    @property
    def command(self) -> str:
        """The command that goes on with it."""
        return shlex.join(["langgraph-reflexion", *sys.argv[1:]])


def evaluate(wanted: Wanted, page: Page) -> int:
    """The exit status of an experiment: 1 where a task broke."""
    try:
        if wanted.check is not None and wanted.judge is not None:
            raise WrongUse("answers are checked by --check or judged by --judge: give one of the two")
        setups, check = setups_named(wanted.setups), check_of(wanted.check)
        every = tasks_in(wanted.tasks, checked=check is not None)
        tasks = every[: wanted.limit]
        for task in tasks if check is None else ():
            must_be_gradable(task, judged=wanted.judge is not None)
        experiment = Experiment(
            tasks,
            setups,
            trials=wanted.trials,
            steps=wanted.steps,
            reflections=wanted.reflections,
            run_memory=wanted.run_memory,
            judged=wanted.judge is not None,
            check=check,
        )
        if wanted.dry_run:
            _tell_plan(page, experiment)
            return 0
        with _seldom_collected(), asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(Daemons())
            return runner.run(_evaluate(wanted, experiment, _plan(wanted, every), page))
    except ReflexionError as fault:
        raise WrongUse(str(fault)) from fault
    except ValueError as fault:
        raise WrongUse(sentence(fault)) from fault
    except BrokenPipeError:
        raise
    except (OSError, sqlite3.Error) as fault:
        raise LedgerError(
            f"{wanted.folder}: {sentence(fault)}. What is done is kept: the same command goes on"
        ) from fault


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """What is imported stays, and need not be looked through for garbage again and again."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _tell_plan(page: Page, experiment: Experiment) -> None:
    least, most = planned_calls(experiment)
    count = len(experiment.jobs())
    page.line(f"{len(experiment.tasks)} tasks × {len(experiment.setups)} set-ups = {count} to do")
    page.line(
        f"{least:,} to {most:,} model calls, of up to {experiment.trials} trials a task; a reply that cannot be read "
        "costs one more. Nothing was asked or written."
    )


async def _evaluate(wanted: Wanted, experiment: Experiment, plan: dict[str, Any], page: Page) -> int:
    folder, began = wanted.folder, time.monotonic()
    pace = Pace(wanted.concurrency)
    experiment = _with_models(wanted, experiment, pace)
    with alone_in(folder):
        return await _worked(wanted, experiment, Ledger(folder, plan), pace, began, page)


async def _worked(wanted: Wanted, experiment: Experiment, ledger: Ledger, pace: Pace, began: float, page: Page) -> int:
    folder = ledger.folder
    jobs = experiment.jobs()
    done = [ledger.results[setup.name][task.id] for setup, task in jobs if ledger.has(setup.name, task.id)]
    progress = Progress(sys.stderr, len(jobs), done, wanted.price, lambda: pace.refusals)
    if done:
        page.line(f"{len(done)} of {len(jobs)} are done already, in {folder}", "dim")
    fresh: list[Result] = []

    def told(result: Result) -> None:
        fresh.append(result)
        progress.tell(result)

    async with AsyncExitStack() as files:
        saver = await files.enter_async_context(runs_in(folder / "runs.sqlite", page, many=True))
        if wanted.lessons:
            store = files.enter_context(FaissStore(folder / "lessons.db"))
            experiment = replace(experiment, lessons=store)
        try:
            await run(experiment, ledger, pace, saver, told)
        except asyncio.CancelledError:
            progress.end()
            page.line(f"interrupted: {len(fresh)} more tasks are kept in {folder}. To go on:", "yellow", mark="✗")
            page.line(wanted.command, "bold", indent="  ", fold=False)
            return 130
        except Exception as fault:
            if fault is not pace.fault:
                raise
            page.line(f"a model refuses: {sentence(fault)} What is done is kept in {folder}.", "red", mark="✗")
            return 1
        finally:
            progress.end()
    _tell_end(wanted, experiment, ledger, fresh, time.monotonic() - began, page)
    return 1 if any(one.error for results in ledger.results.values() for one in results.values()) else 0


def _with_models(wanted: Wanted, experiment: Experiment, pace: Pace) -> Experiment:
    def paced(name: str) -> PacedModel:
        found = student(experiment.tasks, name) if is_simulated(name) else model_of(name, wanted.base_url)
        return PacedModel(found, pace)

    return replace(
        experiment,
        model=paced(wanted.model),
        judge=paced(wanted.judge) if wanted.judge else None,
        reflector=paced(wanted.reflector) if wanted.reflector else None,
    )


def _plan(wanted: Wanted, tasks: Sequence[Task]) -> dict[str, Any]:
    """What may not change between two calls on one folder. How many of the tasks are done, and how, may."""
    text = "\n".join(json.dumps(task.model_dump()) for task in tasks)
    names = ("model", "judge", "check", "reflector", "trials", "steps", "reflections", "run_memory", "lessons")
    kept = asdict(wanted)
    return {
        "tasks": Path(wanted.tasks).name,
        "digest": hashlib.sha256(text.encode()).hexdigest()[:16],
        **{name: kept[name] for name in names},
    }


def _tell_end(
    wanted: Wanted, experiment: Experiment, ledger: Ledger, fresh: Sequence[Result], wall: float, page: Page
) -> None:
    wished = {task.id for task in experiment.tasks}
    results = {name: [one for one in found.values() if one.task in wished] for name, found in ledger.results.items()}
    about = f"{len(wished)} tasks of {wanted.tasks}, model {wanted.model}, up to {wanted.trials} trials a task"
    if is_simulated(wanted.model):
        about += f". {SIMULATION}"
    report = write_report(ledger.folder, results, experiment.tasks, wanted.trials, about)
    if is_simulated(wanted.model):
        page.line(SIMULATION, "yellow")
    for line in table(results, wanted.trials):
        page.line(line, fold=False)
    serial = sum(min(one.seconds, wall) for one in fresh)  # a task gone on with has stood still between two calls
    if fresh and wall > 0:
        money = cost(sum(one.input for one in fresh), sum(one.output for one in fresh), wanted.price)
        page.line(
            f"{clock(wall)} for {clock(serial)} of work one after another: {serial / wall:.1f} × as fast. {money}"
        )
    page.line(f"Transcripts and curves: {report}")
    if wanted.json:
        rows = [{**asdict(row), "accuracy": row.accuracy} for row in rows_of(results, wanted.trials)]
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
