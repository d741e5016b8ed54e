"""What a judge wrote, read as a verdict: from an object, from lines, or from prose, and never guessed.

A judge states refusals alone; its acceptance is its score. What contradicts itself, or cannot be read, says nothing,
and why.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_reflexion.memory.text.words import listed
from langgraph_reflexion.nodes.speaking.json_text import TangledError, Torn, Whole, values_in
from langgraph_reflexion.schemas import Dimension, Verdict

_YES_KEYS = listed(
    """
    passed pass ispassed passes accepted accept isaccepted acceptable isacceptable satisfactory issatisfactory satisfied
    issatisfied correct iscorrect approved isapproved valid isvalid ok verdict decision judgement judgment 通过 满意
    是否满意 是否通过 结论
    """
)
_NO_KEYS = listed("failed fail rejected isrejected unsatisfactory isunsatisfactory incorrect isincorrect refused")
_SCORE_KEYS = listed("score overallscore totalscore finalscore overall rating grade points mark 分数 得分 评分 总分")
_TOP_KEYS = listed("maxscore max outof scale maximum maxpoints")
_ISSUE_KEYS = listed("issues issue problems problem errors suggestions suggestion improvements improvement 问题 建议")
_WORD_KEYS = listed("feedback reason reasoning explanation comment comments rationale summary justification 理由 原因")
_SIDE_KEYS = listed("dimensions criteria aspects scores")
_FIELDS = _YES_KEYS | _NO_KEYS | _SCORE_KEYS

_NOT = r"\b(?:not|never|hardly|isn't|wasn't|doesn't|don't|cannot|can't|won't|wouldn't|n't)\s+(?:\w+\s+){0,3}?"
_REFUSES = (
    rf"{_NOT}(?:satisf\w+|accept\w*|pass(?:es|ed)?|good enough|approved?)\b|\b(?:unsatisf\w+|unacceptable|dissatisfied|"
    r"reject(?:ed|s)?|refused?|fail(?:s|ed)?)\b|不(?:太|够|能|予)?(?:满意|通过|合格|接受)|未(?:能)?通过"
)
_FAULTS = r"\b(?:incorrect|inadequate|insufficient|invalid|wrong|incomplete)\b|不(?:太|够)?(?:正确|符合)|错误"
_LACKS = rf"{_NOT}(?:correct|adequate|right|valid|sufficient|complete|met)\b"
_NO = re.compile(rf"{_REFUSES}|{_FAULTS}|{_LACKS}|^\W*(?:no|not|false)\b", re.IGNORECASE)
_YES = re.compile(
    r"\b(?:satisf(?:actory|ied|ies)|accept(?:ed|able|s)?|correct|adequate|pass(?:es|ed)?|approved?|valid|right)\b|"
    r"^\W*(?:yes|true|ok)\b|满意|通过|合格|正确",
    re.IGNORECASE,
)
_OF_IT = (
    r"\b(?:answer|response|it|this|that)(?:\s+(?:is|was|seems|looks|remains)\b|['’]s\b|(?=\s+(?:isn't|wasn't|doesn't)))"
)
_NO_IN_PROSE = re.compile(
    rf"{_REFUSES}|{_OF_IT}\s+(?:\w+\s+){{0,3}}?(?:{_FAULTS}|{_LACKS})|^\W*no\b|\bno\W*$", re.IGNORECASE
)
"""What refuses the answer; that one thing in it is wrong does not."""
_YES_IN_PROSE = re.compile(
    r"\b(?:is|are|was|seems|looks|it's|that's|fully|am|be)\s+(?:\w+\s+){0,2}?(?:satisf(?:actory|ied)|acceptable|correct|"
    r"adequate|right|valid)\b|\b(?:accept|accepted|approved?|passes|passed|satisfies)\b|"
    r"^\W*(?:yes|pass|satisfactory|correct|acceptable)\b|满意|通过|合格|正确",
    re.IGNORECASE,
)
_NUMBER = r"[-+−]?\d+(?:[.,]\d+)?(?![.,]?\d|[eE][-+]?\d)"
_SCORE = re.compile(
    rf"^\W*?({_NUMBER})\s*(?:(%|percent\b)|(?:/|out of|of|分之)\s*({_NUMBER})|分|points?)?\W*$", re.IGNORECASE
)
_SCORE_IN = re.compile(
    rf"(?:\b(?:scores?|scored|rating|rated?|grade|give(?:s|n)?|mark|overall)\b|得分|评分|分数)[^\d\n+−-]{{0,40}}?"
    rf"({_NUMBER}\s*(?:%|percent\b|(?:/|out of|of)\s*{_NUMBER})?)",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"^[\s>*#_\-•]*[\"'`]?([\w\u4e00-\u9fff][\w \u4e00-\u9fff-]{0,30}?)[\"'`]?[\s*_]*[:=：][\s*_]*(\S.*?)[\s,*_]*$",
    re.MULTILINE,
)
_INLINE = re.compile(
    r"\b(?:is[_ ]?)?(?:satisfactory|satisfied|passed|pass|accepted|acceptable|correct|approved|valid)[\"'`*]*\s*[:=：]"
    r"[\s\"'`*]*(true|false|yes|no)\b",
    re.IGNORECASE,
)
"""A field in the midst of prose."""
_OF_SIDES = re.compile(rf"{_NUMBER}\s*(?:%|/\s*\d+|out of \d+)?\s+(?:on|for|in)\s+[^\W\d]", re.IGNORECASE)
_OF_ALL = re.compile(r"\b(?:overall|total|altogether)\b|总", re.IGNORECASE)
_THINKING = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)


def read_verdict(text: str) -> Verdict:
    """The verdict in a judge's reply. One that states nothing and has no score says why in its issues."""
    text = _THINKING.sub("", text).strip()
    if not text:
        return _nothing("it said nothing")
    try:
        spread = list(values_in(text))
    except TangledError as fault:
        return _nothing(str(fault))
    objects = [one for found in spread if isinstance(found, Whole) for one in _verdicts_in(found)]
    if any(isinstance(one, Whole) and one.twice is not None and _verdicts_in(one) for one in spread):
        return _nothing("a key is given twice")
    if len({json.dumps(one, sort_keys=True, default=str) for one in objects}) > 1:
        return _nothing("it gave several different verdicts")
    if objects:
        return _of_object(objects[0])
    if any(isinstance(one, Torn) and (one.certain or _names_a_field(one.keys)) for one in spread):
        return _nothing("its object is cut or misspelt")
    return _of_text(text)


