"""Fitting: which lessons fit a task or a failure by their words, their occasion and what they are bound to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from langgraph.store.base import Item

from langgraph_reflexion.memory.index import Index
from langgraph_reflexion.memory.recall.ranking import rank, shared_weight
from langgraph_reflexion.memory.records import LIVE, fingerprints
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.text.situations import situation_of
from langgraph_reflexion.text.words import Words, weight

VERY = 100.0
"""Lifts a lesson for this very failure above all that merely fit."""

REQUEST = 800
"""Characters of a long task that are held to be what it asks, half of them from its end: what lies between is mostly
what it is given to work on, and says what the work is about, not what it is."""

MOST_OF_IT = 0.7
"""Share of a lesson's `when` that a refused task must hold, where it holds any of it."""

HARDLY = 0.5
"""What two words of any task weigh: that these are met says nothing."""


def fitting(
    index: Index,
    usable: Callable[[Item], bool],
    asked: str,
    task: str,
    near: Mapping[str, float],
    failure: Failure | None,
) -> tuple[dict[str, float], dict[str, float]]:
    """The candidates that fit, with how they rank, and how well those fit that do so by their words."""
    query = Words.of(asked)
    ranked = rank(query, index, near, usable)
    entries = index.entries
    fit = [one for one in ranked if one.fits and one.key in entries]
    fit = [one for one in fit if not _out_of_place(entries[one.key].item, query)]
    scores, fits = {one.key: one.score for one in fit}, {one.key: one.fit for one in fit}
    if failure is None and not scores:  # a lesson that says itself where it holds is not joined by one that does not
        found = index.learned_on(situation_of(task).split())
        found = {key: share for key, share in found.items() if key in entries and usable(entries[key].item)}
        return {key: one for key, one in found.items() if not _out_of_place(entries[key].item, query)}, {}
    if failure is None:
        return scores, fits
    known = {one.key: one for one in ranked}
    by_task = {one.key for one in rank(Words.of(ends(task, REQUEST)), index, {}, usable) if one.fits}
    for key in known.keys() | by_task:
        if key not in entries or not _bound_alike(entries[key].item.value, failure):
            continue
        # Every refused answer is a failure without a tool: only its words can tell whether it is of the same sort.
        if key in by_task or (failure.tool is not None and shared_weight(query, entries[key].words) >= 1):
            scores[key] = 1.0 + (known[key].score if key in known else 0.0)
            fits.pop(key, None)
    told = Words.of(f"{task} {asked}")
    for key in index.bound_to(failure.fingerprint) if failure.fingerprint else ():
        if key not in entries or not usable(entries[key].item):
            continue
        met, shared, missing = _occasion(entries[key].item, told)
        if failure.tool is None and shared > HARDLY and met < MOST_OF_IT and missing >= 1:
            scores.pop(key, None)
        else:
            scores[key] = VERY * (1 + met) + (known[key].score if key in known else 0.0)
            fits.pop(key, None)
    return scores, fits


def passable(item: Item, now: datetime, tools: Collection[str], failure: Failure | None) -> bool:
    """The hard filter: status, expiry, and a tool that the agent has."""
    value = item.value
    if value.get("status") not in LIVE or not isinstance(value.get("text"), str) or _expired(value, now):
        return False
    if failure is not None and failure.fingerprint and failure.fingerprint in fingerprints(value):
        return True
    raw = value.get("trigger")
    trigger: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    tool = trigger.get("tool")
    if tool is None:
        return True
    elsewhere = failure is not None and failure.tool != tool and (trigger.get("signal") or trigger.get("fingerprint"))
    return tool in tools and not elsewhere


def _expired(value: Mapping[str, Any], now: datetime) -> bool:
    end = value.get("expires_at")
    try:
        return end is not None and datetime.fromisoformat(end) <= now
    except (TypeError, ValueError):
        return True


def _bound_alike(value: Mapping[str, Any], failure: Failure) -> bool:
    """Bound to a failure of this sort, of this tool."""
    trigger = value.get("trigger")
    if not isinstance(trigger, dict) or trigger.get("signal") != failure.signal:
        return False
    return trigger.get("tool") == failure.tool


def _out_of_place(item: Item, query: Words) -> bool:
    """Its own `when_not` fits better than its `when`."""
    against, for_it = item.value.get("when_not"), item.value.get("when")
    if not isinstance(against, str) or not against:
        return False
    wrong = shared_weight(query, Words.of(against))
    return wrong >= 1 and wrong > shared_weight(query, Words.of(for_it if isinstance(for_it, str) else ""))


def _occasion(item: Item, told: Words) -> tuple[float, float, float]:
    """What share of a lesson's `when` is met here, how much of it that is, and how much is missing.

    A check refuses tasks of many sorts in the same words: one that meets a part of `when` and lacks the rest is meant
    for others. Where nothing of it is met, or no more than words of any task, it may be said in other words.
    """
    when = item.value.get("when")
    occasion = Words.of(when if isinstance(when, str) else "")
    whole, shared = sum(map(weight, occasion.counts)), shared_weight(told, occasion)
    return (shared / whole if whole else 0.0), shared, whole - shared


def in_topic(score: float, item: Item, topic: str | None) -> float:
    own = item.value.get("topic")
    if topic is None or own is None or own == "general" or score >= VERY:
        return score
    return score * (1.4 if own == topic else 0.6)


def ends(text: str, most: int) -> str:
    """The beginning and the end of a text that is longer."""
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"
