"""Evidence: what the records say about a lesson, and what the lesson is now according to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from langgraph_reflexion.schemas import Lesson, LessonStatus, Origin

LIVE: tuple[LessonStatus, ...] = ("candidate", "active", "probation")
"""Statuses in which a lesson may be shown."""

TRUST: tuple[Origin, ...] = ("observed", "judged", "told", "verified")
"""From the least trusted to the most."""

COUNTS = ("shown", "wins", "losses", "withheld_wins", "withheld_losses")
"""A lesson's counts of runs."""

LISTED = 60
"""The latest runs of a lesson are kept one by one, earlier ones only as counts. The oldest of these weighs less than a
twentieth in `estimate.recent`."""

LessonRun = dict[str, Any]
"""A run that counts for a lesson, as `records.run_record` writes it: the id `run`, the time `at`, and the `result`:
`win`, `loss` or `None`. It was shown the lesson, unless it is `withheld` (the run went without it) or `tried` (the
run wrote it itself)."""

Source = dict[str, Any]
"""A run that taught a lesson, as `records.source_records` writes it: the id `source`, the time `at`, the `origin`."""

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
        return bool(self.decisions) and self.decisions[-1].status in LIVE

    @property
    def approved(self) -> bool:
        """Whether the last decision by a person made it active."""
        return bool(self.decisions) and self.decisions[-1].status == "active"

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
    def approved_words(self) -> frozenset[str]:
        """The hashes of the texts that a person approved."""
        approvals = [change.words for change in self.standing if change.words]
        return frozenset(approvals[-1]) if approvals else frozenset()

    @property
    def standing(self) -> tuple[Change, ...]:
        """The changes that are still in force, because nobody undid them."""
        undone = {change.undoes for change in self.changes}
        return tuple(change for change in self.changes if change.id not in undone and change.action != "undone")

    def statuses(self, without: Collection[Change] = ()) -> list[LessonStatus]:
        """The statuses it was given, in order, as if the changes in `without` had not been made.

        A person's decision outranks later changes by the evidence and, if it was an approval, by the cap. A lesson
        whose `added` was undone stays retired until somebody decides otherwise.
        """
        given: list[LessonStatus] = []
        decided: LessonStatus | None = None
        decisions = self.decisions
        written = {change.id for change in self.changes if change.action in ("added", "quarantined")}
        standing = {change.id for change in self.standing if change not in without}
        for change in self.changes:
            if without and change.id not in standing and change.undoes not in written:
                continue
            outranked = (change.by == "evidence" and decided in LIVE) or (change.by == "policy" and decided == "active")
            if change.status is None or outranked:
                continue
            given.append(change.status)
            decided = change.status if change in decisions else decided
        return given

    @property
    def last_status_change(self) -> Change | None:
        """The latest change of its status."""
        return next((change for change in reversed(self.changes) if change.status is not None), None)

    @property
    def first_status(self) -> LessonStatus | None:
        """The status it had before its first change of status."""
        return next((change.before.get("status") for change in self.changes if change.status is not None), None)


def with_evidence(lesson: Lesson, evidence: Evidence) -> Lesson:
    """The lesson as it is now: with its counts, sources, origin and latest status from the evidence."""
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
            **{name: max(getattr(lesson, name) + counts[name], 0) for name in COUNTS},
            "last_used_at": used,
            "updated_at": max(filter(None, (lesson.updated_at, changed)), default=None),
        }
    )


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


def runs_in(
    listed: Iterable[LessonRun], rows: Iterable[LessonRun], earlier: Mapping[str, int]
) -> tuple[tuple[LessonRun, ...], Counter[str]]:
    """The latest runs one by one, and the counts of earlier ones, after these rows were added.

    A row replaces the listed one of its run. If that is not listed, it may be in the counts, so the row's `instead` is
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
    counts.update(name for run in ordered[:-LISTED] for name in _counts_of(run))
    return tuple(ordered[-LISTED:]), counts


def _counts_of(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The counts to which a run adds 1."""
    if run.get("tried"):
        return ()
    side, result = "withheld_" if run.get("withheld") else "", run.get("result")
    counted = (f"{side}wins",) if result == "win" else (f"{side}losses",) if result == "loss" else ()
    return counted if side else ("shown", *counted)