def _nothing(why: str) -> Verdict:
    return Verdict(issues=[f"the judge could not be read, and says nothing: {why}"])


def _key(name: Any) -> str:
    return re.sub(r"[\W_]", "", str(name)).lower()


def _names_a_field(keys: Iterable[str]) -> bool:
    return any(_key(one) in _FIELDS for one in keys)


def _verdicts_in(found: Whole) -> list[dict[str, Any]]:
    """The objects that say something of an answer; one wrapped in another, or alone in a list, is taken out."""
    value = found.value[0] if isinstance(found.value, list) and len(found.value) == 1 else found.value
    for _ in range(3):
        if not isinstance(value, dict):
            return []
        if _names_a_field(value) or any(_key(one) in _SIDE_KEYS for one in value):
            whole = all(not isinstance(one, dict) for key, one in value.items() if _key(key) in _FIELDS)
            if whole:
                return [value]
        inner = [one for one in value.values() if isinstance(one, dict)]
        if len(inner) != 1:
            return []
        value = inner[0]
    return []


def _of_object(given: Mapping[str, Any]) -> Verdict:
    said = {_key(name): value for name, value in given.items()}
    notes: list[str] = []
    stated = [_truth(said[key]) for key in said if key in _YES_KEYS]
    stated += [None if (one := _truth(said[key])) is None else not one for key in said if key in _NO_KEYS]
    top = next((_number(said[key]) for key in said if key in _TOP_KEYS), None)
    scores = [(said[key], _score(said[key], top)) for key in said if key in _SCORE_KEYS]
    score = next((value for _, value in scores if value is not None), None)
    if len({value for _, value in scores if value is not None}) > 1:
        return _nothing("it gave several different scores")
    notes += [f"its score {raw!r} cannot be read" for raw, value in scores if value is None and raw is not None]
    sides = _sides(said, notes)
    if score is None and sides and not scores:
        score = sum(side.score for side in sides.values()) / len(sides)
    issues = [*(text for key in said if key in _ISSUE_KEYS for text in _texts(said[key])), *notes]
    feedback = " ".join(text for key in said if key in _WORD_KEYS for text in _texts(said[key]))
    return _verdict(stated, score, issues, feedback, sides)


