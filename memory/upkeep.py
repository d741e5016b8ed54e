"""Upkeep: sum up or remove what grows with every run, so that a namespace stays small. Each run does some of this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import Item, Op, SearchOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.access import Plan, drop, items_in, put
from langgraph_reflexion.memory.evidence import Evidence
from langgraph_reflexion.memory.forget import remove_forgotten
from langgraph_reflexion.memory.shelf import MAX_NOTES, Shelf, time_in

MAX_APPENDED_RUNS = 40
"""Runs of a lesson that are kept as items of their own before half of them are summed up. Each run of the agent reads
those of the lessons it was shown."""

SUM_UP_AGE = timedelta(seconds=1.5)
"""Age at which runs are summed up. Until then, an earlier one may still be written, because clocks differ or a
process pauses. Each credit reads the younger runs of its lessons: some 170 items if a lesson is shown 100 times a
second."""

KEPT_OF_EACH = 50
"""How many sources of each origin, changes of status that no person made, and runs that taught it again in the same
words are kept for a lesson: the first and the latest."""

FORGOTTEN_KEPT = timedelta(days=1)
"""How long the ids and hashes of a forgotten lesson are kept: longer than any run that was in progress takes to end."""

FORGET_TAKES = timedelta(hours=1)
"""More than a `forget` takes from its first read to its write, and more than clocks of machines differ."""


def is_due(evidence: Evidence, now: datetime) -> bool:
    """Whether a lesson has enough single runs that half of them should be summed up, or was taught often enough."""
    times = evidence.appended
    if len(times) > MAX_APPENDED_RUNS and now - datetime.fromisoformat(times[MAX_APPENDED_RUNS // 2]) > SUM_UP_AGE:
        return True
    often = Counter(_group(change.action, change.by) for change in evidence.standing if not change.after)
    return any(count > 2 * KEPT_OF_EACH for group, count in often.items() if group is not None)


def sum_up_runs(shelf: Shelf, lesson: str) -> Plan[None]:
    """Replace a lesson's old runs by one record with their counts and the latest of them.

    If two writers do this at once, nothing is lost: the record with the later runs wins, and it contains the other.
    """
    end = shelf.clock() - SUM_UP_AGE  # computed before the items are read, because later ones may be missing
    about = yield from items_in(shelf.evidence_of(lesson))
    runs = [item for item in about if item.value.get("type") == "run"]
    runs = [item for item in runs if (at := time_in(item.value.get("at"))) is not None and at < end]
    sums = [item for item in about if item.value.get("type") == "sum"]
    ops: list[Op] = drop(_stale(about))
    summed = Evidence().with_records([*sums, *runs])
    if len(runs) >= MAX_APPENDED_RUNS // 2 and summed.runs:
        times = [item.value.get("at") for item in (*sums, *runs)]
        key, value = summed.sum_record(max(str(at) for at in times if time_in(at) is not None))
        ops += [*drop([*runs, *(item for item in sums if item.key != key)]), put(shelf.evidence_of(lesson), key, value)]
    yield from shelf.write(ops)


def drop_old(shelf: Shelf) -> Plan[None]:
    """Remove old episodes, all but the latest change notes, and what writers have left of forgotten lessons."""
    keep_runs = shelf.policy.keep_runs
    yield from _drop_oldest(shelf.episodes, keep_runs, keep_runs + keep_runs // 20)
    yield from drop_old_notes(shelf)
    forgotten = yield from items_in(shelf.forgotten)
    yield from shelf.read_and_correct([item.key for item in forgotten])
    if forgotten:
        # `forget` itself has looked at all that were there when it began.
        since = min(item.updated_at for item in forgotten) - FORGET_TAKES
        written = [item for item in (yield from items_in(shelf.episodes)) if item.updated_at >= since]
        yield from remove_forgotten(shelf, written, forgotten)
    end = shelf.clock() - FORGOTTEN_KEPT
    yield drop(item for item in forgotten if (at := time_in(item.value.get("at"))) is None or at < end)


def drop_old_notes(shelf: Shelf) -> Plan[None]:
    """Delete all except the latest change notes."""
    yield from _drop_oldest(shelf.notes, MAX_NOTES, MAX_NOTES)


def _drop_oldest(place: Namespace, kept: int, limit: int) -> Plan[None]:
    """If there are more items than the limit, delete all except the latest."""
    [more] = yield [SearchOp(place, None, 1, limit)]
    if more:
        yield drop(sorted((yield from items_in(place)), key=_created)[:-kept])


def _created(item: Item) -> tuple[datetime, datetime]:
    """When a run ended, and when the item was last written, which is also the age of a note or a damaged episode."""
    written = item.updated_at if item.updated_at.tzinfo else item.updated_at.replace(tzinfo=UTC)
    return time_in(item.value.get("created_at")) or written, written


def _group(action: str | None, by: str | None) -> str | None:
    """The group in which a change is counted: merges, or changes of status that no person made.

    `None` for a change that always stays.
    """
    if action == "merged":
        return "merged"
    if by == "writer":
        return by if action in ("restored", "superseded") else None
    return by if by in ("evidence", "policy") else None


def _stale(about: Iterable[Item]) -> list[Item]:
    """Old sources, and old changes that no person made, that changed no field and that were not undone."""
    groups: dict[Any, list[Item]] = {}
    undone = {str(item.value.get("undoes")) for item in about}
    for item in about:
        value = item.value
        if value.get("type") == "source":
            groups.setdefault(str(value.get("origin")), []).append(item)
            continue
        group = _group(value.get("action"), value.get("by"))
        if group is not None and not value.get("after") and str(value.get("id")) not in undone:
            groups.setdefault(("change", group), []).append(item)
    ordered = (sorted(items, key=lambda item: (str(item.value.get("at")), item.key)) for items in groups.values())
    # The first change has a lesson's first status.
    return [item for items in ordered for item in items[1 : max(len(items) - KEPT_OF_EACH, 1)]]
