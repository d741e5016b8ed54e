"""Records: how lessons and the evidence about them are stored, and how they are read back.

A lesson's own item holds its text. Everything else is appended below `(*namespace, "evidence", lesson id)`, each record
under its own key: a `source` the lesson comes from, a `run` that was shown the lesson or went without it, and a
`change` of the lesson. Counts are the sums of these records, so several writers at once lose nothing.

Two records sum up others: a `sum` replaces old runs of a lesson, and a `whole` (under the lesson's id in
`(*namespace, "evidence")`) copies everything that is known of one lesson, so that a recall reads one item.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from langgraph.store.base import Item, PutOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.evidence import COUNTS, LIVE, Change, Evidence, LessonRun, runs_in
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus
from langgraph_reflexion.text import hash_of
from langgraph_reflexion.text.tokens import fold

logger = logging.getLogger(__name__)

FIELDS = ["text", "when"]
"""What a store with an index embeds of a lesson."""

MAX_COUNT = 1_000_000_000
"""The highest count that is accepted from a store or a file: a wrong one must not overflow what is computed with it."""

MORE_FAILURES = "also"
"""Field of a lesson's item with the fingerprints of further failures that it is bound to."""

TASKS = "asked"
"""Field of a lesson's item with the tasks that taught it, each as its words (`index.task_words`)."""

M = TypeVar("M", Lesson, Episode)
Record = tuple[str, dict[str, Any]]
"""The key and the value of a record."""


def lesson_id(namespace: Namespace, lesson: Lesson) -> str:
    """The id, a hash of namespace, kind and first wording. Case, spacing and final punctuation do not matter."""
    return hash_of(json.dumps([list(namespace), lesson.kind, fold(lesson.text)], ensure_ascii=False), 16)


def item_value(lesson: Lesson) -> dict[str, Any]:
    """What a lesson's own item holds, as plain JSON.

    Counts of zero are left out, because the real counts are in the evidence and a person could take the zeros for them.
    """
    return {name: part for name, part in lesson.model_dump(mode="json").items() if part or name not in COUNTS}


def is_live(item: Item) -> bool:
    """Whether an item is a lesson that may be shown."""
    return item.value.get("status") in LIVE and isinstance(item.value.get("text"), str)


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


def lesson_in(item: Item) -> Lesson | None:
    """The lesson of an item, or `None` and a warning if it is damaged."""
    return _read(Lesson, item)


def episode_in(item: Item) -> Episode | None:
    """The episode of an item, or `None` and a warning if it is damaged."""
    return _read(Episode, item)


def _read(kind: type[M], item: Item) -> M | None:
    try:
        # Besides our marks, another release may keep fields that this one does not know.
        known = {name: value for name, value in item.value.items() if name in kind.model_fields}
        found = kind.model_validate(known)
        if found.id != item.key or (isinstance(found, Lesson) and not (found.text.strip() and found.created_at)):
            raise ValueError("its id, text or time is missing or wrong")
        return found
    except (ValueError, AttributeError) as error:
        logger.warning("Left out the damaged %s %r: %s", kind.__name__.lower(), item.key, str(error).split("\n")[0])
        return None


