"""A judge's prose, read as a verdict: lines such as `score: 8/10`, and what is said around them."""

from __future__ import annotations

import re

from langgraph_reflexion.checks.judge_words import (
    FAULTS,
    FIELDS,
    ISSUE_KEYS,
    LACKS,
    NO_KEYS,
    NUMBER,
    REFUSES,
    SCORE_KEYS,
    YES_KEYS,
    nothing,
    score_of,
    truth,
    verdict_of,
    without_denials,
    word_of,
)
from langgraph_reflexion.schemas import Verdict

_OF_IT = (
    r"\b(?:answer|response|it|this|that)(?:\s+(?:is|was|seems|looks|remains)\b|['’]s\b|(?=\s+(?:isn't|wasn't|doesn't)))"
)
_NO_IN_PROSE = re.compile(
    rf"{REFUSES}|{_OF_IT}\s+(?:\w+\s+){{0,3}}?(?:{FAULTS}|{LACKS})|^\W*no\s*(?:[,.;:!—–-]|$)|\bno\W*$", re.IGNORECASE
)
"""What refuses the answer; that one thing in it is wrong does not."""
_YES_IN_PROSE = re.compile(
    r"\b(?:is|are|was|seems|looks|it's|that's|fully|am|be)\s+(?:\w+\s+){0,2}?(?:satisf(?:actory|ied)|acceptable|correct|"
    r"adequate|right|valid)\b|\b(?:accept|accepted|approved?|passes|passed|satisfies)\b|"
    r"^\W*(?:yes|pass|satisfactory|correct|acceptable)\b|满意|通过|合格|正确",
    re.IGNORECASE,
)
_SCORE_IN = re.compile(
    rf"(?:\b(?:scores?|scored|rating|rated?|grade|give(?:s|n)?|mark|overall)\b|得分|评分|分数)[^\d\n+−-]{{0,40}}?"
    rf"({NUMBER}(?!\s*(?:-|–|to\b)\s*\d)\s*(?:%|percent\b|(?:/|out of|of)\s*{NUMBER})?)",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"^[\s>*#_\-•]*[\"'`]?([\w\u4e00-\u9fff][\w \u4e00-\u9fff-]{0,30}?)[\"'`]?[\s*_]*[:=：?？][\s*_]*(\S.*?)[\s,*_]*$",
    re.MULTILINE,
)
_INLINE = re.compile(
    r"\b(?:is[_ ]?)?(?:satisfactory|satisfied|passed|pass|accepted|acceptable|correct|approved|valid)[\"'`*]*\s*[:=：]"
    r"[\s\"'`*]*(true|false|yes|no)\b",
    re.IGNORECASE,
)
"""A field in the midst of prose."""
_SCALE = re.compile(
    r"\(\s*(?:(?:out of|of|max(?:imum)?|/)\s*(?:[01]\s*(?:-|–|to)\s*)?|[01]\s*(?:-|–|to)\s*)(\d+)\s*\)|"
    r"\b(?:on|from)\s+(?:a|the)\s+scale\s+(?:of|from)\s+(?:[01]\s*(?:-|–|to)\s*)?(\d+)\b",
    re.IGNORECASE,
)
"""The scale that scores are on, told apart from them: (out of 10), (0-100), on a scale from 1 to 5."""
_OF_SIDES = re.compile(rf"{NUMBER}\s*(?:%|/\s*\d+|out of \d+)?\s+(?:on|for|in)\s+[^\W\d]", re.IGNORECASE)
_OF_ALL = re.compile(r"\b(?:overall|total|altogether)\b|总", re.IGNORECASE)


def of_text(said: str) -> Verdict:
    """Lines such as `score: 8/10`, and what the prose around them says."""
    tops = {float(one or other) for one, other in _SCALE.findall(said)}
    if len(tops) > 1:
        return nothing("it names several scales")
    top, text = next(iter(tops), None), without_denials(_SCALE.sub(" ", said.replace("**", "")))
    lines = [(word_of(found[1]), found[2]) for found in _LINE.finditer(text)]
    stated = [truth(value) for word, value in lines if word in YES_KEYS]
    stated += [None if (yes := truth(value)) is None else not yes for word, value in lines if word in NO_KEYS]
    scores = {one for word, value in lines if word in SCORE_KEYS if (one := score_of(value, top)) is not None}
    if not scores:
        short = [text] if len(text) <= 40 else []
        scores = {one for part in [*_SCORE_IN.findall(text), *short] if (one := score_of(part, top)) is not None}
        if len(_OF_SIDES.findall(text)) > 1 and not _OF_ALL.search(text):
            return nothing("it scores several sides, and not the whole")
    if len(scores) > 1:
        return nothing("it gave several different scores")
    if not any(word in YES_KEYS or word in NO_KEYS for word, _ in lines):
        stated += [truth(one) for one in _INLINE.findall(text)]
    prose = _LINE.sub(_beside, text)
    refuses = bool(_NO_IN_PROSE.search(prose))
    stated += [False] if refuses else []
    if _YES_IN_PROSE.search(_NO_IN_PROSE.sub(" ", prose)) and (refuses or not stated):
        stated.append(True)
    if not stated and not scores:
        return nothing("it states nothing")
    return verdict_of(stated, next(iter(scores), None), [], said, {})


def _beside(line: re.Match[str]) -> str:
    """What a line says as prose: a field is read already, but for what follows a score in its line."""
    word = word_of(line[1])
    return line[2] if word in SCORE_KEYS else " " if word in FIELDS | ISSUE_KEYS else line[0]
