"""Writing: a lesson that is offered is refused, set aside, added, or merged with one that says the same."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.memory.doors import Plan, every, put
from langgraph_reflexion.memory.gate import malformed, refusal, tidy
from langgraph_reflexion.memory.guard import suspicion_of
from langgraph_reflexion.memory.likeness import opposed, same
from langgraph_reflexion.memory.ranking import Words
from langgraph_reflexion.memory.records import (
    FIELDS,
    LIVE,
    Evidence,
    change_record,
    fingerprints,
    folded,
    lesson_id,
    lesson_in,
    record,
    source_record,
)
from langgraph_reflexion.memory.shelf import Read, Shelf, evidence_about, read_all, read_one
from langgraph_reflexion.memory.values import By, Change, ChangeAction, Written
from langgraph_reflexion.memory.words import fold, tokens
from langgraph_reflexion.memory.worth import usefulness
from langgraph_reflexion.schemas import Lesson, LessonStatus

logger = logging.getLogger(__name__)

CLOSE_LOOKS = 12
"""Lessons that a new one is compared with word by word."""


def add(shelf: Shelf, lesson: Lesson, task: str | None, answer: str | None) -> Plan[Written]:
    """Keep a lesson as a candidate, if it passes the gate."""
    offered = tidy(lesson)
    reason = malformed(offered)
    if reason is not None:
        return Written("refused", None, reason)
    doubt = suspicion_of(lesson) or suspicion_of(offered)
    reason = None if doubt else refusal(offered, task, answer)
    if reason is not None:
        return Written("refused", None, reason)
    items = yield from every(shelf.lessons)
    new = _fresh(shelf, offered, "quarantined" if doubt else "candidate")
    twin = _twin(shelf, new, items)
    if twin is not None:
        return (yield from _merge(shelf, twin, new, doubt))
    elder = _namesake(new, items)
    if elder is not None and not doubt:
        new = new.model_copy(update={"supersedes": [*new.supersedes, elder.key]})
    yield from _keep(shelf, new, doubt)
    if doubt:
        return Written("quarantined", new, doubt)
    for old in new.supersedes:
        if any(item.key == old for item in items):
            yield from move(shelf, old, "superseded", "superseded", by="writer", why=f"{new.id} takes its place")
    yield from _link(shelf, new, items)
    if sum(item.value.get("status") in LIVE for item in items) >= shelf.policy.max_kept:
        yield from _make_room(shelf)
    return Written("added", new)


def move(
    shelf: Shelf,
    lesson: str,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    run: str | None = None,
) -> Plan[Lesson]:
    """Give a lesson another status and record the change. An unknown id is a `KeyError`."""
    found = yield from read_one(shelf, lesson)
    return (yield from moved(shelf, found, status, action, by=by, why=why, run=run))


def moved(
    shelf: Shelf,
    found: Read,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    run: str | None = None,
) -> Plan[Lesson]:
    """The same for a lesson that was just read."""
    item, lesson, evidence = found
    change = Change(
        "", lesson.id, action, shelf.clock(), by, why, status, run, {"status": lesson.status} if status else {}
    )
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
    except Exception as fault:
        if not any(isinstance(op, PutOp) and op.index for op in ops):
            raise
        logger.warning("Writing without vectors: %s: %s", type(fault).__name__, fault)
        yield [op._replace(index=False) if isinstance(op, PutOp) and op.index else op for op in ops]


def _fresh(shelf: Shelf, lesson: Lesson, status: LessonStatus) -> Lesson:
    now = shelf.clock()
    expires = lesson.expires_at
    if expires is None and shelf.policy.expires_after is not None:
        expires = now + shelf.policy.expires_after
    return lesson.model_copy(
        update={
            "id": lesson_id(shelf.namespace, lesson),
            "status": status,
            "sources": [one for one in dict.fromkeys(lesson.sources) if one],
            "created_at": now,
            "updated_at": now,
            "expires_at": expires,
            "version": 1,
        }
    )


def _twin(shelf: Shelf, new: Lesson, items: Iterable[Item]) -> Item | None:
    """The item that says the same already: under the same id, in another spelling, or nearly in the same words."""
    said, words = fold(new.text), Words.of(new.text)
    near: list[tuple[int, Item]] = []
    for item in items:
        if item.key == new.id:
            return item
        value = item.value
        text = value.get("text")
        if item.key in new.supersedes:
            continue
        if value.get("kind") != new.kind or not isinstance(text, str) or value.get("status") not in LIVE:
            continue
        if fold(text) == said:
            return item
        shared = len(words.counts.keys() & shelf.words(item).counts.keys())
        if 2 * shared >= len(words.counts) and _bound_alike(new, value):
            near.append((shared, item))
    if new.status == "candidate":
        for item in _most_shared(near):
            if same(item.value["text"], new.text):
                return item
    return None


def _most_shared(near: list[tuple[int, Item]]) -> list[Item]:
    """Those with the most words in common; only they are worth a close look."""
    return [item for _, item in sorted(near, key=lambda one: (-one[0], one[1].key))[:CLOSE_LOOKS]]


def _bound_alike(new: Lesson, value: dict[str, Any]) -> bool:
    trigger = value.get("trigger")
    tool = trigger.get("tool") if isinstance(trigger, dict) else None
    return bool((new.trigger.tool if new.trigger else None) == tool) and value.get("name") == new.name


def _namesake(new: Lesson, items: Iterable[Item]) -> Item | None:
    """A named entry that the new one of that name takes the place of."""
    for item in items:
        value = item.value
        if new.name and value.get("name") == new.name and value.get("kind") == new.kind and value.get("status") in LIVE:
            return item
    return None


def _keep(shelf: Shelf, new: Lesson, doubt: str | None) -> Plan[None]:
    at = new.created_at or shelf.clock()
    action: ChangeAction = "quarantined" if doubt else "added"
    run = next(iter(new.sources), None)
    key, value = change_record(Evidence(), Change("", new.id, action, at, "writer", doubt or "", None, run))
    about = shelf.evidence_of(new.id)
    # Its sources lie with the evidence alone: two writers of the same lesson must not overwrite each other's.
    bare = record(new.model_copy(update={"sources": []}))
    ops: list[Op] = [put(shelf.lessons, new.id, bare, FIELDS), put(about, key, value)]
    ops += [put(about, *one) for one in _source_records(new, at)]
    yield from unless_embedding_fails(ops)


def _source_records(lesson: Lesson, at: datetime) -> list[tuple[str, dict[str, Any]]]:
    return [source_record(source, lesson.origin, at) for source in lesson.sources or [""]]


@dataclass(frozen=True)
class _Words:
    """The wording that stays of two, and what the record gains by the other."""

    update: dict[str, Any]
    also: list[str]


def _merge(shelf: Shelf, item: Item, new: Lesson, doubt: str | None) -> Plan[Written]:
    """Unite the evidence; the better wording stays. Where nothing is new, nothing changes."""
    evidence = (yield from evidence_about(shelf, [item.key]))[item.key]
    kept = lesson_in(item)
    if kept is None:
        # The record under this very id is damaged: the lesson is written again in its place.
        yield from _keep(shelf, new, doubt)
        return Written("quarantined" if doubt else "added", new, doubt or "")
    now = shelf.clock()
    old = folded(kept, evidence)
    known = {(str(one["source"]), one["origin"]) for one in evidence.sources}
    ops: list[Op] = [
        put(shelf.evidence_of(old.id), key, value)
        for key, value in _source_records(new, now)
        if (value["source"], value["origin"]) not in known
    ]
    gained = _gained(kept, new, item.value) if old.status in LIVE and not doubt else _Words({}, [])
    if gained.update or gained.also:
        before = {name: kept.model_dump(mode="json")[name] for name in gained.update}
        change = Change("", old.id, "merged", now, "writer", "", None, next(iter(new.sources), None), before)
        key, value = change_record(evidence, change)
        better = kept.model_copy(update={**gained.update, "updated_at": now, "version": kept.version + 1})
        ops.append(put(shelf.evidence_of(old.id), key, value))
        ops.append(put(shelf.lessons, old.id, record(better, [*fingerprints(item.value)[1:], *gained.also]), FIELDS))
    if ops:
        yield from unless_embedding_fails(ops)
    found = yield from read_one(shelf, old.id)
    if old.status == "quarantined":
        return Written("quarantined", found[1], doubt or "it was set aside before")
    if old.status not in LIVE:
        return Written("merged" if ops else "unchanged", found[1], f"it is known and {old.status}")
    return Written("merged" if ops else "unchanged", found[1])


def _gained(old: Lesson, new: Lesson, value: dict[str, Any]) -> _Words:
    update: dict[str, Any] = {}
    if fold(old.text) != fold(new.text) and len(set(tokens(new.text))) > len(set(tokens(old.text))):
        update["text"] = new.text
    for name in ("when", "when_not", "why", "topic", "trigger"):
        if not getattr(old, name) and getattr(new, name):
            update[name] = getattr(new, name)
    tags = list(dict.fromkeys([*old.tags, *new.tags]))[:16]
    if tags != old.tags:
        update["tags"] = tags
    also = [new.trigger.fingerprint] if new.trigger and new.trigger.fingerprint else []
    if "trigger" in update or not old.trigger:
        also = []
    return _Words(update, [one for one in also if one not in fingerprints(value)])


def _link(shelf: Shelf, new: Lesson, items: Iterable[Item]) -> Plan[None]:
    """Record on both sides which lessons advise the opposite. Recall never shows the two together."""
    words = Words.of(new.text)
    near: list[tuple[int, Item]] = []
    for item in items:
        if item.value.get("status") in LIVE and isinstance(item.value.get("text"), str):
            shared = len(words.counts.keys() & shelf.words(item).counts.keys())
            if 3 * shared >= len(words.counts):
                near.append((shared, item))
    for item in _most_shared(near):
        if opposed(item.value["text"], new.text):
            for one, other in ((new.id, item.key), (item.key, new.id)):
                try:
                    yield from move(shelf, one, None, "opposed", by="writer", why=f"{other} advises the opposite")
                except KeyError:
                    logger.warning("Left the damaged lesson %r without its link", one)


def _make_room(shelf: Shelf) -> Plan[None]:
    """Retire the least useful lessons above the cap; an approved one never goes."""
    found = yield from read_all(shelf)
    live = [one for one in found.values() if one[1].status in LIVE]
    idle = [one for one in live if not one[2].approved]
    idle.sort(
        key=lambda one: (usefulness(one[1]), one[1].last_used_at or one[1].created_at or shelf.clock(), one[1].id)
    )
    for one in idle[: max(len(live) - shelf.policy.max_kept, 0)]:
        yield from moved(shelf, one, "retired", "retired", by="policy", why=f"{shelf.policy.max_kept} lessons are kept")