def source_records(lesson: Lesson, at: datetime) -> list[Record]:
    """The records of a lesson's sources."""
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
) -> Record:
    """The record of a run. If a run id finishes twice, the last result counts.

    `tried` means that the run wrote the lesson itself, so its success proves nothing. An `undone` run does not count.
    `instead` is for a correction: what the run has counted until now, or `NOTHING` if it did not count. A correction
    has its own key, because the record that it corrects may be summed up already.
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
"""The counts of a run that does not count for a lesson."""


def with_change(known: Evidence, change: Change) -> tuple[Evidence, Record]:
    """The evidence with one more change of its lesson, which is numbered after the others, and the record of it."""
    number = f"{1 + max((int(earlier.id.split('.')[1]) for earlier in known.changes), default=-1):06d}"
    # If several writers make the same change at once, the key is the same and one record is left. So the key does not
    # depend on what differs between them.
    differs: tuple[str, ...] = ("at", "run") if change.action == "opposed" else ()
    if change.by in ("evidence", "policy"):
        differs = ("at", "run", "why")
    same = {name: part for name, part in change_value(change).items() if name not in (*differs, "id")}
    hashed = hash_of(json.dumps(same, sort_keys=True), 8)
    change = replace(change, id=f"{change.lesson}.{number}.{hashed}")
    return replace(known, changes=(*known.changes, change)), (f"change/{number}/{hashed}", change_value(change))


def change_value(change: Change) -> dict[str, Any]:
    """A change as plain JSON, without its empty fields."""
    value = {"type": "change", **vars(change), "at": change.at.isoformat(), "words": list(change.words)}
    return {name: part for name, part in value.items() if part or name not in ("after", "words", "undoes")}


def change_of(value: Mapping[str, Any]) -> Change:
    """The change that `change_value` wrote. A damaged one is a `ValueError` or the like."""
    known = {name: value[name] for name in Change.__dataclass_fields__ if name in value}
    change = Change(**{**known, "at": _time_of(value, "id", "lesson"), "words": tuple(value.get("words", ()))})
    is_sound = (
        lesson_of_change(change.id) is not None
        and change.status in (None, *get_args(LessonStatus))
        and all(isinstance(text, str) for text in (change.action, change.by, change.why, *change.words))
        and all(text is None or isinstance(text, str) for text in (change.run, change.undoes))
        and isinstance(change.before, dict)
        and isinstance(change.after, dict)
    )
    if not is_sound:
        raise ValueError(f"the change {change.id!r} is damaged")
    return change


def _time_of(value: Mapping[str, Any], *texts: str) -> datetime:
    """The time of a record. A `ValueError` if it has no time zone, or if one of these fields is not a string."""
    for name in texts:
        if not isinstance(value[name], str):
            raise ValueError(f"its {name} is not a string")
    at = datetime.fromisoformat(value["at"])
    if at.tzinfo is None:
        raise ValueError("its time has no zone")
    return at


def _counts_in(value: Mapping[str, Any]) -> Counter[str]:
    """The counts of earlier runs in a record, below zero where runs were taken back that a file had counted. An
    impossible count is a `ValueError`."""
    counts = {name: count for name, count in value["earlier"].items() if name in COUNTS}
    if not all(type(count) is int and abs(count) <= MAX_COUNT for count in counts.values()):
        raise ValueError("its counts are impossible")
    return Counter(counts)


def lesson_of_change(change_id: str) -> str | None:
    """The id of the lesson that a change's id names, or `None` if the text is no change's id."""
    found = re.fullmatch(r"([\w-]+)\.\d{6}\.[0-9a-f]{8}", change_id)
    return found.group(1) if found else None


_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError)
"""What reading a damaged record raises. A time that is out of range raises one of the last two."""


def with_records(evidence: Evidence, records: Iterable[Item | PutOp]) -> Evidence:
    """The evidence about a lesson with these records, which were read or are to be written. Damaged ones are left out.

    Each replaces the one with its key, and a run's new result replaces the old one.
    """
    sources = {(row.get("origin"), row["source"]): row for row in evidence.sources}
    changes = {change.id: change for change in evidence.changes}
    runs, sums = [], []
    for item in records:
        value: Any = item.value
        try:
            kind = value["type"]
            if kind == "run":
                runs.append((_time_of(value, "run"), value["run"], value))
            elif value.get("undone"):
                sources.pop((value.get("origin"), value.get("source")), None)
            elif kind == "source":
                _time_of(value, "source")
                sources[value.get("origin"), value["source"]] = value
            elif kind == "change":
                change = change_of(value)
                changes[change.id] = change
            elif kind == "sum":
                sums.append((_time_of(value), item.key, _runs_of(value), _counts_in(value)))
        except _DAMAGED:
            logger.warning("Left out the damaged evidence %r", item.key)
    *_, listed, earlier = max(sums, key=lambda row: row[:2], default=(evidence.runs, evidence.earlier))
    latest, earlier = runs_in(listed, [row[2] for row in sorted(runs, key=lambda row: row[:2])], earlier)
    return Evidence(
        sources=tuple(sorted(sources.values(), key=lambda row: (_time_of(row), row["source"]))),
        runs=latest,
        changes=tuple(sorted(changes.values(), key=lambda change: change.id)),
        earlier=earlier,
        appended=tuple(sorted([*evidence.appended, *(str(row[2]["at"]) for row in runs)])),
    )


def sum_record(evidence: Evidence, at: str) -> Record:
    """The record that replaces the records of runs up to the time `at`.

    Of several such records only the one with the last key counts. It goes on longest or, if two end at the same time,
    has the most runs, so it contains what the others contain.
    """
    many = sum(evidence.counts.values())
    return f"sum/{at}/{many:010d}", {"type": "sum", "at": at, **_short_runs(evidence)}


def _short_runs(evidence: Evidence) -> dict[str, Any]:
    """The runs in the form that `_runs_of` and `_counts_in` read."""
    runs = [
        [
            run["run"],
            datetime.fromisoformat(run["at"]).timestamp(),
            run.get("result"),
            2 if run.get("tried") else int(bool(run.get("withheld"))),
        ]
        for run in evidence.runs
    ]
    return {"earlier": {**evidence.earlier}, "runs": runs}


def whole_record(evidence: Evidence) -> dict[str, Any]:
    """All evidence about a lesson as one value, which a recall reads instead of every record.

    The counts are for people who look at the store.
    """
    counts = evidence.counts
    return {
        **{name: counts[name] for name in COUNTS},
        "type": "whole",
        **({"at": max(str(run["at"]) for run in evidence.runs)} if evidence.runs else {}),
        **_short_runs(evidence),
        "sources": list(evidence.sources),
        "changes": [change_value(change) for change in evidence.changes],
    }


def whole_in(value: Mapping[str, Any]) -> Evidence | None:
    """The evidence that `whole_record` wrote, or `None` if it is damaged."""
    try:
        changes = tuple(change_of(change) for change in value["changes"])
        for source in value["sources"]:
            _time_of(source, "source")
        return Evidence(tuple(value["sources"]), tuple(_runs_of(value)), changes, _counts_in(value))
    except _DAMAGED:
        return None


def _runs_of(value: Mapping[str, Any]) -> list[LessonRun]:
    """The runs in such a value, each as `run_record` makes it."""
    runs = []
    for run, at, result, side in value["runs"]:
        if not isinstance(run, str):
            raise ValueError("its run is not a string")
        time = datetime.fromtimestamp(at, UTC)
        runs.append(run_record(run, result=result, at=time, withheld=side == 1, tried=side == 2)[1])
    return runs
