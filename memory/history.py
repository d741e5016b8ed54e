"""History: what happened to lessons and runs, why a run was shown what it was, and taking changes back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.store.base import Op, PutOp

from langgraph_reflexion.memory.access import Plan, every, put
from langgraph_reflexion.memory.changes import as_recorded, settled, unless_embedding_fails
from langgraph_reflexion.memory.choose import doubt_of
from langgraph_reflexion.memory.credit import TOPIC, topics_in
from langgraph_reflexion.memory.estimate import Uplift, uplift
from langgraph_reflexion.memory.records import (
    ALSO,
    FIELDS,
    LIVE,
    change_of,
    change_record,
    fingerprints,
    lesson_of_change,
    run_record,
    taken_back,
)
from langgraph_reflexion.memory.shelf import (
    Read,
    Shelf,
    episode_in,
    evidence_items,
    read_all,
    read_episode,
    read_one,
    read_some,
)
from langgraph_reflexion.memory.upkeep import LATE
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.schemas import Episode, Failure, Lesson, LessonStatus
from langgraph_reflexion.text.tokens import tokens


def history(shelf: Shelf, lesson: str) -> Plan[list[Change]]:
    """What happened to a lesson, in order; to a named entry, what happened to its former values before that."""
    found = yield from read_one(shelf, lesson)
    if not found.lesson.name:
        return list(found.evidence.changes)
    chain = {lesson: found}
    wanted = list(found.lesson.supersedes)
    while wanted:
        more = yield from read_some(shelf, [id for id in wanted if id not in chain])
        chain |= more
        wanted = [id for former in more.values() for id in former.lesson.supersedes if id not in chain]
    changes = [change for entry in chain.values() for change in entry.evidence.changes]
    return sorted(changes, key=lambda change: (change.at, change.lesson != lesson))


def stats(shelf: Shelf) -> Plan[dict[str, Any]]:
    """How many lessons and episodes there are, of what sort, and how the lessons did.

    `uplift` counts the live lessons that were compared with runs without them, and those that were not: `unproven`.
    `topics` has the runs won and lost with lessons, with such as fitted held back, and with none that fitted.
    """
    lessons = [found.lesson for found in (yield from read_all(shelf)).values()]
    episodes = yield from every(shelf.episodes)
    items = yield from evidence_items(shelf)
    uplifts = [uplift(lesson) for lesson in lessons if lesson.status in LIVE]
    return {
        "lessons": len(lessons),
        "live": len(uplifts),
        **{name: dict(Counter(getattr(lesson, name) for lesson in lessons)) for name in ("status", "kind", "origin")},
        **{name: sum(getattr(lesson, name) for lesson in lessons) for name in ("shown", "wins", "losses")},
        "episodes": len(episodes),
        "uplift": dict(Counter(map(_in_a_word, uplifts))),
        "topics": topics_in(items),
    }


def _in_a_word(found: Uplift | None) -> str:
    if found is None:
        return "unproven"
    return "helps" if found.low > 0 else "harms" if found.high < 0 else "unclear"


MOST = 5
"""Words, and episodes behind a lesson, that an explanation names."""

FOR_COMPARISON = "left out to compare runs with it and without"


def explain(shelf: Shelf, run_id: str | None) -> Plan[dict[str, Any]]:
    """What one run was shown and why; the latest run without an id. An unknown run is a `KeyError`."""
    if run_id is None:
        episode = next(iter((yield from episodes(shelf, 1))), None)
    else:
        episode = yield from read_episode(shelf, run_id)
    if episode is None:
        raise KeyError(run_id)
    everything = yield from read_all(shelf)
    concerned = [everything[id] for id in (*episode.shown, *episode.withheld) if id in everything]
    behind: dict[str, Episode | None] = {}
    for source in dict.fromkeys(source for found in concerned for source in found.lesson.sources[:MOST]):
        behind[source] = yield from read_episode(shelf, source)
    return {
        "run": episode.id,
        "task": episode.task,
        "status": _end(episode),
        "stop_reason": episode.stop_reason,
        "score": episode.score,
        "created_at": episode.created_at.isoformat() if episode.created_at is not None else None,
        "seconds": episode.seconds,
        "failures": [failure.model_dump(include={"step", "signal", "evidence"}) for failure in episode.failures],
        "reflections": [
            {"root_cause": made.root_cause, "explanation": made.explanation, "plan": made.patch_prompt}
            for made in episode.reflections
        ],
        "shown": [_explained(id, everything.get(id), episode, behind) for id in episode.shown],
        "withheld": [_explained(id, everything.get(id), episode, behind) for id in episode.withheld],
        "written": [id for id, found in everything.items() if episode.id in found.lesson.sources],
        "changes": [
            {"lesson": change.lesson, "action": change.action, "why": change.why}
            for found in everything.values()
            for change in found.evidence.changes
            if change.run == episode.id
        ],
    }


def episodes(shelf: Shelf, limit: int | None) -> Plan[list[Episode]]:
    """The recorded runs, the newest first."""
    items = yield from every(shelf.episodes)
    newest = sorted(items, key=lambda item: (str(item.value.get("created_at")), item.key), reverse=True)
    return [*filter(None, map(episode_in, newest))][:limit]


def added(lesson: Lesson) -> dict[str, float] | str:
    """What a lesson adds to the share of runs that are won, or `unproven`."""
    found = uplift(lesson)
    return "unproven" if found is None else {name: round(value, 3) for name, value in found._asdict().items()}


def _end(episode: Episode) -> str:
    if episode.status == "unverified" and episode.success is not None:
        return "success" if episode.success else "failure"
    return episode.status


def _explained(id: str, found: Read | None, episode: Episode, behind: dict[str, Episode | None]) -> dict[str, Any]:
    if found is None:
        return {"lesson": id, "text": None, "result": None}
    now = found.lesson
    runs = (run.get("result") for run in found.evidence.runs if run.get("run") == episode.id)
    rests_on = [(source, behind.get(source)) for source in now.sources[:MOST]]
    return {
        "lesson": id,
        "text": now.text,
        "why": _why(found, episode),
        "without": (episode.memory or FOR_COMPARISON) if id in episode.withheld else "",
        "evidence": [
            {"run": source, "failure": run.failures[0].evidence if run is not None and run.failures else None}
            for source, run in rests_on
        ],
        "result": next(runs, None),
        "wins": now.wins,
        "losses": now.losses,
        "uplift": added(now),
    }


def _why(found: Read, episode: Episode) -> str:
    """Why it came up: by the failure before it, or by the words that it shares with the task."""
    lesson = found.lesson
    step = episode.recalled_at.get(lesson.id)
    if step:
        failure = next((past for past in reversed(episode.failures) if past.step <= step), None)
        if failure is not None:
            return f"{_bound(found, failure)} at step {step}: {failure.signal}" + (
                f" of {failure.tool}" * bool(failure.tool)
            )
    if lesson.name and lesson.kind == "rule":
        return "it was asked to be remembered, and holds for every task"
    words = set(tokens(episode.task)) & set(tokens(f"{lesson.text} {lesson.when} {' '.join(lesson.tags)}"))
    if words:
        as_written = {stem: word for word in re.findall(r"[A-Za-z]+", episode.task) for stem in tokens(word)}
        telling = sorted(words, key=lambda word: (-len(word), word))[:MOST]
        return f"the task speaks of {', '.join(as_written.get(word, word).lower() for word in telling)}"
    return "its words or its vectors are near the task's"


def _bound(found: Read, failure: Failure) -> str:
    if failure.fingerprint and failure.fingerprint in fingerprints(found.item.value):
        return "it is for the very failure"
    return "it fits the failure"


def hidden(shelf: Shelf, lesson: str) -> Plan[str | None]:
    """Why a lesson is never shown, or `None` if it is shown when it fits. An unknown id is a `KeyError`."""
    _, now, evidence = yield from read_one(shelf, lesson)
    if now.status not in LIVE:
        changes = (*reversed(evidence.standing), *reversed(evidence.changes))
        moved = next((change for change in changes if now.status in (change.status, change.action)), None)
        return f"it is {now.status}" + (f": {moved.why}" if moved is not None and moved.why else "")
    if shelf.policy.approve and not evidence.approved:
        return "no person has approved it yet"
    if now.expires_at is not None and now.expires_at <= shelf.clock():
        return f"its time was over on {now.expires_at:%Y-%m-%d}"
    return doubt_of(now, evidence)


def undo(shelf: Shelf, what: str | None, since: datetime | None) -> Plan[list[Change]]:
    """Take back a change, all changes of a run, or all since a time, in one batch. Their records are kept.

    Of a run, or since a time, that is also what runs counted for lessons. An unknown id is a `KeyError` with it. What
    was taken back before is left alone, so doing it twice is doing it once.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes a change's id, a run's id, or `since`: one of them")
    if since is not None and since.tzinfo is None:
        raise ValueError(f"`since` needs a time zone, got {since.isoformat()}")
    if what is not None and (lesson := lesson_of_change(what)) is not None:
        return (yield from _undo_change(shelf, (yield from read_one(shelf, lesson)), what))
    known = yield from read_all(shelf)
    items = yield from evidence_items(shelf)
    topics = [item for item in items if item.namespace[-1].startswith(TOPIC) and _is_meant(item.value, what, since)]
    topics = [item for item in topics if not item.value.get("undone")]
    ops: list[Op] = [put(item.namespace, item.key, taken_back(item.value, shelf.clock())) for item in topics]
    undone: list[Change] = []
    touched: list[str] = []
    for found in known.values():
        standing = found.evidence.standing
        meant = [change for change in standing if (what == change.run if since is None else change.at >= since)]
        counted = [run for run in found.evidence.runs if _is_meant(run, what, since)]
        rested = [source for source in found.evidence.sources if _is_meant(source, what, since)]
        more, changes = _taken_back(shelf, found, meant, counted, rested, bulk=True)
        if more:
            ops, undone, touched = [*ops, *more], [*undone, *changes], [*touched, found.lesson.id]
    if what is not None and not ops and not (yield from _is_known(shelf, what, known.values())):
        raise KeyError(what)
    yield from unless_embedding_fails(ops)
    yield from settled(shelf, touched)
    return sorted(undone, key=lambda change: (change.at, change.id))


