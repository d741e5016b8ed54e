"""Checks that need nobody: a function of your own, a pattern or form, an expected answer, words that must be in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

from langgraph_reflexion.checks.check import Check, at_once, text_of
from langgraph_reflexion.checks.folding import folded
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.calling import is_async, takes
from langgraph_reflexion.nodes.checking import NamedCheck
from langgraph_reflexion.nodes.models.asking import Meter
from langgraph_reflexion.nodes.models.response_format import ResponseForm
from langgraph_reflexion.schemas import Run, Verdict


def rule(function: Callable[..., Any], name: str | None = None) -> Check:
    """A function of the answer, or of (answer, run), sync or async, under a name of its own."""
    if not callable(function):
        raise ValueError(f"`rule` takes a function of the answer, or of (answer, run), got {function!r}")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"The `name` of a rule is a text, got {name!r}")
    called = str(name or getattr(function, "__name__", type(function).__name__))
    asked = NamedCheck("rule" if called == "<lambda>" else called, _of_both(function))

    def judging(answer: Any, run: Run) -> Waits[Any]:
        return (yield from asked.verdict(answer, run, Meter()))

    return Check(asked.name, judging, asked.asks_model, asked.wants_model, asked.asks_person)


def _of_both(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or where it takes the answer alone, one of (answer, run)."""
    if takes(function, None, None):
        return function
    if not takes(function, None):
        raise ValueError(f"`rule` takes a function of the answer, or of (answer, run), got {function!r}")
    if is_async(function):

        async def later(answer: Any, _run: Run) -> Any:
            return await function(answer)

        return later
    return lambda answer, _run: function(answer)


def matches(form: Any) -> Check:
    """The answer holds a regular expression, or is a value of a JSON schema or pydantic model."""
    if isinstance(form, (str, re.Pattern)):
        return _pattern(form)
    try:
        wanted = ResponseForm(form)
    except ValueError:
        raise ValueError(f"`matches` takes a regular expression, JSON schema or pydantic model, got {form!r}") from None

    def judge(answer: Any, _run: Run) -> Verdict:
        _, fault = wanted.read(answer) if isinstance(answer, str) else wanted.fitted(answer)
        return Verdict(passed=not fault, feedback=fault)

    return at_once("matches", judge)


def _pattern(form: str | re.Pattern[str]) -> Check:
    try:
        pattern = re.compile(form)
    except re.error as fault:
        raise ValueError(f"`matches` takes a regular expression, and {form!r} is none: {fault}") from None
    if not isinstance(pattern.pattern, str):
        raise ValueError(f"`matches` takes a regular expression of text, got {form!r}")

    def judge(answer: Any, _run: Run) -> Verdict:
        if pattern.search(text_of(answer)):
            return Verdict(passed=True)
        return Verdict(passed=False, feedback=f"the answer holds nothing that matches `{pattern.pattern}`")

    return at_once("matches", judge)


def exact(expected: Any) -> Check:
    """The answer is the expected one; case, articles, punctuation and space do not count.

    What was expected is never told, so that a second attempt has to find it.
    """
    if expected is None or (isinstance(expected, str) and not expected.strip()):
        raise ValueError(f"`exact` takes the expected answer, got {expected!r}")
    wanted = folded(text_of(expected))

    def judge(answer: Any, _run: Run) -> Verdict:
        same = answer == expected or folded(text_of(answer)) == wanted
        return Verdict(passed=True) if same else Verdict(passed=False, feedback="this is not the expected answer")

    return at_once("exact", judge)


def contains_all(words: Iterable[str]) -> Check:
    """Each of these texts is in the answer, whatever its case; a number stands for itself, not within a longer one."""
    listed = isinstance(words, Iterable) and not isinstance(words, (str, bytes))
    given = tuple(words) if listed else ()
    if not given or not all(isinstance(one, str) and one.strip() for one in given):
        raise ValueError(f"`contains_all` takes a list of texts, got {words!r}")
    wanted = [(one, re.compile(_edged(_level(one)))) for one in given]

    def judge(answer: Any, _run: Run) -> Verdict:
        said = _level(text_of(answer))
        missing = [f"{one!r} is missing" for one, pattern in wanted if not pattern.search(said)]
        return Verdict(passed=not missing, issues=missing)

    return at_once("contains_all", judge)


def _level(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _edged(text: str) -> str:
    """A pattern of the text that meets no part of a longer number."""
    before = r"(?<![\d])(?<!\d[.,])" if text[0].isdigit() else ""
    after = r"(?!\d)(?![.,]\d)" if text[-1].isdigit() else ""
    return f"{before}{re.escape(text)}{after}"
