"""Records: how lessons, evidence and changes are kept in a store, and what a lesson is now according to them.

A lesson's own item holds its words. Everything that several writers may add at once is appended, each under a key of
its own, in `(*namespace, "evidence", lesson id)`: a `source` it comes from, a `run` it was shown in or withheld from, a
`change` made to it. Nothing is counted by reading, changing and writing one item.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, get_args

from langgraph.store.base import Item
from pydantic import ValidationError

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.schemas import Lesson, LessonStatus, Origin, Trigger
from langgraph_reflexion.text.tokens import fold

logger = logging.getLogger(__name__)

LIVE: tuple[LessonStatus, ...] = ("candidate", "active", "probation")
"""Statuses in which a lesson may be shown."""

TRUST: tuple[Origin, ...] = ("observed", "judged", "told", "verified")
"""From the least trusted to the most."""

FIELDS = ["text", "when"]
"""What a store with an index embeds of a lesson."""

COUNTS = ("shown", "wins", "losses", "withheld_wins", "withheld_losses")
"""A lesson's counts of runs."""

MOST_RUNS = 1_000_000_000
"""The highest count that is believed. A much higher one is no count, and cannot be computed with."""

LISTED = 60
"""Runs of a lesson that are kept one by one; earlier ones are only counted. The oldest of these weighs less than a
twentieth in `estimate.recent`."""

ALSO = "also"
"""Field of a record for the fingerprints of further failures."""


ChangeAction = Literal[
    "added",
    "quarantined",
    "merged",
    "edited",
    "opposed",
    "superseded",
    "approved",
    "promoted",
    "demoted",
    "retired",
    "restored",
    "undone",
]
By = Literal["writer", "person", "evidence", "policy"]


@dataclass(frozen=True)
class Change:
    """One change of a lesson.

    `before` holds fields as they were and `after` as they became, `words` what was approved, by its hashes, `undoes`
    the change that was taken back.
    """

    id: str
    lesson: str
    action: ChangeAction
    at: datetime
    by: By = "writer"
    why: str = ""
    status: LessonStatus | None = None
    run: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    undoes: str | None = None


