"""Changes: each change of a lesson goes through here and is recorded.

A change is recorded in the evidence, and the lesson's own item is updated in the same batch, so that recall need not
read all evidence. Two writers that read the same item can overwrite each other. So each reads again after writing, and
the last to read corrects the item (`read_and_correct`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.access import Plan, at_once, drop, items_in, may_be_an_id, put, read_items
from langgraph_reflexion.memory.evidence import By, Change, ChangeAction, Evidence
from langgraph_reflexion.memory.gate import MAX_VALUES
from langgraph_reflexion.memory.records import (
    FIELDS,
    MORE_FAILURES,
    TASKS,
    change_record,
    is_live,
    item_value,
    numbered,
    whole_record,
    with_records,
)
from langgraph_reflexion.memory.shelf import Shelf, StoredLesson, current_items, read_some
from langgraph_reflexion.schemas import Lesson, LessonStatus
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)

MAX_CORRECTIONS = 8
"""How often an item is corrected before that is left to the other writers."""

_ADDED_TO = (MORE_FAILURES, TASKS)
"""Fields to which each writer only adds. A change's `after` holds what it added."""


def change_ops(
    shelf: Shelf,
    found: StoredLesson,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    run: str | None = None,
    words: tuple[str, ...] = (),
    after: Mapping[str, Any] = MappingProxyType({}),
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> list[Op]:
    """The operations that change a lesson's status and record the change.

    `after` holds other changed fields, or what is added to them, and `beside` fields whose change is not recorded.
    """
    item, lesson, evidence = found
    before: dict[str, Any] = {"status": lesson.status} if status else {}
    full = item_value(lesson) | item.value  # the item of another release may lack fields
    before |= {name: full.get(name) for name in after if name not in _ADDED_TO}
    change = Change("", lesson.id, action, shelf.clock(), by, why, status, run, before, dict(after), words)
    change = numbered(evidence, change)
    ops: list[Op] = [put(shelf.evidence_of(lesson.id), *change_record(change))]
    right = as_recorded({**item.value, **beside}, evidence.with_change(change))
    if right != item.value:
        ops.append(put(shelf.lessons, item.key, right, FIELDS))
    return ops


def write(shelf: Shelf, ops: list[Op], known: Iterable[StoredLesson] = ()) -> Plan[dict[str, StoredLesson]]:
    """Write, and return the updated lessons whose evidence was added to.

    For lessons that are `known`, the record of all their evidence is written in the same batch.
    """
    about: dict[str, list[PutOp]] = {}
    for op in ops:
        if isinstance(op, PutOp) and op.namespace[:-1] == shelf.evidence and may_be_an_id(op.namespace[-1]):
            about.setdefault(op.namespace[-1], []).extend([op] if op.value else [])
    evidence = {found.lesson.id: found.evidence for found in known}
    wholes = [
        put(shelf.evidence, id, whole_record(with_records(evidence[id], about[id]))) for id in about if id in evidence
    ]
    yield from retry_without_vectors([*ops, *wholes])
    return (yield from read_and_correct(shelf, about))


def read_and_correct(shelf: Shelf, ids: Iterable[str]) -> Plan[dict[str, StoredLesson]]:
    """The current state of these lessons. An item or record that differs from the appended evidence is corrected.

    Data that was written about a lesson while it was being forgotten is removed.
    """
    wanted = [id for id in dict.fromkeys(ids) if may_be_an_id(id)]
    found: dict[str, StoredLesson] = {}
    for _ in range(MAX_CORRECTIONS):
        found, kept, forgotten = yield from at_once(
            read_some(shelf, wanted), read_items(shelf.evidence, wanted), read_items(shelf.forgotten, wanted)
        )
        ops: list[Op] = []
        for id, item, is_forgotten in zip(wanted, kept, forgotten, strict=True):
            if is_forgotten is not None:
                found.pop(id, None)
                left = [item, *(yield from read_items(shelf.lessons, [id]))]
                left += yield from items_in(shelf.evidence_of(id))
                ops += drop(there for there in left if there is not None)
            elif (entry := found.get(id)) is not None:
                right, whole = as_recorded(entry.item.value, entry.evidence), whole_record(entry.evidence)
                if right != entry.item.value:
                    ops.append(PutOp(shelf.lessons, id, right, FIELDS))
                if item is None or item.value != whole:
                    ops.append(put(shelf.evidence, entry.lesson.id, whole))
        if not ops:
            break
        yield from retry_without_vectors(ops)
    return found


def as_recorded(value: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
    """An item's value after the changes that were not taken back."""
    right = dict(value)
    for change in evidence.standing:
        for name, new in change.after.items():
            old = right.get(name)
            if isinstance(old, list) and (name in _ADDED_TO or (name == "tags" and change.by == "writer")):
                right[name] = list(dict.fromkeys(mark for mark in [*old, *new] if isinstance(mark, str)))[:MAX_VALUES]
            else:
                right[name] = new
    statuses = evidence.statuses()
    return {**right, "status": statuses[-1]} if statuses else right


def retry_without_vectors(ops: list[Op]) -> Plan[None]:
    """Write, and if that fails, write again without vectors, so that no lesson is lost because an embedder is down."""
    try:
        yield ops
    except StoreError:  # an error of the file, not of the embedding model
        raise
    except Exception as fault:
        if not any(isinstance(op, PutOp) and op.index for op in ops):
            raise
        logger.warning("Writing without vectors: %s: %s", type(fault).__name__, mask_secrets(str(fault)))
        yield [op._replace(index=False) if isinstance(op, PutOp) and op.index else op for op in ops]


def replaced_by(shelf: Shelf, lesson: Lesson, run: str | None = None) -> Plan[list[Op]]:
    """The writes that supersede the other live entries of a lesson's kind and name: one name has one live value."""
    if not lesson.name:
        return []
    others = same_name(lesson, (yield from current_items(shelf)))
    why, ops = f"{lesson.id} takes its place", list[Op]()
    for found in (yield from read_some(shelf, others)).values():
        ops += change_ops(shelf, found, "superseded", "superseded", by="writer", why=why, run=run)
    return ops


def same_name(lesson: Lesson, items: Mapping[str, Item]) -> list[str]:
    """The ids of the other live entries of a lesson's kind and name. None if it has no name."""
    if not lesson.name:
        return []
    live = (item for item in items.values() if item.key != lesson.id and is_live(item))
    return [item.key for item in live if (item.value.get("kind"), item.value.get("name")) == (lesson.kind, lesson.name)]
