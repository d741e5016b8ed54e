"""Undoing: a change, all that a run changed, or all since a time is taken back, and the record of it stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.store.base import Op, PutOp

from langgraph_reflexion.memory.access import Plan, put
from langgraph_reflexion.memory.changes import as_recorded, settled, unless_embedding_fails
from langgraph_reflexion.memory.floor import LABEL
from langgraph_reflexion.memory.records import (
    ALSO,
    FIELDS,
    change_of,
    change_record,
    lesson_of_change,
    run_key,
    source_key,
    taken_back,
)
from langgraph_reflexion.memory.shelf import Read, Shelf, evidence_items, read_all, read_episode, read_one
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.schemas import LessonStatus


def undo(shelf: Shelf, what: str | None, since: datetime | None) -> Plan[list[Change]]:
    """Take back a change, all changes of a run, or all since a time, in one batch; the record of them stays.

    Of a run, or since a time, that is also what runs counted for lessons. An unknown id is a `KeyError` with it. What
    was taken back before is left alone, so doing it twice is doing it once.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes a change's id, a run's id, or `since`: one of them")
    if since is not None and since.tzinfo is None:
        raise ValueError(f"`since` needs a time zone, got {since.isoformat()}")
    one = lesson_of_change(what) if what is not None else None
    if what is not None and one is not None:
        return (yield from _undo_change(shelf, (yield from read_one(shelf, one)), what))
    known = yield from read_all(shelf)
    items = yield from evidence_items(shelf)
    floor = [item for item in items if item.namespace[-1].startswith(LABEL) and _is_meant(item.value, what, since)]
    floor = [item for item in floor if not item.value.get("undone")]
    ops: list[Op] = [put(item.namespace, item.key, taken_back(item.value, shelf.clock())) for item in floor]
    undone: list[Change] = []
    touched: list[str] = []
    for found in known.values():
        meant = [one for one in found.evidence.standing if (what == one.run if since is None else one.at >= since)]
        counted = [one for one in found.evidence.runs if _is_meant(one, what, since)]
        rested = [one for one in found.evidence.sources if _is_meant(one, what, since)]
        more, changes = _taken_back(shelf, found, meant, counted, rested, bulk=True)
        if more:
            ops, undone, touched = [*ops, *more], [*undone, *changes], [*touched, found.lesson.id]
    if what is not None and not ops and not (yield from _is_known(shelf, what, known.values())):
        raise KeyError(what)
    yield from unless_embedding_fails(ops)
    yield from settled(shelf, touched)
    return sorted(undone, key=lambda change: (change.at, change.id))


def _undo_change(shelf: Shelf, found: Read, id: str) -> Plan[list[Change]]:
    change = next((one for one in found.evidence.changes if one.id == id), None)
    if change is None:
        raise KeyError(id)
    if change.action == "undone":
        raise ValueError(f"{id} takes a change back itself: approve, retire or restore {found.lesson.id} instead")
    standing = found.evidence.standing
    rested = _brought_by(change, found) if change in standing else []
    ops, undone = _taken_back(shelf, found, [one for one in standing if one == change], (), rested, bulk=False)
    yield from unless_embedding_fails(ops)
    yield from settled(shelf, [found.lesson.id])
    return undone


def _brought_by(change: Change, found: Read) -> list[dict[str, Any]]:
    """The runs that a lesson rests on by one merge alone."""
    others = {one.run for one in found.evidence.standing if one != change}
    alone = change.action == "merged" and change.run is not None and change.run not in others
    return [one for one in found.evidence.sources if alone and one["source"] == change.run]


def _is_meant(value: dict[str, Any], run: str | None, since: datetime | None) -> bool:
    """Whether this was left by the run, or since that time."""
    return datetime.fromisoformat(value["at"]) >= since if since is not None else run in _runs(value)


def _runs(value: dict[str, Any]) -> tuple[Any, Any]:
    return value.get("run"), value.get("source")


def _is_known(shelf: Shelf, run: str, known: Any) -> Plan[bool]:
    if any(change.run == run for found in known for change in found.evidence.changes):
        return True
    return (yield from read_episode(shelf, run)) is not None


def _taken_back(
    shelf: Shelf,
    found: Read,
    meant: Sequence[Change],
    counted: Sequence[dict[str, Any]],
    rested: Sequence[dict[str, Any]],
    *,
    bulk: bool,
) -> tuple[list[Op], list[Change]]:
    """What takes back changes of one lesson, what runs counted for it, and the runs it rests on; and those changes.

    What a lesson was written by is taken back only where nothing else holds it: then it is retired. In `bulk` a run, or
    a time, is what somebody takes back; else they overrule just this change, and that vouches for the lesson.
    """
    item, lesson, evidence = found
    held = [one["source"] for one in evidence.sources if one["source"] and one not in rested]
    written = [one for one in meant if one.action in ("added", "quarantined")]
    gone = any(one.run is None or not [source for source in held if source != one.run] for one in written)
    meant = [one for one in meant if gone or one not in written]
    rested = () if gone else rested
    if not meant and not counted and not rested:
        return [], []
    now, about = shelf.clock(), shelf.evidence_of(lesson.id)
    ops: list[Op] = [put(about, run_key(one["run"]), taken_back(one, now)) for one in counted]
    ops += [put(about, source_key(one["source"], one["origin"]), taken_back(one, now)) for one in rested]
    status: LessonStatus | None = None
    if gone or any(one.status is not None for one in meant):
        left = evidence.statuses(but=meant)
        status = "retired" if gone else left[-1] if left else evidence.born
    said = Change("", lesson.id, "undone", now, "person", "", None, None, {"status": lesson.status} if status else {})
    events = [
        replace(said, why=f"{one.action} is taken back", status=status, run=one.run if bulk else None, undoes=one.id)
        for one in reversed(meant)
    ]
    if bulk and (counted or rested):
        runs = dict.fromkeys(str(one.get("run") or one.get("source")) for one in (*counted, *rested))
        run = next(iter(runs)) if len(runs) == 1 else None
        events.append(replace(said, why=f"what came of {', '.join(runs)} is taken back", before={}, run=run))
    for event in events:
        key, value = change_record(evidence, event)
        evidence = evidence.with_change(change_of(value))
        ops.append(put(about, key, value))
    right = as_recorded(_as_before(item.value, meant), evidence)
    if right != item.value:
        ops.append(PutOp(shelf.lessons, lesson.id, right, FIELDS))
    return ops, [*meant, *(change for change in evidence.changes[-1:] if bulk and (counted or rested))]


def _as_before(value: dict[str, Any], meant: Sequence[Change]) -> dict[str, Any]:
    """The item's value with the fields as they were before these changes."""
    for change in reversed(meant):
        value = {**value, **{name: one for name, one in change.before.items() if name != "status"}}
        also = [one for one in value.get(ALSO, ()) if one not in change.after.get(ALSO, ())]
        value = {**{name: one for name, one in value.items() if name != ALSO}, **({ALSO: also} if also else {})}
    return value
