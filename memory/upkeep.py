"""Upkeep: what grows with every run is counted or removed in time, so that a namespace costs the same after a year.

Each run of the agent does its share of it. `LessonBook.sweep` does all of it at once, also for namespaces that are no
longer used.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from langgraph.store.base import Item, Op, SearchOp

from langgraph_reflexion.memory.access import GIVE_WAY, PAGE, Plan, drop, every, put
from langgraph_reflexion.memory.records import Evidence, evidence_in, sum_record
from langgraph_reflexion.memory.shelf import NOTES_KEPT, Shelf, by_lesson, evidence_items

APPENDED = 40
"""Runs of a lesson that lie in the store one by one before they are counted together. A run of the agent reads those of
the lessons it was shown."""

LATE = timedelta(minutes=1)
"""How late a run may be written, by clocks that differ or a process that pauses, and not miss the count of its time."""

KEPT_OF_EACH = 50
"""Sources of each origin, and changes of status by the evidence, that are kept of a lesson: the latest."""


class Swept(NamedTuple):
    """What a sweep counted together or removed: runs of lessons, episodes, and notes of changes."""

    runs: int
    episodes: int
    notes: int


def sweep(shelf: Shelf) -> Plan[Swept]:
    """Count old runs together, and remove old episodes, sources, changes and notes of this namespace."""
    runs = 0
    of, _ = yield from by_lesson((yield from evidence_items(shelf)))
    for label, items in of.items():
        runs += yield from fold_runs(shelf, label, items)
        yield GIVE_WAY
    return Swept(runs, *(yield from drop_old(shelf)))


def is_due(evidence: Evidence, now: datetime) -> bool:
    """Whether so many runs of a lesson lie one by one that it is worth counting half of them together."""
    times = evidence.appended
    return len(times) > APPENDED and now - datetime.fromisoformat(times[APPENDED // 2]) > LATE


def fold_runs(shelf: Shelf, lesson: str, items: Iterable[Item] | None = None) -> Plan[int]:
    """Replace a lesson's old runs by one record of their counts and the latest of them, and say how many those were.

    Two writers who do so at once lose nothing: the record with the later runs stands, and holds what the other holds.
    """
    about = list(items if items is not None else (yield from every(shelf.evidence_of(lesson))))
    end = shelf.clock() - LATE
    runs = [item for item in about if item.value.get("type") == "run" and _time_of(item) < end]
    sums = [item for item in about if item.value.get("type") == "sum"]
    stale = _stale(about)
    summed = evidence_in([*sums, *runs])
    ops: list[Op] = drop(stale)
    if many := len(runs) >= APPENDED // 2 and bool(summed.runs):
        key, value = sum_record(summed)
        ops += [*drop([*runs, *(item for item in sums if item.key != key)]), put(shelf.evidence_of(lesson), key, value)]
    if ops:
        yield ops
    return len(runs) if many else 0


def drop_old(shelf: Shelf) -> Plan[tuple[int, int]]:
    """Remove old episodes, and notes of changes beyond the latest, and count both."""
    episodes = yield from _drop_old_episodes(shelf)
    [more] = yield [SearchOp(shelf.notes, None, 1, NOTES_KEPT)]
    notes = sorted((yield from every(shelf.notes)) if more else [], key=lambda item: item.updated_at)
    if more:
        yield drop(notes[:-NOTES_KEPT])
    return episodes, len(notes[:-NOTES_KEPT])


def _drop_old_episodes(shelf: Shelf) -> Plan[int]:
    """Remove the episodes beyond the latest `keep_runs` once there are a twentieth more, and count those."""
    most = shelf.policy.keep_runs
    more, count = most // 20, 0
    ends: list[Op] = [SearchOp(shelf.episodes, None, 1, 0), SearchOp(shelf.episodes, None, 1, most + more)]
    while True:
        first, last = yield ends
        if not last:
            return count
        # Some stores list the latest first, others the first written.
        latest_first = first[0].updated_at >= last[0].updated_at
        [old] = yield [SearchOp(shelf.episodes, None, PAGE if latest_first else more + 1, most if latest_first else 0)]
        yield drop(old)
        count += len(old)


def _stale(about: Iterable[Item]) -> list[Item]:
    """Old sources, and old changes that the evidence alone made and nobody spoke of since."""
    groups: dict[Any, list[Item]] = {}
    undone = {item.value.get("undoes") for item in about}
    for item in about:
        value = item.value
        if value.get("type") == "source":
            groups.setdefault(value.get("origin"), []).append(item)
        elif value.get("type") == "change" and value.get("by") == "evidence" and value.get("id") not in undone:
            groups.setdefault("change", []).append(item)
    ordered = (sorted(items, key=lambda item: (str(item.value.get("at")), item.key)) for items in groups.values())
    # The first change says what a lesson was before all of them.
    return [item for items in ordered for item in items[1 : max(len(items) - KEPT_OF_EACH, 1)]]


def _time_of(item: Item) -> datetime:
    return datetime.fromisoformat(item.value["at"])
