"""Recall: find the few lessons that fit a task or a failure, and search lessons for people.

A lesson must first pass a hard filter: status, expiry, and a tool that the agent has. Then one score of words says how
well it fits: how rare the shared words are, how much of the lesson's `when` is met, and how much of the shorter of the
two texts is shared. One threshold, which grows with the length of the task, says whether that is enough. Where the
store has an embedding model, a lesson also fits when it is far more similar than unlike texts are to that model.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from itertools import islice
from statistics import fmean, median, pstdev
from typing import Any, NamedTuple

from langgraph.store.base import Item, SearchOp

from langgraph_reflexion.memory.access import Plan
from langgraph_reflexion.memory.choose import Fit, Selection, choose, doubt_of
from langgraph_reflexion.memory.credit import estimate, topic_label, won_and_lost
from langgraph_reflexion.memory.index import Entry, Index, words_of
from langgraph_reflexion.memory.records import LIVE, Evidence, fingerprints, folded, lesson_in
from langgraph_reflexion.memory.shelf import Shelf, evidence_about, fit_for_a_label, nearest, stocked, topic_for
from langgraph_reflexion.memory.suspicion import suspicion
from langgraph_reflexion.memory.values import Found
from langgraph_reflexion.schemas import Failure, Lesson
from langgraph_reflexion.text.tokens import tokens
from langgraph_reflexion.text.topics import GENERAL, without_keywords

logger = logging.getLogger(__name__)

ENOUGH = 1.6
"""Score from which a lesson fits a task. Set on the tuning halves of `benchmarks/recall.py`."""

NEARLY = 0.8
"""Share of what is enough that will do for a lesson of the task's own topic, where nothing nearer fits."""

USUAL_TASK = 6
"""Words of a task up to which `ENOUGH` is enough; it grows with the square root of a longer one, because a long text
holds some of any lesson's words by chance. Set on the same halves."""

OCCASION = 0.6
"""How much it adds to the score that the task meets the whole of a lesson's `when`. Set on the same halves."""

BIGRAM = 0.6
"""Weight of a bigram of a script without spaces: two of them overlap in each word. Set on the Chinese tuning tasks."""

CHARACTER = 0.35
"""Weight of a character of such a script: it holds for words that are put together otherwise. Set on the same tasks."""

SMALL = 0.25
"""Weight of a short number or a single letter."""

REQUEST = 800
"""Characters of a long task that are read, half of them from each end: what lies between is mostly material."""

LONG_TASK = 200
"""Characters from which a task is held against earlier ones, to find its request among what all of them hold."""

PAST_TASKS = 100
"""Earlier tasks that a long one is held against."""

CLEARLY = 5.0
"""Standard deviations above the similarity of unlike texts from which a similarity is a sign. For small sentence
models that is about 0.45, which found 8 to 15 in 100 more lessons than 0.60; a model with a narrow range gets less."""

UNLIKE = (
    "The old lighthouse keeper painted the garden fence green.",
    "Two violins and a cello were left behind at the station.",
    "下雨的时候，孩子们在屋里画恐龙。",
)
"""Texts that no lesson is about: their similarities to lessons are the noise of a store's embedding model."""

MET = 0.7
"""Share of a lesson's `when` that a refused task must meet, where it meets any of it. A check may say the same of
tasks of many kinds."""

CROWD = 3
"""Lessons bound to one failure above which the failure says little by itself: a check has the same words for all."""

CANDIDATES = 30
"""Lessons whose score is computed, those with the most shared words."""

CLOSE_LOOKS = 12
"""Lessons, the best ones, whose evidence is read."""

RANKS = 5
"""Constant of reciprocal rank fusion. The usual 60 is for lists of hundreds; here few lessons compete."""

VERY_FAILURE = 100.0
"""Score of a lesson that is bound to this very failure: above any other."""

ANY_REQUEST = frozenset(tokens("ask question task something someone user answer request"))
"""Words that the occasion of any lesson may hold."""

