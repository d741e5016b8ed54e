"""History: the changes of lessons and runs, why a run was shown its lessons, and undo."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.store.base import Item, Op, PutOp, SearchOp

from langgraph_reflexion.memory.access import TOPIC, Plan, count, items_in, put, read_items, storable
from langgraph_reflexion.memory.changes import as_recorded, replaced_by, write
from langgraph_reflexion.memory.choose import doubt_of, is_approved
from langgraph_reflexion.memory.credit import (
    counted_before,
    counted_episode,
    later_than_all,
    lessons_of,
    note_episodes,
    run_fields,
    runs_of_topics,
    topic_label,
    won_and_lost,
)
from langgraph_reflexion.memory.estimate import Uplift, uplift
from langgraph_reflexion.memory.evidence import LIVE, Change
from langgraph_reflexion.memory.index import holds_always, tasks_of
from langgraph_reflexion.memory.records import (
    FIELDS,
    MORE_FAILURES,
    TASKS,
    change_record,
    fingerprints,
    lesson_of_change,
    numbered,
    run_record,
    taken_back,
)
from langgraph_reflexion.memory.shelf import (
    MARKS,
    UNDONE,
    Shelf,
    StoredLesson,
    episode_in,
    evidence_items,
    is_undone,
    read_all,
    read_episode,
    read_listed,
    read_one,
    read_some,
    time_in,
)
from langgraph_reflexion.schemas import Episode, Failure, Lesson, LessonStatus
from langgraph_reflexion.text.tokens import tokens

logger = logging.getLogger(__name__)


def history(shelf: Shelf, lesson: str) -> Plan[list[Change]]:
    """The changes of a lesson, in order. For a named entry, the changes of its former values come first."""
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


SAMPLE = 1000
"""Lessons, and episodes, that statistics read: as many live lessons as a namespace keeps by default."""


def stats(shelf: Shelf) -> Plan[dict[str, Any]]:
    """The number of lessons and episodes by kind and status, and how the lessons did.

    `uplift` counts the live lessons that were compared with runs without them, and `unproven` those that were not.
    `topics` has the runs won and lost with lessons, with matching lessons held back, and without matching lessons. With
    more than 1,000 lessons, `lessons` counts all of them, and everything else is about the 1,000 that the store lists
    first (on PostgreSQL, the latest written). The result says so as `sampled`. Topics are those of these lessons and of
    1,000 episodes.
    """
    items, runs = yield [SearchOp(part, None, SAMPLE) for part in (shelf.lessons, shelf.episodes)]
    lessons = [found.lesson for found in (yield from read_listed(shelf, items)).values()]
    many = len(lessons) if len(items) < SAMPLE else (yield from count(shelf.lessons, SAMPLE))
    episodes = [item for item in runs if item.namespace == shelf.episodes]
    ended = len(episodes) if len(runs) < SAMPLE else (yield from count(shelf.episodes, SAMPLE))
    topics = [*(lesson.topic for lesson in lessons), *(item.value.get("topic") for item in episodes)]
    labels = sorted({topic_label(topic) for topic in topics if isinstance(topic, str)})
    results = {label: won_and_lost(runs) for label, runs in (yield from runs_of_topics(shelf, labels)).items()}
    uplifts = [uplift(lesson) for lesson in lessons if lesson.status in LIVE]
    return {
        "lessons": many,
        **({"sampled": len(lessons)} if many > len(items) else {}),
        "live": len(uplifts),
        **{name: _counted(getattr(lesson, name) for lesson in lessons) for name in ("status", "kind", "origin")},
        **{name: sum(getattr(lesson, name) for lesson in lessons) for name in ("shown", "wins", "losses")},
        "episodes": ended,
        "uplift": _counted(map(_in_a_word, uplifts)),
        "topics": {
            label.removeprefix(TOPIC): {"won": results[label][0], "lost": results[label][1]}
            for label in labels
            if any(results[label])
        },
    }


def _counted(words: Iterable[str]) -> dict[str, int]:
    """How often each word occurs, in alphabetical order: stores list lessons in different orders."""
    return dict(sorted(Counter(words).items()))


def _in_a_word(found: Uplift | None) -> str:
    if found is None:
        return "unproven"
    return "helps" if found.low > 0 else "harms" if found.high < 0 else "unclear"


MOST = 5
"""Words, and episodes behind a lesson, that an explanation names."""

FOR_COMPARISON = "left out to compare runs with it and without"


def explain(shelf: Shelf, run_id: str | None) -> Plan[dict[str, Any]]:
    """Which lessons one run was shown and why. Without an id, the latest run. An unknown run is a `KeyError`."""
    if run_id is None:
        episode = next(iter((yield from episodes(shelf, 1))), None)
    else:
        episode = yield from read_episode(shelf, run_id)
    if episode is None:
        raise KeyError(run_id)
    [item] = yield from read_items(shelf.episodes, [episode.id])
    counts = counted_episode(item)
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
        "shown": [_explained(id, everything.get(id), episode, counts, behind) for id in episode.shown],
        "withheld": [_explained(id, everything.get(id), episode, counts, behind) for id in episode.withheld],
        "written": [
            id for id, found in everything.items() if id in episode.written or episode.id in found.lesson.sources
        ],
        "changes": [
            {"lesson": change.lesson, "action": change.action, "why": change.why}
            for found in everything.values()
            for change in found.evidence.changes
            if change.run == episode.id
        ],
    }


def episodes(shelf: Shelf, limit: int | None) -> Plan[list[Episode]]:
    """The recorded runs, the newest first."""
    items = yield from items_in(shelf.episodes)
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


def _explained(
    id: str, found: StoredLesson | None, episode: Episode, counts: Episode | None, behind: Mapping[str, Episode | None]
) -> dict[str, Any]:
    if found is None:
        return {"lesson": id, "text": None, "result": None}
    now = found.lesson
    result = (run_fields(counts, now) or {}).get("result") if counts is not None else None
    at_start = [lesson for lesson in episode.withheld if not episode.recalled_at.get(lesson)]
    held_back = bool(episode.memory) and at_start[-1:] == [id]  # it comes after those withheld for comparison
    rests_on = [(source, behind.get(source)) for source in now.sources[:MOST]]
    return {
        "lesson": id,
        "text": now.text,
        "why": _why(found, episode),
        "without": (episode.memory if held_back else FOR_COMPARISON) if id in episode.withheld else "",
        "evidence": [
            {"run": source, "failure": run.failures[0].evidence if run is not None and run.failures else None}
            for source, run in rests_on
        ],
        "result": result,
        "wins": now.wins,
        "losses": now.losses,
        "uplift": added(now),
    }


def _why(found: StoredLesson, episode: Episode) -> str:
    """Why it came up: by the failure before it, or by words that the task shares with it or a task that taught it."""
    lesson = found.lesson
    step = episode.recalled_at.get(lesson.id)
    if step:
        failure = next((past for past in reversed(episode.failures) if past.step <= step), None)
        if failure is not None:
            return f"{_bound(found, failure)} at step {step}: {failure.signal}" + (
                f" of {failure.tool}" * bool(failure.tool)
            )
    if holds_always(found.item.value):
        return "it holds for every task"
    own = {*tokens(f"{lesson.text} {lesson.when} {' '.join(lesson.tags)}")}
    taught = {word for task in tasks_of(found.item.value) for word in task.split()}
    as_written = {stem: word for word in re.findall(r"[A-Za-z]+", episode.task) for stem in tokens(word)}
    for who, words in (("the task", own), ("a task that taught it also", taught)):
        if shared := words.intersection(tokens(episode.task)):
            telling = sorted(shared, key=lambda word: (-len(word), word))[:MOST]
            return f"{who} speaks of {', '.join(as_written.get(word, word).lower() for word in telling)}"
    return "it is for the topic of the task, or the store's embedding model finds the two similar"


def _bound(found: StoredLesson, failure: Failure) -> str:
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
    if shelf.policy.approve and not is_approved(vars(now), evidence):
        return "no person has approved its present text" if evidence.approved else "no person has approved it yet"
    if now.expires_at is not None and now.expires_at <= shelf.clock():
        return f"its time was over on {now.expires_at:%Y-%m-%d}"
    return doubt_of(now, evidence)


def undo(shelf: Shelf, what: str | None, since: datetime | None) -> Plan[list[Change]]:
    """Revert a change, all changes of a run, or all since a time, in one batch. Their records are kept.

    For a run or a time, what the runs counted for lessons is reverted too. An unknown id is a `KeyError`. What was
    reverted before is left alone, so a second call changes nothing.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes exactly one of: the id of a change, the id of a run, or `since`")
    if since is not None and since.tzinfo is None:
        raise ValueError(f"`since` needs a time zone, got {since.isoformat()}")
    if what is not None and (lesson := lesson_of_change(what)) is not None:
        return (yield from _undo_change(shelf, (yield from read_one(shelf, lesson)), what))
    given, what = what, storable(what)
    known = yield from read_all(shelf)
    counts = {
        id: {str(run["run"]): run for run in found.evidence.runs if _in_scope(run, what, since)}
        for id, found in known.items()
    }
    ended = yield from _ended(shelf, what, since, {run for runs in counts.values() for run in runs})
    for run, item in ended.items():
        episode = counted_episode(item)
        for id in lessons_of(episode) if episode is not None else ():
            if id in known and (until_now := counted_before(run, episode, known[id])) is not None:
                counts[id].setdefault(run, until_now)
    now = later_than_all(shelf.clock(), ended.values(), (run for runs in counts.values() for run in runs.values()))
    ops: list[Op] = [
        put(item.namespace, item.key, taken_back(item.value, now))
        for label, items in (yield from evidence_items(shelf)).items()
        for item in items
        if label.startswith(TOPIC) and _in_scope(item.value, what, since) and not item.value.get("undone")
    ]
    noted = [item for item in ended.values() if not is_undone(item)]
    ops += [put(shelf.episodes, item.key, {**item.value, UNDONE: now.isoformat()}) for item in noted]
    undone: list[Change] = []
    for id, found in known.items():
        standing = found.evidence.standing
        meant = [change for change in standing if (what == change.run if since is None else change.at >= since)]
        rested = [source for source in found.evidence.sources if _in_scope(source, what, since)]
        more, changes = _taken_back(shelf, found, meant, counts[id], rested, now, bulk=True)
        ops, undone = [*ops, *more], [*undone, *changes]
    if what is not None and not ops and not ended and not _is_known(what, known.values()):
        raise KeyError(given)
    if what is not None and not ended:
        logger.warning("The episode of %s is no longer kept: what it counted is taken back only where listed", what)
    yield from _with_one_value(shelf, known, (yield from write(shelf, ops)))
    yield from note_episodes(shelf, [item.key for item in noted], UNDONE, now)
    return sorted(undone, key=lambda change: (change.at, change.id))


