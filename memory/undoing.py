"""Undoing: a change, all that a run changed, or all since a time is taken back, and the record of it stays."""

from __future__ import annotations

from datetime import datetime

from langgraph.store.base import PutOp

from langgraph_reflexion.memory.changing import move, moved, unless_embedding_fails
from langgraph_reflexion.memory.doors import Plan, drop
from langgraph_reflexion.memory.records import FIELDS, Evidence, lesson_of_change
from langgraph_reflexion.memory.shelf import Shelf, evidence_items, read_all, read_episode, read_one, read_some
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.schemas import Lesson


def undo(shelf: Shelf, what: str | None, since: datetime | None) -> Plan[list[Change]]:
    """Take back a change, all changes of a run, or all since a time, the latest first; the record of them stays.

    What is taken back of a run is also the evidence it left. An unknown id is a `KeyError` with it.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes a change's id, a run's id, or `since`: one of them")
    one = lesson_of_change(what) if what is not None else None
    if one is not None:
        found = {one: (yield from read_one(shelf, one))}
    else:
        found = yield from read_all(shelf)
    meant = [change for _, _, evidence in found.values() for change in evidence.changes if _meant(change, what, since)]
    if what is not None and one is None:
        meant = yield from _with_run(shelf, what, meant)
    if what is not None and one is not None and not meant:
        raise KeyError(what)
    for change in sorted(meant, key=lambda change: (change.at, change.id), reverse=True):
        yield from _take_back(shelf, change)
    return meant


def _meant(change: Change, what: str | None, since: datetime | None) -> bool:
    if change.action == "undone":
        return False
    return change.at >= since if since is not None else what in (change.id, change.run)


def _with_run(shelf: Shelf, run_id: str, meant: list[Change]) -> Plan[list[Change]]:
    items = yield from evidence_items(shelf)
    left = [item for item in items if item.value.get("run") == run_id and item.value.get("type") == "run"]
    if not left and not meant and (yield from read_episode(shelf, run_id)) is None:
        raise KeyError(run_id)
    if left:
        yield drop(left)
    return meant


def _take_back(shelf: Shelf, change: Change) -> Plan[None]:
    found = (yield from read_some(shelf, [change.lesson])).get(change.lesson)
    if found is None:
        return
    item, lesson, evidence = found
    why = f"{change.action} is taken back"
    if change.action in ("added", "quarantined"):
        if not _rests_elsewhere(lesson, change):
            yield from moved(shelf, found, "retired", "undone", by="person", why=why, undoes=change.id)
    elif change.status is not None:
        status = change.before.get("status", "candidate")
        yield from moved(shelf, found, status, "undone", by="person", why=why, undoes=change.id)
    elif change.before and _last_wording(evidence, change):
        yield from unless_embedding_fails(
            [PutOp(shelf.lessons, lesson.id, {**item.value, **change.before, "status": lesson.status}, FIELDS)]
        )
        yield from move(shelf, lesson.id, None, "undone", by="person", why=why, undoes=change.id)


def _rests_elsewhere(lesson: Lesson, change: Change) -> bool:
    """Whether other runs than the one taken back wrote it as well."""
    return change.run is not None and any(source != change.run for source in lesson.sources)


def _last_wording(evidence: Evidence, change: Change) -> bool:
    return not any(one.id > change.id and one.action in ("merged", "edited") for one in evidence.changes)
