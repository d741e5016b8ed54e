"""Explaining: what a run was shown and went without, why, from which evidence, and what came of it."""

from __future__ import annotations

import re
from typing import Any

from langgraph_reflexion.memory.access import Plan, every
from langgraph_reflexion.memory.records import fingerprints
from langgraph_reflexion.memory.shelf import Read, Shelf, read_all, read_episode
from langgraph_reflexion.memory.worth import uplift
from langgraph_reflexion.schemas import Episode, Failure, Lesson
from langgraph_reflexion.text.words import tokens, weight

MOST = 5
"""Words, and episodes behind a lesson, that are told."""

FOR_COMPARISON = "left out to compare runs with it and without"


def explain(shelf: Shelf, run_id: str | None) -> Plan[dict[str, Any]]:
    """All of that for one run, the latest where none is named. An unknown run is a `KeyError`."""
    episode = yield from (read_episode(shelf, run_id) if run_id is not None else _latest(shelf))
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
        "failures": [{"step": one.step, "signal": one.signal, "evidence": one.evidence} for one in episode.failures],
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


def added(lesson: Lesson) -> dict[str, float] | str:
    """What a lesson adds to the share of good runs, or that nobody can say."""
    found = uplift(lesson)
    return "unproven" if found is None else {name: round(value, 3) for name, value in found._asdict().items()}


def _latest(shelf: Shelf) -> Plan[Episode | None]:
    items = yield from every(shelf.episodes)
    last = max(items, key=lambda item: (str(item.value.get("created_at")), item.key), default=None)
    return (yield from read_episode(shelf, last.key)) if last is not None else None


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
        telling = sorted(words, key=lambda word: (-weight(word), word))[:MOST]
        return f"the task speaks of {', '.join(as_said.get(word, word).lower() for word in telling)}"
    return "its words or its vectors are near the task's"


def _bound(found: Read, failure: Failure) -> str:
    if failure.fingerprint and failure.fingerprint in fingerprints(found.item.value):
        return "it is for the very failure"
    return "it fits the failure"