def _ended(shelf: Shelf, what: str | None, since: datetime | None, listed: Collection[str]) -> Plan[dict[str, Item]]:
    """By run, the episode of this run, or those that ended or were counted since that time or are listed."""
    if what is not None:
        [item] = yield from read_items(shelf.episodes, [what])
        return {what: item} if item is not None else {}
    times = ("created_at", *MARKS)
    return {
        item.key: item
        for item in (yield from items_in(shelf.episodes))
        if item.key in listed or any((at := time_in(item.value.get(name))) and since and at >= since for name in times)
    }


def _undo_change(shelf: Shelf, found: StoredLesson, id: str) -> Plan[list[Change]]:
    change = next((known for known in found.evidence.changes if known.id == id), None)
    if change is None:
        raise KeyError(id)
    if change.action == "undone":
        raise ValueError(f"{id} is itself an undo: approve, retire or restore {found.lesson.id} instead")
    standing = found.evidence.standing
    rested = _brought_by(change, found) if change in standing else []
    meant = [known for known in standing if known == change]
    ops, undone = _taken_back(shelf, found, meant, {}, rested, shelf.clock(), bulk=False)
    yield from _with_one_value(shelf, {found.lesson.id: found}, (yield from write(shelf, ops)))
    return undone


def _with_one_value(shelf: Shelf, before: Mapping[str, StoredLesson], now: Mapping[str, StoredLesson]) -> Plan[None]:
    """Supersede the other values of the names whose former values are live again, the newest of each."""
    revived = [id for id, found in now.items() if found.lesson.status in LIVE and before[id].lesson.status not in LIVE]
    newest = {(lesson.kind, lesson.name): lesson for id in before if id in revived and (lesson := now[id].lesson).name}
    for lesson in newest.values():
        yield from write(shelf, (yield from replaced_by(shelf, lesson)))


