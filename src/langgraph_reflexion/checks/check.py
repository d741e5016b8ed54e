"""Checks without a model (your own function, a pattern or schema, an expected answer), and the base of all checks."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage
from pydantic_core import to_jsonable_python

from langgraph_reflexion.driver import accepts, run_async, run_sync
from langgraph_reflexion.nodes.models.calling import Meter
from langgraph_reflexion.nodes.models.response_format import ResponseFormat
from langgraph_reflexion.nodes.verdicts import NamedCheck, named_checks
from langgraph_reflexion.schemas import Run, Verdict
from langgraph_reflexion.state import is_from_user
from langgraph_reflexion.text.json_text import texts_and_numbers_in
from langgraph_reflexion.text.tokens import join_initials, normalize

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹣－"), "-") | dict.fromkeys(map(ord, "‘’‛ʼ"), "'")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_ARTICLE = re.compile(r"\b(?:a|an|the)\s+(?=\w)")
_SIGN = re.compile(r"[^\w\s]|_")
_OPERATION = re.compile(r"(?<!\S)(?:\w|[\d.]+) [-+*/=<>] (?:\S*\d\S*|\w)(?!\S)")


def rule(function: Callable[..., Any], name: str | None = None) -> Check:
    """Accept what a function of the answer, or of (answer, run), accepts. It may be async."""
    takes_run = accepts(function, None, None)
    if not takes_run and not accepts(function, None):
        raise ValueError(f"`rule` takes a function of the answer, or of (answer, run), got {function!r}")
    label = str(name or getattr(function, "__name__", type(function).__name__))
    with_run = function if takes_run else lambda answer, _run: function(answer)
    check = NamedCheck("rule" if label == "<lambda>" else label, with_run)
    return check_of(check.name, lambda answer, run: check.verdict(answer, run, Meter()), [check])


def matches(form: Any) -> Check:
    """Accept an answer that matches a regular expression, or fits a JSON schema or pydantic model."""
    if isinstance(form, (str, re.Pattern)):
        return _matches_pattern(form)
    try:
        wanted = ResponseFormat(form)
    except ValueError:
        raise ValueError(f"`matches` takes a regular expression, JSON schema or pydantic model, got {form!r}") from None

    def judge(answer: Any, _run: Run) -> str | None:
        faults = [] if isinstance(answer, str) else [wanted.validate(answer)[1]]
        faults += [wanted.read(text)[1] for text in _texts_of(answer)]  # also typed data, for a JSON schema
        return None if "" in faults else faults[-1]

    return Check("matches", judge)


def _matches_pattern(form: str | re.Pattern[str]) -> Check:
    try:
        pattern = re.compile(form)
    except re.error as fault:
        raise ValueError(f"`matches` takes a valid regular expression, got {form!r}: {fault}") from None
    if not isinstance(pattern.pattern, str):
        raise ValueError(f"`matches` takes a regular expression of text, got {form!r}")

    def judge(answer: Any, _run: Run) -> str | None:
        return None if pattern.search(text_of(answer)) else f"nothing in the answer matches `{pattern.pattern}`"

    return Check("matches", judge)


def exact(expected: Any) -> Check:
    """Accept the expected answer, ignoring case, articles, punctuation and spaces.

    The verdict never shows the expected answer, so a second attempt must find it.
    """
    if expected is None or (isinstance(expected, str) and not expected.strip()):
        raise ValueError(f"`exact` takes the expected answer, got {expected!r}")
    wanted = normalize_answer(text_of(expected))

    def judge(answer: Any, _run: Run) -> str | None:
        is_expected = answer == expected or wanted in map(normalize_answer, _texts_of(answer))
        return None if is_expected else "this is not the expected answer"

    return Check("exact", judge)


def contains_all(words: Iterable[str]) -> Check:
    """Accept an answer that contains each of these texts, ignoring case. A number must not be part of a longer one."""
    listed = isinstance(words, Iterable) and not isinstance(words, (str, bytes))
    given = tuple(words) if listed else ()
    if not given or not all(isinstance(word, str) and word.strip() for word in given):
        raise ValueError(f"`contains_all` takes a list of texts, got {words!r}")
    wanted = [(word, re.compile(_as_pattern(" ".join(normalize(word).split())))) for word in given]

    def judge(answer: Any, _run: Run) -> Verdict:
        text = " ".join(normalize(text_of(answer)).split())
        missing = [f"{word!r} is missing" for word, pattern in wanted if not pattern.search(text)]
        return Verdict(passed=not missing, issues=missing)

    return Check("contains_all", judge)


def _as_pattern(text: str) -> str:
    """A pattern of the text that does not match part of a longer number."""
    before = r"(?<![\d])(?<!\d[.,])" if text[0].isdigit() else ""
    after = r"(?!\d)(?![.,]\d)" if text[-1].isdigit() else ""
    return f"{before}{re.escape(text)}{after}"


def normalize_answer(text: str) -> str:
    """Return an answer without case, articles, punctuation and extra space, as HotpotQA compares answers.

    Signs and dots inside numbers and names stay (3.5 is not 35, C++ is not C), and no answer becomes empty.
    """
    plain = " ".join(normalize(text).translate(_DASHES).split())
    text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)
    text = join_initials(text)
    kept = _SIGN.sub(lambda found: found[0] if _has_meaning(text, found.start()) else "", text)
    bare = " ".join(kept.split())
    return " ".join(_ARTICLE.sub("", bare).split()) or plain


def _has_meaning(text: str, at: int) -> bool:
    """Whether a character belongs to the answer, and is not punctuation around it."""
    char = text[at]
    category = unicodedata.category(char)[0]
    if category not in "PS":
        return True
    if not char.isascii():
        return category == "S"  # ° and € say something; dots and quotes of any script do not
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if before.isdigit() and after.isdigit():
        return True
    if char in "-+*/=<>" and _OPERATION.search(text, max(0, at - 8), at + 12) and before + after == "  ":
        return True
    if after.isdigit() and char in "-+.":
        in_exponent = char == "-" and bool(re.fullmatch(r"\de", text[max(0, at - 2) : at]))  # 1e-5
        return in_exponent or not before.isalnum()
    if char in "+#" and re.search(r"\w[+#]*$", text[max(0, at - 8) : at]):  # C++, C#
        return True
    return char in ".+*^=<>#@&" and before.isalnum() and after.isalnum()


# ---------------------------------------------------------------- the base of every check in this package

Judge = Callable[[Any, Run], Any]
"""A function of (answer, run) that returns what any check may return. If it waits for something, it is a generator."""


@dataclass(frozen=True)
class Check:
    """A check of this package. Call it with (answer, run), or await `acall` with the same arguments."""

    name: str
    judge: Judge
    asks_model: bool = False
    """Whether it is expensive, so it runs last."""
    wants_model: bool = False
    """Whether it uses the agent's model, `run.model`."""
    asks_person: bool = False
    """Whether a person gives its verdicts."""
    reads_run: bool = False
    """Whether it reads the run, so it cannot check a tool's result."""

    def __call__(self, answer: Any, run: Run | None = None) -> Verdict:
        """Judge the answer."""
        result = self.judge(answer, run or Run(task=""))
        return self._read(run_sync(result) if isinstance(result, Generator) else result)

    async def acall(self, answer: Any, run: Run | None = None) -> Verdict:
        """Judge the answer without blocking the event loop."""
        result = self.judge(answer, run or Run(task=""))
        return self._read(await run_async(result) if isinstance(result, Generator) else result)

    def _read(self, result: Any) -> Verdict:
        return NamedCheck(self.name, self).read(result)


