"""Grading: the check of a task. It says whether an answer is right, and never what the right one is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph_reflexion import checks
from langgraph_reflexion.checks.check import Check, sync_check, text_of
from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.evals.sameness import same
from langgraph_reflexion.evals.tasks import Task
from langgraph_reflexion.schemas import Run, Verdict

KINDS = ("exact", "contains_all", "matches", "test_cases", "judge")
COMPARED = KINDS[:3]
"""Those that compare texts, which takes less time than a step of a graph."""
WRONG = "The answer is not right."


def check_for(task: Task, judge: Any = None) -> Check:
    """The check that a task names; else its answer compared, by the judge where there is one."""
    kind, argument = kind_of(task, judged=judge is not None)
    if kind == "judge":
        return checks.llm_judge(judge, criteria=_criteria(task, argument))
    return _by_key(task, kind, argument)


def grader(tasks: Sequence[Task], judge: Any = None) -> Check:
    """One check for all tasks: it finds that of the run's own."""
    known = {task.id: check_for(task, judge) for task in tasks}

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        check = known[run.context.task.id]
        said: Verdict = yield either(check, check.acall, answer, run)
        return said

    each = known.values()
    return Check(
        "grade",
        judging,
        asks_model=any(check.asks_model for check in each),
        in_place=all(check.name in COMPARED for check in each),
    )


def must_be_gradable(task: Task, *, judged: bool) -> None:
    """A task whose check cannot be made is a `ValueError` that names it."""
    kind, argument = kind_of(task, judged=judged)
    if kind != "judge":
        _by_key(task, kind, argument)


def kind_of(task: Task, *, judged: bool) -> tuple[str, Any]:
    """The kind of a task's check, and its argument."""
    found = task.check
    if found is None:
        return ("judge", None) if judged else ("exact", None)
    kind, argument = next(iter(found.items())) if isinstance(found, dict) and len(found) == 1 else (found, None)
    if kind not in KINDS or (argument is None and kind not in ("exact", "judge")):
        raise ValueError(f"task {task.id!r}: `check` is one of {', '.join(KINDS)} with its argument, got {found!r}")
    if argument is None and task.answer is None:
        raise ValueError(f"task {task.id!r}: the check {kind!r} needs an `answer`")
    if kind == "judge" and not judged:
        raise ValueError(f"task {task.id!r} is judged by a model: name one by --judge")
    return str(kind), argument


def _by_key(task: Task, kind: str, argument: Any) -> Check:
    if kind == "test_cases":
        return checks.test_cases([_case(one, task) for one in _listed(argument, task)])
    if kind == "contains_all":
        return _silent(checks.contains_all(_listed(argument, task)))
    if kind == "matches":
        return _silent(checks.matches(argument))
    return _spelt_freely(str(task.answer if argument is None else argument), task)


def _spelt_freely(expected: str, task: Task) -> Check:
    """`exact`, and no harder on an answer than a fair reader."""
    if not expected.strip():
        raise ValueError(f"task {task.id!r}: the check 'exact' needs an answer that is not empty")

    def right(answer: Any, _run: Run) -> Verdict:
        fine = same(text_of(answer), expected, task.task)
        return Verdict(passed=fine, feedback="" if fine else WRONG)

    return sync_check("exact", right)


def _silent(check: Check) -> Check:
    """The same check, which gives nothing of the key away."""

    def right(answer: Any, run: Run) -> str | None:
        return None if check(answer, run).passed else WRONG

    return sync_check(check.name, right)


def _listed(argument: Any, task: Task) -> list[Any]:
    if not isinstance(argument, list) or not argument:
        raise ValueError(f"task {task.id!r}: this check needs a list that is not empty, got {argument!r}")
    return argument


def _case(one: Any, task: Task) -> tuple[str, Any]:
    if not (isinstance(one, list) and len(one) == 2 and isinstance(one[0], str)):
        raise ValueError(f"task {task.id!r}: a test case is [expression, value], got {one!r}")
    return one[0], one[1]


def _criteria(task: Task, argument: Any) -> str:
    if argument is not None:
        return str(argument)
    return (
        f"The right answer is: {task.answer}\n"
        "Accept an answer that says the same in other words, and no other. Never repeat the right answer."
    )
