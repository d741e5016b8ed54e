"""Literals: what of a task is its own, so that a lesson which names it would be a retelling."""

from __future__ import annotations

import re

from langgraph_reflexion.memory.likeness import likeness
from langgraph_reflexion.memory.words import fold, listed, tokens

_QUOTED = re.compile(
    r"[\"“]([^\"”\n]{3,200})[\"”]|(?<!\w)['‘]([^'’\n]{3,200})['’](?!\w)|`([^`\n]{3,200})`|[「『《]([^」』》\n]{2,200})[」』》]"
)
_LITERAL = re.compile(
    "|".join(
        (
            r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://\S+",
            r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
            r"\d{4}-\d{1,2}-\d{1,2}",
            r"\d{1,2}[./]\d{1,2}[./]\d{2,4}",
            r"\d{1,2}:\d{2}",
            r"\d{4}年\d{1,2}月(?:\d{1,2}[日号])?|\d{1,2}月\d{1,2}[日号]",
            r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[^\W\d_])\w+(?:-\w+)+\b",
            r"\b(?=\w*\d)(?=\w*[a-z])[a-z0-9_]{4,}\b",
            r"[$€£¥]\s?\d[\d.,]*",
            r"(?<!\d,)\b\d[\d,]*\.\d+\b",
            r"\b\d{4,}\b|\b\d{1,3}(?:,\d{3})+\b",
        )
    ),
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"(?:utf|sha|md|base|int|uint|float|ipv|http|python|gpt|iso|rfc|covid|h|x|s|ec|oauth|mp|web)-?_?\d+(?:[._-]\d+)*"
    r"|10+|1024|2048|4096|8080|65535|\dd|[1-9](?:st|nd|rd|th)|\d+-?(?:bit|byte|day|hour|minute|second|week|month|year)s?",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?:(?<=[\w,;:)] )|(?<=\b(?:Mr|Ms|Dr)\. ))[A-Z][a-z]{2,}(?:[- ][A-Z][a-z]{2,})*\b")

_COMMON = listed(
    """
    Mrs Prof Python Java Javascript Typescript Rust Ruby Perl Swift Kotlin Scala Haskell Golang Docker Linux Windows
    Unix Excel Word Django Flask React Angular Pandas Numpy Postgres Mysql Sqlite Redis Mongo Kafka Spark Hadoop
    Kubernetes English Chinese German French Spanish Japanese European American Asian African Internet Web Git
    Github Google Unicode Markdown Latex Json Celsius Fahrenheit Kelvin Roman Greek Latin Arabic Bayes Fibonacci
    Euclid Fourier Gauss Newton Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March
    April May June July August September October November December Christmas Answer Question Write Return Find Give
    Use Make Plan The This That What When Yes True False None
    """
)


def retold(text: str, task: str) -> str | None:
    """The detail of the task that the text gives away, or `None`."""
    held = f" {fold(text)} "
    for literal in _literals(task):
        if (said := fold(literal)) in held and re.search(rf"(?<!\w){re.escape(said)}(?!\w)", held):
            return repr(literal)
    for name in _names(task):
        if re.search(rf"\b{re.escape(name)}\b", text):
            return repr(name)
    if len(tokens(task)) >= 4 and likeness(text.split("\n")[0], task) >= 0.75:
        return "all of it again"
    return "a passage of it word for word" if _passage(text, task) else None


def gives_away(text: str, answer: str) -> bool:
    """Whether the text holds the answer: a telling one as it stands, a long one in much the same words."""
    said, held = fold(answer), fold(text)
    if not said or len(said) > 200:
        return likeness(text, answer[:2000]) >= 0.7
    if not said.isascii():
        return len(said) > 1 and said in held
    if _is_name(answer) and re.search(rf"(?<=[\w,;:] ){re.escape(answer.strip(' .'))}(?!\w)", text):
        return True
    telling = len(said) > 1 and (any(one.isdigit() for one in said) or " " in said or len(said) >= 6)
    return telling and re.search(rf"(?<![\w.]){re.escape(said)}(?!\w)", held) is not None


def _is_name(answer: str) -> bool:
    """Whether an answer is a single name, however short."""
    word = answer.strip(" .")
    return len(word) > 2 and word.isalpha() and word.istitle() and word not in _COMMON


def _literals(task: str) -> list[str]:
    quoted = [next(filter(None, found)) for found in _QUOTED.findall(task)]
    plain = [found.group().rstrip(".,;:") for found in _LITERAL.finditer(task)]
    known = (one for one in plain if not _KNOWN.fullmatch(one))
    return [one for one in dict.fromkeys([*quoted, *known]) if len(fold(one)) > 1]


def _names(task: str) -> list[str]:
    """The names in a task; none in one whose words are capitalised throughout, as in a heading."""
    words = re.findall(r"\b[A-Za-z]{4,}\b", _QUOTED.sub(" ", task))[1:]
    if sum(word[0].isupper() for word in words) > max(0.7 * len(words), 2):
        return []
    found = [name for match in _NAME.finditer(task) for name in match.group().split(" ")]
    return [name for name in dict.fromkeys(found) if name not in _COMMON]


def _passage(text: str, task: str) -> bool:
    """Eight words in a row, or twelve characters of a script without spaces."""
    ours, theirs = fold(text).split(), f" {fold(task)} "
    if any(f" {' '.join(ours[i : i + 8])} " in theirs for i in range(len(ours) - 7)):
        return True
    runs = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{12,}", fold(text))
    return any(run[i : i + 12] in theirs for run in runs for i in range(len(run) - 11))