OWN_ID = re.compile("[0-9a-f]{16}")
"""An id as the book gives it. Another program's id stands in the prompt, too, and is screened."""

Filters = Mapping[str, Any]


class Match(NamedTuple):
    """How well a lesson fits a query, and the score from which it would be enough."""

    score: float
    enough: float

    @property
    def fits(self) -> bool:
        return self.score >= self.enough


def recall(
    shelf: Shelf,
    task: str,
    tools: Collection[str],
    failure: Failure | None,
    topic: str | None,
    exclude: Collection[str],
) -> Plan[Selection]:
    """The lessons to show, the best first; none where none fits."""
    policy = shelf.policy
    if not policy.read or not policy.max_lessons or not policy.lesson_tokens:
        return Selection()
    items = yield from stocked(shelf)
    if not items:
        return Selection()
    now = shelf.clock()

    def usable(item: Item) -> bool:
        if policy.approve and item.value.get("status") != "active":  # an approval makes it active
            return False
        return item.key in items and item.key not in exclude and is_usable(item.value, now, tools, failure)

    topic = topic or topic_for(task, policy)
    always = (
        [] if failure is not None else _always((items[key] for key in shelf.index.always() if key in items), usable)
    )
    query = both_ends(task, REQUEST)
    weights = yield from _weights(shelf, query)
    if failure is None:
        scores = yield from _for_task(shelf, query, weights, usable, topic)
    else:
        scores = yield from _for_failure(shelf, weights, usable, failure)
    best = sorted(scores, key=lambda key: (-scores[key].score, key))[: max(CLOSE_LOOKS, 2 * policy.max_lessons)]
    about = topic_label(topic)
    evidence = yield from evidence_about(shelf, dict.fromkeys([*always, *best, about]))
    if policy.approve:
        always, best = ([key for key in keys if evidence[key].approved] for keys in (always, best))
    current = {key: _current(items[key], evidence[key], failure) for key in (*always, *best)}
    rules = [lesson for key in always if (lesson := current[key]) is not None]
    rules = [lesson for lesson in rules if doubt_of(lesson, evidence[lesson.id]) is None]
    rules.sort(key=lambda lesson: -len(weights.keys() & words_of(lesson.text)))
    fit = [(lesson, scores[key]) for key in best if key not in always and (lesson := current[key]) is not None]
    record = won_and_lost(evidence[about]) if failure is None else (0, 0)
    kind = estimate({lesson.id: lesson for lesson, _ in fit}, evidence, record)
    shown_before = [str(items[key].value.get("text")) for key in exclude if key in items]
    limits = policy.max_lessons, policy.lesson_tokens
    return choose(rules, fit, evidence, kind, *limits, shown_before, failure is not None)


def search(shelf: Shelf, query: str, limit: int, filters: Filters) -> Plan[list[Found]]:
    """The lessons nearest to a query, whatever their status, with how near they are: by words 0.5 just fits a task."""
    items = yield from stocked(shelf)
    if not items or limit < 1:
        return []
    weights = yield from _weights(shelf, query)
    most = len(items) if any(filters.values()) else max(limit + 10, CANDIDATES)
    near = yield from nearest(shelf, query)
    matches = match(shelf.index, weights, lambda item: item.key in items, most, near)
    fused = ranked(matches, near)
    evidence = yield from evidence_about(shelf, fused)
    found: list[Found] = []
    for key in fused:
        lesson = lesson_in(items[key])
        if lesson is None or not passes(folded(lesson, evidence[key]), filters):
            continue
        by_words = matches[key].score / (matches[key].score + matches[key].enough)
        by_vectors = min(max(near.get(key, 0.0), 0.0), 1.0)
        score = min(round(max(by_words, by_vectors), 4), found[-1].score if found else 1.0)
        found.append(Found(folded(lesson, evidence[key]), score))
    return [one for one in found if one.score > 0][:limit]