def _verdict(
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


def _truth(value: Any) -> bool | None:
    """Whether a word accepts; None where it cannot be told."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    return _stance(value) if isinstance(value, str) else None


def _stance(text: str) -> bool | None:
    refuses = bool(_NO.search(text))
    accepts = bool(_YES.search(_NO.sub(" ", text)))
    return None if refuses == accepts else accepts


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(str(value).replace("−", "-").replace(",", "."))
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _score(value: Any, top: float | None = None) -> float | None:
    """A score on the scale of 100: 85, "85%", "8/10", "8 out of 10", or 8 beside its own maximum."""
    if isinstance(value, Mapping):
        return None
    if not isinstance(value, str):
        number = _number(value)
        return number if number is None or top is None else _of(number, top)
    found = _SCORE.match(value.strip())
    if found is None or (number := _number(found[1])) is None:
        return None
    if found[3]:
        return _of(number, _number(found[3]))
    return number if found[2] or top is None else _of(number, top)


def _of(number: float, top: float | None) -> float | None:
    return round(number * 100 / top, 6) if top is not None and top > 0 else None


def _sides(said: Mapping[str, Any], notes: list[str]) -> dict[str, Dimension]:
    """The dimensions, as an object of numbers or objects, or as a list; a score out of range is clamped, and said."""
    sides: dict[str, Dimension] = {}
    for key in said:
        if key in _SIDE_KEYS:
            for name, one in _entries(said[key]):
                fields = (
                    {_key(word): value for word, value in one.items()} if isinstance(one, Mapping) else {"score": one}
                )
                score = _score(next((fields[word] for word in fields if word in _SCORE_KEYS), None))
                words = " ".join(text for word in fields if word in _WORD_KEYS for text in _texts(fields[word]))
                if score is None:
                    notes.append(f"its score of {name} cannot be read" + (f": {words}" if words else ""))
                    continue
                nearest = min(max(score, 0.0), 100.0)
                if nearest != score:
                    notes.append(f"the score {score:g} of {name} is outside 0 to 100 and counts as {nearest:g}")
                sides[name] = Dimension(score=nearest, feedback=words)
    return sides


def _entries(given: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return [(str(name), one) for name, one in given.items()]
    if isinstance(given, list):
        named = [
            (one.get("name") or one.get("dimension") or one.get("criterion"), one)
            for one in given
            if isinstance(one, Mapping)
        ]
        return [(str(name), one) for name, one in named if name]
    return []


def _texts(given: Any) -> list[str]:
    """Texts out of a text, a list, or a list of objects that hold one each."""
    if isinstance(given, str):
        return [given.strip()] if given.strip() else []
    if isinstance(given, Mapping):
        given = [one for one in given.values() if isinstance(one, str)][:2]
        return [": ".join(given)] if given else []
    return [text for one in given for text in _texts(one)] if isinstance(given, list) else []


def _of_text(text: str) -> Verdict:
    """Lines such as `score: 8/10`, and what the prose around them says."""
    lines = [(_key(found[1]), found[2]) for found in _LINE.finditer(text)]
    stated = [_truth(value) for key, value in lines if key in _YES_KEYS]
    stated += [None if (said := _truth(value)) is None else not said for key, value in lines if key in _NO_KEYS]
    scores = {one for key, value in lines if key in _SCORE_KEYS if (one := _score(value)) is not None}
    if not scores:
        short = [text] if len(text) <= 40 else []
        scores = {one for part in [*_SCORE_IN.findall(text), *short] if (one := _score(part)) is not None}
        if len(_OF_SIDES.findall(text)) > 1 and not _OF_ALL.search(text):
            return _nothing("it scores several sides, and not the whole")
    if len(scores) > 1:
        return _nothing("it gave several different scores")
    if not any(key in _YES_KEYS or key in _NO_KEYS for key, _ in lines):
        stated += [_truth(said) for said in _INLINE.findall(text)]
    prose = _LINE.sub(lambda found: " " if _key(found[1]) in _FIELDS else found[0], text)
    refuses = bool(_NO_IN_PROSE.search(prose))
    stated += [False] if refuses else []
    if _YES_IN_PROSE.search(_NO_IN_PROSE.sub(" ", prose)) and (refuses or not stated):
        stated.append(True)
    if not stated and not scores:
        return _nothing("it states nothing")
    return _verdict(stated, next(iter(scores), None), [], text, {})
