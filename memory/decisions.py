"""Decisions: a person approves, retires or restores a lesson, or undoes what was changed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from langgraph.store.base import Item, Op

from langgraph_reflexion.memory.access import TOPIC, Plan, items_in, pause, put, read_items, storable
from langgraph_reflexion.memory.credit import counted_before, counted_episode, later_than_all, lessons_of
from langgraph_reflexion.memory.evidence import LIVE, Change, LessonRun, Source, lesson_of_change, run_record
from langgraph_reflexion.memory.gate import one_line
from langgraph_reflexion.memory.items import MORE_FAILURES, TASKS, StoredLesson
from langgraph_reflexion.memory.screening import all_texts, suspicion_of
from langgraph_reflexion.memory.shelf import COUNTED, MARKS, UNDONE, Shelf, is_undone, time_in
from langgraph_reflexion.schemas import Lesson, LessonStatus
from langgraph_reflexion.text import hash_of

logger = logging.getLogger(__name__)

MAX_REASON = 1_000
"""Characters of a person's reason: a long paragraph."""

OUT_OF_USE: tuple[LessonStatus, ...] = ("retired", "superseded", "quarantined")


def approve(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Make a lesson active with exactly these texts. No later run, cap or expiry date changes that."""
    found = yield from shelf.read_one(lesson)
    texts = tuple(hash_of(text) for text in all_texts(found.lesson))
    doubts = [change.why for change in found.evidence.changes if change.action == found.lesson.status == "quarantined"]
    doubt = suspicion_of(found.lesson) or next(reversed(doubts), "")
    why = "exactly these words" + (f", although {doubt}" if doubt else "")
    for_good = {"expires_at": None} if found.lesson.expires_at is not None else {}
    ops = shelf.change_ops(found, "active", "approved", by="person", why=why, words=texts, after=for_good)
    ops += yield from shelf.replaced_by(found.lesson)
    return (yield from _write_decision(shelf, found, ops))


def retire(shelf: Shelf, lesson: str, why: str) -> Plan[Lesson]:
    """Stop showing a lesson, and keep it with the reason."""
    found = yield from shelf.read_one(lesson)
    ops = shelf.change_ops(found, "retired", "retired", by="person", why=one_line(why, MAX_REASON))
    return (yield from _write_decision(shelf, found, ops))


def restore(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Restore the status that a lesson had before it was removed from use, or make it a candidate."""
    found = yield from shelf.read_one(lesson)
    status_now = found.lesson.status
    if status_now not in OUT_OF_USE:
        raise ValueError(f"only retired, superseded and quarantined lessons can be restored, {lesson} is {status_now}")
    statuses = [found.evidence.first_status, *(change.status for change in found.evidence.standing)]
    in_use = [status for status in statuses if status not in (None, *OUT_OF_USE)]  # it may have been retired twice
    status: LessonStatus = "active" if in_use[-1:] == ["active"] else "candidate"
    ops = shelf.change_ops(found, status, "restored", by="person", why=f"it was {status_now}")
    ops += yield from shelf.replaced_by(found.lesson)
    return (yield from _write_decision(shelf, found, ops))


def _write_decision(shelf: Shelf, found: StoredLesson, ops: list[Op]) -> Plan[Lesson]:
    """Write a person's decision, and return the updated lesson, or the old one if it was forgotten meanwhile."""
    now = yield from shelf.write(ops, [found])
    return now[found.lesson.id].lesson if found.lesson.id in now else found.lesson


# ---------------------------------------------------------------- undoing


class Scope(NamedTuple):
    """What is undone together: a run, or everything since a time."""

    run: str | None
    since: datetime | None

    def has(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of a lesson or a topic is from this run, or from this time or later."""
        if self.since is not None:
            return datetime.fromisoformat(record["at"]) >= self.since
        return self.run in (record.get("run"), record.get("source"))

    def has_change(self, change: Change) -> bool:
        """Whether a change was made by this run, or at this time or later."""
        return change.at >= self.since if self.since is not None else change.run == self.run


def undo(shelf: Shelf, what: str | None, since: datetime | None) -> Plan[list[Change]]:
    """Revert a change, all changes of a run, or all since a time, in one batch. Their records are kept.

    For a run or a time, what the runs counted for lessons is reverted too. An unknown id is a `KeyError`. What was
    reverted before is left alone, so a second call changes nothing.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes exactly one of: the id of a change, the id of a run, or `since`")
    if since is not None and since.tzinfo is None:
        raise ValueError(f"`since` needs a time zone, got {since.isoformat()}")
    if what is not None and (lesson := lesson_of_change(what)) is not None:
        return (yield from _undo_change(shelf, (yield from shelf.read_one(lesson)), what))
    scope = Scope(storable(what), since)
    known = yield from shelf.read_all()
    episodes, counts = yield from _counted_in(shelf, scope, known)
    now = later_than_all(shelf.clock(), episodes.values(), (run for runs in counts.values() for run in runs.values()))
    groups: defaultdict[str, list[Op]] = defaultdict(list)  # the writes about a run, and the others about a lesson
    for label, items in (yield from shelf.evidence_items()).items():
        for item in items:
            if label.startswith(TOPIC) and scope.has(item.value) and not item.value.get("undone"):
                row = put(item.namespace, item.key, {**item.value, "undone": now.isoformat()})
                groups[str(item.value.get("run"))].append(row)
    undone: list[Change] = []
    for i, (id, found) in enumerate(known.items(), 1):
        yield from pause(i)
        for run, until_now in counts[id].items():
            groups[run].append(put(shelf.evidence_of(id), *run_record(run, now, None, until_now)))
        changes = [change for change in found.evidence.standing if scope.has_change(change)]
        sources = [source for source in found.evidence.sources if scope.has(source)]
        more, reverted = _revert(shelf, found, changes, counts[id], sources, now, bulk=True)
        groups[id] += more
        undone += reverted
    # Other tasks may have written some episodes during the pauses. A run that one of them counted stays counted.
    for current in filter(None, (yield from read_items(shelf.episodes, [*episodes]))):
        if current.value.get(COUNTED) != episodes[current.key].value.get(COUNTED):
            groups.pop(current.key, None)
        elif not is_undone(current):
            groups[current.key].append(put(shelf.episodes, current.key, {**current.value, UNDONE: now.isoformat()}))
    if what is not None and not episodes:
        has_changed = any(change.run == scope.run for found in known.values() for change in found.evidence.changes)
        if not has_changed and not any(groups.values()):
            raise KeyError(what)
        logger.warning(
            "The episode of %s is no longer kept, so its result is undone only for lessons that still list the run",
            scope.run,
        )
    now_known: dict[str, StoredLesson] = {}
    for batch in shelf.in_batches(groups.values()):
        now_known |= yield from shelf.write(batch)
    yield from _keep_one_value(shelf, known, now_known)
    return sorted(undone, key=lambda change: (change.at, change.id))


def _counted_in(
    shelf: Shelf, scope: Scope, known: Mapping[str, StoredLesson]
) -> Plan[tuple[dict[str, Item], dict[str, dict[str, LessonRun]]]]:
    """The episodes of the runs that are undone, and what each run has counted for each lesson."""
    counts = {id: {run["run"]: run for run in found.evidence.runs if scope.has(run)} for id, found in known.items()}
    if scope.run is not None:
        items = yield from read_items(shelf.episodes, [scope.run])
    else:
        listed = {run for runs in counts.values() for run in runs}
        kept = yield from items_in(shelf.episodes)
        items = [item for item in kept if item.key in listed or _is_since(item, scope.since)]
    episodes = {item.key: item for item in items if item is not None}
    for i, (run, item) in enumerate(episodes.items(), 1):
        yield from pause(i)
        episode = counted_episode(item)
        for id in lessons_of(episode) if episode is not None else ():
            if id in known and (until_now := counted_before(run, episode, known[id])) is not None:
                counts[id].setdefault(run, until_now)
    return episodes, counts


def _is_since(episode: Item, since: datetime | None) -> bool:
    """Whether an episode ended, or was counted or undone, at this time or later."""
    times = (time_in(episode.value.get(name)) for name in ("created_at", *MARKS))
    return since is not None and any(time is not None and time >= since for time in times)


def _undo_change(shelf: Shelf, found: StoredLesson, id: str) -> Plan[list[Change]]:
    change = next((known for known in found.evidence.changes if known.id == id), None)
    if change is None:
        raise KeyError(id)
    if change.action == "undone":
        raise ValueError(f"{id} is itself an undo: approve, retire or restore {found.lesson.id} instead")
    changes = [change] if change in found.evidence.standing else []
    sources = _sources_of(change, found) if changes else []
    ops, undone = _revert(shelf, found, changes, {}, sources, shelf.clock(), bulk=False)
    yield from _keep_one_value(shelf, {found.lesson.id: found}, (yield from shelf.write(ops)))
    return undone


def _keep_one_value(shelf: Shelf, before: Mapping[str, StoredLesson], now: Mapping[str, StoredLesson]) -> Plan[None]:
    """If former values of a name are live again, supersede all but the newest value that was read, so that a second
    undo leaves the same one. If the first one was cut off before this, the second one does it."""
    live = [lesson for id in before if (lesson := now.get(id, before[id]).lesson).name and lesson.status in LIVE]
    for newest in {(lesson.kind, lesson.name): lesson for lesson in live}.values():
        yield from shelf.write((yield from shelf.replaced_by(newest)))


def _sources_of(change: Change, found: StoredLesson) -> list[Source]:
    """The runs that count for a lesson only because this change merged what they taught, or restored it for that."""
    others = {known.run for known in found.evidence.standing if known != change}
    alone = change.action in ("merged", "restored") and change.run is not None and change.run not in others
    return [source for source in found.evidence.sources if alone and source["source"] == change.run]


def _revert(
    shelf: Shelf,
    found: StoredLesson,
    changes: Sequence[Change],
    counts: Mapping[str, LessonRun],
    sources: Sequence[Source],
    now: datetime,
    *,
    bulk: bool,
) -> tuple[list[Op], list[Change]]:
    """The writes that revert changes, results and sources of one lesson, and the changes they revert.

    With `bulk`, a person reverts a run or a time. Otherwise they overrule one change, and so vouch for the lesson.
    """
    item, lesson, evidence = found
    changes, sources, status = _what_to_revert(found, changes, sources)
    if not changes and not counts and not sources:
        return [], []
    before = {"status": lesson.status} if status else {}
    undoing = Change("", lesson.id, "undone", now, "person", "", status, None, before)
    events = [
        replace(undoing, why=f"{change.action} was undone", run=change.run if bulk else None, undoes=change.id)
        for change in reversed(changes)
    ]
    has_results = bulk and bool(counts or sources)
    if has_results:
        runs = list(dict.fromkeys([*counts, *(str(source["source"]) for source in sources)]))
        run = runs[0] if len(runs) == 1 else None
        why = f"the result of {run or f'{len(runs)} runs'} was undone"
        events.append(replace(undoing, why=why, status=None, before={}, run=run))
    about = shelf.evidence_of(lesson.id)
    ops: list[Op] = [
        put(about, f"source/{source['origin']}/{source['source']}", source | {"undone": now.isoformat()})
        for source in sources
    ]
    for event in events:
        evidence, record = evidence.with_change(event)
        ops.append(put(about, *record))
    ops += shelf.item_ops(item, _as_before(item.value, changes), evidence)
    return ops, [*changes, evidence.changes[-1]] if has_results else [*changes]


def _what_to_revert(
    found: StoredLesson, changes: Sequence[Change], sources: Sequence[Source]
) -> tuple[Sequence[Change], Sequence[Source], LessonStatus | None]:
    """Which of these changes and sources of a lesson are reverted, and the lesson's status after that, if it changes.

    The change that added a lesson is reverted only if the lesson has no other source; it is then retired.
    """
    evidence = found.evidence
    written = [change for change in changes if change.action in ("added", "quarantined")]
    others = {source["source"] for source in evidence.sources if source["source"] and source not in sources}
    if any(change.run is None or others <= {change.run} for change in written):
        return changes, (), "retired"
    changes = [change for change in changes if change not in written]
    last = evidence.last_status_change
    if found.lesson.status == "retired" and last is not None and last.action == "undone":
        sources = ()  # a lesson keeps the sources of the undo that retired it
    if all(change.status is None for change in changes):
        return changes, sources, None
    left = evidence.statuses(without=changes)
    return changes, sources, left[-1] if left else evidence.first_status


def _as_before(value: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """The item's value with the fields as they were before these changes."""
    for change in reversed(changes):
        value = {**value, **{name: old for name, old in change.before.items() if name != "status"}}
        for name in (MORE_FAILURES, TASKS):
            if left := [mark for mark in value.pop(name, None) or () if mark not in change.after.get(name, ())]:
                value[name] = left
    return value
