"""Grading: the check of a task. It says whether an answer is right, and never what the right one is."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from langgraph_reflexion import Run, Verdict, checks
from langgraph_reflexion.evals.tasks import Task

SAME_ANSWER = "Accept an answer that says the same in other words, and no other. Never repeat the right answer."
KINDS = ("exact", "contains_all", "matches", "test_cases", "judge")
Check = Callable[..., Any]


def check_for(task: Task, judge: Any = None) -> Check:
    """The check that a task names. By default its answer is compared or, if there is a judge, judged.

    An invalid check is a `ValueError` that names the task.
    """
    try:
        kind, argument = _kind_of(task, judged=judge is not None)
        if kind == "judge":
            if argument is not None:
                return checks.llm_judge(judge, criteria=str(argument))
            check = checks.llm_judge(judge, criteria=f"The right answer is: {task.answer}\n{SAME_ANSWER}")
            return replace(check, judge=_without_reasons(check.judge))
        if kind == "test_cases":
            return checks.test_cases(argument)
        if kind == "contains_all" and not isinstance(argument, list):
            raise ValueError(f"`contains_all` is a list of texts, got {argument!r}")
        if kind == "exact":
            argument = str(task.answer if argument is None else argument)
        check = getattr(checks, kind)(argument)
        # Its feedback would reveal part of the right answer.
        return checks.rule(lambda answer: bool(check(answer).passed), kind)
    except ValueError as error:
        raise ValueError(f"task {task.id!r}: {error}") from error


def _without_reasons(judge: Check) -> Check:
    """The judge without its feedback, which may repeat the right answer even if the judge was told not to."""

    def judging(answer: Any, run: Run) -> Generator[Any, Any, Verdict]:
        verdict = yield from judge(answer, run)
        says_nothing = verdict.passed is None and verdict.score is None
        return verdict if says_nothing else Verdict(passed=verdict.passed, score=verdict.score)

    return judging


def _kind_of(task: Task, *, judged: bool) -> tuple[str, Any]:
    """The kind of a task's check, and its argument."""
    given = task.check
    if given is None:
        return ("judge", None) if judged else ("exact", None)
    kind, argument = next(iter(given.items())) if isinstance(given, dict) and len(given) == 1 else (given, None)
    if kind not in KINDS or (argument is None and kind not in ("exact", "judge")):
        raise ValueError(f"`check` is one of {', '.join(KINDS)} with its argument, got {given!r}")
    if argument is None and task.answer is None:
        raise ValueError(f"the check {kind!r} needs an `answer`")
    if kind == "judge" and not judged:
        raise ValueError("it is judged by a model: name one with --judge")
    return str(kind), argument