def check_of(name: str, judge: Judge, members: Sequence[NamedCheck], *, reads_run: bool = False) -> Check:
    """A check that calls these checks."""
    asks_model, wants_model = any(check.asks_model for check in members), any(check.wants_model for check in members)
    return Check(name, judge, asks_model, wants_model, any(check.asks_person for check in members), reads_run)


def is_number(value: Any) -> bool:
    """Whether it is a number. `True` and `False` are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def members_of(name: str, checks: Sequence[Any], *, as_given: bool = False) -> tuple[NamedCheck, ...]:
    """The checks that the check `name` combines, with those that ask a model last unless `as_given`."""
    if not checks:
        raise ValueError(f"`{name}` needs at least one check, got none")
    return named_checks(list(checks), as_given=as_given, setting=name)


def messages_before(run: Run) -> Sequence[AnyMessage]:
    """The conversation before the run's task."""
    is_task = (is_from_user(message) and message.text == run.task for message in run.messages)
    return run.messages[: max((i for i, found in enumerate(is_task) if found), default=0)]


def attached_to(run: Run) -> list[Any]:
    """The images and documents in the message with the question."""
    asked = filter(is_from_user, run.messages[len(messages_before(run)) :][:1])
    blocks = [block for message in asked if not isinstance(message.content, str) for block in message.content]
    return [block for block in blocks if isinstance(block, dict) and block.get("type") != "text"]


def request_for(run: Run) -> str:
    """What the user asks, also if a caller gave only the task."""
    return run.request or run.task


def text_of(answer: Any, *, by_alias: bool = False) -> str:
    """The answer as text. A value of a response format becomes JSON."""
    if isinstance(answer, str):
        return answer
    return json.dumps(to_jsonable_python(answer, by_alias=by_alias, fallback=str), ensure_ascii=False)


def contents_of(answer: Any) -> list[str]:
    """The parts of an answer: a text itself, or the texts and numbers in a typed value, without its field names."""
    return [answer] if isinstance(answer, str) else texts_and_numbers_in(to_jsonable_python(answer, fallback=str))


def _texts_of(answer: Any) -> list[str]:
    """The answer as text. Typed data is given twice: with the aliases of its fields and with their names."""
    return list(dict.fromkeys(text_of(answer, by_alias=by_alias) for by_alias in (True, False)))
