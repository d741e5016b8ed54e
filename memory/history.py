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
from langgraph_reflexion.memory.credit import TOPIC, Uplift, topics_in, uplift
from langgraph_reflexion.memory.records import (
    ALSO,
    FIELDS,
    LIVE,
    change_of,
    change_record,
    fingerprints,
    lesson_of_change,
    run_key,
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
        more = yield from read_some(shelf, [one for one in wanted if one not in chain])
        chain |= more
        wanted = [one for read in more.values() for one in read.lesson.supersedes if one not in chain]
    changes = [change for one in chain.values() for change in one.evidence.changes]
    return sorted(changes, key=lambda change: (change.at, change.lesson != lesson))


def stats(shelf: Shelf) -> Plan[dict[str, Any]]:
    """How many lessons and episodes there are, of what sort, and how the lessons did.

    `uplift` counts the live lessons that were compared with runs without them, and those that were not: `unproven`.
    `topics` has the runs won and lost with lessons, with such as fitted held back, and with none that fitted.
    """
    found = [one.lesson for one in (yield from read_all(shelf)).values()]
    episodes = yield from every(shelf.episodes)
    items = yield from evidence_items(shelf)
    added = [uplift(one) for one in found if one.status in LIVE]
    return {
        "lessons": len(found),
        "live": sum(one.status in LIVE for one in found),
        "status": dict(Counter(one.status for one in found)),
        "kind": dict(Counter(one.kind for one in found)),
        "origin": dict(Counter(one.origin for one in found)),
        "shown": sum(one.shown for one in found),
        "wins": sum(one.wins for one in found),
        "losses": sum(one.losses for one in found),
        "episodes": len(episodes),
        "uplift": dict(Counter(map(_in_a_word, added))),
        "topics": topics_in(items),
    }


def _in_a_word(added: Uplift | None) -> str:
    if added is None:
        return "unproven"
    return "helps" if added.low > 0 else "harms" if added.high < 0 else "unclear"


MOST = 5
"""Words, and episodes behind a lesson, that an explanation names."""

FOR_COMPARISON = "left out to compare runs with it and without"


def explain(shelf: Shelf, run_id: str | None) -> Plan[dict[str, Any]]:
    """All of that for one run, the latest where none is named. An unknown run is a `KeyError`."""
    if run_id is None:
        episode = next(iter((yield from episodes(shelf, 1))), None)
    else:
        episode = yield from read_episode(shelf, run_id)
    if episode is None:
        raise KeyError(run_id)
    everything = yield from read_all(shelf)
    concerned = [everything[one] for one in (*episode.shown, *episode.withheld) if one in everything]
    behind: dict[str, Episode | None] = {}
    for source in dict.fromkeys(source for one in concerned for source in one.lesson.sources[:MOST]):
        behind[source] = yield from read_episode(shelf, source)
    return {
        "run": episode.id,
        "task": episode.task,
        "status": _end(episode),
        "stop_reason": episode.stop_reason,
        "score": episode.score,
        "created_at": episode.created_at.isoformat() if episode.created_at is not None else None,
        "seconds": episode.seconds,
        "failures": [{"step": one.step, "signal": one.signal, "evidence": one.evidence} for one in episode.failures],
        "reflections": [
            {"root_cause": one.root_cause, "explanation": one.explanation, "plan": one.patch_prompt}
            for one in episode.reflections
        ],
        "shown": [_told(one, everything.get(one), episode, behind) for one in episode.shown],
        "withheld": [_told(one, everything.get(one), episode, behind) for one in episode.withheld],
        "written": [one.lesson.id for one in everything.values() if episode.id in one.lesson.sources],
        "changes": [
            {"lesson": change.lesson, "action": change.action, "why": change.why}
            for one in everything.values()
            for change in one.evidence.changes
            if change.run == episode.id
        ],
    }


def episodes(shelf: Shelf, limit: int | None) -> Plan[list[Episode]]:
    """The recorded runs, the newest first."""
    items = yield from every(shelf.episodes)
    newest = sorted(items, key=lambda item: (str(item.value.get("created_at")), item.key), reverse=True)
    return [one for one in map(episode_in, newest) if one is not None][:limit]


def added(lesson: Lesson) -> dict[str, float] | str:
    """What a lesson adds to the share of good runs, or that nobody can say."""
    found = uplift(lesson)
    return "unproven" if found is None else {name: round(value, 3) for name, value in found._asdict().items()}


def _end(episode: Episode) -> str:
    if episode.status == "unverified" and episode.success is not None:
        return "success" if episode.success else "failure"
    return episode.status


def _told(id: str, found: Read | None, episode: Episode, behind: dict[str, Episode | None]) -> dict[str, Any]:
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
        failure = next((one for one in reversed(episode.failures) if one.step <= step), None)
        if failure is not None:
            return f"{_bound(found, failure)} at step {step}: {failure.signal}" + (
                f" of {failure.tool}" * bool(failure.tool)
            )
    if lesson.name and lesson.kind == "rule":
        return "it was asked to be remembered, and holds for every task"
    words = set(tokens(episode.task)) & set(tokens(f"{lesson.text} {lesson.when} {' '.join(lesson.tags)}"))
    if words:
        as_said = {stem: word for word in re.findall(r"[A-Za-z]+", episode.task) for stem in tokens(word)}
        telling = sorted(words, key=lambda word: (-len(word), word))[:MOST]
        return f"the task speaks of {', '.join(as_said.get(word, word).lower() for word in telling)}"
    return "its words or its vectors are near the task's"


def _bound(found: Read, failure: Failure) -> str:
    if failure.fingerprint and failure.fingerprint in fingerprints(found.item.value):
        return "it is for the very failure"
    return "it fits the failure"


def hidden(shelf: Shelf, lesson: str) -> Plan[str | None]:
    """Why a lesson is shown to no run, or `None` where it is to those it fits. An unknown id is a `KeyError`."""
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
    """Take back a change, all changes of a run, or all since a time, in one batch; the record of them stays.

    Of a run, or since a time, that is also what runs counted for lessons. An unknown id is a `KeyError` with it. What
    was taken back before is left alone, so doing it twice is doing it once.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes a change's id, a run's id, or `since`: one of them")
    if since is not None and since.tzinfo is None:
        raise ValueError(f"`since` needs a time zone, got {since.isoformat()}")
    one = lesson_of_change(what) if what is not None else None
    if what is not None and one is not None:
        return (yield from _undo_change(shelf, (yield from read_one(shelf, one)), what))
    known = yield from read_all(shelf)
    items = yield from evidence_items(shelf)
    floor = [item for item in items if item.namespace[-1].startswith(TOPIC) and _is_meant(item.value, what, since)]
    floor = [item for item in floor if not item.value.get("undone")]
    ops: list[Op] = [put(item.namespace, item.key, taken_back(item.value, shelf.clock())) for item in floor]
    undone: list[Change] = []
    touched: list[str] = []
    for found in known.values():
        meant = [one for one in found.evidence.standing if (what == one.run if since is None else one.at >= since)]
        counted = [one for one in found.evidence.runs if _is_meant(one, what, since)]
        rested = [one for one in found.evidence.sources if _is_meant(one, what, since)]
        more, changes = _taken_back(shelf, found, meant, counted, rested, bulk=True)
        if more:
            ops, undone, touched = [*ops, *more], [*undone, *changes], [*touched, found.lesson.id]
    if what is not None and not ops and not (yield from _is_known(shelf, what, known.values())):
        raise KeyError(what)
    yield from unless_embedding_fails(ops)
    yield from settled(shelf, touched)
    return sorted(undone, key=lambda change: (change.at, change.id))


def _undo_change(shelf: Shelf, found: Read, id: str) -> Plan[list[Change]]:
    change = next((one for one in found.evidence.changes if one.id == id), None)
    if change is None:
        raise KeyError(id)
    if change.action == "undone":
        raise ValueError(f"{id} takes a change back itself: approve, retire or restore {found.lesson.id} instead")
    standing = found.evidence.standing
    rested = _brought_by(change, found) if change in standing else []
    ops, undone = _taken_back(shelf, found, [one for one in standing if one == change], (), rested, bulk=False)
    yield from unless_embedding_fails(ops)
    yield from settled(shelf, [found.lesson.id])
    return undone


def _brought_by(change: Change, found: Read) -> list[dict[str, Any]]:
    """The runs that a lesson rests on by one merge alone."""
    others = {one.run for one in found.evidence.standing if one != change}
    alone = change.action == "merged" and change.run is not None and change.run not in others
    return [one for one in found.evidence.sources if alone and one["source"] == change.run]


def _is_meant(value: dict[str, Any], run: str | None, since: datetime | None) -> bool:
    """Whether this was left by the run, or since that time."""
    return datetime.fromisoformat(value["at"]) >= since if since is not None else run in _runs(value)


def _runs(value: dict[str, Any]) -> tuple[Any, Any]:
    return value.get("run"), value.get("source")


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
    """What takes back changes of one lesson, what runs counted for it, and the runs it rests on; and those changes.

    What a lesson was written by is taken back only where nothing else holds it: then it is retired. In `bulk` a run, or
    a time, is what somebody takes back; else they overrule just this change, and that vouches for the lesson.
    """
    item, lesson, evidence = found
    held = [one["source"] for one in evidence.sources if one["source"] and one not in rested]
    written = [one for one in meant if one.action in ("added", "quarantined")]
    gone = any(one.run is None or not [source for source in held if source != one.run] for one in written)
    meant = [one for one in meant if gone or one not in written]
    rested = () if gone else rested
    if not meant and not counted and not rested:
        return [], []
    now, about = shelf.clock(), shelf.evidence_of(lesson.id)
    ops: list[Op] = [put(about, run_key(one["run"]), taken_back(one, now)) for one in counted]
    ops += [put(about, f"source/{one['origin']}/{one['source']}", taken_back(one, now)) for one in rested]
    status: LessonStatus | None = None
    if gone or any(one.status is not None for one in meant):
        left = evidence.statuses(but=meant)
        status = "retired" if gone else left[-1] if left else evidence.born
    said = Change("", lesson.id, "undone", now, "person", "", None, None, {"status": lesson.status} if status else {})
    events = [
        replace(said, why=f"{one.action} is taken back", status=status, run=one.run if bulk else None, undoes=one.id)
        for one in reversed(meant)
    ]
    if bulk and (counted or rested):
        runs = dict.fromkeys(str(one.get("run") or one.get("source")) for one in (*counted, *rested))
        run = next(iter(runs)) if len(runs) == 1 else None
        events.append(replace(said, why=f"what came of {', '.join(runs)} is taken back", before={}, run=run))
    for event in events:
        key, value = change_record(evidence, event)
        evidence = evidence.with_change(change_of(value))
        ops.append(put(about, key, value))
    right = as_recorded(_as_before(item.value, meant), evidence)
    if right != item.value:
        ops.append(PutOp(shelf.lessons, lesson.id, right, FIELDS))
    return ops, [*meant, *(change for change in evidence.changes[-1:] if bulk and (counted or rested))]


def _as_before(value: dict[str, Any], meant: Sequence[Change]) -> dict[str, Any]:
    """The item's value with the fields as they were before these changes."""
    for change in reversed(meant):
        value = {**value, **{name: one for name, one in change.before.items() if name != "status"}}
        also = [one for one in value.get(ALSO, ()) if one not in change.after.get(ALSO, ())]
        value = {**{name: one for name, one in value.items() if name != ALSO}, **({ALSO: also} if also else {})}
    return value
