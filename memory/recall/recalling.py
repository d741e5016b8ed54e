"""Recall: the few lessons that fit a task, or a failure; and the search that people use."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from langgraph.store.base import Item

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.memory.access import Plan
from langgraph_reflexion.memory.recall.choosing import beside, choose, tokens_of, within
from langgraph_reflexion.memory.recall.fitting import REQUEST, ends, fitting, in_topic, passable
from langgraph_reflexion.memory.recall.ranking import rank, similarity
from langgraph_reflexion.memory.recall.showing import doubt_of
from langgraph_reflexion.memory.recall.worth import Standing, promise, standing
from langgraph_reflexion.memory.records import LIVE, Evidence, fingerprints, folded, lesson_in
from langgraph_reflexion.memory.shelf import Shelf, evidence_about, fit_for_a_label, nearest, stocked
from langgraph_reflexion.memory.trust.guard import suspicion
from langgraph_reflexion.memory.values import Found
from langgraph_reflexion.schemas import Failure, Lesson
from langgraph_reflexion.text.words import Words

logger = logging.getLogger(__name__)

LONGEST_TASK = 8_000
"""Characters of a task that are looked at, half of them from its end."""

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
        return item.key in items and item.key not in exclude and passable(item, now, tools, failure)

    task = ends(task, LONGEST_TASK)
    asked = ends(task, REQUEST) if failure is None else f"{failure.tool or ''} {failure.evidence[:1000]}"
    near = yield from nearest(shelf, asked)
    scores, fits = fitting(shelf.index, usable, asked, task, near, failure)
    scores = {key: in_topic(score, items[key], topic) for key, score in scores.items()}
    best = sorted(scores, key=lambda key: (-scores[key], key))[: 2 * policy.max_lessons + 4]
    always = [] if failure is not None else _always(shelf.index.named, items, usable)
    evidence = yield from evidence_about(shelf, dict.fromkeys([*always, *best]))
    named = (_now(items[key], evidence[key], None) for key in always)
    rules = within([one for one in named if one and not _doubted(one, evidence)], policy.lesson_tokens)
    shown = {one.id for one in rules}
    fit: list[tuple[Lesson, float]] = []
    stands: dict[str, Standing] = {}
    for key in best:
        lesson = None if key in shown else _now(items[key], evidence[key], failure)
        if lesson is None or (_stands_in_the_way(lesson, evidence) and _doubted(lesson, evidence)):
            continue
        stands[key] = standing(lesson, evidence[key], failed=failure is not None)
        fit.append((lesson, scores[key]))
    fit = [one for one in beside(fit, fits) if stands[one[0].id] != "out"]
    told = [str(items[key].value.get("text")) for key in exclude if key in items]
    return [*rules, *_chosen(fit, stands, evidence, policy, rules, told)]


def _chosen(
    fit: list[tuple[Lesson, float]],
    stands: Mapping[str, Standing],
    evidence: Mapping[str, Evidence],
    policy: MemoryPolicy,
    rules: Collection[Lesson],
    told: Collection[str],
) -> list[Lesson]:
    """Those of the lessons that fit which are shown beside the rules.

    A close look takes its time: it is for those that would be shown, and for those that would keep others out.
    """
    while True:
        chosen = choose(
            fit,
            most=policy.max_lessons,
            budget=policy.lesson_tokens - sum(map(tokens_of, rules)),
            doubtful=lambda lesson: stands[lesson.id] == "doubtful",
            worth=lambda lesson: promise(lesson, evidence[lesson.id]),
            vouched=lambda lesson: _vouched(lesson, evidence),
            told=[*told, *(one.text for one in rules)],
        )
        doubted = {lesson.id for lesson in chosen if _doubted(lesson, evidence)}
        if not doubted:
            return chosen
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


def _always(named: Collection[str], items: Mapping[str, Item], usable: Callable[[Item], bool]) -> list[str]:
    """The rules of the user and the project, the latest first: they hold whatever the task."""
    rules = [items[key] for key in named if key in items and items[key].value.get("kind") == "rule"]
    found = [item for item in rules if usable(item)]
    return [item.key for item in sorted(found, key=lambda one: (str(one.value.get("created_at")), one.key))][::-1]


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
