"""Looking: what happened to a lesson, what a run was shown and why, and how all of them did."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langgraph_reflexion.memory.doors import Plan, every
from langgraph_reflexion.memory.floor import topics
from langgraph_reflexion.memory.records import LIVE
from langgraph_reflexion.memory.shelf import Read, Shelf, evidence_items, read_all, read_episode, read_one, read_some
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.memory.worth import Uplift, uplift
from langgraph_reflexion.schemas import Episode, Lesson


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


def explain(shelf: Shelf, run_id: str) -> Plan[dict[str, Any]]:
    """What a run was shown and went without, what it wrote, and what came of it. An unknown run is a `KeyError`."""
    episode = yield from read_episode(shelf, run_id)
    if episode is None:
        raise KeyError(run_id)
    known = yield from read_some(shelf, [*episode.shown, *episode.withheld])
    everything = yield from read_all(shelf)
    return {
        "run": run_id,
        "task": episode.task,
        "status": _end(episode),
        "stop_reason": episode.stop_reason,
        "score": episode.score,
        "shown": [_told(one, known.get(one), run_id) for one in episode.shown],
        "withheld": [_told(one, known.get(one), run_id) for one in episode.withheld],
        "written": [one.lesson.id for one in everything.values() if run_id in one.lesson.sources],
        "changes": [
            {"lesson": change.lesson, "action": change.action, "why": change.why}
            for one in everything.values()
            for change in one.evidence.changes
            if change.run == run_id
        ],
    }


def _end(episode: Episode) -> str:
    if episode.status == "unverified" and episode.success is not None:
        return "success" if episode.success else "failure"
    return episode.status


def _told(lesson: str, found: Read | None, run_id: str) -> dict[str, Any]:
    if found is None:
        return {"lesson": lesson, "text": None, "result": None}
    _, now, evidence = found
    result = next((run.get("result") for run in evidence.runs if run.get("run") == run_id), None)
    return {
        "lesson": lesson,
        "text": now.text,
        "result": result,
        "wins": now.wins,
        "losses": now.losses,
        "uplift": _added(now),
    }


def _added(lesson: Lesson) -> dict[str, float] | str:
    """What a lesson adds to the share of good runs, or that nobody can say."""
    added = uplift(lesson)
    return "unproven" if added is None else {name: round(value, 3) for name, value in added._asdict().items()}


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
        "topics": topics((item.namespace, item.value) for item in items),
    }


def _in_a_word(added: Uplift | None) -> str:
    if added is None:
        return "unproven"
    return "helps" if added.low > 0 else "harms" if added.high < 0 else "unclear"
