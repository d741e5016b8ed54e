"""Grounded: what an answer names, counts and quotes comes from the question or from what was observed. No model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from langgraph_reflexion.checks.check import Check, text_of
from langgraph_reflexion.checks.grounding.names import SETTING, Known, names_in, plainly, quotations_in, strange_in
from langgraph_reflexion.checks.grounding.numbers import Date, dates_in, numbers_in
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.calling import in_thread
from langgraph_reflexion.schemas import Run, Verdict
from langgraph_reflexion.text.words import PLAIN, STOP, listed

SHORT = 6
"""Words of an answer that is one claim as a whole."""
LONGEST, LONGEST_SOURCE = 20_000, 500_000
"""Characters of an answer, and of what was observed, that are looked at."""
AT_ONCE = 20_000
"""Characters that are read in no time."""

_UNITS = listed(
    """
    metre metres meter meters kilometre kilometres kilometer kilometers mile miles foot feet inch inches yard yards
    year years old month months week weeks day days hour hours minute minutes second seconds dollar dollars euro euros
    pound pounds percent people inhabitants kilograms kilogram kilos tons tonnes litres liters degrees hectares acres
    century centuries decade decades hundred thousand million billion same both neither high tall long wide deep away
    apart
    """
)
_COUNTS = re.compile(
    r"\bhow (?:many|much|old|long|far|tall|high|often|big|large)\b|\b(?:total|sum|difference|average|mean|combined|"
    r"altogether|together|number of|years? (?:between|apart|older|younger|later|earlier|after|before)|older|younger|"
    r"plus|minus|times|percent(?:age)?|ratio|calculate|compute)\b|多少|几|一共|总共|相差",
    re.IGNORECASE,
)
_ASKS_TIME = re.compile(
    r"^\W*(?:when\b|(?:(?:in|on|since|until|by|from)\s+)?(?:what|which) (?:year|date|day|month|decade|century)\b)",
    re.IGNORECASE,
)
_ASKS_NUMBER = re.compile(r"^\W*how (?:many|old|tall)\b", re.IGNORECASE)
_NO_NUMBER = re.compile(r"\b(?:no|none|never|all|both|same|many)\b|\d", re.IGNORECASE)
_NO_TIME = re.compile(r"\d|centur|ancient|never|today", re.IGNORECASE)
_MARKERS = re.compile(
    r"^\s*\d+[.)]\s+|\[\d+\]|\b(?:observation|step|source|passage|paragraph|document|result)s?\s*#?\d+\b|[*_`#]+",
    re.IGNORECASE | re.MULTILINE,
)
"""Marks of lists, citations and emphasis, which claim nothing."""
_FRAME = re.compile(
    r"^.*\banswers?\b(?:\s+to\b[^.:!?\n]{0,200})?\s*(?:is\b(?:\s+that\b)?:?|was\b|[:=])\s*",
    re.IGNORECASE | re.DOTALL,
)
"""What stands before the answer itself: "Based on the search results, the answer is"."""
_AFTER = re.compile(r"(?<=[.!\n])\s+(?:let me know|i hope|feel free|please|if you)\b.*$", re.IGNORECASE | re.DOTALL)
_SAID_BY = re.compile(
    r"\b(?:according to|based on|as per|from) (?:the )?"
    r"(?:wikipedia|search|observations?|sources?|texts?|context|passages?|articles?)\b[^,.\n]*,?",
    re.IGNORECASE,
)
_SPAN = re.compile(r"\b(?:(?P<century>\d{1,2})(?:st|nd|rd|th)[ -]century|(?P<decade>\d{3}0)['’]?s)\b", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:about|around|approximately|approx|roughly|nearly|almost|over|more than|circa|some)\b|~|≈|约", re.IGNORECASE
)
_GIVES_UP = re.compile(
    r"^\W*(?:i (?:do not|don't|cannot|can't|could not|couldn't|am unable to|was unable to)\b.{0,60}\b(?:know|find|"
    r"determine|answer|say|tell|locate|verify)|(?:unknown|not (?:found|known|available|specified|mentioned|stated|"
    r"enough information)|insufficient information|n/?a|none of the above|unable to determine|"
    r"no (?:answer|information))\b)|^\W*(?:我)?(?:不知道|无法|未找到|没有找到)",
    re.IGNORECASE,
)


def grounded(share: float = 0.6) -> Check:
    """Names, numbers, dates and quotations of the answer must occur in the question or the observations.

    They may be written otherwise: 1.2 million for 1,200,000, 7 March 1876 for 1876-03-07, initials for a name,
    `American` for the United States. A number that the question asks to compute may follow from those observed. `share`
    is how many words of a name of three or more must be known. What does not occur is named. An answer that gives up,
    or gives no time or count where one is asked for, is refused too.
    """
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ValueError(f"`share` is a number above 0 and at most 1, got {share!r}")

    def judging(answer: Any, run: Run) -> Waits[Verdict]:
        text = _ends(text_of(answer), LONGEST)
        source = _that_bears_on(text, "\n".join([run.task, *run.observations]))

        def issues() -> list[str]:
            return list(dict.fromkeys(_complaints(text, run.task, source, share)))

        # Much text takes a second, in which the event loop would stand still.
        found = (yield in_thread(issues)) if len(source) > AT_ONCE else issues()
        return Verdict(passed=not found, issues=found)

    return Check("grounded", judging)


def _ends(text: str, most: int) -> str:
    """The text, or its two ends; a word on what is missing would be a claim of its own here."""
    return text if len(text) <= most else f"{text[: most * 3 // 4]}\n{text[-(most // 4) :]}"


def _that_bears_on(answer: str, source: str) -> str:
    """The source; of one that is too long what shares a word with the answer, or holds numbers as it does."""
    if len(source) <= LONGEST_SOURCE:
        return source
    wanted = set(re.findall(r"\w{2,}", answer.casefold()))
    counts = re.search(r"\d", answer) is not None
    kept = [
        part
        for part in re.split(r"(?<=[.!?。\n])", source)
        if not wanted.isdisjoint(re.findall(r"\w{2,}", part.casefold())) or (counts and re.search(r"\d", part))
    ]
    return _ends("".join(dict.fromkeys(kept)), LONGEST_SOURCE)


def _complaints(answer: str, question: str, source: str, share: float) -> Iterator[str]:
    """A sentence for each thing in the answer that comes from nowhere."""
    if _GIVES_UP.search(answer):
        yield "the answer gives up: it names nothing that was found"
        return
    known = Known(source)
    answer = _SAID_BY.sub(" ", _AFTER.sub("", _MARKERS.sub(" ", answer)))
    core = _FRAME.sub("", answer).strip() or answer
    short = len(core.split()) <= SHORT
    quotes, rest = quotations_in(answer)
    for quote in quotes:
        if not all(known.says(part) for part in re.split(r"\.{3}|…", quote)):
            yield f'"{quote}" is quoted, and stands neither in the question nor in what was observed'
    dates, rest = dates_in(rest)
    seen, beside = dates_in(source)
    values = {one.value for one in numbers_in(beside)} | {float(part) for one in seen for part in one.parts}
    for text in dict.fromkeys(date.text for date in dates):  # figures alone are read both ways round
        if not any(_is_dated(date, seen, values) for date in dates if date.text == text):
            yield _unseen(text)
    rest = _SPAN.sub(lambda found: " " if _spans(found, values) else found[0], rest)
    reckoning = _Reckoning(values, question, answer)
    for number in numbers_in(rest):
        # "First I looked it up", "one of the two": no claims of their own
        claims = not number.spelt or number.value > 12 or (short and number.text in core)
        if claims and not reckoning.knows(number.value):
            yield _unseen(number.text)
    before, strangers = False, list[str]()
    for name, adds in names_in(rest):
        before, after = known.knows_name(name, share), before
        if not before and not (adds and after):  # "Paris, France": where a known place lies is no claim of its own
            strangers.append(name)
            yield _unseen(name)
    counted = bool(dates_in(core)[0]) or any(True for _ in numbers_in(core))
    if short and not quotes and not strangers:
        yield from _words(dates_in(core)[1], known, ends_in_a_word=not counted)
    if not counted and _ASKS_TIME.search(question) and not _NO_TIME.search(core):
        yield "the question asks for a time, and the answer names none"
    if not counted and _ASKS_NUMBER.search(question) and not _NO_NUMBER.search(core):
        yield "the question asks for a number, and the answer gives none"


def _unseen(what: str) -> str:
    return f"{what} stands neither in the question nor in what was observed"


def _is_dated(date: Date, seen: list[Date], values: set[float]) -> bool:
    """Whether a date is known; one whose parts stand apart from each other is, unless a known one rivals it."""
    if any(date.within(one) for one in seen):
        return True
    rivals = [one for one in seen if date.month and one.month and (one.year == date.year or one.day == date.day)]
    return not rivals and all(float(part) in values for part in date.parts)


class _Reckoning:
    """The numbers that are known, and what may be made of them."""

    def __init__(self, values: set[float], question: str, answer: str) -> None:
        self.values = {round(one, 6) for one in values}
        self.near = [one for one in values if one > 12 and not 1000 < one < 2100] if _ABOUT.search(answer) else []
        self.in_millions = re.search(r"\bmillions?\b", question) is not None
        self.counts = _COUNTS.search(question) is not None

    def knows(self, value: float) -> bool:
        """Whether a number is known, in thousands or millions too, or roughly; where it is asked for, computed."""
        if self._has(value) or (self.in_millions and self._has(value * 1e6)):
            return True
        if len(f"{value:g}".replace(".", "").strip("0")) >= 3 and (self._has(value * 1000) or self._has(value / 1000)):
            return True
        if any(abs(value - one) <= 0.05 * one for one in self.near):
            return True
        return self.counts and self._follows(value)

    def _has(self, value: float) -> bool:
        return round(value, 6) in self.values

    def _follows(self, value: float) -> bool:
        """Whether it can be had from two numbers that are known, sums all of them, or counts a few things."""
        if (value == int(value) and 0 < value <= 5) or abs(sum(self.values) - value) < 1e-6:
            return True
        return any(
            self._has(value - one)
            or self._has(value + one)
            or self._has(one - value)
            or self._has(2 * value - one)
            or self._has(value * one)
            or (one and self._has(value / one))
            or (value and (self._has(100 * one / value) or self._has(one / value)))
            for one in self.values
        )


def _spans(found: re.Match[str], years: set[float]) -> bool:
    """Whether a known year lies in this century or decade."""
    if found["decade"]:
        return any(0 <= year - int(found["decade"]) < 10 for year in years)
    return any((year - 1) // 100 + 1 == int(found["century"]) for year in years if year > 100)


def _words(text: str, known: Known, *, ends_in_a_word: bool) -> Iterator[str]:
    """The ordinary words of a short answer: one that stands nowhere, in no form, is named."""
    if (strange := strange_in(text, known.text)) is not None:
        yield _unseen(strange)
        return
    words = [one for one in plainly(text).split() if _says_something(one)]
    unknown = [one for one in words if not known.knows_word(one)]
    if (
        unknown
        and not known.says(text)
        and (len(unknown) * 2 > len(words) or (ends_in_a_word and unknown[-1] == words[-1]))
    ):
        shown = next((one for one in text.split() if plainly(one) == unknown[-1]), unknown[-1])
        yield _unseen(shown.strip(".,;:!?"))


def _says_something(word: str) -> bool:
    """Whether a word of an answer is a claim; small words, units and numbers are none."""
    if len(word) < 3 or not word.isascii() or any(one.isdigit() for one in word):
        return False
    return word not in STOP | PLAIN | SETTING | _UNITS and not any(True for _ in numbers_in(word))