def is_usable(value: dict[str, Any], now: datetime, tools: Collection[str], failure: Failure | None) -> bool:
    """The hard filter: a live status, not expired, and not bound to a tool that the agent lacks."""
    if value.get("status") not in LIVE or not isinstance(value.get("text"), str) or is_expired(value, now):
        return False
    if failure is not None and failure.fingerprint and failure.fingerprint in fingerprints(value):
        return True
    trigger = value.get("trigger")
    if not isinstance(trigger, dict) or (tool := trigger.get("tool")) is None:
        return True
    other_failure = failure is not None and failure.tool != tool
    return tool in tools and not (other_failure and (trigger.get("signal") or trigger.get("fingerprint")))


def is_expired(value: Mapping[str, Any], now: datetime) -> bool:
    """Whether a record's time is over; one whose date cannot be read is expired."""
    end = value.get("expires_at")
    try:
        return end is not None and datetime.fromisoformat(end) <= now
    except (TypeError, ValueError):
        return True


def passes(lesson: Lesson, filters: Filters) -> bool:
    """Whether a lesson has what is asked for; of several words any will do."""
    for name, wanted in filters.items():
        if wanted is None:
            continue
        any_of = {wanted} if isinstance(wanted, str) else set(wanted)
        held = set(lesson.tags) if name == "tag" else {getattr(lesson, name)}
        if not held & any_of:
            return False
    return True


# ---------------------------------------------------------------- the score


def match(
    index: Index,
    weights: Mapping[str, float],
    usable: Callable[[Item], bool],
    most: int = CANDIDATES,
    near: Collection[str] = (),
) -> dict[str, Match]:
    """How well lessons fit a query by words: those that share most with it, and those in `near`."""
    with index.lock:
        rough = index.matching({word: weight * index.rarity(word) for word, weight in weights.items()})
        ordered = sorted(rough, key=lambda key: (-rough[key], key))
        keys = list(islice((key for key in ordered if usable(index.entries[key].item)), most))
        keys += [key for key in near if key not in rough and key in index.entries and usable(index.entries[key].item)]
        return {key: _compare(index, weights, index.entries[key], rough.get(key, 0.0)) for key in keys}


def _compare(index: Index, weights: Mapping[str, float], entry: Entry, shared: float) -> Match:
    shorter = max(min(_size(weights), _size(entry.words)), 1.0)
    share, occasion = min(shared / shorter, 1.0), met(index, entry.when, weights)
    score = shared * (1 + OCCASION * occasion) * math.sqrt(0.5 + share)
    enough = ENOUGH * max(math.sqrt(_size(weights) / USUAL_TASK), 1.0)
    if occasion >= MET and len(entry.when & weights.keys()) >= 2:
        score = max(score, enough)  # however many lessons there are for the same occasion
    return Match(score, enough)


def met(index: Index, when: Iterable[str], words: Collection[str]) -> float:
    """The share of a lesson's `when` that is met by these words, rare ones counting more."""
    rarities = {word: index.rarity(word) * _alone(word) for word in when}
    return sum(rarity for word, rarity in rarities.items() if word in words) / (sum(rarities.values()) or 1.0)


def _weights(shelf: Shelf, task: str) -> Plan[dict[str, float]]:
    """The words of a task, and how much each says: less in a long task where earlier tasks hold it as well."""
    words = words_of(task)
    weights = {word: _alone(word) for word in words}
    if len(task) < LONG_TASK:
        return weights
    [episodes] = yield [SearchOp(shelf.episodes, None, PAST_TASKS)]
    others = [one for one in (str(item.value.get("task")) for item in episodes) if one != task]
    held = Counter(word for other in others for word in words_of(both_ends(other, REQUEST)) & words)
    # An earlier task at least is assumed that holds none of the words, so that one like task takes nothing away.
    return {word: weight * (1 - held[word] / (len(others) + 1)) for word, weight in weights.items()}


def _alone(word: str) -> float:
    """How much a word says by itself."""
    if not word.isascii():
        return CHARACTER if len(word) == 1 else BIGRAM
    return SMALL if len(word) == 1 or (word.isdigit() and len(word) < 3) else 1.0


