"""Records: how lessons, evidence and changes lie in a store, and how they are folded into what a lesson is now.

A lesson's own item holds its words. What many writers add at once is appended under keys of their own in
`(*namespace, "evidence", lesson id)`: a `source` it rests on, a `run` it was shown in or withheld from, a
`change` of its life. Nothing is counted by reading, changing and writing one item.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langgraph.store.base import Item
from pydantic import ValidationError

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.memory.words import fold
from langgraph_reflexion.schemas import Lesson, LessonStatus, Origin, Trigger

logger = logging.getLogger(__name__)

LIVE: tuple[LessonStatus, ...] = ("candidate", "active", "probation")
"""Statuses in which a lesson may be shown."""

TRUST: tuple[Origin, ...] = ("observed", "judged", "told", "verified")
"""From the least trusted to the most."""

FIELDS = ["text", "when"]
"""What a store with an index embeds of a lesson."""

_ALSO = "also"


@dataclass(frozen=True)
class Evidence:
    """Everything that was appended about one lesson."""

    sources: tuple[dict[str, Any], ...] = ()
    runs: tuple[dict[str, Any], ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def shown(self) -> tuple[dict[str, Any], ...]:
        """The runs it was shown in, the latest last."""
        return tuple(run for run in self.runs if not run.get("withheld"))

    @property
    def vouched(self) -> bool:
        """Whether a person had the last word on it and wants it shown."""
        said = [change for change in self.changes if change.by == "person" and change.status is not None]
        return bool(said) and said[-1].action in ("approved", "restored", "undone") and said[-1].status in LIVE

    @property
    def approved(self) -> bool:
        """Whether a person made it active."""
        said = [change for change in self.changes if change.by == "person" and change.status is not None]
        return bool(said) and said[-1].status == "active"

    @property
    def approved_words(self) -> frozenset[str]:
        """The texts that a person approved as they stood, by their hashes."""
        last = next((change for change in reversed(self.standing) if change.action == "approved"), None)
        return frozenset(last.words) if last is not None else frozenset()

    @property
    def standing(self) -> tuple[Change, ...]:
        """The changes that nobody has taken back."""
        undone = {change.undoes for change in self.changes}
        return tuple(change for change in self.changes if change.id not in undone and change.action != "undone")

    def stood(self, born: LessonStatus, but: Change | None = None) -> list[LessonStatus]:
        """The statuses it had, the first one too, without those that were taken back, or this change made."""
        first = next((change.before.get("status") for change in self.changes if change.status is not None), None)
        return [first or born, *(one.status for one in self.standing if one.status is not None and one != but)]


def hash_of(text: str) -> str:
    """By which exactly this text is known again."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def lesson_id(namespace: Namespace, lesson: Lesson) -> str:
    """The id that follows scope, kind and first wording; another spelling of it gives the same."""
    said = json.dumps([list(namespace), lesson.kind, fold(lesson.text)], ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]


def record(lesson: Lesson, also: Iterable[str] = ()) -> dict[str, Any]:
    """A lesson as plain JSON, beside further fingerprints it is known for."""
    value = lesson.model_dump(mode="json")
    own = lesson.trigger.fingerprint if lesson.trigger else None
    more = [one for one in dict.fromkeys(also) if one and one != own]
    return {**value, _ALSO: more} if more else value


def fingerprints(value: dict[str, Any]) -> list[str]:
    """The failures that a record is bound to."""
    trigger = value.get("trigger")
    first = trigger.get("fingerprint") if isinstance(trigger, dict) else None
    also = value.get(_ALSO)
    found = [first, *(also if isinstance(also, list) else [])]
    return [one for one in found if isinstance(one, str) and one]


def lesson_in(item: Item, matched: str | None = None) -> Lesson | None:
    """The lesson of an item, or `None` and a warning where the record is damaged.

    `matched` is the fingerprint by which it was found, and becomes that of its trigger.
    """
    try:
        lesson = Lesson.model_validate({name: value for name, value in item.value.items() if name != _ALSO})
    except (ValidationError, AttributeError) as error:
        logger.warning("Left out the damaged lesson %r: %s", item.key, str(error).split("\n")[0])
        return None
    if (
        lesson.id != item.key
        or not lesson.text.strip()
        or lesson.created_at is None
        or lesson.created_at.tzinfo is None
    ):
        logger.warning("Left out the damaged lesson %r: its id, text or time is missing", item.key)
        return None
    if matched is not None:
        trigger = (lesson.trigger or Trigger()).model_copy(update={"fingerprint": matched})
        lesson = lesson.model_copy(update={"trigger": trigger})
    return lesson


# ---------------------------------------------------------------- evidence


