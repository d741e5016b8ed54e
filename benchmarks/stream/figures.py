"""Figures of the simulation: shares with their intervals, paired differences, and the way back after a flip."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

from stream.runs import Record

Z = 1.96
BEFORE, WITHIN = 10, 5
"""Tasks of a family before the flip that set its level, and tasks at a time that are held against it."""


def percent(values: Iterable[bool | float]) -> float:
    found = list(values)
    return 100 * fmean(found) if found else 0.0


def half_width(values: Sequence[bool]) -> float:
    """Points either side within which the share lies, 95 times of 100 (Wilson)."""
    n, share = len(values), fmean(values)
    return 100 * Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)


def difference(ours: Sequence[bool], theirs: Sequence[bool]) -> tuple[float, float]:
    """How many points ours is above, on the same tasks, and the half of its interval."""
    apart = [int(a) - int(b) for a, b in zip(ours, theirs, strict=True)]
    return 100 * fmean(apart), 100 * Z * pstdev(apart) / math.sqrt(len(apart))


def whole(records: Sequence[Record], field: str) -> list[bool]:
    """One field of several streams, one after another."""
    return [one for record in records for one in getattr(record, field)]


def level_and_return(records: Sequence[Record]) -> tuple[float, list[float]]:
    """First attempts that were right in families whose rule changed: before it, and by their tasks after it."""
    before: list[bool] = []
    after: list[list[bool]] = []
    for record in records:
        middle = record.tasks // 2
        for family in record.flipped:
            old = [record.first[i] for i in range(middle) if record.families[i] == family]
            new = [record.first[i] for i in range(middle, record.tasks) if record.families[i] == family]
            before += old[-BEFORE:]
            for place, one in enumerate(new):
                if place == len(after):
                    after.append([])
                after[place].append(one)
    return percent(before), [percent(one) for one in after]


def back_within(records: Sequence[Record], points: float = 5.0) -> int | None:
    """After how many tasks of a changed family its level is back, less so many points; `None` if never seen."""
    level, after = level_and_return(records)
    for place in range(len(after) - WITHIN + 1):
        if fmean(after[place : place + WITHIN]) >= level - points:
            return place
    return None
