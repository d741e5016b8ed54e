"""Columns: what lies under one key of every item, so that a filter need not read the items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.filters import found_at, holds

Slots = NDArray[np.int64]


class Column:
    """What lies under one key, slot by slot, each different value once."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.codes = np.zeros(0, np.int32)
        self.values: list[Any] = []
        self._code_of: dict[Any, int] = {}

    def extend(self, first: int, values: Sequence[Any]) -> None:
        need = first + len(values)
        if need > len(self.codes):
            self.codes = grown(self.codes, max(need, 2 * len(self.codes), 1024))
        self.codes[first:need] = [self._code(found_at(value, self.key)) for value in values]

    def keep(self, slots: Slots, wanted: Any) -> Slots:
        if isinstance(wanted, str | int) and not isinstance(wanted, bool):
            # Equality is asked for most, and needs no look at the other values: a number has two forms at the most.
            forms = (str,) if isinstance(wanted, str) else (int, float)
            codes = [self._code_of[form, wanted] for form in forms if (form, wanted) in self._code_of]
            here = self.codes[slots]
            good = np.zeros(len(here), bool) if not codes else here == codes[0]
            return np.asarray(slots[good if len(codes) < 2 else good | (here == codes[1])], np.int64)
        good = np.fromiter((holds(value, wanted) for value in self.values), bool, len(self.values))
        return np.asarray(slots[good[self.codes[slots]]], np.int64)

    def _code(self, value: Any) -> int:
        plain = value is None or isinstance(value, str | int | float)
        known = (type(value), value) if plain else (dict, json.dumps(value, sort_keys=True))
        code = self._code_of.get(known)
        if code is None:
            code = self._code_of[known] = len(self.values)
            self.values.append(value)
        return code


def grown(old: NDArray[Any], room: int) -> NDArray[Any]:
    new = np.zeros(room, old.dtype)
    new[: len(old)] = old
    return new