@dataclass(frozen=True)
class Evidence:
    """Everything that was appended about one lesson."""

    sources: tuple[dict[str, Any], ...] = ()
    runs: tuple[dict[str, Any], ...] = ()
    """The latest runs, in order of time."""
    changes: tuple[Change, ...] = ()
    earlier: Mapping[str, int] = field(default_factory=dict)
    """The counts from the runs before these, by their names in `Lesson`."""
    appended: tuple[str, ...] = ()
    """The times of the runs that have their own item in the store."""

    @property
    def shown(self) -> tuple[dict[str, Any], ...]:
        """The runs it was shown in, the latest last."""
        return tuple(run for run in self.runs if not run.get("withheld") and not run.get("tried"))

    @property
    def counts(self) -> Counter[str]:
        """The lesson's counts from these runs, without counts that it was imported with."""
        counts = Counter(self.earlier)
        counts.update(name for run in self.runs for name in _counts_of(run))
        return counts

    def shown_results(self) -> list[dict[str, Any]]:
        """The runs it was shown in that were won or lost, the latest last."""
        return [run for run in self.shown if run.get("result") in ("win", "loss")]

    def with_run(self, run: dict[str, Any]) -> Evidence:
        """This evidence with a run added. If the run is there already, the new result replaces the old one."""
        runs, earlier = _runs_in(self.runs, [run], self.earlier)
        return replace(self, runs=runs, earlier=earlier)

    @property
    def vouched(self) -> bool:
        """Whether the last decision by a person is to show the lesson."""
        return bool(self.words) and self.words[-1].status in LIVE

    @property
    def approved(self) -> bool:
        """Whether the last decision by a person made it active."""
        return bool(self.words) and self.words[-1].status == "active"

    @property
    def words(self) -> tuple[Change, ...]:
        """The decisions of persons. Undoing a change counts as one if the evidence or the cap had made that change."""
        by_policy = {change.id for change in self.changes if change.by in ("evidence", "policy")}
        undone = {change.undoes for change in self.changes}
        return tuple(
            change
            for change in self.changes
            if change.by == "person" and change.status is not None and change.id not in undone
            if change.action != "undone" or (change.run is None and change.undoes in by_policy)
        )

    @property
    def approved_words(self) -> frozenset[str]:
        """The hashes of the texts that a person approved."""
        last = next((change for change in reversed(self.standing) if change.action == "approved"), None)
        return frozenset(last.words) if last is not None else frozenset()

    @property
    def standing(self) -> tuple[Change, ...]:
        """The changes that were not undone."""
        undone = {change.undoes for change in self.changes}
        return tuple(change for change in self.changes if change.id not in undone and change.action != "undone")

    def statuses(self, but: Collection[Change] = ()) -> list[LessonStatus]:
        """The statuses it was given, in order. With `but`, these changes and undone ones are left out.

        A lesson whose `added` was undone stays retired until somebody decides otherwise. After a person's decision,
        changes by the evidence or the cap do not count.
        """
        given: list[LessonStatus] = []
        word: LessonStatus | None = None
        words = self.words
        written = {change.id for change in self.changes if change.action in ("added", "quarantined")}
        standing = {change.id for change in self.standing if change not in but}
        for change in self.changes:
            if but and change.id not in standing and change.undoes not in written:
                continue
            outranked = (change.by == "evidence" and word in LIVE) or (change.by == "policy" and word == "active")
            if change.status is None or outranked:
                continue
            given.append(change.status)
            word = change.status if change in words else word
        return given

    @property
    def last_status_change(self) -> Change | None:
        """The change that gave it the status it has."""
        return next((change for change in reversed(self.changes) if change.status is not None), None)

    @property
    def born(self) -> LessonStatus | None:
        """The status it had before its first change of status."""
        return next((change.before.get("status") for change in self.changes if change.status is not None), None)


