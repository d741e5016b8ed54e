"""Evidence: the records about a lesson, and what they say.

Everything but a lesson's own item is appended below `(*namespace, "evidence", lesson id)`, each record under its own
key: a `source` the lesson comes from, a `run` that was shown the lesson or went without it, and a `change` of the
lesson. Counts are the sums of these records, so several writers at once lose nothing. A change without a status and
without `after` changes nothing: it is only shown in the history.

Two records sum up others. A `sum` replaces old runs of a lesson. A snapshot, under the lesson's id in
`(*namespace, "evidence")`, is a copy of all evidence about one lesson, so that a recall reads one item.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal

from langgraph.store.base import Item, PutOp
from pydantic import AwareDatetime, Field, TypeAdapter

from langgraph_reflexion.schemas import Lesson, LessonStatus, Origin
from langgraph_reflexion.text import hash_of

logger = logging.getLogger(__name__)

LIVE: tuple[LessonStatus, ...] = ("candidate", "active", "probation")
"""Statuses in which a lesson may be shown."""

TRUST: tuple[Origin, ...] = ("observed", "judged", "told", "verified")
"""From the least trusted to the most."""

COUNTS = ("shown", "wins", "losses", "withheld_wins", "withheld_losses")
"""A lesson's counts of runs."""

MAX_LISTED_RUNS = 60
"""The latest runs of a lesson are kept one by one, earlier ones only as counts. The oldest of these weighs less than a
twentieth in `estimate.recent`."""

LessonRun = dict[str, Any]
"""A run that counts for a lesson, as `run_record` writes it: the id `run`, the time `at`, and the `result`:
`win`, `loss` or `None`. It was shown the lesson, unless it is `withheld` (the run went without it) or `tried` (the
run wrote it itself, so its success proves nothing). A `recovered` run was won although the failure that the lesson is
for occurred. In a `reflected` one, a reflection was shown beside the lesson after a failure, and may have won it."""

Counts = Mapping[str, Any]
"""What a run counts for a lesson: the `result` and the marks of a `LessonRun`."""

Source = dict[str, Any]
"""A run that taught a lesson, as `source_records` writes it: the id `source`, the time `at`, the `origin`."""

Record = tuple[str, dict[str, Any]]
"""The key and the value of a record."""

MAX_COUNT = 1_000_000_000
"""The highest count that is accepted from a store or a file: a wrong one must not overflow a computation."""

_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError)
"""What reading a damaged record raises. A time that is out of range raises one of the last two."""

