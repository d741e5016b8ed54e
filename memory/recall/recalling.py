"""Recall: the few lessons that fit a task, or a failure; and the search that people use."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from langgraph.store.base import Item

from langgraph_reflexion.memory.recall.ranking import (
    beside,
    choose,
    rank,
    shared_weight,
    similarity,
    tokens_of,
    within,
)
from langgraph_reflexion.memory.recall.showing import doubt_of
from langgraph_reflexion.memory.recall.worth import Standing, promise, standing
from langgraph_reflexion.memory.shelf.doors import Plan
from langgraph_reflexion.memory.shelf.index import Words
from langgraph_reflexion.memory.shelf.records import LIVE, Evidence, fingerprints, folded, lesson_in
from langgraph_reflexion.memory.shelf.shelf import Shelf, evidence_about, fit_for_a_label, nearest, stocked
from langgraph_reflexion.memory.shelf.values import Found
from langgraph_reflexion.memory.text.situations import situation_of
from langgraph_reflexion.memory.text.words import weight
from langgraph_reflexion.memory.trust.guard import suspicion
from langgraph_reflexion.schemas import Failure, Lesson

logger = logging.getLogger(__name__)

VERY = 100.0
"""Lifts a lesson for this very failure above all that merely fit."""

LONGEST_TASK = 8_000
"""Characters of a task that are looked at, half of them from its end."""

REQUEST = 800
"""Characters of a long task that are held to be what it asks, half of them from its end: what lies between is mostly
what it is given to work on, and says what the work is about, not what it is."""

MOST_OF_IT = 0.7
"""Share of a lesson's `when` that a refused task must hold, where it holds any of it."""

OWN_ID = re.compile("[0-9a-f]{16}")
"""An id as we give it; another program's is looked at closely, for it stands in the prompt."""

Filters = Mapping[str, Any]


def recall(
    shelf: Shelf,
    task: str,
    tools: Collection[str],
    failure: Failure | None,
    topic: str | None,
    exclude: Collection[str],
) -> Plan[list[Lesson]]:
    """What would be shown, the best first; nothing where nothing fits."""
    policy = shelf.policy
    if not policy.read or not policy.max_lessons or not policy.lesson_tokens:
        return []
    items = yield from stocked(shelf)
    if not items:
        return []
    now = shelf.clock()

    def usable(item: Item) -> bool:
        return item.key in items and item.key not in exclude and _usable(item, now, tools, failure)

    task = _ends(task, LONGEST_TASK)
    asked = _ends(task, REQUEST) if failure is None else f"{failure.tool or ''} {failure.evidence[:1000]}"
    near = yield from nearest(shelf, asked)
    scores, fits = _scores(shelf, usable, asked, task, near, failure)
    best = sorted(scores, key=lambda key: (-_in_topic(scores[key], items[key], topic), key))[
        : 2 * policy.max_lessons + 4
    ]
    always = [] if failure is not None else _always(shelf.index.named, items, usable)
    evidence = yield from evidence_about(shelf, dict.fromkeys([*always, *best]))
    named = (_now(items[key], evidence[key], None) for key in always)
    rules = within([one for one in named if one and not _doubted(one, evidence)], policy.lesson_tokens)
    fit: list[tuple[Lesson, float]] = []
    stands: dict[str, Standing] = {}
    for key in best:
        if any(key == rule.id for rule in rules):
            continue
        lesson = _now(items[key], evidence[key], failure)
        if lesson is None or (_stands_in_the_way(lesson, evidence) and _doubted(lesson, evidence)):
            continue
        stands[key] = standing(lesson, evidence[key], failed=failure is not None)
        fit.append((lesson, _in_topic(scores[key], items[key], topic)))
    fit = [one for one in beside(fit, fits) if stands[one[0].id] != "out"]
    while True:
        chosen = choose(
            fit,
            most=policy.max_lessons,
            budget=policy.lesson_tokens - sum(map(tokens_of, rules)),
            doubtful=lambda lesson: stands[lesson.id] == "doubtful",
            worth=lambda lesson: promise(lesson, evidence[lesson.id]),
            vouched=lambda lesson: _vouched(lesson, evidence),
            told=[
                *(str(items[key].value.get("text")) for key in exclude if key in items),
                *(one.text for one in rules),
            ],
        )
        # A close look takes its time: it is for those that would be shown, and for those that would keep others out.
        doubted = {lesson.id for lesson in chosen if _doubted(lesson, evidence)}
        if not doubted:
            return [*rules, *chosen]
        fit = [(lesson, score) for lesson, score in fit if lesson.id not in doubted]