def _undo_change(shelf: Shelf, found: Read, id: str) -> Plan[list[Change]]:
    change = next((known for known in found.evidence.changes if known.id == id), None)
    if change is None:
        raise KeyError(id)
    if change.action == "undone":
        raise ValueError(f"{id} takes a change back itself: approve, retire or restore {found.lesson.id} instead")
    standing = found.evidence.standing
    rested = _brought_by(change, found) if change in standing else []
    ops, undone = _taken_back(shelf, found, [known for known in standing if known == change], (), rested, bulk=False)
    yield from unless_embedding_fails(ops)
    yield from settled(shelf, [found.lesson.id])
    return undone


def _brought_by(change: Change, found: Read) -> list[dict[str, Any]]:
    """The runs that a lesson rests on only because of this merge."""
    others = {known.run for known in found.evidence.standing if known != change}
    alone = change.action == "merged" and change.run is not None and change.run not in others
    return [source for source in found.evidence.sources if alone and source["source"] == change.run]


def _is_meant(value: dict[str, Any], run: str | None, since: datetime | None) -> bool:
    """Whether this was left by the run, or since that time."""
    if since is not None:
        return datetime.fromisoformat(value["at"]) >= since
    return run in (value.get("run"), value.get("source"))


def _is_known(shelf: Shelf, run: str, known: Any) -> Plan[bool]:
    if any(change.run == run for found in known for change in found.evidence.changes):
        return True
    return (yield from read_episode(shelf, run)) is not None


