"""Provenance: find text that was copied from a tool, file, page or error.

Foreign texts are compared sentence by sentence and clause by clause: a text copies one when most of its words stand
near each other there too. So a lead-in, fillers, left-out words, other sentence breaks and another order of the pieces
do not hide a copy. Both sides are decoded first. A paraphrase or a translation is not found: that takes a `guard` or a
person (docs/memory.md has the figures).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from langgraph_reflexion.memory.suspicion import decoded, readings, visible
from langgraph_reflexion.text.tokens import PARTICLES, STOP_WORDS, stem

COVERED = 0.6
"""Share of a foreign sentence, by the weight of its words, that stands together in a copy of it. This and the numbers
below were fitted on the tuning half of benchmarks/redteam.py; of the other half the totals were seen."""

CONTENT = 2
"""Content words that a copy inside another sentence has at least."""

LEAST = 3.2
"""What such a copy weighs at least: less is shared by an error and its remedy."""

RUN = 6.0
"""Weight of a stretch of one foreign sentence that is a copy however long the sentence is."""

EQUAL = 0.7
"""Share of a foreign sentence's words, in any order, in a sentence that says little else: `The date must be ISO`."""

BESIDE = 1.35
"""How much heavier than that sentence the copy of it may be."""

WHOLE = 0.95
"""The share of words from which a sentence that says as much again is still a copy."""

FRAMED = 2.0
"""How much heavier the copy of a whole sentence may be."""

SHORTEST = 1.3
"""Weight of the shortest sentence that counts as copied: a content word and a stop word."""

STOP_WEIGHT = 0.3
"""Weight of a stop word relative to a content word. A character of a script without spaces counts half a word."""

REACH = 3
"""Words between which two still count as neighbours: room for a filler after each third word, or a word left out."""

MAX_FOREIGN = 200_000
"""Characters of foreign text that are compared, the newest first: bounds the time at the end of a long run."""

_SENTENCE = re.compile(r"[.!?](?=\s|$)|[。！？\n|{}\[\]<>]")
_CLAUSE = re.compile(r"[,;:()\"“”«»„]|\s[-–—]+\s|[，；：、（）「」『』]")
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

COPIED = "it is copied from what a tool said"

_Unit = tuple[float, tuple[str, ...]]


class _Index(NamedTuple):
    """Sentences and clauses, each with its weight, and the places of those in which a word stands."""

    units: list[_Unit]
    places: dict[str, list[int]]


