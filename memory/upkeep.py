"""Upkeep: sum up or remove what grows with every run, so that a namespace stays small.

Each run of the agent does some of this. `LessonBook.sweep` does all of it at once, also for namespaces that are no
longer used.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from langgraph.store.base import Item, Op, SearchOp

from langgraph_reflexion.memory.access import PAGE, PAUSE, Plan, drop, items_in, may_be_an_id, put
from langgraph_reflexion.memory.changes import read_and_correct, write
from langgraph_reflexion.memory.evidence import Evidence
from langgraph_reflexion.memory.forget import forgotten_hashes, without_texts
from langgraph_reflexion.memory.records import sum_record, with_records
from langgraph_reflexion.memory.shelf import (
    NOTES_KEPT,
    Shelf,
    evidence_items,
    time_in,
)

APPENDED = 40
"""Runs of a lesson that are kept as items of their own before half of them are summed up. Each run of the agent reads
those of the lessons it was shown."""

LATE = timedelta(seconds=1.5)
"""How late a run may be written, because clocks differ or a process pauses, and still be counted where two writers sum
up at the same moment: younger runs are not summed up. Each credit reads those of its lessons: some 170 items where a
lesson is shown in 100 runs a second."""

KEPT_OF_EACH = 50
"""How many sources of each origin, changes of status by the evidence, and runs that taught it again in the same words
are kept for a lesson: the first and the latest."""


FORGOTTEN_KEPT = timedelta(days=1)
"""How long the ids and hashes of a forgotten lesson are kept: longer than any run that began before takes to end."""

NEIGHBOURS = 5
"""Episodes at each end of a listing that show its order, because a single one may have been rewritten."""


class Swept(NamedTuple):
    """How many runs of lessons a sweep summed up, and how many episodes and notes of changes it removed."""

    runs: int
    episodes: int
    notes: int


def sweep(shelf: Shelf) -> Plan[Swept]:
    """Sum up old runs, and remove old episodes, sources, changes and notes of this namespace."""
    runs, end = 0, shelf.clock() - LATE
    for label, items in (yield from evidence_items(shelf)).items():
        if may_be_an_id(label):  # the records of a topic are bounded
            runs += yield from _sum_up(shelf, label, items, end)
        yield PAUSE
    forgotten = yield from items_in(shelf.forgotten)
    yield from read_and_correct(shelf, [item.key for item in forgotten])
    if hashes := forgotten_hashes(forgotten):
        yield without_texts(shelf, (yield from items_in(shelf.episodes)), hashes)
    return Swept(runs, *(yield from drop_old(shelf)))


def is_due(evidence: Evidence, now: datetime) -> bool:
    """Whether a lesson has enough single runs that half of them should be summed up, or was taught often enough."""
    times = evidence.appended
    if len(times) > APPENDED and now - datetime.fromisoformat(times[APPENDED // 2]) > LATE:
        return True
    return sum(change.action == "merged" and not change.after for change in evidence.standing) > 2 * KEPT_OF_EACH


def sum_up_runs(shelf: Shelf, lesson: str) -> Plan[int]:
    """Replace a lesson's old runs by one record with their counts and the latest of them; return how many.

    If two writers do this at once, nothing is lost: the record with the later runs wins, and it contains the other.
    """
    end = shelf.clock() - LATE
    return (yield from _sum_up(shelf, lesson, (yield from items_in(shelf.evidence_of(lesson))), end))


def _sum_up(shelf: Shelf, lesson: str, about: Iterable[Item], end: datetime) -> Plan[int]:
    """Sum up the runs before `end`, which was `LATE` before these items were read: later ones may be missing."""
    about = list(about)
    runs = [
        item
        for item in about
        if item.value.get("type") == "run" and (at := time_in(item.value.get("at"))) is not None and at < end
    ]
    sums = [item for item in about if item.value.get("type") == "sum"]
    stale = _stale(about)
    summed = with_records(Evidence(), [*sums, *runs])
    ops: list[Op] = drop(stale)
    if many := len(runs) >= APPENDED // 2 and bool(summed.runs):
        times = [item.value.get("at") for item in (*sums, *runs)]
        key, value = sum_record(summed, max(str(at) for at in times if time_in(at) is not None))
        ops += [*drop([*runs, *(item for item in sums if item.key != key)]), put(shelf.evidence_of(lesson), key, value)]
    yield from write(shelf, ops)
    return len(runs) if many else 0


def drop_old(shelf: Shelf) -> Plan[tuple[int, int]]:
    """Remove old episodes, all but the latest notes of changes, and what is known of lessons
    long forgotten.

    Return how many episodes and notes were removed.
    """
    episodes = yield from _drop_old_episodes(shelf)
    notes = yield from drop_old_notes(shelf)
    end = shelf.clock() - FORGOTTEN_KEPT
    forgotten = yield from items_in(shelf.forgotten)
    yield drop(item for item in forgotten if (at := time_in(item.value.get("at"))) is None or at < end)
    return episodes, notes


def drop_old_notes(shelf: Shelf) -> Plan[int]:
    """Delete all except the latest change notes, and return the number deleted."""
    [more] = yield [SearchOp(shelf.notes, None, 1, NOTES_KEPT)]
    old = sorted((yield from items_in(shelf.notes)) if more else [], key=lambda item: item.updated_at)[:-NOTES_KEPT]
    yield drop(old)
    return len(old)


def _drop_old_episodes(shelf: Shelf) -> Plan[int]:
    """Once there are a twentieth more episodes than `keep_runs`, remove the oldest; return how many were removed."""
    most = shelf.policy.keep_runs
    more, count = most // 20, 0
    ends: list[Op] = [SearchOp(shelf.episodes, None, NEIGHBOURS, place) for place in (0, most + more)]
    while True:
        first, last = yield ends
        if not last:
            return count
        # Some stores list the latest first, others the first written, and an episode may have been rewritten since.
        latest_first = _created(first[0]) >= _created(last[0])
        [old] = yield [SearchOp(shelf.episodes, None, PAGE if latest_first else more + 1, most if latest_first else 0)]
        listed = [*first, *old] if latest_first else [*old, *last]
        times = [_created(item) for item in listed]
        if times != sorted(times, reverse=latest_first) or any(item.namespace != shelf.episodes for item in listed):
            break
        yield drop(old)
        count += len(old)
    # The order in which the store lists them is not reliable.
    items = sorted((yield from items_in(shelf.episodes)), key=_created)
    old = items[:-most] if len(items) > most + more else []
    if old:
        yield drop(old)
    return count + len(old)


def _created(item: Item) -> tuple[datetime, datetime]:
    """When a run ended, and when its episode was last written, which is also the age of a damaged one."""
    written = item.updated_at if item.updated_at.tzinfo else item.updated_at.replace(tzinfo=UTC)
    return time_in(item.value.get("created_at")) or written, written


def _stale(about: Iterable[Item]) -> list[Item]:
    """Old sources, and old changes by the evidence and mere merges that changed no field and were not undone."""
    groups: dict[Any, list[Item]] = {}
    undone = {str(item.value.get("undoes")) for item in about}
    for item in about:
        value = item.value
        if value.get("type") == "source":
            groups.setdefault(str(value.get("origin")), []).append(item)
            continue
        kind = value.get("action") if value.get("action") == "merged" else value.get("by")
        if kind in ("merged", "evidence") and not value.get("after") and str(value.get("id")) not in undone:
            groups.setdefault(("change", kind), []).append(item)
    ordered = (sorted(items, key=lambda item: (str(item.value.get("at")), item.key)) for items in groups.values())
    # The first change says what a lesson was at first.
    return [item for items in ordered for item in items[1 : max(len(items) - KEPT_OF_EACH, 1)]]
