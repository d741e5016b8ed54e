"""Looking: what happened to a lesson, and how all of them did."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langgraph_reflexion.memory.access import Plan, every
from langgraph_reflexion.memory.floor import topics
from langgraph_reflexion.memory.records import LIVE
from langgraph_reflexion.memory.shelf import Shelf, evidence_items, read_all, read_one, read_some
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.memory.worth import Uplift, uplift


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
        "topics": topics((item.namespace, item.value) for item in items),
    }


def _in_a_word(added: Uplift | None) -> str:
    if added is None:
        return "unproven"
    return "helps" if added.low > 0 else "harms" if added.high < 0 else "unclear"
