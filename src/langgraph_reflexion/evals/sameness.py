"""Sameness: the right answer in another spelling, which a fair reader would not call wrong.

Beyond `exact`, an answer may be a time without its zero, a number with a unit that the task names, or a yes with a word
more. Nothing here reads a number out of a sentence: 80 is not found in "80 or 90".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

from langgraph_reflexion.checks.plain import normalize_answer as folded
from langgraph_reflexion.text.words import listed

_TIME = re.compile(r"(?:at )?(\d{1,2}):([0-5]\d)(?::00)?(?: ?(?:(a|p)\.?m\b|h(?:ours)?\b))?\.?")
_NUMBER = re.compile(
    r"([^\d.,+-]*?) ?([+-]?(?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d+)?) ?(?:(?:st|nd|rd|th)\b)? ?([^\d]*?)[.!]?"
)
_PLAIN = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_UNITS = {
    "€": "euro", "eur": "euro", "$": "dollar", "usd": "dollar", "£": "pound", "gbp": "pound", "m": "metre",
    "km": "kilometre", "km/h": "kilometre", "kph": "kilometre", "l": "litre", "min": "minute", "yrs": "year",
}  # fmt: skip
_MOST_WORDS = 4
_HEDGES = listed("not no or less more than under over about nearly least most below above")
"""Words that make another number of it, whatever the task says."""


def same(said: str, expected: str, task: str) -> bool:
    """Whether an answer is the expected one; what stands below its first line does not count against it."""
    if folded(said) == folded(expected):
        return True
    first = next((line for line in said.splitlines() if line.strip()), "")
    plain, wanted = _plain(first), _plain(expected)
    if folded(first) == folded(expected) or ((when := _minutes(wanted)) is not None and _minutes(plain) == when):
        return True
    if wanted in ("yes", "no"):
        return re.match(rf"{wanted}\s*[,.;:!-]", plain) is not None
    if _PLAIN.fullmatch(wanted) is None or (found := _NUMBER.fullmatch(plain)) is None:
        return False
    around = [*found[1].split(), *found[3].split()]
    known = set(_words(_plain(task)))
    return (
        len(around) <= _MOST_WORDS
        and _HEDGES.isdisjoint(around)
        and all(set(_words(_UNITS.get(word, word))) <= known for word in around)
        and _value(found[2]) == _value(wanted)
    )


def _plain(text: str) -> str:
    even = unicodedata.normalize("NFKC", text).casefold().replace("−", "-").replace("–", "-")
    return " ".join(re.sub(r"[*`_\"“”]", "", even).split())


def _minutes(text: str) -> int | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, half = int(found[1]), found[3]
    if half is not None:
        hour = hour % 12 + (12 if half == "p" else 0)
    return 60 * hour + int(found[2])


def _value(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace(" ", ""))


def _words(text: str) -> Iterator[str]:
    """Words, one and many alike: metres as metre."""
    yield from (word.rstrip("s") or word for word in re.findall(r"[^\W\d_]+", text))
