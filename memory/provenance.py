"""Provenance: find text that was copied from a tool, file, page or error.

Foreign texts are split into sentences and clauses, and each is compared with a lesson. A lesson copies one if most of
its words stand near each other in the lesson too. So a lead-in, fillers, missing words, other sentence breaks and
another order of the pieces do not hide a copy. Both sides are decoded first. A paraphrase or a translation is not
found: only a `guard` or a person can find it (docs/memory.md has the figures).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from langgraph_reflexion.memory.suspicion import decoded, readings, unescaped, visible
from langgraph_reflexion.text.tokens import MARKS, PARTICLES, STOP_WORDS, UNSPACED, stem

COVERED = 0.6
"""Share of a foreign sentence's words, by weight, that stand together in a copy of it. This and the numbers below were
fitted on the tuning half of benchmarks/redteam.py. The totals of the other half were seen."""

MIN_COPY = 3.2
"""Minimum weight of such a copy. Less is shared by an error and its remedy."""

LONG_COPY = 6.0
"""Weight from which words that stand together are a copy, however long the foreign sentence is."""

EQUAL = 0.7
"""Share of a foreign sentence's words, in any order, in a clause that is a copy of it (`The date must be ISO`)."""

EQUAL_LENGTH = 1.35
"""How much heavier such a clause may be than the foreign sentence."""

FRAMED = 0.95
"""Share of the words in a heavier clause that is a copy with a frame around it."""

FRAMED_LENGTH = 2.0
"""How much heavier such a clause may be than the foreign sentence."""

MIN_SENTENCE = 1.3
"""Minimum weight of a foreign sentence that is compared: a content word and a stop word."""

STOP_WEIGHT = 0.3
"""Weight of a stop word. A content word weighs 1, a character of a script without spaces 0.5."""

REACH = 3
"""Words between which two still count as neighbours: a filler after each third word, or a missing word."""

MAX_FOREIGN = 200_000
"""Characters of foreign text that are compared, the newest first: bounds the time at the end of a long run."""

SHORT = 4
"""Maximum words of a sentence that is also compared together with the short ones beside it. Of
sentences that a page cuts into threes, 0.5 % pass in place of 41 %, and no more honest lessons are quarantined."""

STRETCH = 24
"""Words that are compared across the lines, cells and tags of a page. Of 2,207 honest lessons, each beside
six long tables, logs, documents and files of code, 3 more are quarantined; 149 more if whole tables are compared."""

COPIED = "it is copied from what a tool said"

_ENDS, _EDGES = r"[.!?](?=\s|$)|[。！？]", r"[\n|{}\[\]<>]"
_END = re.compile(_ENDS)
_SENTENCE = re.compile(f"{_ENDS}|{_EDGES}")
_BREAK = re.compile(rf"<[^<>\n]*>|{_EDGES}")
"""Tags, and the ends of lines and cells."""

_CLAUSE = re.compile(r"[,;:()\"“”«»„]|\s[-–—]+\s|[，；：、（）「」『』]")
_WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W_{UNSPACED}]|[{MARKS}])+")
_INLINE = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|tt|u|var|wbr)"
    r"(?:\s[^<>]*)?>"
    r"|\[([^\[\]\n]*)\]\([^()\s]*\)|\[\d{1,3}\]",
    re.IGNORECASE,
)
"""Marks within a sentence: HTML's tags (all others end one), links in Markdown, whose words stay, and footnotes."""

_STOPS = STOP_WORDS | PARTICLES


class _Unit(NamedTuple):
    """A sentence or a clause as words, and what they weigh."""

    words: tuple[str, ...]
    weight: float


class _Index(NamedTuple):
    """Sentences and clauses, and for each word the numbers of those that hold it."""

    units: list[_Unit]
    holding: dict[str, list[int]]


class _Text(NamedTuple):
    """A text that foreign sentences are looked for in: its words, where each stands, and its clauses.

    A clause is a set of words, and what the clause weighs.
    """

    words: Sequence[str]
    places: dict[str, list[int]]
    clauses: list[tuple[set[str], float]]


class Foreign:
    """The text of tools, files, pages and errors in a run, indexed once to be compared with many texts.

    `own` is the user's text. A sentence that is in both is not foreign.
    """

    def __init__(self, texts: Iterable[str], own: Iterable[str] = ()) -> None:
        self._stems: dict[str, str] = {}  # most words of a long page occur often
        self._foreign = self._index(texts)
        self._own = self._index(own)

    def copied(self, text: str) -> str | None:
        """Why a text is a copy, or `None`."""
        if not self._foreign.units or not text.strip():
            return None
        plain = visible(text)
        disguised = (*decoded(plain), *readings(plain), *readings(text))
        return COPIED if any(map(self._is_copy, dict.fromkeys((plain, *map(visible, disguised))))) else None

    def _is_copy(self, text: str) -> bool:
        parts = [self._words(part) for sentence in _SENTENCE.split(text) for part in _clauses(sentence)]
        compared = _as_text(self._words(text), parts)
        return any(
            _holds(compared, unit)
            and not any(_holds(_as_text(own.words), unit) for own in _near(unit.words, self._own))
            for unit in _near(compared.words, self._foreign)
        )

    def _index(self, texts: Iterable[str]) -> _Index:
        index = _Index([], defaultdict(list))
        for words in dict.fromkeys(map(self._words, _units(texts))):
            if (weight := _weight(words)) >= MIN_SENTENCE:
                for word in set(words):
                    index.holding[word].append(len(index.units))
                index.units.append(_Unit(words, weight))
        return index

    def _words(self, text: str) -> tuple[str, ...]:
        words = _WORD.findall(text.casefold())
        for word in words:
            if word not in self._stems:
                self._stems[word] = word if word in STOP_WORDS else stem(word)
        return tuple(self._stems[word] for word in words)


