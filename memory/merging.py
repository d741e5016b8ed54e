"""Merging: lessons that say the same become one, those that say the opposite are linked; nothing is destroyed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.store.base import Item, Op

from langgraph_reflexion.memory.access import Plan, put
from langgraph_reflexion.memory.changes import MOST, moving, settled, unless_embedding_fails
from langgraph_reflexion.memory.records import (
    ALSO,
    FIELDS,
    LIVE,
    change_record,
    failure_of,
    fingerprints,
    folded,
    lesson_in,
    record,
    source_record,
    tool_of,
)
from langgraph_reflexion.memory.shelf import Read, Shelf, evidence_about, nearest
from langgraph_reflexion.memory.values import Change, Written
from langgraph_reflexion.schemas import Lesson, LessonStatus
from langgraph_reflexion.text.likeness import opposed, same, same_in_other_words
from langgraph_reflexion.text.normalize import fold
from langgraph_reflexion.text.tokens import tokens

CLOSE_LOOKS = 12
"""Lessons that a new one is compared with word by word."""


SURELY = 0.95
"""Similarity of vectors from which two lessons in other words are one."""

MOST_CLOSE = 3


def twin_of(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Item | None:
    """The item that says the same already: under the same id, in another spelling, or nearly in the same words.

    One whose place was taken is that only where nobody else says the same.
    """
    known_by_id = items.get(new.id)
    if known_by_id is not None and (new.name or known_by_id.value.get("status") != "superseded"):
        return known_by_id
    said, words = fold(new.text), set(tokens(new.text))
    near: list[tuple[int, Item]] = []
    for shared, known in shelf.index.sharing(words, (len(words) + 1) // 2):
        item = items.get(known.key)
        if item is None or item.key in new.supersedes:
            continue
        value = item.value
        text = value.get("text")
        if value.get("kind") != new.kind or not isinstance(text, str) or value.get("status") not in LIVE:
            continue
        if fold(text) == said:
            return item
        # A named entry that says something else under its name is a correction, however alike the words are.
        if new.name is None and _bound_alike(new, value):
            near.append((shared, item))
    if new.status == "candidate":
        for item in _most_shared(near):
            if same(item.value["text"], new.text):
                return item
    return known_by_id


def twin_by_vectors(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[Item | None]:
    """The item that says the same in other words, where the store's embedding model sees it so.

    Where many are as near as that, the model does not tell lessons apart, and none is a twin.
    """
    if new.name is not None or new.status != "candidate" or not shelf.vectors:
        return None
    near = yield from nearest(shelf, new.text)
    close = sorted((key for key, score in near.items() if SURELY <= score <= 1.001), key=lambda key: (-near[key], key))
    if len(close) > MOST_CLOSE:
        return None
    for item in (items[key] for key in close if key in items and key not in new.supersedes):
        value, text = item.value, item.value.get("text")
        alike = value.get("kind") == new.kind and value.get("status") in LIVE and _bound_alike(new, value)
        if alike and isinstance(text, str) and same_in_other_words(text, new.text):
            return item
    return None


def _most_shared(near: list[tuple[int, Item]]) -> list[Item]:
    """Those with the most words in common; only they are worth a close look."""
    return [item for _, item in sorted(near, key=lambda one: (-one[0], one[1].key))[:CLOSE_LOOKS]]


def _bound_alike(new: Lesson, value: dict[str, Any]) -> bool:
    trigger = value.get("trigger")
    tool = trigger.get("tool") if isinstance(trigger, dict) else None
    return bool(tool_of(new) == tool) and value.get("name") == new.name


def merge(shelf: Shelf, item: Item, new: Lesson, doubt: str | None) -> Plan[Written | None]:
    """Unite the evidence; the better wording stays. Where nothing is new, nothing changes.

    `None` where the record is damaged, so that the new lesson may be written in its place.
    """
    evidence = (yield from evidence_about(shelf, [item.key]))[item.key]
    kept = lesson_in(item)
    if kept is None:
        return None
    now = shelf.clock()
    old = folded(kept, evidence)
    known = {(str(one["source"]), one["origin"]) for one in evidence.sources}
    ops: list[Op] = [
        put(shelf.evidence_of(old.id), key, value)
        for key, value in source_records(new, now)
        if (value["source"], value["origin"]) not in known
    ]
    if old.status in LIVE and not doubt:
        update, also = _gained(kept, new, now, evidence.approved), _learned_for(new, item.value)
        if ops and not (update or also):
            ops.append(put(shelf.evidence_of(old.id), *change_record(evidence, _merged(new, old, now))))
        if update or also:
            before = {name: value for name, value in kept.model_dump(mode="json").items() if name in update}
            better = kept.model_copy(update={**update, "updated_at": now, "version": kept.version + 1})
            after = {name: value for name, value in better.model_dump(mode="json").items() if name in update}
            after |= {ALSO: also} if also else {}
            change = replace(_merged(new, old, now), before=before, after=after)
            ops.append(put(shelf.evidence_of(old.id), *change_record(evidence, change)))
            ops.append(put(shelf.lessons, old.id, record(better, [*fingerprints(item.value), *also]), FIELDS))
    elif old.status == "retired" and not doubt and (last := evidence.last_move) and last.by in ("policy", "evidence"):
        again, status = Read(item, old, evidence), _candidate_or_worse(last)
        ops += moving(shelf, again, status, "restored", by="writer", why="it was learned again", run=run_of(new))
    yield from unless_embedding_fails(ops)
    found = (yield from settled(shelf, [old.id]))[old.id].lesson
    if old.status == "quarantined":
        return Written("quarantined", found, doubt or "it was set aside before")
    reason = ("" if ops else "it is known") if found.status in LIVE else f"it is known and {found.status}"
    return Written("merged" if ops else "unchanged", found, reason)


def _merged(new: Lesson, old: Lesson, now: datetime) -> Change:
    return Change("", old.id, "merged", now, "writer", "", None, run_of(new), {})


def _candidate_or_worse(retired: Change) -> LessonStatus:
    """Where a lesson is back: one that had to make room as if it were new, one that had lost too often on probation."""
    return "candidate" if retired.by == "policy" else "probation"


def source_records(lesson: Lesson, at: datetime) -> list[tuple[str, dict[str, Any]]]:
    """What says which episodes a lesson rests on, and how far each can be trusted."""
    return [source_record(source, lesson.origin, at) for source in lesson.sources or [""]]


def _gained(old: Lesson, new: Lesson, now: datetime, approved: bool) -> dict[str, Any]:
    """The fields that the old lesson takes over from the new one; what a person approved keeps its words."""
    update: dict[str, Any] = {} if approved else _better_words(old, new)
    if old.trigger and old.trigger.tool and old.trigger.tool != tool_of(new):
        # What was learned with another tool too is not bound to the first.
        update["trigger"] = old.trigger.model_copy(update={"tool": None})
        if not approved and (when := of_any_tool(old.when, old.trigger.tool)) != old.when:
            update["when"] = when
    if old.topic and new.topic and old.topic != new.topic:
        update["topic"] = None  # and what two sorts of task taught is for all sorts
    if old.expires_at is not None and old.expires_at <= now:
        update["expires_at"] = new.expires_at
    return update


def _better_words(old: Lesson, new: Lesson) -> dict[str, Any]:
    """The wording that says more, and what stands beside it where the old lesson has nothing there."""
    update: dict[str, Any] = {}
    if fold(old.text) != fold(new.text) and _worth(new.text) > _worth(old.text):
        update["text"] = new.text
    for name in ("when", "when_not", "why", "topic"):
        if not getattr(old, name) and getattr(new, name):
            update[name] = getattr(new, name)
    tags = list(dict.fromkeys([*old.tags, *new.tags]))[:MOST]
    if tags != old.tags:
        update["tags"] = tags
    return update


def _worth(text: str) -> tuple[int, int]:
    """How many different content words a wording has; of equals the shorter is better."""
    return len(set(tokens(text))), -len(text)


def of_any_tool(when: str, tool: str | None) -> str:
    """An occasion that names the tool it was met with, as it is with others."""
    return re.sub(rf"(?:\bthe )?(?<!\w)`?{re.escape(tool)}`?(?!\w)(?: tool\b)?", "a tool", when) if tool else when


def _learned_for(new: Lesson, value: dict[str, Any]) -> list[str]:
    """The failure that the new one answers, where the record does not know it."""
    bound = failure_of(new)
    return [bound] if bound and bound not in fingerprints(value) else []


def opposites(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> list[str]:
    """The lessons that advise the opposite of a new one. Recall never shows the two together."""
    words = set(tokens(new.text))
    near = [
        (shared, items[known.key])
        for shared, known in shelf.index.sharing(words, (len(words) + 2) // 3)
        if known.key in items and known.key != new.id and known.value.get("status") in LIVE
    ]
    texts = [(item.key, item.value.get("text")) for item in _most_shared(near)]
    return [key for key, text in texts if isinstance(text, str) and opposed(text, new.text)]


def run_of(new: Lesson) -> str | None:
    """The run that a lesson was offered by."""
    return next(iter(new.sources), None)