def hash_of(text: str, letters: int = 32) -> str:
    """A hash of the text, the same in every process."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:letters]


def lesson_id(namespace: Namespace, lesson: Lesson) -> str:
    """The id, made from namespace, kind and first wording. Case, spacing and final punctuation do not matter."""
    return hash_of(json.dumps([list(namespace), lesson.kind, fold(lesson.text)], ensure_ascii=False), 16)


def record(lesson: Lesson, also: Iterable[str] = ()) -> dict[str, Any]:
    """A lesson as plain JSON, with the fingerprints of further failures in `also`.

    Counts of zero are left out: the real counts are in the evidence, and a zero here would be mistaken for them.
    """
    value = {name: part for name, part in lesson.model_dump(mode="json").items() if part or name not in COUNTS}
    more = [mark for mark in dict.fromkeys(also) if mark and mark != failure_of(lesson)]
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
    return [mark for mark in found if isinstance(mark, str) and mark]


def lesson_in(item: Item, matched: str | None = None) -> Lesson | None:
    """The lesson of an item, or `None` and a warning if the record is damaged.

    `matched` is the fingerprint by which it was found; the trigger of the lesson gets it.
    """
    try:
        # Other releases may keep fields that this one does not know.
        known = {name: value for name, value in item.value.items() if name in Lesson.model_fields}
        lesson = Lesson.model_validate(known)
    except (ValidationError, AttributeError) as error:
        logger.warning("Left out the damaged lesson %r: %s", item.key, str(error).split("\n")[0])
        return None
    wrong = out_of_bounds(lesson)
    if lesson.id != item.key or not lesson.text.strip() or lesson.created_at is None:
        wrong = "its id, text or time is missing"
    if wrong:
        logger.warning("Left out the damaged lesson %r: %s", item.key, wrong)
        return None
    if matched is not None:
        trigger = (lesson.trigger or Trigger()).model_copy(update={"fingerprint": matched})
        lesson = lesson.model_copy(update={"trigger": trigger})
    return lesson


def out_of_bounds(lesson: Lesson) -> str:
    """The invalid value of a lesson, such as a count below zero or a time without a zone. Empty if there is none."""
    for name in COUNTS:
        if (count := getattr(lesson, name)) < 0:
            return f"`{name}` must be 0 or more, got {count}"
        if count > MOST_RUNS:
            return f"`{name}` must be {MOST_RUNS:,} or less, got {str(count)[:20]}"
    for name in ("created_at", "updated_at", "expires_at", "last_used_at"):
        time = getattr(lesson, name)
        if time is not None and time.tzinfo is None:
            return f"`{name}` needs a time zone, got {time.isoformat()}"
    return ""


def folded(lesson: Lesson, evidence: Evidence) -> Lesson:
    """The current lesson, with all counts and sources, its least trusted origin and its latest status."""
    statuses = evidence.statuses()
    used = max((datetime.fromisoformat(run["at"]) for run in evidence.shown), default=lesson.last_used_at)
    changed = max((change.at for change in evidence.changes if change.action != "added"), default=lesson.updated_at)
    named = [*lesson.sources, *(str(source["source"]) for source in evidence.sources)]
    counts = evidence.counts
    return lesson.model_copy(
        update={
            "sources": [source for source in dict.fromkeys(named) if source],
            "origin": _origin(lesson, evidence),
            "status": statuses[-1] if statuses else lesson.status,
            **{name: getattr(lesson, name) + counts[name] for name in COUNTS},
            "last_used_at": used,
            "updated_at": max(filter(None, (lesson.updated_at, changed)), default=None),
        }
    )


def _origin(lesson: Lesson, evidence: Evidence) -> Origin:
    """The origin of the least trusted source. Each source has its best origin: `verified` once its run confirmed it."""
    unnamed = [] if evidence.sources else [""]
    origins = dict.fromkeys(lesson.sources or unnamed, lesson.origin)
    for record in evidence.sources:
        source, origin = str(record["source"]), record.get("origin")
        if origin in TRUST:
            origins[source] = max(origins.get(source, origin), origin, key=TRUST.index)
    return min(origins.values(), default=lesson.origin, key=TRUST.index)


_BY_CHANCE = ("at", "run", "why")
"""Fields of a change by the evidence that differ between writers who make the same change."""


def source_records(lesson: Lesson, at: datetime) -> list[tuple[str, dict[str, Any]]]:
    """Key and value for each source of a lesson, with its origin."""
    value = {"type": "source", "origin": lesson.origin, "at": at.isoformat()}
    sources = lesson.sources or [""]
    return [(f"source/{lesson.origin}/{source}", {**value, "source": source}) for source in sources]


def run_record(
    run: str,
    *,
    result: str | None = None,
    at: datetime,
    withheld: bool = False,
    tried: bool = False,
    instead: Mapping[str, Any] | None = None,
    undone: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Key and value of a run's result; the last to finish under a run id counts.

    `tried` says that the run wrote the lesson itself, so its success proves nothing. `instead` is what the run counted
    until now, `NOTHING` included: a correction has a key of its own, because what it replaces may be summed up already.
    An `undone` run counts nothing.
    """
    value: dict[str, Any] = {
        "type": "run",
        "run": run,
        "withheld": withheld,
        "result": result,
        "at": at.isoformat(),
        **({"tried": True} if tried else {}),
        **({"undone": at.isoformat()} if undone else {}),
    }
    if instead is None:
        return f"run/{run}", value
    before = {name: instead[name] for name in ("withheld", "result", "tried") if instead.get(name) is not None}
    value["instead"] = before
    return f"again/{run}/{hash_of(json.dumps(value, sort_keys=True), 8)}", value


NOTHING: Mapping[str, Any] = MappingProxyType({"tried": True})
"""What a run that is not counted for a lesson counts."""


def taken_back(value: dict[str, Any], at: datetime) -> dict[str, Any]:
    """This record marked as undone: it is kept, and no longer counted."""
    return {**value, "undone": at.isoformat()}


