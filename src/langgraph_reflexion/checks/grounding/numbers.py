"""Numbers and dates in text, by value: however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LONG = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"]
_LONG += ["december"]
MONTHS = {form: i for i, name in enumerate(_LONG, 1) for form in (name, name[:3])} | {"sept": 9}
_COUNTED = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_ORDERED = """
    zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS = {word: i for words in (_COUNTED, _ORDERED) for i, word in enumerate(words.split())}
WORDS |= {word: 10 * i for i, word in enumerate(_TENS.split(), 2)} | {"dozen": 12, "once": 1, "twice": 2}
_SCALE = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9}
_SCALE |= {"trillion": 1e12, "万": 1e4, "亿": 1e8}

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(
        rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?\s+(?P<m>{_MONTH})\b\.?,?(?:\s+(?P<y>\d{{4}}))?", re.IGNORECASE
    ),
    re.compile(
        rf"\b(?P<m>{_MONTH})\b\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d),?(?:\s+(?P<y>\d{{4}}))?", re.IGNORECASE
    ),
    re.compile(rf"\b(?P<m>{_MONTH})\b\.?,?\s+(?:of\s+)?(?P<y>\d{{4}})\b", re.IGNORECASE),
    re.compile(r"\b(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})\b"),
    re.compile(r"(?P<y>\d{4})年(?:(?P<m>\d{1,2})月)?(?:(?P<d>\d{1,2})[日号])?"),
)
_SLASHED = re.compile(r"\b(?P<a>\d{1,2})[/.](?P<b>\d{1,2})[/.](?P<y>\d{4})\b")
_DIGITS = re.compile(
    r"(?<![\w.,])[-−]?(?P<n>\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:\s?(?P<s>hundred|thousand|million|billion|trillion|bn|mn|[kKmM]\b|万|亿))?(?:st|nd|rd|th|s)?(?!\d)",
)
_WORD = "|".join(sorted(WORDS, key=len, reverse=True))
_SPELT = re.compile(
    rf"\b(?:{_WORD})(?:(?:[ -]| and )(?:{_WORD}|hundred|thousand|million|billion))*\b",
    re.IGNORECASE,
)
_DOLLARS = re.compile(r"\b(?:US|AU|CA|NZ|HK)(?=\$)")


@dataclass(frozen=True)
class Number:
    """A number as it stands in a text, and its value."""

    text: str
    value: float
    spelt: bool = False


@dataclass(frozen=True)
class Date:
    """A date as it stands in a text; a part it does not name is None."""

    text: str
    year: int | None
    month: int | None
    day: int | None

    def within(self, other: Date) -> bool:
        """Whether another date says all that this one says."""
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(ours is None or ours == theirs for ours, theirs in pairs)

    @property
    def parts(self) -> list[int]:
        return [one for one in (self.year, self.day) if one is not None]


def dates_in(text: str) -> tuple[list[Date], str]:
    """The dates in a text, and the text without them. A date in figures alone is read both ways round."""
    found: list[Date] = []
    text = _DOLLARS.sub(" ", text)

    def take(match: re.Match[str]) -> str:
        parts = {key: value for key, value in match.groupdict().items() if value}
        month = parts.get("m", "")
        number = MONTHS.get(month.lower(), int(month) if month.isdigit() else None) if month else None
        day, year = (int(parts[key]) if key in parts else None for key in ("d", "y"))
        found.append(Date(match[0].strip(" ,."), year, number, day))
        return " "

    def both(match: re.Match[str]) -> str:
        a, b, year = int(match["a"]), int(match["b"]), int(match["y"])
        found.extend(Date(match[0], year, month, day) for month, day in ((a, b), (b, a)) if month <= 12)
        return " "

    for pattern in _DATES:
        text = pattern.sub(take, text)
    return found, _SLASHED.sub(both, text)


def numbers_in(text: str) -> Iterator[Number]:
    """The numbers in a text, in figures and in words."""
    for match in _DIGITS.finditer(text):
        value = float(match["n"].replace(",", "").replace(" ", ""))
        scale = match["s"]
        if scale == "m" and text[max(0, match.start() - 1) : match.start()] not in ("$", "€", "£"):
            scale = None  # metres
        yield Number(match[0].strip(), value * (_SCALE[scale.lower()] if scale else 1))
    for match in _SPELT.finditer(text):
        words = re.split(r"[ -]+(?:and[ -]+)?", match[0].lower())
        yield Number(match[0], _spelt(words), spelt=True)


def _spelt(words: list[str]) -> float:
    total = part = 0.0
    for word in words:
        if word in WORDS:
            part += WORDS[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALE:
            total, part = total + (part or 1) * _SCALE[word], 0.0
    return total + part