def _size(words: Iterable[str]) -> float:
    return sum(_alone(word) for word in words)


def both_ends(text: str, most: int) -> str:
    """The text, or of a long one its beginning and its end."""
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"


# ---------------------------------------------------------------- vectors


def _clear_from(shelf: Shelf, near: Mapping[str, float]) -> Plan[float]:
    """The similarity from which a lesson is clearly near, by what the model says of unlike texts."""
    index, known = shelf.index, len(shelf.index.entries)
    if index.noise is None or known > 2 * index.noise[0]:
        similarities: list[float] = []
        for text in UNLIKE:
            similarities += (yield from nearest(shelf, text)).values()
        index.noise = (max(known, 1), _above(fmean(similarities), pstdev(similarities)) if similarities else math.inf)
    if len(near) < 4:
        return index.noise[1]
    # Most of the lessons are unlike the task itself: half of the spread around the median is theirs.
    usual = median(near.values())
    spread = 1.5 * median(abs(one - usual) for one in near.values())
    return min(index.noise[1], _above(usual, spread))


def _above(usual: float, spread: float) -> float:
    """A similarity clearly above the usual one. A spread of few numbers is uncertain, and taken for at least 0.06 of
    what is left up to 1, which is that of the narrowest models."""
    return usual + CLEARLY * max(spread, 0.06 * (1 - usual))


def ranked(matches: Mapping[str, Match], near: Mapping[str, float]) -> dict[str, float]:
    """The lessons with a score from 1 down, the best first: by words, or fused with the rank by vectors."""
    by_words = sorted((key for key in matches if matches[key].score), key=lambda key: (-matches[key].score, key))
    by_vectors = sorted((key for key in near if key in matches), key=lambda key: (-near[key], key))
    if not by_vectors:
        best = matches[by_words[0]].score if by_words else 1.0
        return {key: matches[key].score / best for key in by_words}
    fused: dict[str, float] = {}
    for order in (by_words, by_vectors):
        for place, key in enumerate(order):
            fused[key] = fused.get(key, 0.0) + 1 / (RANKS + place)
    return dict(sorted(fused.items(), key=lambda one: (-one[1], one[0])))


# ---------------------------------------------------------------- what fits


def _for_task(
    shelf: Shelf, query: str, weights: Mapping[str, float], usable: Callable[[Item], bool], topic: str
) -> Plan[dict[str, Fit]]:
    """The lessons that fit a task, with their scores; where none does, those that hold for any task of its topic."""
    index = shelf.index
    near = yield from nearest(shelf, query)
    clear = (yield from _clear_from(shelf, near)) if near else math.inf
    matches = match(index, weights, usable, near=near)
    fit: dict[str, Fit] = {}
    for key, score in ranked(matches, near).items():
        is_near = clear <= near.get(key, 0.0)
        if (matches[key].fits or is_near) and not _is_out_of_place(index, key, weights):
            factor = _topic_factor(index.entries[key].item, topic)
            fit[key] = Fit(score * factor, None if is_near else matches[key].score)
    if not fit and topic != GENERAL:
        return {key: Fit(1.0 + _score(matches, key)) for key in _of_topic(index, topic, weights, matches, usable)}
    return fit


