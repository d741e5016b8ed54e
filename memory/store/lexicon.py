"""The lexicon: which items hold which words, and how well they answer a query by words alone.

A word of a query stands for its forms and its kin too. What is found is weighed as BM25 does it, by how rare a word
is and how much of a text it makes up.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.text.forms import Forms
from langgraph_reflexion.text.words import tokens, weight

SATURATION, LENGTH = 1.2, 0.6


class Lexicon:
    """The words of each slot."""

    def __init__(self) -> None:
        self._slots: dict[str, array[int]] = {}
        self._counts: dict[str, array[float]] = {}
        self._forms = Forms()
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
                    self._forms.add(word)
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
            for form, alike in self._forms.of(word).items():
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
