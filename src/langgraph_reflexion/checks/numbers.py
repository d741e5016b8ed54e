"""Find numbers and dates in text and give their values, however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MONTH_NAMES = "january february march april may june july august september october november december"
MONTHS = {form: i for i, name in enumerate(_MONTH_NAMES.split(), 1) for form in (name, name[:3])} | {"sept": 9}
_CARDINALS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_ORDINALS = """
    zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORD_VALUES = {word: i for words in (_CARDINALS, _ORDINALS) for i, word in enumerate(words.split())}
_WORD_VALUES |= {word: 10 * i for i, word in enumerate(_TENS.split(), 2)} | {"dozen": 12, "once": 1, "twice": 2}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9}
_SCALES |= {"trillion": 1e12, "万": 1e4, "亿": 1e8}

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
_DIGITS_DATE = re.compile(r"\b(?P<a>\d{1,2})[/.](?P<b>\d{1,2})[/.](?P<y>\d{4})\b")
_DIGITS = re.compile(
    r"(?<![\w.,])[-−]?(?P<n>\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:\s?(?P<s>hundred|thousand|million|billion|trillion|bn|mn|[kKmM]\b|万|亿))?(?:st|nd|rd|th|s)?(?!\d)",
)
_WORD = "|".join(sorted(_WORD_VALUES, key=len, reverse=True))
_IN_WORDS = re.compile(
    rf"\b(?:{_WORD})(?:(?:[ -]| and )(?:{_WORD}|hundred|thousand|million|billion))*\b",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"\b(?:US|AU|CA|NZ|HK)(?=\$)")


@dataclass(frozen=True)
class Number:
    """A number as it is written, and its value."""

    text: str
    value: float
    in_words: bool = False


@dataclass(frozen=True)
class Date:
    """A date as it is written; a part that is not given is None."""

    text: str
    year: int | None
    month: int | None
    day: int | None

    def is_part_of(self, other: Date) -> bool:
        """Whether the other date says everything that this one says."""
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(ours is None or ours == theirs for ours, theirs in pairs)

    @property
    def numbers(self) -> list[int]:
        """Year and day, where given."""
        return [part for part in (self.year, self.day) if part is not None]


def dates_in(text: str) -> tuple[list[Date], str]:
    """Return the dates in a text, and the text without them. 02/10/1763 is read as both possible dates."""
    found: list[Date] = []
    text = _CURRENCY.sub(" ", text)

    def take(match: re.Match[str]) -> str:
        parts = {key: value for key, value in match.groupdict().items() if value}
        month = parts.get("m", "")
        number = MONTHS.get(month.lower(), int(month) if month.isdigit() else None) if month else None
        day, year = (int(parts[key]) if key in parts else None for key in ("d", "y"))
        found.append(Date(match[0].strip(" ,."), year, number, day))
        return " "

    def take_both(match: re.Match[str]) -> str:
        a, b, year = int(match["a"]), int(match["b"]), int(match["y"])
        found.extend(Date(match[0], year, month, day) for month, day in ((a, b), (b, a)) if month <= 12)
        return " "

    for pattern in _DATES:
        text = pattern.sub(take, text)
    return found, _DIGITS_DATE.sub(take_both, text)


def numbers_in(text: str) -> Iterator[Number]:
    """Return the numbers in a text, in digits and in words."""
    for match in _DIGITS.finditer(text):
        value = float(match["n"].replace(",", "").replace(" ", ""))
        scale = match["s"]
        if scale == "m" and text[max(0, match.start() - 1) : match.start()] not in ("$", "€", "£"):
            scale = None  # metres
        yield Number(match[0].strip(), value * (_SCALES[scale.lower()] if scale else 1))
    for match in _IN_WORDS.finditer(text):
        words = re.split(r"[ -]+(?:and[ -]+)?", match[0].lower())
        yield Number(match[0], _value_of(words), in_words=True)


def _value_of(words: list[str]) -> float:
    total = part = 0.0
    for word in words:
        if word in _WORD_VALUES:
            part += _WORD_VALUES[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALES:
            total, part = total + (part or 1) * _SCALES[word], 0.0
    return total + part