def _for_failure(
    shelf: Shelf, weights: Mapping[str, float], usable: Callable[[Item], bool], failure: Failure
) -> Plan[dict[str, Fit]]:
    """The lessons for this very failure first, then those for failures of its sort whose words fit."""
    index = shelf.index
    asked = f"{failure.tool or ''} {failure.evidence[:1000]}"
    evidence_words = {word: _alone(word) for word in words_of(asked)}
    near = yield from nearest(shelf, asked)
    clear = (yield from _clear_from(shelf, near)) if near else math.inf
    matches = match(index, evidence_words, usable, near=near)
    scores: dict[str, float] = {}
    for key, score in ranked(matches, near).items():
        alike = _is_bound_alike(index.entries[key].item.value, failure)
        if matches[key].fits or near.get(key, 0.0) >= clear or (alike and failure.tool and matches[key].score >= 1):
            scores[key] = score + alike
    for key, found in match(index, weights, usable).items():
        if found.fits and _is_bound_alike(index.entries[key].item.value, failure):
            scores[key] = max(scores.get(key, 0.0), 1.0 + found.score / (found.score + found.enough))
    bound = [key for key in index.bound_to(failure.fingerprint) if key in index.entries] if failure.fingerprint else []
    for key in bound:
        entry = index.entries[key]
        share = met(index, entry.when, weights)
        # A check may say the same of every task: of several lessons those that name another occasion are not meant.
        several = failure.tool is None and len(bound) > 1
        elsewhere = several and entry.when and share < MET and (share > 0 or len(bound) > CROWD)
        if not usable(entry.item):
            continue
        if elsewhere:
            scores.pop(key, None)
        else:
            scores[key] = VERY_FAILURE * (1 + share) + scores.get(key, 0.0)
    return {key: Fit(score) for key, score in scores.items()}


def _is_bound_alike(value: Mapping[str, Any], failure: Failure) -> bool:
    """Whether a lesson is bound to a failure of this signal and tool."""
    trigger = value.get("trigger")
    return isinstance(trigger, dict) and trigger.get("signal") == failure.signal and trigger.get("tool") == failure.tool


def _is_out_of_place(index: Index, key: str, weights: Mapping[str, float]) -> bool:
    """Whether the task meets a lesson's `when_not` better than its `when`."""
    entry = index.entries[key]
    against = entry.item.value.get("when_not")
    words = words_of(against if isinstance(against, str) else "")

    def shared(some: Iterable[str]) -> float:
        return sum(index.rarity(word) * weights.get(word, 0.0) for word in some)

    return shared(words) >= 1 and shared(words) > shared(entry.when)


def _of_topic(
    index: Index,
    topic: str,
    weights: Mapping[str, float],
    matches: Mapping[str, Match],
    usable: Callable[[Item], bool],
) -> list[str]:
    """The lessons of a topic that hold for this task too: their `when` names nothing but the topic and what the task
    holds as well, or their words nearly fit."""
    found = []
    for key, item in index.items.items():
        when = item.value.get("when")
        if item.value.get("topic") != topic or not isinstance(when, str) or not usable(item):
            continue
        named = set(tokens(without_keywords(topic, when))) - weights.keys() - ANY_REQUEST
        if (when and not named) or _score(matches, key) >= NEARLY:
            found.append(key)
    return found


def _score(matches: Mapping[str, Match], key: str) -> float:
    """How near a lesson comes to fitting by its words: 1 is enough."""
    return matches[key].score / matches[key].enough if key in matches else 0.0


def _topic_factor(item: Item, topic: str) -> float:
    own = item.value.get("topic")
    if own is None or GENERAL in (own, topic):
        return 1.0
    return 1.4 if own == topic else 0.6


def _always(items: Iterable[Item], usable: Callable[[Item], bool]) -> list[str]:
    """The lessons that hold for any task, the newest first: what a person wants remembered without an occasion."""
    found = [item for item in items if usable(item)]
    found.sort(key=lambda item: (str(item.value.get("created_at")), item.key), reverse=True)
    return [item.key for item in found]


def _current(item: Item, evidence: Evidence, failure: Failure | None) -> Lesson | None:
    """The lesson as it is now, where its record is sound and its status a live one."""
    known_for = failure is not None and failure.fingerprint in fingerprints(item.value)
    lesson = lesson_in(item, failure.fingerprint if failure is not None and known_for else None)
    if lesson is None:
        return None
    lesson = folded(lesson, evidence)
    if not OWN_ID.fullmatch(lesson.id) and (
        not fit_for_a_label(lesson.id) or len(lesson.id) > 64 or suspicion(lesson.id)
    ):
        logger.warning("Left out the lesson %r: its id is not one of ours", lesson.id[:64])
        return None
    return lesson if lesson.status in LIVE else None