def _brought_by(change: Change, found: StoredLesson) -> list[dict[str, Any]]:
    """The runs that count for a lesson only because of this merge."""
    others = {known.run for known in found.evidence.standing if known != change}
    alone = change.action == "merged" and change.run is not None and change.run not in others
    return [source for source in found.evidence.sources if alone and source["source"] == change.run]


def _in_scope(value: dict[str, Any], run: str | None, since: datetime | None) -> bool:
    """Whether this was left by the run, or since that time."""
    if since is not None:
        return datetime.fromisoformat(value["at"]) >= since
    return run in (value.get("run"), value.get("source"))


def _is_known(run: str, known: Iterable[StoredLesson]) -> bool:
    return any(change.run == run for found in known for change in found.evidence.changes)


def _taken_back(
    shelf: Shelf,
    found: StoredLesson,
    meant: Sequence[Change],
    counts: Mapping[str, Mapping[str, Any]],
    rested: Sequence[dict[str, Any]],
    now: datetime,
    *,
    bulk: bool,
) -> tuple[list[Op], list[Change]]:
    """The writes that revert changes, results and sources of one lesson, and the changes they revert.

    The change that added a lesson is reverted only if the lesson has no other source; it is then retired. With `bulk`,
    a person reverts a run or a time. Otherwise they overrule just this change, and so vouch for the lesson.
    """
    item, lesson, evidence = found
    held = [source["source"] for source in evidence.sources if source["source"] and source not in rested]
    written = [change for change in meant if change.action in ("added", "quarantined")]
    gone = any(change.run is None or not [source for source in held if source != change.run] for change in written)
    meant = [change for change in meant if gone or change not in written]
    rested = () if gone else rested
    if not meant and not counts and not rested:
        return [], []
    about = shelf.evidence_of(lesson.id)
    ops: list[Op] = [
        put(about, *run_record(run, at=now, instead=until_now, undone=True)) for run, until_now in counts.items()
    ]
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
    if bulk and (counts or rested):
        runs = list(dict.fromkeys([*counts, *(str(source["source"]) for source in rested)]))
        which = ", ".join(runs) if len(runs) <= MOST else f"{len(runs)} runs"
        run = runs[0] if len(runs) == 1 else None
        events.append(replace(undoing, why=f"what came of {which} is taken back", before={}, run=run))
    for event in events:
        event = numbered(evidence, event)
        evidence = evidence.with_change(event)
        ops.append(put(about, *change_record(event)))
    right = as_recorded(_as_before(item.value, meant), evidence)
    if right != item.value:
        ops.append(PutOp(shelf.lessons, lesson.id, right, FIELDS))
    return ops, [*meant, *(change for change in evidence.changes[-1:] if bulk and (counts or rested))]


def _as_before(value: dict[str, Any], meant: Sequence[Change]) -> dict[str, Any]:
    """The item's value with the fields as they were before these changes."""
    for change in reversed(meant):
        value = {**value, **{name: old for name, old in change.before.items() if name != "status"}}
        for name in (MORE_FAILURES, TASKS):
            if left := [mark for mark in value.pop(name, None) or () if mark not in change.after.get(name, ())]:
                value[name] = left
    return value