_CHANGE_ID = r"^([\w-]+)\.\d{6}\.[0-9a-f]{8}$"

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

    `before` and `after` hold the fields that changed. `words` has the hashes of the texts that a person
    approved, and `undoes` the id of the change that this one reverts.
    """

    id: Annotated[str, Field(pattern=_CHANGE_ID)]
    lesson: str
    action: ChangeAction
    at: AwareDatetime
    by: By = "writer"
    why: str = ""
    status: LessonStatus | None = None
    run: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    undoes: str | None = None


_CHANGE = TypeAdapter(Change)


@dataclass(frozen=True)
class Evidence:
    """Everything that is known about one lesson from its records."""

    sources: tuple[Source, ...] = ()
    runs: tuple[LessonRun, ...] = ()
    """The latest runs, in order of time."""
    changes: tuple[Change, ...] = ()
    earlier: Mapping[str, int] = field(default_factory=dict)
    """The counts of the runs before these, by their names in `Lesson`."""
    appended: tuple[str, ...] = ()
    """The times of the runs that have an item of their own."""

    @property
    def shown(self) -> tuple[LessonRun, ...]:
        """The runs in which it was shown, the latest last."""
        return tuple(run for run in self.runs if not run.get("withheld") and not run.get("tried"))

    @property
    def counts(self) -> Counter[str]:
        """The lesson's counts of all runs, without those that it was imported with."""
        counts = Counter(self.earlier)
        counts.update(name for run in self.runs for name in _counts_of(run))
        return counts

    def shown_results(self) -> list[LessonRun]:
        """The runs in which it was shown and that were won or lost, the latest last."""
        return [run for run in self.shown if run.get("result") in ("win", "loss")]

    @property
    def vouched(self) -> bool:
        """Whether the last decision by a person is to show the lesson."""
        return any(decision.status in LIVE for decision in self.decisions[-1:])

    @property
    def approved(self) -> bool:
        """Whether the last decision by a person made it active."""
        return any(decision.status == "active" for decision in self.decisions[-1:])

    @property
    def decisions(self) -> tuple[Change, ...]:
        """A person's changes of status. To undo a change that the evidence or the cap made is a decision, too."""
        by_policy = {change.id for change in self.changes if change.by in ("evidence", "policy")}
        undone = {change.undoes for change in self.changes}
        return tuple(
            change
            for change in self.changes
            if change.by == "person" and change.status is not None and change.id not in undone
            if change.action != "undone" or (change.run is None and change.undoes in by_policy)
        )

    @property
    def wins_since_decision(self) -> int:
        """How many of the latest runs were won with it since the last decision by a person."""
        since = self.decisions[-1].at
        return sum(run["result"] == "win" and _time_of(run) >= since for run in self.shown_results())

    @property
    def approved_words(self) -> frozenset[str]:
        """The hashes of the texts that a person approved."""
        return frozenset(next((change.words for change in reversed(self.standing) if change.words), ()))

    @property
    def standing(self) -> tuple[Change, ...]:
        """The changes that are still in force, because nobody undid them."""
        undone = {change.undoes for change in self.changes}
        return tuple(change for change in self.changes if change.id not in undone and change.action != "undone")

    def statuses(self, without: Collection[Change] = ()) -> list[LessonStatus]:
        """The statuses it was given, in order, as if the changes in `without` had not been made.

        A person's decision outranks later demotions by the evidence and, if it was an approval, by the cap. A lesson
        whose `added` was undone stays retired until somebody decides otherwise.
        """
        counted = self.changes
        if without:
            written = {change.id for change in self.changes if change.action in ("added", "quarantined")}
            left = [change for change in self.standing if change not in without]
            counted = tuple(change for change in self.changes if change in left or change.undoes in written)
        given: list[LessonStatus] = []
        decided: LessonStatus | None = None
        decisions = self.decisions
        for change in counted:
            if change.status is None:
                continue
            if change.by == "evidence" and change.status != "active" and decided in LIVE:
                continue
            if change.by == "policy" and decided == "active":
                continue
            given.append(change.status)
            if change in decisions:
                decided = change.status
        return given

    @property
    def last_status_change(self) -> Change | None:
        """The latest change of its status."""
        return next((change for change in reversed(self.changes) if change.status is not None), None)

    @property
    def first_status(self) -> LessonStatus | None:
        """The status it had before its first change of status."""
        return next((change.before.get("status") for change in self.changes if change.status is not None), None)

    # ------------------------------------------------------------ records

    def with_change(self, change: Change) -> tuple[Evidence, Record]:
        """The evidence with one more change of its lesson, which is numbered after the others, and the record of it."""
        number = f"{1 + max((int(earlier.id.split('.')[1]) for earlier in self.changes), default=-1):06d}"
        # If several writers make the same change at once, the key is the same and one record is left. So the key does
        # not depend on what differs between them.
        differs: tuple[str, ...] = ("at", "run") if change.action == "opposed" else ()
        if change.by in ("evidence", "policy"):
            differs = ("at", "run", "why")
        same = {name: part for name, part in change_value(change).items() if name not in (*differs, "id")}
        hashed = hash_of(json.dumps(same, sort_keys=True), 8)
        change = replace(change, id=f"{change.lesson}.{number}.{hashed}")
        return replace(self, changes=(*self.changes, change)), (f"change/{number}/{hashed}", change_value(change))

    def with_records(self, records: Iterable[Item | PutOp]) -> Evidence:
        """The evidence with these records, which were read or are to be written. Damaged ones are left out.

        Each replaces the one with its key, and a run's new result replaces the old one.
        """
        sources = {(row.get("origin"), row["source"]): row for row in self.sources}
        changes = {change.id: change for change in self.changes}
        runs: list[LessonRun] = []
        sums: dict[tuple[datetime, str], tuple[list[LessonRun], Mapping[str, int]]] = {}
        for item in records:
            value: Any = item.value
            try:
                if value["type"] == "run":
                    _time_of(value, "run")
                    runs.append(value)
                elif value.get("undone"):
                    sources.pop((value.get("origin"), value.get("source")), None)
                elif value["type"] == "source":
                    _time_of(value, "source")
                    sources[value.get("origin"), value["source"]] = value
                elif value["type"] == "change":
                    change = _CHANGE.validate_python(value)
                    changes[change.id] = change
                elif value["type"] == "sum":
                    sums[_time_of(value), item.key] = _read_runs(value)
            except _DAMAGED:
                logger.warning("Skipped the damaged evidence %r", item.key)
        runs.sort(key=lambda run: (_time_of(run), run["run"]))
        listed, earlier = sums[max(sums)] if sums else (self.runs, self.earlier)
        latest, earlier = runs_in(listed, runs, earlier)
        return Evidence(
            sources=tuple(sorted(sources.values(), key=lambda row: (_time_of(row), row["source"]))),
            runs=latest,
            changes=tuple(sorted(changes.values(), key=lambda change: change.id)),
            earlier=earlier,
            appended=tuple(sorted([*self.appended, *(str(run["at"]) for run in runs)])),
        )

    def snapshot_record(self) -> dict[str, Any]:
        """The snapshot: all evidence as one value. Its counts are only for people who look at the store."""
        counts = self.counts
        return {
            **{name: counts[name] for name in COUNTS},
            "type": "whole",  # the name of a snapshot in the store
            "earlier": {**self.earlier},
            "runs": list(self.runs),
            "sources": list(self.sources),
            "changes": [change_value(change) for change in self.changes],
        }

    @staticmethod
    def from_snapshot(value: Mapping[str, Any]) -> Evidence | None:
        """The evidence that `snapshot_record` wrote, or `None` if it is damaged."""
        try:
            changes = tuple(map(_CHANGE.validate_python, value["changes"]))
            for source in value["sources"]:
                _time_of(source, "source")
            runs, earlier = _read_runs(value)
            return Evidence(tuple(value["sources"]), tuple(runs), changes, earlier)
        except _DAMAGED:
            return None

    def sum_record(self, at: str) -> Record:
        """The record that replaces the records of runs up to the time `at`.

        Of several such records only the one with the last key counts. It ends last or, if two end at the same time, has
        the most runs, so it contains what the others contain.
        """
        many = sum(self.counts.values())
        return f"sum/{at}/{many:010d}", {"type": "sum", "at": at, "earlier": {**self.earlier}, "runs": list(self.runs)}


