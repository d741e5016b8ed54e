"""Experiments on a simulated student: what it will get right is known beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from langgraph_reflexion.evals import Experiment, Ledger, Result, Task, run, setups_named
from langgraph_reflexion.evals.pacing import Pace, PacedModel
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.testing import Student

Results = dict[str, dict[str, Result]]
TRIALS = 5


def towns(count: int) -> list[Task]:
    """Questions that nobody can answer who was not taught: only the student's luck tells them apart."""
    return [
        Task(
            id=f"t{number}",
            task=f"Which river crosses the town of Old Harrow {number}, by the name that its own people use?",
            answer=f"River {number}",
            context=(f"The town of Old Harrow {number} lies on water.",),
        )
        for number in range(count)
    ]


def taught(tasks: Sequence[Task], **rates: Any) -> Student:
    """A student who knows these answers, and errs by these rates."""
    answers = {task.task: str(task.answer) for task in tasks}
    known = {task.task: task.context[0].text for task in tasks if task.context}
    return Student(answers=answers, known=known, **rates)


def foreseen(student: Student, setup: Setup, task: str, trials: int = TRIALS, memory: bool = True) -> int | None:
    """The trial in which the student will be right, reckoned from its luck alone."""
    shown = setup.context or setup.worker == "react"
    plans = guesses = 0
    for trial in range(1, trials + 1):
        if student.solves(task, shown=shown, plans=plans, trials=guesses):
            return trial
        said = plans + guesses
        if memory and setup.strategy in ("reflexion", "both"):
            plans += 1
        if memory and setup.strategy in ("last_trial", "both"):
            guesses = said + 1
    return None


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., Results]:
    """The results of an experiment, kept in a folder of this test."""

    def tried(
        tasks: Sequence[Task], model: Any, *names: str, concurrency: int = 20, folder: str = "run", **settings: Any
    ) -> Results:
        async def work() -> Results:
            pace = Pace(concurrency)
            experiment = Experiment(tasks, setups_named(names), PacedModel(model, pace), trials=TRIALS, **settings)
            ledger = Ledger(tmp_path / folder, {})
            await run(experiment, ledger, pace)
            return ledger.results

        return asyncio.run(work())

    return tried


def solved_at(results: Results, setup: str) -> dict[str, int | None]:
    """By task, the trial that solved it."""
    return {task: one.solved_at for task, one in results[setup].items()}