class Foreign:
    """What tools, files, pages and errors said in a run, read once to be compared with many texts.

    What the user said too, in `own`, is not foreign.
    """

    def __init__(self, texts: Iterable[str], own: Iterable[str] = ()) -> None:
        self._stems: dict[str, str] = {}  # of a long page most words occur often
        self._weights: dict[str, float] = {}
        self._foreign = self._index(texts)
        self._own = self._index(own)

    def copied(self, text: str) -> str | None:
        """Why a text is a copy: the foreign sentence in it, or `None`."""
        if not self._foreign.units or not text.strip():
            return None
        plain = visible(text)
        disguised = (*decoded(plain), *readings(plain), *readings(text))
        return COPIED if any(map(self._is_copy, dict.fromkeys((plain, *map(visible, disguised))))) else None

    def _is_copy(self, text: str) -> bool:
        words = self._words(text)
        parts = [words, *(self._words(part) for sentence in _SENTENCE.split(text) for part in _clauses(sentence))]
        pieces: set[int] = set()
        for weight, unit in self._near(words, self._foreign):
            run = _shared_run(words, unit)
            if self._holds([words[place] for place in run], weight) or any(
                self._equals(part, weight, unit) for part in parts
            ):
                if not self._is_own(weight, unit):
                    return True
            elif self._weight(words[place] for place in run) >= EQUAL * weight and not self._is_own(weight, unit):
                pieces.update(run)
        return self._weight(words[place] for place in pieces) >= max(LEAST, EQUAL * self._weight(words))

    def _index(self, texts: Iterable[str]) -> _Index:
        index = _Index([], defaultdict(list))
        for unit in dict.fromkeys(tuple(self._words(text)) for text in _units(texts)):
            if (weight := self._weight(unit)) >= SHORTEST:
                for word in set(unit):
                    index.places[word].append(len(index.units))
                index.units.append((weight, unit))
        return index

    def _near(self, words: Sequence[str], index: _Index) -> Iterator[_Unit]:
        """The sentences and clauses that share enough words with a text to be looked at."""
        shared: dict[int, float] = defaultdict(float)
        for word in set(words):
            weight = self._weights[word]
            for place in index.places.get(word, ()):
                shared[place] += weight
        for place, found in shared.items():
            if found >= min(LEAST / 2, COVERED * index.units[place][0]):  # a word may stand there twice
                yield index.units[place]

    def _holds(self, run: Sequence[str], weight: float) -> bool:
        """Whether a stretch of a text holds most of a foreign sentence's words, and enough of them."""
        content = sum(self._weights[word] for word in run if self._weights[word] > STOP_WEIGHT)
        return content >= CONTENT and self._weight(run) >= max(LEAST, min(RUN, COVERED * weight))

    def _equals(self, part: Sequence[str], weight: float, unit: Sequence[str]) -> bool:
        """Whether a clause is a foreign sentence and says little else, or is all of one in a short frame."""
        heavier = self._weight(part) / weight
        if heavier > FRAMED:
            return False
        found = self._weight(word for word in unit if word in part)
        return found >= (EQUAL if heavier <= BESIDE else WHOLE) * weight

    def _is_own(self, weight: float, unit: Sequence[str]) -> bool:
        """Whether a foreign sentence is also in the user's own texts."""
        return any(
            self._holds([own[place] for place in _shared_run(own, unit)], weight) or self._equals(own, weight, unit)
            for _, own in self._near(unit, self._own)
        )

    def _words(self, text: str) -> list[str]:
        words = _WORD.findall(text.casefold())
        for word in words:
            if word not in self._stems:
                self._stems[word] = found = word if word in STOP_WORDS else stem(word)
                is_stop = found in STOP_WORDS or found in PARTICLES
                self._weights[found] = STOP_WEIGHT if is_stop else 1.0 if len(found) > 1 or found.isascii() else 0.5
        return [self._stems[word] for word in words]

    def _weight(self, words: Iterable[str]) -> float:
        return sum(map(self._weights.__getitem__, words))


def as_foreign(texts: Foreign | Iterable[str], own: Iterable[str] = ()) -> Foreign:
    """Foreign texts, indexed if they are not yet."""
    return texts if isinstance(texts, Foreign) else Foreign(texts, own)


def _shared_run(text: Sequence[str], unit: Sequence[str]) -> list[int]:
    """The places of the longest stretch of a text in which words are neighbours as in a foreign sentence."""
    wanted = set(text)
    places = [(place, word) for place, word in enumerate(unit) if word in wanted]
    neighbours = {
        (word, other)
        for i, (place, word) in enumerate(places)
        for at, other in places[i + 1 : i + 1 + REACH]
        if at - place <= REACH
    }
    linked: set[int] = set()
    for place, word in enumerate(text):
        for at in range(place + 1, min(place + 1 + REACH, len(text))):
            if (word, text[at]) in neighbours:
                linked |= {place, at}
    runs: list[list[int]] = [[]]
    for before, place in pairwise([-1, *sorted(linked)]):
        if place - before > 2 * REACH:
            runs.append([])
        runs[-1].append(place)
    return max(runs, key=len)


def _units(texts: Iterable[str]) -> Iterator[str]:
    """Each sentence of these texts, decoded too, and each of its clauses."""
    left = MAX_FOREIGN
    for given in texts:
        text = visible(given[:left])[:MAX_FOREIGN]
        left -= len(text)
        for version in (text, *map(visible, decoded(text))):
            for sentence in _SENTENCE.split(version):
                yield from _clauses(sentence)
        if left <= 0:
            return


def _clauses(sentence: str) -> list[str]:
    """A sentence and, where it has several, its clauses."""
    clauses = [clause for clause in _CLAUSE.split(sentence) if clause.strip()]
    return [sentence, *clauses] if len(clauses) > 1 else clauses
