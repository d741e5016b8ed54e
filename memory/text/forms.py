"""Forms: the words of a vocabulary that a word of a query stands for.

It stands for itself, for words of its root, the less the more they differ for those that share its runs of three
letters, and for its kin. So misspellings, derived words, parts of identifiers and other names of a thing are found.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping

from langgraph_reflexion.memory.text.kin import KIN
from langgraph_reflexion.memory.text.words import of_one_root, runs

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
    """A vocabulary by the letter runs of its words."""

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._with: dict[str, set[str]] = {}
        self._of_letters: dict[str, set[str]] = {}
        self._found: dict[str, Mapping[str, float]] = {}

    def add(self, word: str) -> None:
        """Know a word."""
        self._words.add(word)
        self._found = {}
        self._of_letters.setdefault(_letters(word), set()).add(word)
        for run in runs(word):
            self._with.setdefault(run, set()).add(word)

    def drop(self, word: str) -> None:
        """Forget it."""
        self._words.discard(word)
        self._found = {}
        self._of_letters[_letters(word)].discard(word)
        for run in runs(word):
            self._with[run].discard(word)

    def of(self, word: str) -> Mapping[str, float]:
        """The words that this one stands for, with how much they say in its place: 1 for itself."""
        known = self._found
        if word not in known:
            if len(known) >= REMEMBERED:
                known = self._found = {}
            known[word] = self._find(word)
        return known[word]

    def _find(self, word: str) -> dict[str, float]:
        found = {other: OF_KIN for other in KIN.get(word, ()) if other in self._words}
        ours = runs(word)
        shared = Counter(other for run in ours for other in self._with.get(run, ()) if other != word)
        near = [(2 * n / (len(ours) + len(runs(other))), other) for other, n in shared.items() if 3 * n > len(ours)]
        least = ALIKE if word in self._words else NEAREST
        for alike, other in heapq.nlargest(MOST, near):
            if alike >= least:
                found[other] = max(OF_ONE_ROOT if of_one_root(word, other) else alike**2, found.get(other, 0.0))
        if word in self._words:
            return {**found, word: 1.0}
        if len(word) >= SHORTEST:
            swapped = (other for other in self._of_letters.get(_letters(word), ()) if other[0] == word[0])
            found.update((other, max(OF_ITS_LETTERS, found.get(other, 0.0))) for other in sorted(swapped))
        return found


def _letters(word: str) -> str:
    return "".join(sorted(word))
