"""Records: how lessons, evidence and changes lie in a store, and how they are folded into what a lesson is now.

A lesson's own item holds its words. What many writers add at once is appended under keys of their own in
`(*namespace, "evidence", lesson id)`: a `source` it rests on, a `run` it was shown in or withheld from, a
`change` of its life. Nothing is counted by reading, changing and writing one item.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langgraph.store.base import Item
from pydantic import ValidationError

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.shelf.values import Change
from langgraph_reflexion.schemas import Lesson, LessonStatus, Origin, Trigger
from langgraph_reflexion.text.words import fold

logger = logging.getLogger(__name__)

LIVE: tuple[LessonStatus, ...] = ("candidate", "active", "probation")
"""Statuses in which a lesson may be shown."""

TRUST: tuple[Origin, ...] = ("observed", "judged", "told", "verified")
"""From the least trusted to the most."""

FIELDS = ["text", "when"]
"""What a store with an index embeds of a lesson."""

ALSO = "also"
"""Where a record keeps further fingerprints it is known for."""


@dataclass(frozen=True)
class Evidence:
    """Everything that was appended about one lesson."""

    sources: tuple[dict[str, Any], ...] = ()
    runs: tuple[dict[str, Any], ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def shown(self) -> tuple[dict[str, Any], ...]:
        """The runs it was shown in, the latest last."""
        return tuple(run for run in self.runs if not run.get("withheld") and not run.get("tried"))

    @property
    def counted(self) -> list[dict[str, Any]]:
        """The runs that were won or lost with it, those that wrote it and went on with it as well; the latest last."""
        return [run for run in self.runs if not run.get("withheld") and run.get("result") in ("win", "loss")]

    def with_run(self, run: dict[str, Any]) -> Evidence:
        """The same once a run is counted, in place of what was counted for it before."""
        others = [one for one in self.runs if one.get("run") != run["run"]]
        return replace(self, runs=tuple(sorted([*others, run], key=lambda one: (one["at"], str(one.get("run"))))))

    def with_change(self, change: Change) -> Evidence:
        """The same once something has happened."""
        return replace(self, changes=(*self.changes, change))

    @property
    def vouched(self) -> bool:
        """Whether a person had the last word on it and wants it shown."""
        return bool(self.words) and self.words[-1].status in LIVE

    @property
    def approved(self) -> bool:
        """Whether a person made it active."""
        return bool(self.words) and self.words[-1].status == "active"

    @property
    def words(self) -> tuple[Change, ...]:
        """The changes by which a person decides: also one that overrules what the evidence or the cap did, and no
        other that only takes something back."""
        of = {change.id: change for change in self.changes}
        undone = {change.undoes for change in self.changes}
        return tuple(
            change
            for change in self.changes
            if change.by == "person" and change.status is not None and change.id not in undone
            if change.action != "undone" or (change.run is None and _overrules(of.get(change.undoes or "")))
        )

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

    def statuses(self, but: Collection[Change] = ()) -> list[LessonStatus]:
        """The statuses it was given, in order; with some changes left out, only by those that nobody took back.

        What the evidence, or the cap, said while a person decided for the lesson gives way to the person.
        """
        given: list[LessonStatus] = []
        word: LessonStatus | None = None
        words = self.words
        for change in [one for one in self.standing if one not in but] if but else self.changes:
            outranked = (change.by == "evidence" and word in LIVE) or (change.by == "policy" and word == "active")
            if change.status is None or outranked:
                continue
            given.append(change.status)
            word = change.status if change in words else word
        return given

    @property
    def last_move(self) -> Change | None:
        """The change that gave it the status it has."""
        return next((change for change in reversed(self.changes) if change.status is not None), None)

    @property
    def born(self) -> LessonStatus | None:
        """The status it had before any change gave it one."""
        return next((change.before.get("status") for change in self.changes if change.status is not None), None)


def _overrules(change: Change | None) -> bool:
    return change is not None and change.by in ("evidence", "policy")


def hash_of(text: str, letters: int = 32) -> str:
    """By which exactly this text is known again, in every process."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:letters]


def lesson_id(namespace: Namespace, lesson: Lesson) -> str:
    """The id that follows scope, kind and first wording; another spelling of it gives the same."""
    return hash_of(json.dumps([list(namespace), lesson.kind, fold(lesson.text)], ensure_ascii=False), 16)


def record(lesson: Lesson, also: Iterable[str] = ()) -> dict[str, Any]:
    """A lesson as plain JSON, beside further fingerprints it is known for."""
    value = lesson.model_dump(mode="json")
    more = [one for one in dict.fromkeys(also) if one and one != failure_of(lesson)]
    return {**value, ALSO: more} if more else value


def tool_of(lesson: Lesson) -> str | None:
    """The tool that a lesson is bound to."""
    return lesson.trigger.tool if lesson.trigger else None


def failure_of(lesson: Lesson) -> str | None:
    """The failure that a lesson is bound to, by its fingerprint."""
    return lesson.trigger.fingerprint if lesson.trigger else None


def fingerprints(value: dict[str, Any]) -> list[str]:
    """The failures that a record is bound to."""
    trigger = value.get("trigger")
    first = trigger.get("fingerprint") if isinstance(trigger, dict) else None
    also = value.get(ALSO)
    found = [first, *(also if isinstance(also, list) else [])]
    return [one for one in found if isinstance(one, str) and one]


def lesson_in(item: Item, matched: str | None = None) -> Lesson | None:
    """The lesson of an item, or `None` and a warning where the record is damaged.

    `matched` is the fingerprint by which it was found, and becomes that of its trigger.
    """
    try:
        lesson = Lesson.model_validate({name: value for name, value in item.value.items() if name != ALSO})
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


def folded(lesson: Lesson, evidence: Evidence) -> Lesson:
    """The lesson as it is now: counts and sources united, trust the least of its sources, the latest status."""
    shown = evidence.shown
    withheld = [run for run in evidence.runs if run.get("withheld")]
    origins = [lesson.origin, *(one["origin"] for one in evidence.sources if one.get("origin") in TRUST)]
    statuses = evidence.statuses()
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
