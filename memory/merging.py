"""Merge a new lesson into a known one that says the same. Nothing is destroyed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.store.base import Item, Op

from langgraph_reflexion.memory.access import Plan, put
from langgraph_reflexion.memory.changes import MOST, moving, retry_without_vectors, settled
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
    source_records,
    tool_of,
)
from langgraph_reflexion.memory.shelf import Read, Shelf, evidence_about
from langgraph_reflexion.memory.upkeep import fold_runs, is_due
from langgraph_reflexion.memory.values import Change, Written
from langgraph_reflexion.schemas import TEXTS, Lesson, LessonStatus
from langgraph_reflexion.text.tokens import fold, tokens


def merge(shelf: Shelf, item: Item, new: Lesson, doubt: str | None) -> Plan[Written | None]:
    """Combine the evidence of a known and a new lesson, and keep the better wording. If nothing is new, change nothing.
    `None` if the known record is damaged, or forgotten meanwhile: the new lesson may replace it.
    """
    run = run_of(new)
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
        change = Change("", old.id, "merged", now, "writer", "", None, run, {})
        if update or failures:
            better = kept.model_copy(update={**update, "updated_at": now, "version": kept.version + 1})
            before, after = (
                {name: lesson.model_dump(mode="json")[name] for name in update} for lesson in (kept, better)
            )
            change = replace(change, before=before, after=after | ({ALSO: failures} if failures else {}))
            ops.append(put(shelf.lessons, old.id, record(better, [*fingerprints(item.value), *failures]), FIELDS))
        if ops:
            ops.append(put(about, *change_record(evidence, change)))
    elif (
        old.status == "retired"
        and not doubt
        and (ops or not new.sources)
        and (last := evidence.last_status_change)
        and last.by in ("policy", "evidence")
    ):
        # A lesson that was removed to make room returns as new. One that lost too often returns on probation.
        status: LessonStatus = "candidate" if last.by == "policy" else "probation"
        why = "it was learned again"
        ops += moving(shelf, Read(item, old, evidence), status, "restored", by="writer", why=why, run=run)
    yield from retry_without_vectors(ops)
    if (now_known := (yield from settled(shelf, [old.id])).get(old.id)) is None:
        return None
    merged = now_known.lesson
    if is_due(now_known.evidence, now):
        yield from fold_runs(shelf, old.id)
    if old.status == "quarantined":
        return Written("quarantined", merged, doubt or "it was set aside before")
    reason = ("" if ops else "it is known") if merged.status in LIVE else f"it is known and {merged.status}"
    return Written("merged" if ops else "unchanged", merged, reason)


def run_of(new: Lesson) -> str | None:
    """The run that a new lesson was written by."""
    return next(iter(new.sources), None)


def of_any_tool(when: str, tool: str | None) -> str:
    """An occasion that names a tool, with `a tool` in its place."""
    return re.sub(rf"(?:\bthe )?(?<!\w)`?{re.escape(tool)}`?(?!\w)(?: tool\b)?", "a tool", when) if tool else when


def is_live(item: Item) -> bool:
    """Whether an item is a lesson that may be shown."""
    return item.value.get("status") in LIVE and isinstance(item.value.get("text"), str)


def has_same_tool(new: Lesson, value: Mapping[str, Any]) -> bool:
    """Whether a record and a lesson have the same tool, or none, and the same name, or none."""
    trigger = value.get("trigger")
    tool = trigger.get("tool") if isinstance(trigger, dict) else None
    return bool(tool_of(new) == tool) and value.get("name") == new.name


def _update(old: Lesson, new: Lesson, now: datetime, approved: bool) -> dict[str, Any]:
    """The fields that the old lesson takes from the new one. A text that a person approved stays."""
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
    for name in TEXTS:
        ours, theirs = getattr(old, name), getattr(new, name)
        if isinstance(ours, list):
            update |= {name: united} if (united := list(dict.fromkeys([*ours, *theirs]))[:MOST]) != ours else {}
        elif theirs and not ours:
            update[name] = theirs
    return update


def _informs(text: str) -> tuple[int, int]:
    """The number of different content words in a wording. Of equal wordings, the shorter is better."""
    return len(set(tokens(text))), -len(text)


def _new_failures(new: Lesson, value: dict[str, Any]) -> list[str]:
    """The failure that the new lesson is bound to, if the record does not have it and has room for it."""
    bound, known = failure_of(new), fingerprints(value)
    return [bound] if bound and bound not in known and len(known) <= MOST else []
