"""Merge lessons that say the same, and find those that say the opposite. Nothing is destroyed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
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

COMPARED = 12
"""Lessons, those with the most words in common, that a new one is compared with: bounds the time of a write."""

SAME_VECTORS = 0.95
"""Similarity of vectors from which two lessons in other words may be one: near the top of what embedding models give
for paraphrases, so that a model without an opinion merges nothing."""

MANY = 3
"""More lessons than this as near as that say that the model does not tell lessons apart."""


def twin_of(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Item | None:
    """The item that says the same already: under the same id, in another spelling, or nearly in the same words.

    A superseded one of the same id counts only if no live one says the same.
    """
    same_id = items.get(new.id)
    if same_id is not None and (new.name or same_id.value.get("status") != "superseded"):
        return same_id
    near = [item for item in _sharing(shelf, new, items, 2) if item.value.get("kind") == new.kind]
    for item in near:
        if fold(item.value["text"]) == fold(new.text) and item.key not in new.supersedes:
            return item
    if new.status != "candidate" or new.name is not None:  # under a name, other words are a correction
        return same_id
    bound = [item for item in near if item.key not in new.supersedes and _is_bound_alike(new, item.value)]
    return next((item for item in bound[:COMPARED] if same(item.value["text"], new.text)), same_id)


def twin_by_vectors(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[Item | None]:
    """The item that says the same in other words, by the store's embedding model, where the words do not object."""
    if new.name is not None or new.status != "candidate" or not shelf.vectors:
        return None
    near = yield from nearest(shelf, new.text)
    close = [key for key, score in near.items() if SAME_VECTORS <= score <= 1.001]
    if len(close) > MANY:
        return None
    for key in sorted(close, key=lambda key: (-near[key], key)):
        item = items.get(key)
        if item is None or key in new.supersedes or item.value.get("kind") != new.kind:
            continue
        if _is_live(item) and _is_bound_alike(new, item.value) and same_in_other_words(item.value["text"], new.text):
            return item
    return None


