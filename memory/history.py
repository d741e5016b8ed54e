"""History: how lessons changed, why a run was shown its lessons, and how they did. Nothing is written."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from heapq import merge
from typing import Any

from langgraph.store.base import SearchOp

from langgraph_reflexion.memory.access import TOPIC, Plan, count, items_in, pause, read_items
from langgraph_reflexion.memory.choose import doubt_of, holds_always, is_approved
from langgraph_reflexion.memory.credit import counted_episode, run_fields, runs_of_topics, topic_label, won_and_lost
from langgraph_reflexion.memory.estimate import Uplift, uplift
from langgraph_reflexion.memory.evidence import LIVE, Change
from langgraph_reflexion.memory.index import tasks_of
from langgraph_reflexion.memory.items import StoredLesson, fingerprints, newest_first, parse_item
from langgraph_reflexion.memory.shelf import Shelf
from langgraph_reflexion.schemas import Episode, Failure, Lesson
from langgraph_reflexion.text.tokens import MARKS, UNSPACED, tokens

logger = logging.getLogger(__name__)

_WORD = re.compile(rf"(?:[^\W\d_{UNSPACED}]|[{MARKS}])+")


def history(shelf: Shelf, lesson: str) -> Plan[list[Change]]:
    """The changes of a lesson, in order. For a named entry, the changes of its former values come first."""
    found = yield from shelf.read_one(lesson)
    if not found.lesson.name:
        return list(found.evidence.changes)
    chain = {lesson: found}
    wanted = list(found.lesson.supersedes)
    while wanted:
        more = yield from shelf.read_some([id for id in wanted if id not in chain])
        chain |= more
        wanted = [id for former in more.values() for id in former.lesson.supersedes]
    # The changes of each value stay in their order, even if a clock went back.
    each = [entry.evidence.changes for entry in chain.values()]
    return list(merge(*each, key=lambda change: (change.at, change.lesson != lesson)))


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
    lessons = [found.lesson for found in (yield from shelf.read_snapshots(items)).values()]
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
        "uplift": _counted(map(_uplift_word, uplifts)),
        "topics": {
            label.removeprefix(TOPIC): {"won": int(tally.won), "lost": int(tally.lost)}
            for label, tally in results.items()
            if any(tally)
        },
    }


def _counted(words: Iterable[str]) -> dict[str, int]:
    """How often each word occurs, in alphabetical order: stores list lessons in different orders."""
    return dict(sorted(Counter(words).items()))


def _uplift_word(found: Uplift | None) -> str:
    if found is None:
        return "unproven"
    return "helps" if found.low > 0 else "harms" if found.high < 0 else "unclear"


MAX_NAMED = 5
"""Words, and episodes behind a lesson, that an explanation names."""

FOR_COMPARISON = "withheld to compare runs with it and without it"


def explain(shelf: Shelf, run_id: str | None) -> Plan[dict[str, Any]]:
    """Which lessons one run was shown and why. Without an id, the latest run. An unknown run is a `KeyError`."""
    if run_id is None:
        episode = next(iter((yield from episodes(shelf, 1))), None)
    else:
        episode = yield from shelf.read_episode(run_id)
    if episode is None:
        raise KeyError(run_id)
    [item] = yield from read_items(shelf.episodes, [episode.id])
    counts = counted_episode(item)
    everything = yield from shelf.read_all()
    concerned = [everything[id] for id in (*episode.shown, *episode.withheld) if id in everything]
    written = [id for id, found in everything.items() if id in episode.written or episode.id in found.lesson.sources]
    behind: dict[str, list[Failure]] = {}
    for source in dict.fromkeys(source for found in concerned for source in found.lesson.sources[:MAX_NAMED]):
        taught_by = yield from shelf.read_episode(source)
        behind[source] = taught_by.failures if taught_by is not None else []
    return {
        "run": episode.id,
        "task": episode.task,
        "status": outcome_of(episode),
        "stop_reason": episode.stop_reason,
        "score": episode.score,
        "created_at": episode.created_at.isoformat() if episode.created_at is not None else None,
        "seconds": episode.seconds,
        "prompts": episode.prompts,
        "failures": [failure.model_dump(include={"step", "signal", "evidence"}) for failure in episode.failures],
        "reflections": [
            {"root_cause": past.root_cause, "explanation": past.explanation, "plan": past.patch_prompt}
            for past in episode.reflections
        ],
        "shown": [_explained(id, everything.get(id), episode, counts, behind) for id in episode.shown],
        "withheld": [_explained(id, everything.get(id), episode, counts, behind) for id in episode.withheld],
        "written": written,
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
    found: list[Episode] = []
    for i, item in enumerate(newest_first(items), 1):
        if len(found) == limit:
            break
        if (episode := parse_item(item, Episode)) is not None:
            found.append(episode)
        yield from pause(i)
    return found


def uplift_data(lesson: Lesson) -> dict[str, float] | str:
    """A lesson's uplift as plain data, or `unproven`."""
    found = uplift(lesson)
    return "unproven" if found is None else {name: round(value, 3) for name, value in found._asdict().items()}


