"""Changing: a lesson's status moves, every move is recorded, and what writers at once leave is put right.

What a change makes of a lesson lies in its record; the lesson's own item is written beside it, in the same batch, so
that recall need not read the evidence of all. Two writers who read the same item write it one over the other: so each
looks once more when it has written, and the last to look sees what all have written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.access import Plan, put
from langgraph_reflexion.memory.records import ALSO, FIELDS, Evidence, change_record
from langgraph_reflexion.memory.shelf import Read, Shelf, read_some
from langgraph_reflexion.memory.values import By, Change, ChangeAction
from langgraph_reflexion.schemas import Lesson, LessonStatus

logger = logging.getLogger(__name__)

LOOKS = 8
"""How often an item is put right before others are left to it."""

MOST = 16
"""Tags, and further fingerprints, that one lesson has."""

_UNITED = ("tags", ALSO)
"""Fields to which each writer only adds."""


def moving(
    shelf: Shelf,
    found: Read,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    run: str | None = None,
    words: tuple[str, ...] = (),
    after: Mapping[str, Any] = MappingProxyType({}),
) -> list[Op]:
    """What gives a lesson that was just read another status, or none, and records it; `after` are other fields."""
    item, lesson, evidence = found
    before: dict[str, Any] = {"status": lesson.status} if status else {}
    before |= {name: item.value.get(name) for name in after}
    change = Change("", lesson.id, action, shelf.clock(), by, why, status, run, before, dict(after), words)
    ops: list[Op] = [put(shelf.evidence_of(lesson.id), *change_record(evidence, change))]
    fields = {**after, **({"status": status} if status is not None else {})}
    if any(item.value.get(name) != value for name, value in fields.items()):
        ops.append(rewritten(shelf, item, fields))
    return ops


def moved(
    shelf: Shelf,
    found: Read,
    status: LessonStatus,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    words: tuple[str, ...] = (),
    after: Mapping[str, Any] = MappingProxyType({}),
) -> Plan[Lesson]:
    """Do so, and give back the lesson as it is then."""
    yield from unless_embedding_fails(moving(shelf, found, status, action, by=by, why=why, words=words, after=after))
    now = yield from settled(shelf, [found.lesson.id])
    return now[found.lesson.id].lesson if now else found.lesson.model_copy(update={"status": status})


def rewritten(shelf: Shelf, item: Item, fields: dict[str, Any]) -> PutOp:
    """A lesson's item with other values in some fields."""
    return PutOp(shelf.lessons, item.key, {**item.value, **fields}, FIELDS)


def settled(shelf: Shelf, ids: Iterable[str]) -> Plan[dict[str, Read]]:
    """These lessons as they are now; an item that says otherwise than the changes recorded of it is put right."""
    wanted = list(ids)
    found = yield from read_some(shelf, wanted)
    for _ in range(LOOKS):
        wrong = [(one, as_recorded(one.item.value, one.evidence)) for one in found.values()]
        ops: list[Op] = [rewritten(shelf, one.item, right) for one, right in wrong if right != one.item.value]
        if not ops:
            break
        yield from unless_embedding_fails(ops)
        found = yield from read_some(shelf, wanted)
    return found


def as_recorded(value: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
    """An item's value with what the changes that stand have made of it."""
    right = dict(value)
    for change in evidence.standing:
        for name, new in change.after.items():
            old = right.get(name)
            if name in _UNITED and change.action == "merged" and isinstance(old, list):
                right[name] = list(dict.fromkeys([*old, *new]))[:MOST]
            else:
                right[name] = new
    statuses = evidence.statuses()
    return {**right, "status": statuses[-1]} if statuses else right


def unless_embedding_fails(ops: list[Op]) -> Plan[None]:
    """Write, and where that fails write once more without vectors: no lesson is lost to an embedder that is down."""
    if not ops:
        return
    try:
        yield ops
    except StoreError:  # of the file itself, and of no embedder
        raise
    except Exception as fault:
        if not any(isinstance(op, PutOp) and op.index for op in ops):
            raise
        logger.warning("Writing without vectors: %s: %s", type(fault).__name__, fault)
        yield [op._replace(index=False) if isinstance(op, PutOp) and op.index else op for op in ops]