def _weight(words: Iterable[str]) -> float:
    return sum(STOP_WEIGHT if word in _STOPS else 1.0 if len(word) > 1 or word.isascii() else 0.5 for word in words)


def _near(words: Sequence[str], index: _Index) -> Iterator[_Unit]:
    """The sentences and clauses that share enough words with a text to be compared with it."""
    shared: dict[int, float] = defaultdict(float)
    for word in set(words):
        weight = _weight([word])
        for number in index.holding.get(word, ()):
            shared[number] += weight
    for number, found in shared.items():
        unit = index.units[number]
        if found >= MIN_COPY / 2 or found >= COVERED * unit.weight:  # a word may occur twice
            yield unit


def _as_text(words: tuple[str, ...], parts: Iterable[tuple[str, ...]] = ()) -> _Text:
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        places[word].append(place)
    return _Text(words, places, [(set(part), _weight(part)) for part in dict.fromkeys((words, *parts))])


def _holds(text: _Text, unit: _Unit) -> bool:
    """Whether most of a foreign sentence stands together in a text, or one of its clauses says only that."""
    if any(_is_equal(clause, weight, unit) for clause, weight in text.clauses):
        return True
    return _weight(_shared_run(text, unit.words)) >= max(MIN_COPY, min(LONG_COPY, COVERED * unit.weight))


def _is_equal(clause: set[str], weight: float, unit: _Unit) -> bool:
    """Whether a clause has most words of a foreign sentence, and few others."""
    if weight > FRAMED_LENGTH * unit.weight:
        return False
    share = EQUAL if weight <= EQUAL_LENGTH * unit.weight else FRAMED
    return _weight(word for word in unit.words if word in clause) >= share * unit.weight


def _shared_run(text: _Text, unit: Sequence[str]) -> list[str]:
    """The words in the longest stretch of a text that are neighbours as in a foreign sentence."""
    shared = [(place, word) for place, word in enumerate(unit) if word in text.places]
    neighbours = {
        (word, other)
        for i, (place, word) in enumerate(shared)
        for at, other in shared[i + 1 : i + 1 + REACH]
        if at - place <= REACH
    }
    found = sorted(place for word in {word for _, word in shared} for place in text.places[word])
    linked: set[int] = set()
    for i, place in enumerate(found):
        for at in found[i + 1 : i + 1 + REACH]:
            if at - place <= REACH and (text.words[place], text.words[at]) in neighbours:
                linked |= {place, at}
    runs: list[list[int]] = [[]]
    for before, place in pairwise([-1, *sorted(linked)]):
        if place - before > 2 * REACH:
            runs.append([])
        runs[-1].append(place)
    return [text.words[place] for place in max(runs, key=len)]


def _units(texts: Iterable[str]) -> Iterator[str]:
    """Each sentence of these texts, decoded too, and each of its clauses."""
    left = MAX_FOREIGN
    for given in texts:
        text, plain = visible(given[:left])[:left], visible(unescaped(given[:left]))[:left]
        left -= len(text)
        for version in dict.fromkeys((text, plain, _INLINE.sub(r"\1", plain), *map(visible, decoded(text)))):
            for sentence in _SENTENCE.split(version):
                yield from _clauses(sentence)
        yield from _across_breaks(plain)
        if left <= 0:
            return


def _across_breaks(text: str) -> Iterator[str]:
    """Stretches of sentences without their breaks: a page may break one into pieces too short to be compared.

    Short sentences in a row count as a broken one. With stretches of full length, 9 % of such copies pass.
    """
    for is_short, found in groupby(_END.split(text), lambda sentence: len(_WORD.findall(sentence)) <= SHORT):
        length = STRETCH // 2 if is_short else STRETCH
        for sentence in [" ".join(found)] if is_short else filter(_BREAK.search, found):
            words = _BREAK.sub(" ", sentence).split()
            for start in range(0, max(len(words) - length // 2, 1), length // 2):
                yield " ".join(words[start : start + length])


def _clauses(sentence: str) -> list[str]:
    """A sentence and, where it has several, its clauses."""
    clauses = [clause for clause in _CLAUSE.split(sentence) if clause.strip()]
    return [sentence, *clauses] if len(clauses) > 1 else clauses