def outcome_of(episode: Episode) -> str:
    """How a run ended, as a word. A person may have judged a run that no check did."""
    if episode.status == "unverified" and episode.success is not None:
        return "success" if episode.success else "failure"
    return episode.status


def failures_for(marks: Collection[str], failures: list[Failure]) -> list[Failure]:
    """Of a run's failures, those with the fingerprints of a lesson, which it was learned from. Without any, all."""
    return [failure for failure in failures if failure.fingerprint in marks] or failures


def _explained(
    id: str, found: StoredLesson | None, episode: Episode, counts: Episode | None, behind: Mapping[str, list[Failure]]
) -> dict[str, Any]:
    if found is None:
        return {"lesson": id, "text": None, "result": None}
    now, marks = found.lesson, fingerprints(found.item.value)
    taught_by = {source: failures_for(marks, behind[source])[:1] for source in now.sources[:MAX_NAMED]}
    result = (run_fields(counts, now) or {}).get("result") if counts is not None else None
    at_start = [lesson for lesson in episode.withheld if not episode.recalled_at.get(lesson)]
    held_back = bool(episode.memory) and at_start[-1:] == [id]  # it comes after those withheld for comparison
    return {
        "lesson": id,
        "text": now.text,
        "why": _why(found, episode),
        "without": (episode.memory if held_back else FOR_COMPARISON) if id in episode.withheld else "",
        "evidence": [
            {"run": source, "failure": failures[0].evidence if failures else None}
            for source, failures in taught_by.items()
        ],
        "result": result,
        "wins": now.wins,
        "losses": now.losses,
        "uplift": uplift_data(now),
    }


def _why(found: StoredLesson, episode: Episode) -> str:
    """Why it came up: the failure before it, or the words that the task shares with it or a task that taught it."""
    lesson = found.lesson
    step = episode.recalled_at.get(lesson.id)
    if step:
        failure = next((past for past in reversed(episode.failures) if past.step <= step), None)
        if failure is not None:
            exact = failure.fingerprint and failure.fingerprint in fingerprints(found.item.value)
            why = "it is for exactly this failure" if exact else "it fits the failure"
            return f"{why} at step {step}: {failure.signal}" + f" of {failure.tool}" * bool(failure.tool)
    if holds_always(found):
        return "it applies to every task"
    own = {*tokens(f"{lesson.text} {lesson.when} {' '.join(lesson.tags)}")}
    taught = {word for task in tasks_of(found.item.value) for word in task.split()}
    as_written = {stem: word for word in _WORD.findall(episode.task) for stem in tokens(word)}
    for who, words in (("the task", own), ("a task that taught it also", taught)):
        if shared := words.intersection(tokens(episode.task)):
            telling = sorted(shared, key=lambda word: (-len(word), word))[:MAX_NAMED]
            return f"{who} mentions {', '.join(as_written.get(word, word).lower() for word in telling)}"
    return (
        "it is for the topic of the task, or for a failure of such tasks, or an embedding model finds the two similar"
    )


def hidden(shelf: Shelf, lesson: str) -> Plan[str | None]:
    """Why a lesson is never shown, or `None` if it is shown when it fits. An unknown id is a `KeyError`."""
    found = yield from shelf.read_one(lesson)
    _, now, evidence = found
    if now.status not in LIVE:
        changes = (*reversed(evidence.standing), *reversed(evidence.changes))
        moved = next((change for change in changes if now.status in (change.status, change.action)), None)
        return f"it is {now.status}" + (f": {moved.why}" if moved is not None and moved.why else "")
    if shelf.policy.approve and not is_approved(vars(now), evidence):
        return "no person has approved its current text" if evidence.approved else "no person has approved it yet"
    if now.expires_at is not None and now.expires_at <= shelf.clock():
        return f"it expired on {now.expires_at:%Y-%m-%d}"
    return doubt_of(found)