def _taken_back(
    shelf: Shelf,
    found: Read,
    meant: Sequence[Change],
    counted: Sequence[dict[str, Any]],
    rested: Sequence[dict[str, Any]],
    *,
    bulk: bool,
) -> tuple[list[Op], list[Change]]:
    """The writes that take back changes, results and sources of one lesson, and the changes they take back.

    What a lesson was written by is taken back only where nothing else holds it: then it is retired. In `bulk` a run, or
    a time, is what somebody takes back; else they overrule just this change, and that vouches for the lesson.
    """
    item, lesson, evidence = found
    held = [source["source"] for source in evidence.sources if source["source"] and source not in rested]
    written = [change for change in meant if change.action in ("added", "quarantined")]
    gone = any(change.run is None or not [source for source in held if source != change.run] for change in written)
    meant = [change for change in meant if gone or change not in written]
    rested = () if gone else rested
    if not meant and not counted and not rested:
        return [], []
    now, about = shelf.clock(), shelf.evidence_of(lesson.id)
    ops: list[Op] = [put(about, *_undone_run(run, now)) for run in counted]
    ops += [put(about, f"source/{source['origin']}/{source['source']}", taken_back(source, now)) for source in rested]
    status: LessonStatus | None = None
    if gone or any(change.status is not None for change in meant):
        left = evidence.statuses(but=meant)
        status = "retired" if gone else left[-1] if left else evidence.born
    before = {"status": lesson.status} if status else {}
    undoing = Change("", lesson.id, "undone", now, "person", "", None, None, before)
    events = [
        replace(
            undoing,
            why=f"{change.action} is taken back",
            status=status,
            run=change.run if bulk else None,
            undoes=change.id,
        )
        for change in reversed(meant)
    ]
    if bulk and (counted or rested):
        runs = dict.fromkeys(str(value.get("run") or value.get("source")) for value in (*counted, *rested))
        run = next(iter(runs)) if len(runs) == 1 else None
        events.append(replace(undoing, why=f"what came of {', '.join(runs)} is taken back", before={}, run=run))
    for event in events:
        key, value = change_record(evidence, event)
        evidence = evidence.with_change(change_of(value))
        ops.append(put(about, key, value))
    right = as_recorded(_as_before(item.value, meant), evidence)
    if right != item.value:
        ops.append(PutOp(shelf.lessons, lesson.id, right, FIELDS))
    return ops, [*meant, *(change for change in evidence.changes[-1:] if bulk and (counted or rested))]


def _undone_run(run: dict[str, Any], now: datetime) -> tuple[str, dict[str, Any]]:
    """Key and value that take a run's result back, also where it is summed up by now or in the meantime."""
    may_be_counted = run if now - datetime.fromisoformat(run["at"]) > LATE / 2 else None
    key, value = run_record(
        str(run["run"]),
        result=run.get("result"),
        at=now,
        withheld=bool(run.get("withheld")),
        tried=bool(run.get("tried")),
        instead=run.get("instead") or may_be_counted,
    )
    return key, taken_back(value, now)


def _as_before(value: dict[str, Any], meant: Sequence[Change]) -> dict[str, Any]:
    """The item's value with the fields as they were before these changes."""
    for change in reversed(meant):
        value = {**value, **{name: old for name, old in change.before.items() if name != "status"}}
        if also := [mark for mark in value.pop(ALSO, ()) if mark not in change.after.get(ALSO, ())]:
            value[ALSO] = also
    return value