def change_record(known: Evidence, change: Change, row: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """Key and value of a change, numbered after the known changes of its lesson.

    The first change also holds the lesson's own record, so that the lesson can be derived from it again.
    """
    place = 1 + max((int(earlier.id.split(".")[1]) for earlier in known.changes), default=-1)
    value = change_value(change)
    # If several writers make the same change at once, their keys are equal and one record is left.
    own = _BY_CHANCE if change.by in ("evidence", "policy") else ("at", "run") if change.action == "opposed" else ()
    telling = json.dumps({name: part for name, part in value.items() if name not in (*own, "id")}, sort_keys=True)
    key = f"{place:06d}/{hash_of(telling, 8)}"
    row_of = {} if row is None else {"row": row}
    return f"change/{key}", {**value, "id": f"{change.lesson}.{key.replace('/', '.')}", **row_of}


def change_value(change: Change) -> dict[str, Any]:
    """A change as plain JSON, without its empty fields."""
    value = {"type": "change", **vars(change), "at": change.at.isoformat(), "words": list(change.words)}
    return {name: part for name, part in value.items() if part or name not in ("after", "words", "undoes")}


def change_of(value: Mapping[str, Any]) -> Change:
    """The change that `change_value` wrote. A `ValueError` or the like if it is damaged."""
    known = {name: value[name] for name in Change.__dataclass_fields__ if name in value}
    change = Change(**{**known, "at": _time_in(value), "words": tuple(value.get("words", ()))})
    if lesson_of_change(change.id) is None or not isinstance(change.lesson, str):
        raise ValueError("its id or its lesson is missing")
    if change.status not in (None, *get_args(LessonStatus)):
        raise ValueError("its status is unknown")
    if not all(isinstance(word, str) for word in (change.action, change.by, change.why, *change.words)):
        raise ValueError("its words are no text")
    if not all(word is None or isinstance(word, str) for word in (change.run, change.undoes)):
        raise ValueError("what it names is no text")
    if not isinstance(change.before, dict) or not isinstance(change.after, dict):
        raise ValueError("its fields are missing")
    return change


def _time_in(value: Mapping[str, Any]) -> datetime:
    """The time of a record. A `ValueError` if it has no time zone."""
    at = datetime.fromisoformat(value["at"])
    if at.tzinfo is None:
        raise ValueError("its time has no zone")
    return at


def _text_in(value: Mapping[str, Any], name: str) -> str:
    """A text of a record. A `ValueError` if it is not a string."""
    if not isinstance(text := value[name], str):
        raise ValueError(f"its {name} is no text")
    return text


def _counts_in(value: Mapping[str, Any], least: int) -> Counter[str]:
    """The counts of earlier runs in a record; a `ValueError` if one is impossible."""
    counts = {name: count for name, count in value["earlier"].items() if name in COUNTS}
    if not all(type(count) is int and least <= count <= MOST_RUNS for count in counts.values()):
        raise ValueError("its counts are impossible")
    return Counter(counts)


def lesson_of_change(change_id: str) -> str | None:
    """The lesson that a change's id belongs to; `None` for any other text."""
    found = re.fullmatch(r"([\w-]+)\.\d{6}\.[0-9a-f]{8}", change_id)
    return found.group(1) if found else None


_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError)
"""What reading a damaged record raises; a time that is out of range is one of the last two."""


def evidence_in(items: Iterable[Item]) -> Evidence:
    """The evidence in these items of one lesson. Damaged items are left out."""
    sources, runs, changes, sums = [], [], [], []
    for item in items:
        value = item.value
        try:
            at = _time_in(value)
            if value["type"] == "run":
                runs.append((at, _text_in(value, "run"), value))
            elif value.get("undone"):
                continue
            elif value["type"] == "source":
                sources.append((at, _text_in(value, "source"), value))
            elif value["type"] == "change":
                changes.append((item.key, change_of(value)))
            elif value["type"] == "sum":
                sums.append((at, item.key, _runs_of(value), _counts_in(value, -MOST_RUNS)))
        except _DAMAGED:
            logger.warning("Left out the damaged evidence %r", item.key)
    *_, listed, earlier = max(sums, key=lambda row: row[:2], default=((), Counter[str]()))
    latest, earlier = _runs_in(listed, [row[2] for row in sorted(runs, key=lambda row: row[:2])], earlier)
    return Evidence(
        sources=tuple(row[2] for row in sorted(sources, key=lambda row: row[:2])),
        runs=latest,
        changes=tuple(row[1] for row in sorted(changes, key=lambda row: row[0])),
        earlier=earlier,
        appended=tuple(sorted(str(row[2]["at"]) for row in runs)),
    )


