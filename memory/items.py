"""Items: how a lesson and an episode are stored, each as one item, and what a lesson is now by its item and evidence.

The records about a lesson, which the evidence adds up, are in `evidence.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from langgraph.store.base import Item

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.evidence import COUNTS, LIVE, TRUST, Evidence
from langgraph_reflexion.schemas import Episode, Lesson, Origin
from langgraph_reflexion.text import hash_of
from langgraph_reflexion.text.tokens import fold

logger = logging.getLogger(__name__)

FIELDS = ["text", "when"]
"""What a store with an index embeds of a lesson."""

MORE_FAILURES = "also"
"""Field of a lesson's item with the fingerprints of further failures that it is bound to."""

TASKS = "asked"
"""Field of a lesson's item with the tasks that taught it, each as its words (`index.task_words`)."""

M = TypeVar("M", Lesson, Episode)


class StoredLesson(NamedTuple):
    """A lesson as it is now, with the item and the evidence from which it is computed."""

    item: Item
    lesson: Lesson
    evidence: Evidence


def stored_lesson(item: Item, evidence: Evidence) -> StoredLesson | None:
    """The lesson of an item with its counts, sources, origin and latest status from the evidence. `None` if the item is
    damaged."""
    if (lesson := parse_item(item, Lesson)) is None:
        return None
    statuses, counts = evidence.statuses(), evidence.counts
    used = max((datetime.fromisoformat(run["at"]) for run in evidence.shown), default=lesson.last_used_at)
    changed = max((change.at for change in evidence.changes if change.action != "added"), default=lesson.updated_at)
    named = [*lesson.sources, *(str(source["source"]) for source in evidence.sources)]
    now = {
        "sources": [source for source in dict.fromkeys(named) if source],
        "origin": _origin(lesson, evidence),
        "status": statuses[-1] if statuses else lesson.status,
        **{name: max(getattr(lesson, name) + counts[name], 0) for name in COUNTS},
        "last_used_at": used,
        "updated_at": max(filter(None, (lesson.updated_at, changed)), default=None),
    }
    return StoredLesson(item, lesson.model_copy(update=now), evidence)


def _origin(lesson: Lesson, evidence: Evidence) -> Origin:
    """The origin of the least trusted source. Of several origins of one source the best counts, such as `verified` once
    its run had confirmed the lesson."""
    unnamed = [] if evidence.sources else [""]
    origins = dict.fromkeys(lesson.sources or unnamed, lesson.origin)
    for record in evidence.sources:
        source: str = record["source"]
        origin: Any = record.get("origin")
        if origin in TRUST:
            origins[source] = max(origins.get(source, origin), origin, key=TRUST.index)
    return min(origins.values(), default=lesson.origin, key=TRUST.index)


def lesson_id(namespace: Namespace, lesson: Lesson) -> str:
    """The id, a hash of namespace, kind and first wording. Case, spacing and final punctuation do not matter."""
    return hash_of(json.dumps([list(namespace), lesson.kind, fold(lesson.text)], ensure_ascii=False), 16)


def item_value(lesson: Lesson) -> dict[str, Any]:
    """The value of a lesson's own item, as plain JSON.

    Counts of zero are left out, because the real counts are in the evidence and a person could mistake the zeros for
    them.
    """
    return {name: part for name, part in lesson.model_dump(mode="json").items() if part or name not in COUNTS}


def is_live(item: Item) -> bool:
    """Whether an item is a lesson that may be shown."""
    return item.value.get("status") in LIVE and isinstance(item.value.get("text"), str)


def newest_first(items: Iterable[Item]) -> list[Item]:
    """Lessons or episodes by the time when they were made."""
    return sorted(items, key=lambda item: (str(item.value.get("created_at")), item.key), reverse=True)


def tool_of(lesson: Lesson) -> str | None:
    """The tool that a lesson is bound to, or `None`."""
    return lesson.trigger.tool if lesson.trigger else None


def failure_of(lesson: Lesson) -> str | None:
    """The fingerprint of the failure that a lesson is bound to, or `None`."""
    return lesson.trigger.fingerprint if lesson.trigger else None


def trigger_in(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The trigger in a lesson's item. Empty if it has none, or a damaged one."""
    trigger = value.get("trigger")
    return trigger if isinstance(trigger, dict) else {}


def fingerprints(value: Mapping[str, Any]) -> list[str]:
    """The fingerprints of all failures that a lesson's item is bound to."""
    also = value.get(MORE_FAILURES)
    found = [trigger_in(value).get("fingerprint"), *(also if isinstance(also, list) else [])]
    return [mark for mark in found if isinstance(mark, str) and mark]


def parse_item(item: Item, kind: type[M]) -> M | None:
    """The lesson or episode of an item, or `None` and a warning if it is damaged."""
    try:
        # Besides our marks, another release may keep fields that this one does not know.
        known = {name: value for name, value in item.value.items() if name in kind.model_fields}
        found = kind.model_validate(known)
        if found.id != item.key or (isinstance(found, Lesson) and not (found.text.strip() and found.created_at)):
            raise ValueError("its id, text or time is missing or wrong")
        return found
    except (ValueError, AttributeError) as error:
        logger.warning("Skipped the damaged %s %r: %s", kind.__name__.lower(), item.key, str(error).split("\n")[0])
        return None
