"""The lexicon: which items hold which words, and how well they answer a query by words alone.

A word of a query stands for itself and, the less the more they differ, for the words of the lexicon that share its runs
of three letters: so misspellings, derived words and parts of identifiers are found. What is found is weighed as BM25
does it, by how rare a word is and how much of a text it makes up.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.words import runs, tokens, weight

ALIKE = 0.5
"""Share of common letter runs from which two words are taken for forms of one."""

MOST_FORMS = 12
SATURATION, LENGTH = 1.2, 0.6


class Lexicon:
    """The words of each slot."""

    def __init__(self) -> None:
        self._slots: dict[str, array[int]] = {}
        self._counts: dict[str, array[float]] = {}
        self._runs: dict[str, list[str]] = {}
        self._lengths = array("f")

    def add(self, first: int, texts: Sequence[str]) -> None:
        """Take in the texts of the slots from `first` on."""
        for slot, text in enumerate(texts, first):
            counts = Counter(tokens(text))
            self._lengths.append(counts.total())
            for word, count in counts.items():
                slots = self._slots.get(word)
                if slots is None:
                    slots = self._slots[word] = array("i")
                    self._counts[word] = array("f")
                    for run in runs(word):
                        self._runs.setdefault(run, []).append(word)
                slots.append(slot)
                self._counts[word].append(count)

    def scores(self, query: str, alive: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """For each slot how well it ranks, and how much of the query it holds, from 0 to 1."""
        size = len(self._lengths)
        alive = alive[:size]
        ranks, held = np.zeros(size, np.float32), np.zeros(size, np.float32)
        asked = Counter(tokens(query))
        living = int(alive.sum())
        if not asked or not living:
            return ranks, held
        lengths = np.frombuffer(self._lengths, np.float32)
        mean = float(lengths[alive].mean()) or 1.0
        damping = SATURATION * (1 - LENGTH + LENGTH * lengths / mean)
        whole = 0.0
        for word, times in asked.items():
            best, share = np.zeros(size, np.float32), np.zeros(size, np.float32)
            rarity = rarest = math.log(1 + (living + 0.5) / 0.5)
            for form, alike in self._forms(word):
                slots = np.frombuffer(self._slots[form], np.int32)
                counts = np.frombuffer(self._counts[form], np.float32)
                live = alive[slots]
                slots, counts = slots[live], counts[live]
                if not len(slots):
                    continue
                rare = math.log(1 + (living - len(slots) + 0.5) / (len(slots) + 0.5))
                rarity = rare if form == word else min(rarity, rarest)
                gain = alike * weight(form) * rare * (SATURATION + 1) * counts / (counts + damping[slots])
                best[slots] = np.maximum(best[slots], gain)
                share[slots] = np.maximum(share[slots], alike)
            part = rarity * weight(word)
            whole += part
            held += part * share
            ranks += min(times, 2) * best
        return ranks, held / max(whole, 1e-9)

    def _forms(self, word: str) -> list[tuple[str, float]]:
        """The words of the lexicon that a word of a query stands for, with how alike they are."""
        found = {word: 1.0} if word in self._slots else {}
        ours = runs(word)
        shared = Counter(other for run in ours for other in self._runs.get(run, ()))
        near = [
            (2 * common / (len(ours) + len(runs(other))), other)
            for other, common in shared.most_common(200)
            if other != word
        ]
        for likeness, other in sorted(near, reverse=True)[:MOST_FORMS]:
            if likeness >= ALIKE:
                found[other] = likeness**2
        return list(found.items())
