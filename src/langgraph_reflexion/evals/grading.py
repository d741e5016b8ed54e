"""Grading: the check of a task. It says whether an answer is right, and never what the right one is.

The check `exact` also accepts another spelling that a fair reader would: a time without its zero, a number with a unit
that the task names, a yes with a word after it. It reads no number out of a sentence: 80 is not found in "80 or 90".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Generator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from langgraph_reflexion import Run, Verdict, checks
from langgraph_reflexion.evals.tasks import Task

KINDS = ("exact", "contains_all", "matches", "test_cases", "judge")
MAX_UNIT_WORDS = 4
"""Words next to a number: "three hundred euros in total" is still one number."""
COMPARATIVES = set("not no or less more than under over about nearly least most below above".split())  # noqa: SIM905
"""Words that change the number, whatever the task says."""
UNITS = {
    "€": "euro", "eur": "euro", "$": "dollar", "usd": "dollar", "£": "pound", "gbp": "pound", "m": "metre",
    "km": "kilometre", "km/h": "kilometre", "kph": "kilometre", "l": "litre", "min": "minute", "yrs": "year",
}  # fmt: skip
TIME = re.compile(r"(?:at )?(\d{1,2}):([0-5]\d)(?::00)?(?: ?(?:(a|p)\.?m\b|h(?:ours)?\b))?\.?")
NUMBER = re.compile(
    r"([^\d.,+-]*?) ?([+-]?(?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d+)?) ?(?:(?:st|nd|rd|th)\b)? ?([^\d]*?)[.!]?"
)
PLAIN_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")

Check = Callable[..., Any]


def check_for(task: Task, judge: Any = None) -> Check:
    """The check that a task names. By default its answer is compared or, if there is a judge, judged.

    An invalid check is a `ValueError` that names the task.
    """
    kind, argument = kind_of(task, judged=judge is not None)
    try:
        if kind == "judge":
            check = checks.llm_judge(judge, criteria=_criteria(task, argument))
            return check if argument is not None else replace(check, judge=_without_reasons(check.judge))
        if kind == "test_cases":
            return checks.test_cases(argument)
        if kind == "contains_all" and not isinstance(argument, list):
            raise ValueError(f"`contains_all` is a list of texts, got {argument!r}")
        if kind in ("contains_all", "matches"):
            check = getattr(checks, kind)(argument)
            # Its feedback would reveal part of the right answer.
            return checks.rule(lambda answer: bool(check(answer).passed), kind)
        expected = str(task.answer if argument is None else argument)
        exact = checks.exact(expected)
        return checks.rule(lambda given: exact(given).passed or is_same(str(given), expected, task.task), "exact")
    except ValueError as error:
        raise ValueError(f"task {task.id!r}: {error}") from error


def _without_reasons(judge: Check) -> Check:
    """The judge without its feedback, which may repeat the right answer even if the judge was told not to."""

    def judging(answer: Any, run: Run) -> Generator[Any, Any, Verdict]:
        verdict = yield from judge(answer, run)
        says_nothing = verdict.passed is None and verdict.score is None
        return verdict if says_nothing else Verdict(passed=verdict.passed, score=verdict.score)

    return judging


def kind_of(task: Task, *, judged: bool) -> tuple[str, Any]:
    """The kind of a task's check, and its argument."""
    given = task.check
    if given is None:
        return ("judge", None) if judged else ("exact", None)
    kind, argument = next(iter(given.items())) if isinstance(given, dict) and len(given) == 1 else (given, None)
    if kind not in KINDS or (argument is None and kind not in ("exact", "judge")):
        raise ValueError(f"task {task.id!r}: `check` is one of {', '.join(KINDS)} with its argument, got {given!r}")
    if argument is None and task.answer is None:
        raise ValueError(f"task {task.id!r}: the check {kind!r} needs an `answer`")
    if kind == "judge" and not judged:
        raise ValueError(f"task {task.id!r} is judged by a model: name one with --judge")
    return str(kind), argument


def _criteria(task: Task, argument: Any) -> str:
    if argument is not None:
        return str(argument)
    return (
        f"The right answer is: {task.answer}\n"
        "Accept an answer that says the same in other words, and no other. Never repeat the right answer."
    )


# ------------------------------------------------------------ other spellings


def is_same(answer: str, expected: str, task: str) -> bool:
    """Whether the first line of an answer is the expected answer in another spelling."""
    first = next((line for line in answer.splitlines() if line.strip()), "")
    text, wanted = _normalize(first), _normalize(expected)
    if checks.exact(expected)(first).passed or (_minutes(wanted) is not None and _minutes(text) == _minutes(wanted)):
        return True
    if wanted in ("yes", "no"):
        return re.match(rf"{wanted}\s*[,.;:!-]", text) is not None
    found = NUMBER.fullmatch(text)
    if found is None or PLAIN_NUMBER.fullmatch(wanted) is None or _number(found[2]) != _number(wanted):
        return False
    other_words = [*found[1].split(), *found[3].split()]
    known = _stems(_normalize(task))
    return (
        len(other_words) <= MAX_UNIT_WORDS
        and COMPARATIVES.isdisjoint(other_words)
        and all(_stems(UNITS.get(word, word)) <= known for word in other_words)
    )


def _normalize(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("−", "-").replace("–", "-")
    return " ".join(re.sub(r"[*`_\"“”]", "", folded).split())


def _minutes(text: str) -> int | None:
    """A time of day in minutes."""
    found = TIME.fullmatch(text)
    if found is None:
        return None
    hour = int(found[1]) if found[3] is None else int(found[1]) % 12 + (12 if found[3] == "p" else 0)
    return 60 * hour + int(found[2])


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace(" ", ""))


def _stems(text: str) -> set[str]:
    """Words without the s of the plural."""
    return {word.rstrip("s") or word for word in re.findall(r"[^\W\d_]+", text)}
