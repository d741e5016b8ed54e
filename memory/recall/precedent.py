"""Precedent: the run of a like task that succeeded, to hold one against that goes wrong."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass, field

from langgraph.store.base import SearchOp

from langgraph_reflexion.memory.access import GIVE_WAY, PAGE, SPELL, Plan
from langgraph_reflexion.memory.records import LIVE
from langgraph_reflexion.memory.shelf import Shelf, episode_in, read_some
from langgraph_reflexion.memory.trust.gate import concrete
from langgraph_reflexion.memory.trust.guard import suspicion, suspicion_of
from langgraph_reflexion.schemas import Episode, Lesson
from langgraph_reflexion.text.words import tokens, weight

LIKE = 0.4
"""The share of the telling words of two tasks that must be common."""

SAME_FAILURE = 0.3
"""What it speaks for a run that it met the same failure, and got over it."""

LOOKS = 5
"""Runs that are looked at closely."""


@dataclass(frozen=True)
class Precedent:
    """A run of a like task that succeeded, the advice it followed, and the lessons that it alone was shown."""

    episode: Episode
    advice: str = ""
    lessons: list[Lesson] = field(default_factory=list)


def precedent(
    shelf: Shelf, task: str, fingerprint: str, but: str | None, seen: Collection[str]
) -> Plan[Precedent | None]:
    """The nearest run that succeeded and has something to say of how; `None` where there is none.

    At most 5,000 runs are looked at.
    """
    words = _weighed(task)
    found: list[tuple[float, str, Episode]] = []
    [items] = yield [SearchOp(shelf.episodes, None, PAGE)]
    for i, item in enumerate(items, 1):
        if i % SPELL == 0:
            yield GIVE_WAY
        if item.value.get("success") is not True or item.key == but or tuple(item.namespace) != shelf.episodes:
            continue
        like = _common(words, _weighed(str(item.value.get("task"))))
        episode = episode_in(item) if like >= LIKE else None
        if episode is not None and episode.success:  # the user may have called it wrong
            met = bool(fingerprint) and any(one.fingerprint == fingerprint for one in episode.failures)
            found.append((like + SAME_FAILURE * met, str(item.value.get("created_at")), episode))
    for _, _, episode in heapq.nlargest(LOOKS, found, key=lambda one: one[:2]):
        advice = episode.reflections[-1].patch_prompt if episode.reflections else ""
        advice = advice if concrete(advice) and not suspicion(advice) and not suspicion(episode.task) else ""
        shown = [id for id in episode.shown if id not in {*seen, *episode.failed}]
        known = yield from read_some(shelf, shown)
        lessons = [one.lesson for one in known.values() if one.lesson.status in LIVE and not suspicion_of(one.lesson)]
        if advice or lessons:
            return Precedent(episode, advice, lessons)
    return None


def _weighed(text: str) -> dict[str, float]:
    return {one: weight(one) for one in tokens(text)}


def _common(ours: dict[str, float], theirs: dict[str, float]) -> float:
    whole = sum(ours.values()) + sum(theirs.values())
    return 2 * sum(ours[one] for one in ours.keys() & theirs.keys()) / whole if whole else 0.0