def _runs_in(
    listed: Iterable[dict[str, Any]], rows: Iterable[dict[str, Any]], earlier: Mapping[str, int]
) -> tuple[tuple[dict[str, Any], ...], Counter[str]]:
    """The latest runs one by one and the counts of earlier ones, after these rows are added.

    A row replaces an earlier row of its run. If the run is no longer listed, and so already in the counts, its earlier
    result (`instead`) is subtracted from them.
    """
    runs = {str(run["run"]): run for run in listed}
    counts = Counter(earlier)
    for row in rows:
        if runs.pop(str(row["run"]), None) is None and isinstance(row.get("instead"), dict):
            counts.subtract(_counts_of(row["instead"]))
        if not row.get("undone"):
            runs[str(row["run"])] = row
    ordered = sorted(runs.values(), key=lambda run: (run["at"], str(run["run"])))
    counts.update(name for run in ordered[:-LISTED] for name in _counts_of(run))
    return tuple(ordered[-LISTED:]), counts


def _counts_of(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The counts of a lesson to which one run adds."""
    if run.get("tried"):
        return ()
    side, result = "withheld_" if run.get("withheld") else "", run.get("result")
    counted = (f"{side}wins",) if result == "win" else (f"{side}losses",) if result == "loss" else ()
    return counted if side else ("shown", *counted)


def sum_record(evidence: Evidence) -> tuple[str, dict[str, Any]]:
    """Key and value of one record for many runs.

    If there are several, the latest counts, and of two that end with the same run the one with more runs: it contains
    the others.
    """
    at = max(str(run["at"]) for run in evidence.runs)
    runs = [
        [
            run["run"],
            datetime.fromisoformat(run["at"]).timestamp(),
            run.get("result"),
            2 if run.get("tried") else int(bool(run.get("withheld"))),
        ]
        for run in evidence.runs
    ]
    many = sum(evidence.counts.values())
    return f"sum/{at}/{many:010d}", {"type": "sum", "at": at, "earlier": {**evidence.earlier}, "runs": runs}


def whole_record(evidence: Evidence) -> dict[str, Any]:
    """All evidence about a lesson as one value, which a recall reads instead of every appended item.

    The counts are for people who look at the store.
    """
    counts = evidence.counts
    value = sum_record(evidence)[1] if evidence.runs else {"earlier": {**evidence.earlier}, "runs": []}
    changes = [change_value(change) for change in evidence.changes]
    counted = {name: counts[name] for name in COUNTS}
    return {**counted, **value, "type": "whole", "sources": list(evidence.sources), "changes": changes}


def whole_in(value: Mapping[str, Any]) -> Evidence | None:
    """The evidence that `whole_record` wrote, or `None` if it is damaged."""
    try:
        changes = tuple(change_of(change) for change in value["changes"])
        for source in value["sources"]:
            _text_in(source, "source")
            _time_in(source)
        return Evidence(tuple(value["sources"]), tuple(_runs_of(value)), changes, _counts_in(value, 0))
    except _DAMAGED:
        return None


def _runs_of(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs in such a value, each as `run_record` makes it."""
    runs = [
        run_record(run, result=result, at=datetime.fromtimestamp(at, UTC), withheld=side == 1, tried=side == 2)[1]
        for run, at, result, side in value["runs"]
    ]
    for run in runs:
        _text_in(run, "run")
    return runs