def search(shelf: Shelf, query: str, limit: int, filters: Filters) -> Plan[list[Found]]:
    """The lessons nearest to a query whatever their status, with how near they are."""
    items = yield from stocked(shelf)
    if not items or limit < 1:
        return []
    near = yield from nearest(shelf, query)
    some = any(filters.values())
    most = len(items) if some else limit + 10
    ranked = rank(Words.of(query[:LONGEST_TASK]), shelf.index, near, lambda item: item.key in items, most)
    evidence = yield from evidence_about(shelf, [one.key for one in ranked])
    found: list[Found] = []
    for one in ranked:
        lesson = lesson_in(items[one.key])
        if lesson is not None and passes(folded(lesson, evidence[one.key]), filters):
            score = min(similarity(one, near.get(one.key)), found[-1].score if found else 1.0)
            found.append(Found(folded(lesson, evidence[one.key]), score))
    return [one for one in found if one.score > 0][:limit]


def passes(lesson: Lesson, filters: Filters) -> bool:
    """Whether a lesson has what is asked for; a list of words means any of them."""
    for name, wanted in filters.items():
        if wanted is None:
            continue
        any_of = {wanted} if isinstance(wanted, str) else set(wanted)
        held = set(lesson.tags) if name == "tag" else {getattr(lesson, name)}
        if not held & any_of:
            return False
    return True


def _ends(text: str, most: int) -> str:
    """The beginning and the end of a text that is longer."""
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"


def _always(named: Collection[str], items: Mapping[str, Item], usable: Callable[[Item], bool]) -> list[str]:
    """The rules of the user and the project, the latest first: they hold whatever the task."""
    rules = [items[key] for key in named if key in items and items[key].value.get("kind") == "rule"]
    found = [item for item in rules if usable(item)]
    return [item.key for item in sorted(found, key=lambda one: (str(one.value.get("created_at")), one.key))][::-1]


def _usable(item: Item, now: datetime, tools: Collection[str], failure: Failure | None) -> bool:
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


def _scores(
    shelf: Shelf,
    usable: Callable[[Item], bool],
    asked: str,
    task: str,
    near: Mapping[str, float],
    failure: Failure | None,
) -> tuple[dict[str, float], dict[str, float]]:
    """The candidates that fit, with how they rank, and how well those fit that do so by their words."""
    index, query = shelf.index, Words.of(asked)
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
    by_task = {one.key for one in rank(Words.of(_ends(task, REQUEST)), index, {}, usable) if one.fits}
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
        met, missing = _occasion(entries[key].item, told)
        if failure.tool is None and 0 < met < MOST_OF_IT and missing >= 1:
            scores.pop(key, None)
        else:
            scores[key] = VERY * (1 + met) + (known[key].score if key in known else 0.0)
            fits.pop(key, None)
    return scores, fits


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


def _occasion(item: Item, told: Words) -> tuple[float, float]:
    """What share of a lesson's `when` is met here, and how much of it is missing.

    A check refuses tasks of many sorts in the same words: one that meets a part of `when` and lacks the rest is meant
    for others. Where nothing of it is met, it may be said in other words.
    """
    when = item.value.get("when")
    occasion = Words.of(when if isinstance(when, str) else "")
    whole, shared = sum(map(weight, occasion.counts)), shared_weight(told, occasion)
    return (shared / whole if whole else 0.0), whole - shared


def _in_topic(score: float, item: Item, topic: str | None) -> float:
    own = item.value.get("topic")
    if topic is None or own is None or own == "general" or score >= VERY:
        return score
    return score * (1.4 if own == topic else 0.6)


def _now(item: Item, evidence: Evidence, failure: Failure | None) -> Lesson | None:
    """The lesson as it is now, if its record is sound and its status a live one."""
    matched = None
    if failure is not None and failure.fingerprint in fingerprints(item.value):
        matched = failure.fingerprint
    lesson = lesson_in(item, matched)
    if lesson is None:
        return None
    lesson = folded(lesson, evidence)
    if not OWN_ID.fullmatch(lesson.id) and (
        not fit_for_a_label(lesson.id) or len(lesson.id) > 64 or suspicion(lesson.id)
    ):
        logger.warning("Left out the lesson %r: its id is none", lesson.id[:64])
        return None
    return lesson if lesson.status in LIVE else None


def _vouched(lesson: Lesson, evidence: Mapping[str, Evidence]) -> bool:
    return bool(lesson.name) or evidence[lesson.id].vouched


def _stands_in_the_way(lesson: Lesson, evidence: Mapping[str, Evidence]) -> bool:
    """Whether it keeps others out even where it is not shown itself."""
    return bool(lesson.supersedes) or _vouched(lesson, evidence)


def _doubted(lesson: Lesson, evidence: Mapping[str, Evidence]) -> bool:
    """Whether something speaks against its words at this second look."""
    doubt = doubt_of(lesson, evidence[lesson.id])
    if doubt is not None:
        logger.warning("Left out the lesson %r: %s", lesson.id, doubt)
    return doubt is not None