def runs_in(
    listed: Iterable[LessonRun], rows: Iterable[LessonRun], earlier: Mapping[str, int]
) -> tuple[tuple[LessonRun, ...], Counter[str]]:
    """The latest runs one by one, and the counts of earlier ones, after these rows were added.

    A row replaces the listed row of its run. A run that is not listed may be in the counts, so the row's `instead` is
    subtracted from them.
    """
    runs = {str(run["run"]): run for run in listed}
    counts = Counter(earlier)
    for row in rows:
        if runs.pop(str(row["run"]), None) is None and isinstance(row.get("instead"), dict):
            counts.subtract(_counts_of(row["instead"]))
        if not row.get("undone"):
            runs[str(row["run"])] = row
    ordered = sorted(runs.values(), key=lambda run: (run["at"], str(run["run"])))
    counts.update(name for run in ordered[:-MAX_LISTED_RUNS] for name in _counts_of(run))
    return tuple(ordered[-MAX_LISTED_RUNS:]), counts


def _counts_of(run: Counts) -> tuple[str, ...]:
    """The counts to which a run adds 1."""
    if run.get("tried"):
        return ()
    side, result = "withheld_" if run.get("withheld") else "", run.get("result")
    counted = (f"{side}wins",) if result == "win" else (f"{side}losses",) if result == "loss" else ()
    return counted if side else ("shown", *counted)


# ---------------------------------------------------------------- records


def source_records(lesson: Lesson, at: datetime) -> list[Record]:
    """The records of a lesson's sources."""
    value = {"type": "source", "origin": lesson.origin, "at": at.isoformat()}
    sources = lesson.sources or [""]
    return [(f"source/{lesson.origin}/{source}", {**value, "source": source}) for source in sources]


def run_record(run: str, at: datetime, counts: Counts | None, instead: Counts | None = None) -> Record:
    """The record of a run, with what it `counts` for the lesson, or `None` if that was undone.

    If a run id finishes twice, the last result counts. `instead` is for a correction: what the run has counted until
    now, or `NOTHING` if it did not count. A correction has its own key, because the record that it corrects may be
    summed up already.
    """
    value: dict[str, Any] = {"type": "run", "run": run, "withheld": False, "result": None, "at": at.isoformat()}
    marks = {"undone": value["at"]} if counts is None else counts
    value |= {name: mark for name, mark in marks.items() if mark}
    if instead is None:
        return f"run/{run}", value
    before = {name: instead[name] for name in ("withheld", "result", "tried") if instead.get(name) is not None}
    value["instead"] = before
    return f"again/{run}/{hash_of(json.dumps(value, sort_keys=True), 8)}", value


NOTHING: Counts = MappingProxyType({"tried": True})
"""What a run counts for a lesson for which it does not count."""


def change_value(change: Change) -> dict[str, Any]:
    """A change as plain JSON, without its empty fields."""
    value = {"type": "change", **vars(change), "at": change.at.isoformat(), "words": list(change.words)}
    return {name: part for name, part in value.items() if part or name not in ("after", "words", "undoes")}


def lesson_of_change(change_id: str) -> str | None:
    """The id of the lesson that a change's id names, or `None` if the text is no change's id."""
    found = re.match(_CHANGE_ID, change_id)
    return found.group(1) if found else None


def _read_runs(value: Mapping[str, Any]) -> tuple[list[LessonRun], Counter[str]]:
    """The latest runs of a record, and the counts of earlier ones. An impossible one is a `ValueError`.

    Counts are negative if runs that an imported file had counted were undone.
    """
    runs = list(value["runs"])
    for run in runs:
        _time_of(run, "run")
    counts = {name: count for name, count in value["earlier"].items() if name in COUNTS}
    if not all(type(count) is int and abs(count) <= MAX_COUNT for count in counts.values()):
        raise ValueError("its counts are impossible")
    return runs, Counter(counts)


def _time_of(value: Mapping[str, Any], *texts: str) -> datetime:
    """The time of a record. A `ValueError` if it has no time zone, or if one of these fields is not a string."""
    for name in texts:
        if not isinstance(value[name], str):
            raise ValueError(f"its {name} is not a string")
    at = datetime.fromisoformat(value["at"])
    if at.tzinfo is None:
        raise ValueError("its time has no zone")
    return at
