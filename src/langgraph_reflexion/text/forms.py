"""Forms: the words of a vocabulary that a word of a query stands for.

It stands for itself, for words of its root, the less the more they differ for those that share its runs of three
letters, and for its kin. So misspellings, derived words, parts of identifiers and other names of a thing are found.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping

import numpy as np

from langgraph_reflexion.text.kin import KIN
from langgraph_reflexion.text.words import of_one_root, runs

ALIKE = 0.5
"""Share of common letter runs from which two words are taken for forms of one."""

NEAREST = 0.35
"""The same for a word that the vocabulary does not hold: it may be misspelt."""

OF_ITS_LETTERS = 0.6
"""What a word says in place of one of the same letters in another order: `receive` for `recieve`."""

OF_ONE_ROOT = 0.9
"""What a word says in place of another of its root: `inventor` for `invented`."""

OF_KIN = 0.5
"""What a word says in place of its kin: `parenthesis` for `bracket`."""

SHORTEST = 4
"""Letters of a word that may have been put in a wrong order."""

MOST = 8
REMEMBERED = 10_000
"""Words of queries whose forms are remembered until the vocabulary changes."""


class Forms:
    """A vocabulary by the letter runs of its words, which have numbers so that a run's words are counted at once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._sizes = array("q")
        self._free: list[int] = []
        self._with: dict[str, array[int]] = {}
        self._of_letters: dict[str, set[str]] = {}
        self._found: dict[str, Mapping[str, float]] = {}

    def add(self, word: str) -> None:
        """Know a word."""
        if word in self._numbers:
            return
        ours = runs(word)
        number = self._free.pop() if self._free else len(self._words)
        if number == len(self._words):
            self._words.append("")
            self._sizes.append(0)
        self._numbers[word], self._words[number], self._sizes[number] = number, word, len(ours)
        self._found = {}
        self._of_letters.setdefault(_letters(word), set()).add(word)
        for run in ours:
            self._with.setdefault(run, array("q")).append(number)

    def drop(self, word: str) -> None:
        """Forget it."""
        number = self._numbers.pop(word, None)
        if number is None:
            return
        self._free.append(number)
        self._found = {}
        self._of_letters[_letters(word)].discard(word)
        for run in runs(word):
            self._with[run].remove(number)

    def of(self, word: str) -> Mapping[str, float]:
        """The words that this one stands for, with how much they say in its place: 1 for itself."""
        known = self._found
        if word not in known:
            if len(known) >= REMEMBERED:
                known = self._found = {}
            known[word] = self._find(word)
        return known[word]

    def known(self, word: str) -> dict[str, float]:
        """The word itself and its kin, as far as the vocabulary holds them, however they are spelled."""
        found = {other: OF_KIN for other in KIN.get(word, ()) if other in self._numbers}
        return {**found, word: 1.0} if word in self._numbers else found

    def _find(self, word: str) -> dict[str, float]:
        found = self.known(word)
        for alike, other in heapq.nlargest(MOST, self._near(word)):
            found[other] = max(OF_ONE_ROOT if of_one_root(word, other) else alike**2, found.get(other, 0.0))
        if word not in self._numbers and len(word) >= SHORTEST:
            swapped = (other for other in self._of_letters.get(_letters(word), ()) if other[0] == word[0])
            found.update((other, max(OF_ITS_LETTERS, found.get(other, 0.0))) for other in sorted(swapped))
        return found

    def _near(self, word: str) -> list[tuple[float, str]]:
        """The words that share enough of its letter runs, with what share."""
        ours = runs(word)
        holding = [np.frombuffer(held, np.int64) for run in ours if (held := self._with.get(run))]
        if not holding:
            return []
        shared = np.bincount(np.concatenate(holding))
        numbers = (shared > len(ours) // 3).nonzero()[0]
        alike = 2 * shared[numbers] / (len(ours) + np.frombuffer(self._sizes, np.int64)[numbers])
        enough = alike >= (ALIKE if word in self._numbers else NEAREST)
        near = zip(alike[enough].tolist(), (self._words[one] for one in numbers[enough].tolist()), strict=True)
        return [(share, other) for share, other in near if other != word]


def _letters(word: str) -> str:
    return "".join(sorted(word))
