"""Changing: a lesson's status moves, and every move is recorded."""

from __future__ import annotations

import logging

from langgraph.store.base import Op, PutOp

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.doors import Plan, put
from langgraph_reflexion.memory.records import FIELDS, change_record
from langgraph_reflexion.memory.shelf import Read, Shelf, read_one
from langgraph_reflexion.memory.values import By, Change, ChangeAction
from langgraph_reflexion.schemas import Lesson, LessonStatus

logger = logging.getLogger(__name__)


def move(
    shelf: Shelf,
    lesson: str,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    undoes: str | None = None,
) -> Plan[Lesson]:
    """Give a lesson another status, or none, and record the change. An unknown id is a `KeyError`."""
    found = yield from read_one(shelf, lesson)
    return (yield from moved(shelf, found, status, action, by=by, why=why, undoes=undoes))


def moved(
    shelf: Shelf,
    found: Read,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    run: str | None = None,
    words: tuple[str, ...] = (),
    undoes: str | None = None,
) -> Plan[Lesson]:
    """The same for a lesson that was just read, under the run that it is due to if it is due to one."""
    item, lesson, evidence = found
    before = {"status": lesson.status} if status else {}
    change = Change("", lesson.id, action, shelf.clock(), by, why, status, run, before, words, undoes)
    key, value = change_record(evidence, change)
    ops: list[Op] = [put(shelf.evidence_of(lesson.id), key, value)]
    if status is not None and item.value.get("status") != status:
        # The change is the truth; the item's own status only spares recall from reading the evidence of all.
        ops.append(PutOp(shelf.lessons, lesson.id, {**item.value, "status": status}, FIELDS))
    yield from unless_embedding_fails(ops)
    return lesson.model_copy(update={"status": status or lesson.status, "updated_at": change.at})


def unless_embedding_fails(ops: list[Op]) -> Plan[None]:
    """Write, and where that fails write once more without vectors: no lesson is lost to an embedder that is down."""
    try:
        yield ops
    except StoreError:  # of the file itself, and of no embedder
        raise
    except Exception as fault:
        if not any(isinstance(op, PutOp) and op.index for op in ops):
            raise
        logger.warning("Writing without vectors: %s: %s", type(fault).__name__, fault)
        yield [op._replace(index=False) if isinstance(op, PutOp) and op.index else op for op in ops]