def source_record(source: str, origin: Origin, at: datetime) -> tuple[str, dict[str, Any]]:
    """The key and value that say: this lesson also rests on that episode."""
    return f"source/{origin}/{source}", {"type": "source", "source": source, "origin": origin, "at": at.isoformat()}


def run_record(
    run: str, *, withheld: bool, result: str | None, at: datetime, beside: int = 0
) -> tuple[str, dict[str, Any]]:
    """The key and value that say what came of a run; the last to finish under a run id stands.

    `beside` says how many other lessons it was shown with that may as well have been the reason.
    """
    value: dict[str, Any] = {
        "type": "run",
        "run": run,
        "withheld": withheld,
        "result": result,
        "at": at.isoformat(),
        **({"beside": beside} if beside else {}),
    }
    return f"run/{run}", value


def change_record(known: Evidence, change: Change) -> tuple[str, dict[str, Any]]:
    """The key and value of a change, after all those already known of its lesson."""
    place = 1 + max((int(_place(one.id)) for one in known.changes), default=-1)
    value: dict[str, Any] = {
        "type": "change",
        "lesson": change.lesson,
        "action": change.action,
        "at": change.at.isoformat(),
        "by": change.by,
        "why": change.why,
        "status": change.status,
        "run": change.run,
        "before": change.before,
        **({"words": list(change.words)} if change.words else {}),
        **({"undoes": change.undoes} if change.undoes else {}),
    }
    said = hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8", "replace")).hexdigest()[:8]
    key = f"change/{place:06d}/{said}"
    return key, {**value, "id": f"{change.lesson}.{place:06d}.{said}"}


def lesson_of_change(change_id: str) -> str | None:
    """The lesson that a change's id belongs to, or `None` where it is no such id."""
    found = re.fullmatch(r"([\w-]+)\.\d{6}\.[0-9a-f]{8}", change_id)
    return found.group(1) if found else None


def evidence_in(items: Iterable[Item]) -> Evidence:
    """What these items say of one lesson; damaged ones are left out."""
    sources, runs, changes = [], [], []
    for item in items:
        value = item.value
        try:
            at = datetime.fromisoformat(value["at"])
            if value["type"] == "source":
                sources.append((at, str(value["source"]), value))
            elif value["type"] == "run":
                runs.append((at, str(value["run"]), value))
            elif value["type"] == "change":
                changes.append((item.key, _change(value)))
        except (KeyError, TypeError, ValueError):
            logger.warning("Left out the damaged evidence %r", item.key)
    return Evidence(
        sources=tuple(one[2] for one in sorted(sources, key=lambda one: one[:2])),
        runs=tuple(one[2] for one in sorted(runs, key=lambda one: one[:2])),
        changes=tuple(one[1] for one in sorted(changes, key=lambda one: one[0])),
    )


def folded(lesson: Lesson, evidence: Evidence) -> Lesson:
    """The lesson as it is now: counts and sources united, trust the least of its sources, the latest status."""
    shown = evidence.shown
    withheld = [run for run in evidence.runs if run.get("withheld")]
    origins = [lesson.origin, *(one["origin"] for one in evidence.sources if one.get("origin") in TRUST)]
    statuses = [change.status for change in evidence.changes if change.status is not None]
    used = max((datetime.fromisoformat(run["at"]) for run in shown), default=lesson.last_used_at)
    changed = max((change.at for change in evidence.changes if change.action != "added"), default=lesson.updated_at)
    named = [*lesson.sources, *(str(one["source"]) for one in evidence.sources)]
    return lesson.model_copy(
        update={
            "sources": [one for one in dict.fromkeys(named) if one],
            "origin": min(origins, key=TRUST.index),
            "status": statuses[-1] if statuses else lesson.status,
            "shown": lesson.shown + len(shown),
            "wins": lesson.wins + _count(shown, "win"),
            "losses": lesson.losses + _count(shown, "loss"),
            "withheld_wins": lesson.withheld_wins + _count(withheld, "win"),
            "withheld_losses": lesson.withheld_losses + _count(withheld, "loss"),
            "last_used_at": used,
            "updated_at": max(filter(None, (lesson.updated_at, changed)), default=None),
        }
    )


def _count(runs: Iterable[dict[str, Any]], result: str) -> int:
    return sum(run.get("result") == result for run in runs)


def _place(change_id: str) -> str:
    return change_id.split(".")[1]


def _change(value: dict[str, Any]) -> Change:
    return Change(
        id=value["id"],
        lesson=value["lesson"],
        action=value["action"],
        at=datetime.fromisoformat(value["at"]),
        by=value["by"],
        why=value["why"],
        status=value["status"],
        run=value["run"],
        before=value["before"],
        words=tuple(value.get("words", ())),
        undoes=value.get("undoes"),
    )
