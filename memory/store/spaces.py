"""Spaces: which slots lie in which namespace, and which namespaces lie under which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.columns import grown

Slots = NDArray[np.int64]

FEW = 2048
"""Slots up to which they are listed one by one; more are found by a look at all of them."""


class Spaces:
    """The namespaces of slots, dead ones included."""

    def __init__(self) -> None:
        self._of = np.zeros(0, np.int32)
        self._number: dict[str, int] = {}
        self._size = self._listed = 0
        self._slots: list[list[int]] = []
        self._below: dict[str, list[int]] = {}

    def add(self, first: int, namespaces: Sequence[str]) -> None:
        """Take in the slots from `first` on."""
        need = first + len(namespaces)
        if need > len(self._of):
            self._of = grown(self._of, max(need, 2 * len(self._of), 1024))
        for namespace in set(namespaces) - self._number.keys():
            number = self._number[namespace] = len(self._slots)
            self._slots.append([])
            labels = namespace.split(".")
            for depth in range(len(labels)):
                self._below.setdefault(".".join(labels[: depth + 1]), []).append(number)
        self._of[first:need] = [self._number[one] for one in namespaces]
        self._size = need

    def below(self, prefix: tuple[str, ...], alive: NDArray[np.bool_]) -> Slots | None:
        """The live slots under a namespace; `None` for all there are."""
        if not prefix:
            return None
        spaces = self._below.get(".".join(prefix), [])
        if len(spaces) == len(self._slots):
            return None
        for slot, number in enumerate(self._of[self._listed : self._size].tolist(), self._listed):
            self._slots[number].append(slot)
        self._listed = self._size
        if sum(len(self._slots[one]) for one in spaces) <= FEW:
            slots = np.array([slot for one in spaces for slot in self._slots[one]], np.int64)
            return slots[alive[slots]] if len(slots) else slots
        wanted = np.zeros(len(self._slots), bool)
        wanted[spaces] = True
        return np.flatnonzero(wanted[self._of[: len(alive)]] & alive)
