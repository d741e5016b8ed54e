"""What a judge's words say: an acceptance, a refusal, a score; and the verdict that they make together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_reflexion.schemas import Dimension, Verdict
from langgraph_reflexion.text.words import listed

YES_KEYS = listed(
    """
    passed pass ispassed passes accepted accept isaccepted acceptable isacceptable satisfactory issatisfactory satisfied
    issatisfied correct iscorrect approved isapproved valid isvalid ok verdict decision judgement judgment 通过 满意
    是否满意 是否通过 结论
    """
)
NO_KEYS = listed("failed fail rejected isrejected unsatisfactory isunsatisfactory incorrect isincorrect refused")
SCORE_KEYS = listed("score overallscore totalscore finalscore overall rating grade points mark 分数 得分 评分 总分")
TOP_KEYS = listed("maxscore max outof scale maximum maxpoints")
ISSUE_KEYS = listed("issues issue problems problem errors suggestions suggestion improvements improvement 问题 建议")
WORD_KEYS = listed("feedback reason reasoning explanation comment comments rationale summary justification 理由 原因")
SIDE_KEYS = listed("dimensions criteria aspects scores")
SIDES = listed("accuracy correctness completeness clarity relevance helpfulness")
"""Dimensions that judges name beside their verdict, in place of within an object of their own."""
FIELDS = YES_KEYS | NO_KEYS | SCORE_KEYS

NOT = r"\b(?:not|never|hardly|isn't|wasn't|doesn't|don't|cannot|can't|won't|wouldn't|n't)\s+(?:\w+\s+){0,3}?"
REFUSES = (
    rf"{NOT}(?:satisf\w+|accept\w*|pass(?:es|ed)?|good enough|approved?)\b|\b(?:unsatisf\w+|unacceptable|dissatisfied|"
    r"reject(?:ed|s)?|refused?|fail(?:s|ed)?)\b|不(?:太|够|能|予)?(?:满意|通过|合格|接受)|未(?:能)?通过"
)
FAULTS = r"\b(?:incorrect|inadequate|insufficient|invalid|wrong|incomplete)\b|不(?:太|够)?(?:正确|符合)|错误"
LACKS = rf"{NOT}(?:correct|adequate|right|valid|sufficient|complete|met)\b"
_NO = re.compile(
    rf"{REFUSES}|{FAULTS}|{LACKS}|"
    r"^\W*(?:no(?! (?:issues?|problems?|objections?|errors?|faults?|mistakes?))|not|false|否)\b",
    re.IGNORECASE,
)
_UNREFUSED = re.compile(
    r"(?:\b(?:not|never|cannot|no reason to|nothing)|n't)\s+(?:be\s+|been\s+|to\s+)?"
    r"(?:reject\w*|refus\w*|fail\w*|unsatisf\w+|dissatisf\w+|unacceptable|wrong|incorrect|incomplete|invalid)\b",
    re.IGNORECASE,
)
"""Words that refuse, denied: neither a refusal nor an acceptance."""
_YES = re.compile(
    r"\b(?:satisf(?:actory|ied|ies)|accept(?:ed|able|s)?|correct|adequate|pass(?:es|ed)?|approved?|valid|right)\b|"
    r"^\W*(?:yes|true|ok|是)\b|满意|通过|合格|正确",
    re.IGNORECASE,
)
NUMBER = r"[-+−]?\d+(?:[.,]\d+)?(?![.,]?\d|[eE][-+]?\d)"
_SCORE = re.compile(
    rf"^\W*?({NUMBER})\s*(?:(%|percent\b)|(?:/|out of|of|分之)\s*({NUMBER})(?:\s*(?:points?|stars?))?|分|points?)?\W*$",
    re.IGNORECASE,
)


def nothing(why: str) -> Verdict:
    """A verdict that says nothing, and why."""
    return Verdict(issues=[f"the judge could not be read, and says nothing: {why}"])


def word_of(name: Any) -> str:
    """The name of a field without case, spaces and underscores."""
    return re.sub(r"[\W_]", "", str(name)).lower()


def names_a_field(keys: Iterable[str]) -> bool:
    """Whether one of these names belongs to a verdict."""
    return any(word_of(one) in FIELDS for one in keys)


def verdict_of(
    stated: list[bool | None], score: float | None, issues: list[str], feedback: str, sides: dict[str, Dimension]
) -> Verdict:
    """What is stated, made one: a refusal beside an acceptance is a contradiction, and says nothing."""
    told = {one for one in stated if one is not None}
    fields: dict[str, Any] = {"feedback": feedback, "dimensions": sides}
    if told == {True, False}:
        return Verdict(
            issues=["the judge contradicts itself, and says nothing: it accepts and refuses", *issues], **fields
        )
    if told == {False}:
        return Verdict(passed=False, score=score, issues=issues, **fields)
    if stated and not told:
        return Verdict(
            issues=["the judge could not be read, and says nothing: it neither accepts nor refuses", *issues], **fields
        )
    if score is None:
        why = "it accepts without a score" if told else "it has no verdict and no score"
        return Verdict(issues=[f"the judge could not be read, and says nothing: {why}", *issues], **fields)
    return Verdict(score=score, issues=issues, **fields)


def truth(value: Any) -> bool | None:
    """Whether a word accepts; None where it cannot be told."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    return _stance(value) if isinstance(value, str) else None


def _stance(text: str) -> bool | None:
    text = without_denials(text)
    refuses = bool(_NO.search(text))
    accepts = bool(_YES.search(_NO.sub(" ", text)))
    return None if refuses == accepts else accepts


def without_denials(text: str) -> str:
    """The text without refusing words that it denies: "it does not fail" refuses nothing."""
    return _UNREFUSED.sub(" ", text.replace("’", "'"))


def number_in(value: Any) -> float | None:
    """A plain number, or a text that is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(str(value).replace("−", "-").replace(",", "."))
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def score_of(value: Any, top: float | None = None) -> float | None:
    """A score on the scale of 100: 85, "85%", "8/10", "8 out of 10", or 8 beside its own maximum."""
    if isinstance(value, Mapping):
        return None
    if not isinstance(value, str):
        number = number_in(value)
        return number if number is None or top is None else _of(number, top)
    found = _SCORE.match(value.strip())
    if found is None or (number := number_in(found[1])) is None:
        return None
    if found[3]:
        return _of(number, number_in(found[3]))
    return number if found[2] or top is None else _of(number, top)


def _of(number: float, top: float | None) -> float | None:
    return round(number * 100 / top, 6) if top is not None and top > 0 else None