def opposites(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> list[str]:
    """The ids of lessons that advise the opposite of a new one. Recall never shows the two together."""
    near = [item for item in _sharing(shelf, new, items, 3) if item.key != new.id]
    return [item.key for item in near[:COMPARED] if opposed(item.value["text"], new.text)]


def merge(shelf: Shelf, item: Item, new: Lesson, doubt: str | None) -> Plan[Written | None]:
    """Unite the evidence of a known lesson and a new one; the better wording stays.

    Where nothing is new, nothing changes. `None` if the known record is damaged: the new lesson may replace it.
    """
    evidence = (yield from evidence_about(shelf, [item.key]))[item.key]
    kept = lesson_in(item)
    if kept is None:
        return None
    now = shelf.clock()
    old = folded(kept, evidence)
    about = shelf.evidence_of(old.id)
    known = {(str(source["source"]), source["origin"]) for source in evidence.sources}
    ops: list[Op] = [
        put(about, key, value)
        for key, value in source_records(new, now)
        if (value["source"], value["origin"]) not in known
    ]
    if old.status in LIVE and not doubt:
        update, failures = _update(kept, new, now, evidence.approved), _new_failures(new, item.value)
        change = Change("", old.id, "merged", now, "writer", "", None, run_of(new), {})
        if update or failures:
            better = kept.model_copy(update={**update, "updated_at": now, "version": kept.version + 1})
            before, after = ({name: one.model_dump(mode="json")[name] for name in update} for one in (kept, better))
            change = replace(change, before=before, after=after | ({ALSO: failures} if failures else {}))
            ops.append(put(shelf.lessons, old.id, record(better, [*fingerprints(item.value), *failures]), FIELDS))
        if ops:
            ops.append(put(about, *change_record(evidence, change)))
    elif old.status == "retired" and not doubt and (last := evidence.last_move) and last.by in ("policy", "evidence"):
        # A lesson that made room returns as if it were new; one that lost too often is on probation.
        status: LessonStatus = "candidate" if last.by == "policy" else "probation"
        why, run = "it was learned again", run_of(new)
        ops += moving(shelf, Read(item, old, evidence), status, "restored", by="writer", why=why, run=run)
    yield from unless_embedding_fails(ops)
    merged = (yield from settled(shelf, [old.id]))[old.id].lesson
    if old.status == "quarantined":
        return Written("quarantined", merged, doubt or "it was set aside before")
    reason = ("" if ops else "it is known") if merged.status in LIVE else f"it is known and {merged.status}"
    return Written("merged" if ops else "unchanged", merged, reason)


def source_records(lesson: Lesson, at: datetime) -> list[tuple[str, dict[str, Any]]]:
    """What says which episodes a lesson rests on, and how far each can be trusted."""
    return [source_record(source, lesson.origin, at) for source in lesson.sources or [""]]


def of_any_tool(when: str, tool: str | None) -> str:
    """An occasion that names a tool, with `a tool` in its place."""
    return re.sub(rf"(?:\bthe )?(?<!\w)`?{re.escape(tool)}`?(?!\w)(?: tool\b)?", "a tool", when) if tool else when


def run_of(new: Lesson) -> str | None:
    """The run that a lesson was offered by."""
    return next(iter(new.sources), None)


def _sharing(shelf: Shelf, new: Lesson, items: Mapping[str, Item], part: int) -> list[Item]:
    """The live lessons that share at least one in `part` of a lesson's words, those with the most first."""
    words = set(tokens(new.text))
    found: Iterable[tuple[int, Item]] = shelf.index.sharing(words, (len(words) + part - 1) // part)
    ranked = sorted(found, key=lambda pair: (-pair[0], pair[1].key))
    return [items[known.key] for _, known in ranked if known.key in items and _is_live(items[known.key])]


def _is_live(item: Item) -> bool:
    return item.value.get("status") in LIVE and isinstance(item.value.get("text"), str)


def _is_bound_alike(new: Lesson, value: Mapping[str, Any]) -> bool:
    """Whether a record is bound to the same tool, or to none, as a lesson, and has the same name, or none."""
    trigger = value.get("trigger")
    tool = trigger.get("tool") if isinstance(trigger, dict) else None
    return bool(tool_of(new) == tool) and value.get("name") == new.name


def _update(old: Lesson, new: Lesson, now: datetime, approved: bool) -> dict[str, Any]:
    """The fields that the old lesson takes over from the new one; what a person approved keeps its words."""
    update: dict[str, Any] = {} if approved else _better_words(old, new)
    if old.trigger and old.trigger.tool and old.trigger.tool != tool_of(new):
        # Learned with another tool too, it is not bound to the first.
        update["trigger"] = old.trigger.model_copy(update={"tool": None})
        if not approved and (when := of_any_tool(old.when, old.trigger.tool)) != old.when:
            update["when"] = when
    if old.topic and new.topic and old.topic != new.topic:
        update["topic"] = None  # what two topics taught holds for all of them
    if old.expires_at is not None and old.expires_at <= now:
        update["expires_at"] = new.expires_at
    return update


def _better_words(old: Lesson, new: Lesson) -> dict[str, Any]:
    """The wording that says more, and the texts that the old lesson lacks."""
    update: dict[str, Any] = {}
    if fold(old.text) != fold(new.text) and _informs(new.text) > _informs(old.text):
        update["text"] = new.text
    for name in ("when", "when_not", "why", "topic"):
        if not getattr(old, name) and getattr(new, name):
            update[name] = getattr(new, name)
    tags = _united(old.tags, new.tags)
    return update | ({"tags": tags} if tags != old.tags else {})


def _united(old: Collection[str], new: Collection[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))[:MOST]


def _informs(text: str) -> tuple[int, int]:
    """How many different content words a wording has; of equals the shorter is better."""
    return len(set(tokens(text))), -len(text)


def _new_failures(new: Lesson, value: dict[str, Any]) -> list[str]:
    """The failure that the new lesson is bound to, if the record does not have it."""
    bound = failure_of(new)
    return [bound] if bound and bound not in fingerprints(value) else []
