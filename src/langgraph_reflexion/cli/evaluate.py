"""The eval command: run an experiment, and resume it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from langgraph_reflexion import FaissStore, ReflexionError, create_trial_graph
from langgraph_reflexion.cli.compare import flatten, format_seconds
from langgraph_reflexion.cli.console import Page, WrongUse, count_of, summarize
from langgraph_reflexion.cli.parts import load_object, load_tools, make_model, open_checkpoints, run_async
from langgraph_reflexion.evals import (
    SETUPS,
    Experiment,
    Pace,
    Result,
    Task,
    check_for,
    describe_model,
    find_setups,
    format_table,
    load_results,
    load_tasks,
    lock_folder,
    make_rows,
    make_student,
    run_experiment,
    write_report,
)
from langgraph_reflexion.evals.experiment import REPLY_TOKENS
from langgraph_reflexion.evals.student import SIMULATION, is_simulated

OPTIONS = ("protocol", "context", "reflection", "trials", "steps", "reflections", "repeats", "run_memory")
"""Options that an experiment has under the same names."""
Price = tuple[float, float]


def evaluate(args: argparse.Namespace, page: Page) -> int:
    """The exit status of an experiment: 1 if a task broke."""
    folder = args.out or Path(f"eval-{Path(args.tasks).stem}")
    try:
        if args.check is not None and args.judge is not None:
            raise WrongUse("answers are checked by --check or judged by --judge: pass only one of the two")
        check = _load_check(args.check)
        tasks = load_tasks(args.tasks, checked=check is not None)[: args.limit]
        for task in tasks if check is None else ():
            check_for(task, args.judge and FakeListChatModel(responses=[]))  # a check that cannot be made is named
        experiment = Experiment(
            tasks,
            find_setups(args.setups),
            args.model,
            judge=args.judge,
            reflector=args.reflector,
            check=check,
            tools=None if args.tools is None else load_tools(args.tools),
            **{name: getattr(args, name) for name in OPTIONS},
        )
        if args.dry_run:
            _show_plan(page, experiment, args.price)
            return 0
        return run_async(_evaluate(args, _with_models(args, experiment), folder, page))
    except ReflexionError as error:
        raise WrongUse(str(error)) from error
    except ValueError as error:
        raise WrongUse(summarize(error)) from error
    except BrokenPipeError:
        raise
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or summarize(error)
        text = f"{folder}: {why}. Finished tasks are saved: the same command continues"
        raise ReflexionError(text) from error


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


def _with_models(args: argparse.Namespace, experiment: Experiment) -> Experiment:
    def model(role: str) -> Any:
        name = getattr(args, role)
        if name is None or is_simulated(name):
            return name and make_student(experiment.tasks, name)
        address = args.base_url if role == "model" else getattr(args, f"{role}_base_url")
        if address is None and name.startswith("openai:"):
            address = args.base_url
        return make_model(name, address, f"--{role}", temperature=args.temperature if role == "model" else None)

    return replace(experiment, model=model("model"), judge=model("judge"), reflector=model("reflector"))


def _show_plan(page: Page, experiment: Experiment, price: Price | None) -> None:
    least, most = experiment.planned()
    tasks, setups = count_of(len(experiment.tasks), "task"), count_of(len(experiment.setups), "set-up")
    repeats = f" × {experiment.repeats} repeats" if experiment.repeats > 1 else ""
    page.line(f"{tasks} × {setups}{repeats} = {len(experiment.jobs())} to do")
    page.line(
        f"{least.calls:,} to {most.calls:,} model calls, of up to {experiment.trials} trials a task; a reply that "
        "cannot be read costs one more. Nothing was asked or written."
    )
    costs = [format_cost(cost.input, cost.output, price) for cost in (least, most)]
    page.line(
        f"About {least.input:,} to {most.input:,} input and {least.output:,} to {most.output:,} output tokens"
        f"{'' if price is None else ', ' + ' to '.join(costs)}, estimated at {REPLY_TOKENS} tokens a reply."
    )


async def _evaluate(args: argparse.Namespace, experiment: Experiment, folder: Path, page: Page) -> int:
    began, pace = time.monotonic(), Pace()
    with lock_folder(folder):
        wanted = {(setup.name, task.id, repeat) for setup, task, repeat in experiment.jobs()}
        done = [r for r in flatten(load_results(folder)) if (r.setup, r.task, r.repeat) in wanted and r.error is None]
        new: list[Result] = []
        if done:
            page.line(f"{len(done)} of {len(wanted)} are done already, in {folder}", "dim")

        async with AsyncExitStack() as files:
            without = "An interrupted task starts over next time; to resume it in its middle"
            saver = await files.enter_async_context(open_checkpoints(folder / "runs.sqlite", page, without))
            if args.lessons:
                experiment = replace(experiment, lessons=files.enter_context(FaissStore(folder / "lessons.db")))
            try:
                with progress_bar() as bar:
                    row = bar.add_task(describe_progress(done, new, args.price), total=len(wanted), completed=len(done))

                    def add(result: Result) -> None:
                        new.append(result)
                        progress = describe_progress(done, new, args.price, pace.refusals)
                        bar.update(row, advance=1, description=progress)

                    results = await run_experiment(
                        experiment, folder, concurrency=args.concurrency, saver=saver, pace=pace, on_result=add
                    )
            except asyncio.CancelledError:
                page.line(f"interrupted: {len(new)} more tasks are saved in {folder}. To continue:", "yellow", mark="✗")
                page.command(shlex.join(["langgraph-reflexion", *sys.argv[1:]]), "bold", lead="  ")
                return 130
            except Exception as error:
                if error is not pace.fault:
                    raise
                page.line(
                    f"the provider refuses the requests: {summarize(error)} What is done is kept in {folder}.",
                    "red",
                    mark="✗",
                )
                return 1
        ids = {task.id for task in experiment.tasks}
        found = {name: [result for result in all_ if result.task in ids] for name, all_ in results.items()}
        _show_end(args, experiment, folder, found, page)
        if new:
            cost = format_cost(sum(r.input for r in new), sum(r.output for r in new), args.price)
            seconds = format_seconds(time.monotonic() - began)
            page.line(f"{count_of(len(new), 'task')} in {seconds}, up to {args.concurrency} at once. {cost}")
        return 1 if any(result.error for result in flatten(results)) else 0


def _show_end(
    args: argparse.Namespace, experiment: Experiment, folder: Path, results: dict[str, list[Result]], page: Page
) -> None:
    tasks, figures = experiment.tasks, str(describe_model(experiment.model))
    about = f"{len(tasks)} tasks of {args.tasks}, {figures}, up to {args.trials} trials a task. "
    about += _describe_context(tasks, args.context)
    if is_simulated(args.model):
        about += f" {SIMULATION}"
        page.line(SIMULATION, "yellow")
    report = write_report(folder, results, tasks, args.trials, figures, about)
    table, _, notes = "\n".join(format_table(results, args.trials, figures)).partition("\n\n")
    for line in table.splitlines():
        page.command(line)
    page.line()
    for line in notes.splitlines():
        page.line(line)
    if any(SETUPS[name].context for name in results):
        page.line(_describe_context(tasks, args.context))
    page.line(f"Transcripts and curves: {report}")
    if args.json:
        rows = [
            {"figures": figures, **asdict(row), "accuracy": row.accuracy} for row in make_rows(results, args.trials)
        ]
        Page(sys.stdout).data(rows)


def _describe_context(tasks: Sequence[Task], choice: str) -> str:
    """Which passages the set-ups with context were shown."""
    marked = sum(any(passage.supporting for passage in task.context) for task in tasks)
    if choice == "all" or not marked:
        return "Context: all passages of a task."
    rest = "" if marked == len(tasks) else f"; all passages of the {len(tasks) - marked} tasks that mark none"
    return f"Context: the supporting passages{rest}."


# ------------------------------------------------------------ progress


def progress_bar() -> Progress:
    """A bar on standard error, if that is a terminal."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, disable=not console.is_terminal)


def describe_progress(
    done: Sequence[Result], new: Sequence[Result], price: Price | None = None, refusals: int = 0
) -> str:
    """The progress of an experiment in a line. Tokens, cost and broken tasks are only those of this call."""
    solved = sum(result.solved_at is not None for result in (*done, *new))
    given, got = sum(result.input for result in new), sum(result.output for result in new)
    broken = sum(result.error is not None for result in new)
    parts = [
        f"{100 * solved / max(len(done) + len(new), 1):.0f} % solved",
        f"{given + got:,} tokens" if given else "",
        format_cost(given, got, price),
        f"{broken} broken" if broken else "",
        f"slowed down {refusals} times" if refusals else "",
    ]
    return "  ".join(part for part in parts if part)


def format_cost(given: int, got: int, price: Price | None) -> str:
    """The cost of the tokens, if the price is known."""
    return "" if price is None else f"${(given * price[0] + got * price[1]) / 1e6:,.4f}"
