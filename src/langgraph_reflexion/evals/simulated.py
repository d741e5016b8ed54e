"""`simulated` in place of a model: the student of `testing`, for trying an experiment without a key."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph_reflexion.evals.tasks import Task
from langgraph_reflexion.testing import Student

NAME = "simulated"
SIMULATION = (
    "A simulation: the model is a student that errs, and listens to what it is told, by set rates. "
    "The figures show that the machinery works, and say nothing of any model."
)


def is_simulated(name: str) -> bool:
    """Whether this is `simulated`, or `simulated:SEED`."""
    return name.partition(":")[0] == NAME


def student(tasks: Sequence[Task], name: str = NAME) -> Student:
    """A student who knows these tasks."""
    seed = name.partition(":")[2] or "0"
    if not seed.isdecimal():
        raise ValueError(f"`{NAME}:SEED` has a whole number for a seed, got {name!r}")
    answers = {task.task: task.answer for task in tasks if task.answer is not None}
    known = {task.task: task.context[0].text for task in tasks if task.context}
    return Student(answers=answers, known=known, seed=int(seed))
