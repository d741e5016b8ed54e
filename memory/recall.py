"""Recall: find the few lessons that fit a task or a failure, and search lessons for people.

A lesson must first pass a hard filter: a live status, not expired, and for no tool that the agent lacks. Then a score
says how well its words fit: how rare the shared words are, how much of the lesson's `when` the task contains, and how
long the lesson is. A threshold that grows with the length of the task says whether that is enough. If the store has an
embedding model, the similarity adds to the score, as far as it is above that of unrelated texts. A lesson that fits
brings others for the same failure with it.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any

from langgraph.store.base import Item

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.driver import in_thread
from langgraph_reflexion.memory.access import Plan, at_once
from langgraph_reflexion.memory.choose import Fit, Selection, choose, doubt_of, holds_always, is_approved
from langgraph_reflexion.memory.credit import runs_of_topics, topic_label, won_and_lost
from langgraph_reflexion.memory.estimate import estimate
from langgraph_reflexion.memory.evidence import LIVE
from langgraph_reflexion.memory.gate import LENGTHS, one_line
from langgraph_reflexion.memory.index import ANY_REQUEST, Entry, Index, searchable, tasks_of, words_of
from langgraph_reflexion.memory.items import StoredLesson, fingerprints, is_live, newest_first, trigger_in
from langgraph_reflexion.memory.models import topic_for
from langgraph_reflexion.memory.screening import suspicion
from langgraph_reflexion.memory.shelf import Shelf, time_in
from langgraph_reflexion.schemas import Failure, Lesson, Trigger
from langgraph_reflexion.text.task import (
    FURTHER,
    GENERAL,
    LONG_TASK,
    NAMES,
    TOPICS,
    says_what,
    sentences,
    specific_words,
)
from langgraph_reflexion.text.tokens import STOP_WORDS, function_words

logger = logging.getLogger(__name__)

MIN_SCORE = 1.8
"""Lowest score of a lesson that fits a task. A shared word that no other lesson has scores about 1. Set on the `tune`
parts of `benchmarks/recall.py`, where 1.75 to 1.85 do equally well."""

USUAL_TASK_WORDS = 6
"""Words of a task of usual length. For a longer task, `MIN_SCORE` grows with the fourth root of its length, because a
long text has some of any lesson's words by chance. Set on the same parts."""

WHEN_BONUS = 0.5
"""Share of the score that is added if the task contains all words of a lesson's `when`. Set on the same parts. Without
it, a right lesson comes first in 11 fewer of 100 tasks of ten other trades (`new`), on which no constant was set."""

MAX_UNSHARED = 3.5
"""Words that a task and a `when` may each have that the other lacks. If both have twice as many, the score is halved,
and so on. So a `when` that is a whole exercise does not fit every other exercise, but it fits a short question about
its own. Set on exercises of MBPP, LeetCode and HumanEval. On 204 other tasks, asked again after their own lesson was
removed, another one is shown in 15 of 100, and in 45 without this rule."""

USUAL_LESSON_WORDS = 20
"""Words of a usual lesson in those parts. A longer lesson has more of a task's words by chance, so each word scores
less, as in BM25 (k1 1.2, b 0.5; Robertson and Zaragoza, 2009). If length does not count, a right lesson comes first in
3 fewer of 100 tasks of `new`, on which no constant was set, and in 12 fewer of `messy`."""

UNSPACED_WEIGHT = 0.4
"""Weight of a single character or a bigram in a script without spaces: they overlap, so a word counts several times.
Set on the Chinese tuning tasks, where 0.4 to 0.5 do equally well. At 1, a right lesson comes first in 8 fewer of 100
tasks of `new languages`, on which no constant was set, and 8 more are shown another one."""

SHORT_WEIGHT = 0.25
"""Weight of a short number or a single letter."""

FUNCTION_WEIGHT = 0.5
"""Weight of an English function word in a task that taught a lesson: `how do you say … in …` is a phrasing, too. With
it, 0.1 more of 100 tasks are solved in eleven worlds of `benchmarks/natural.py` (three seeds). 0.3 and 1 do as well
there, but at 1, a book with two orders from one template shows one of them to 18 of 100 other orders, and to 10 at
0.5."""

MIN_SIMILARITY = 0.55
"""Lowest vector similarity that is enough by itself, where unrelated texts have 0 and equal ones 1.
Set on the same parts with all-MiniLM-L6-v2: at 0.5, tasks that no lesson fits are shown a sixth more lessons, and at
0.6, fewer right lessons are found."""

UNRELATED = (
    "The old lighthouse keeper painted the garden fence green.",
    "Two violins and a cello were left behind at the station.",
    "下雨的时候，孩子们在屋里画恐龙。",
)
"""Texts that no lesson is about. Their similarities to lessons are the noise of a store's embedding model."""

MIN_WHEN_SHARE = 0.6
"""Lowest share of a lesson's `when` in a request of the same kind, or in a task that failed: one check may judge many
kinds. Many lessons for one job make its words common. At 0.7, none of them was shown for a request that has two of
three words of a `when`. No set of `benchmarks/recall.py` changes between 0.55 and 0.7."""

LIKE_TASK = 0.6
"""Lowest share of the words of a task that taught a lesson, in another task that is like it. Of 0.4 to 0.7, 0.6 did
best on half of the seeds of `benchmarks/lessons.py` and `benchmarks/natural.py`. If lessons were found by their own
words alone, 7.7 fewer of 100 tasks would be solved in eleven worlds of `natural.py`, on other seeds."""

LIKE_BEST = 0.9
"""Lowest ratio to the best such share: tasks from one template share most of their words, so only those nearest to the
best count. Set on the same seeds. If all of them count, 0.5 fewer of 100 tasks are solved in nine worlds of
`lessons.py` (± 0.4) and 0.7 fewer in fourteen of `natural.py` (± 0.4), on other seeds."""

SAME_KIND = 0.2
"""If at least this share of the lessons for a failure fits a task, all of them do. With a third, the gain is little
more than half as large on three seeds of four worlds of `benchmarks/natural.py`."""

FEW_BOUND = 3
"""Lessons bound to one failure. If there are more, the failure says little: a check says the same of all answers."""

CANDIDATES = 30
"""Lessons whose score is computed: those that share most words with the query."""

FEW_OF_TOPIC = 3
"""This many lessons of a topic are offered even if there are no others: as many as a run is shown. So the first lesson
of a book is found in other words too. On whole streams it makes no difference (0.0 ± 0.1 points in fourteen worlds of
`benchmarks/natural.py`)."""

MAX_READ = 12
"""Lessons whose evidence is read: those with the highest scores."""

SAME_FAILURE_SCORE = 100.0
"""Score of a lesson that is bound to exactly this failure. It is above any other score."""

_NOUN = re.compile(r"(?<=[a-z]{5})(?:e?r|or|ion|ment)$")

OWN_ID = re.compile("[0-9a-f]{16}")
"""The format of the book's ids. Ids of other programs are also in the prompt, so they are screened."""

Filters = Mapping[str, Any]

Weights = Mapping[str, float]
"""The words of a query with their weights."""

Usable = Callable[[Item], bool]
"""Whether a lesson may be shown to this agent now."""


@dataclass(frozen=True)
class Found:
    """A lesson and how well it fits what was searched for, from 0 to 1."""

    lesson: Lesson
    score: float


def recall(
    shelf: Shelf,
    task: str,
    tools: Collection[str],
    failure: Failure | None,
    topic: str | None,
    exclude: Collection[str],
) -> Plan[Selection]:
    """The lessons to show, best first. Empty if none fits."""
    policy = shelf.policy
    if not policy.read or not policy.max_lessons or not policy.lesson_tokens:
        return Selection()
    items = yield from shelf.current_items()
    if items.keys() <= set(exclude):
        return Selection()
    now = shelf.clock()

    def usable(item: Item) -> bool:
        if policy.approve and item.value.get("status") != "active":  # an approval makes it active
            return False
        return item.key in items and item.key not in exclude and is_usable(item, now, tools, failure)

    topic = topic or (yield from topic_for(task, policy))
    weights, request = yield from _query_words(shelf, task)
    always: list[str] = []
    if failure is None:
        holding = newest_first(items[key] for key in shelf.index.always() if key in items)
        always = [item.key for item in holding if usable(item)]
        scores = yield from _for_task(shelf, request, weights, usable, one_line(topic, LENGTHS["topic"]) or GENERAL)
    else:
        scores = yield from _for_failure(shelf, weights, usable, failure)
    best = sorted(scores, key=lambda key: (-scores[key].score, key))[: max(MAX_READ, 2 * policy.max_lessons)]
    about = [topic_label(topic)] if failure is None and best else []
    found, runs = yield from at_once(
        shelf.read_snapshots([items[key] for key in dict.fromkeys([*always, *best])]), runs_of_topics(shelf, about)
    )
    shown_before = [str(items[key].value.get("text")) for key in exclude if key in items]
    current = {key: _triggered_by(entry, failure) for key, entry in found.items() if _may_be_shown(entry, policy)}
    always = [key for key in always if key in current and holds_always(current[key])]
    for_any_task = [current[key] for key in always]
    for_any_task.sort(key=lambda entry: -len(weights.keys() & words_of(entry.lesson.text)))
    fitting = [current[key] for key in best if key in current and key not in always]
    estimates = estimate(fitting, won_and_lost(chain.from_iterable(runs.values()), fitting))
    failed = failure is not None
    while True:  # only chosen lessons are screened again, because that takes longer than searching
        chosen = choose(for_any_task, fitting, scores, estimates, policy, shown_before, after_failure=failed)
        screened = [*chosen, chosen.held] if chosen.held is not None else chosen
        doubts = {lesson.id: doubt for lesson in screened if (doubt := doubt_of(current[lesson.id]))}
        if not doubts:
            return chosen
        for id, doubt in doubts.items():
            logger.warning("Skipped the lesson %r: %s", id, doubt)
        for_any_task = [entry for entry in for_any_task if entry.lesson.id not in doubts]
        fitting = [entry for entry in fitting if entry.lesson.id not in doubts]


def search(shelf: Shelf, query: str, limit: int, filters: Filters) -> Plan[list[Found]]:
    """The lessons most similar to a query, whatever their status, with scores from 0 to 1. 0.5 is enough to fit."""
    items = yield from shelf.current_items()
    if not items or limit < 1:
        return []
    limit = min(limit, len(items))
    weights, request = yield from _query_words(shelf, query)
    candidates = len(items) if any(filters.values()) else max(limit + 10, CANDIDATES)
    near = yield from _similarities(shelf, request)
    scores = match(shelf.index, weights, lambda item: item.key in items, near, candidates)
    order = sorted((key for key in scores if scores[key] > 0), key=lambda key: (-scores[key], key))
    found = yield from shelf.read_snapshots([items[key] for key in order])
    meant = [entry.lesson for entry in found.values() if passes(entry.lesson, filters)]
    return [Found(lesson, round(scores[lesson.id] / (scores[lesson.id] + 1), 4)) for lesson in meant[:limit]]


def is_usable(item: Item, now: datetime, tools: Collection[str], failure: Failure | None) -> bool:
    """The hard filter: a live status, not expired, and not bound to a tool that the agent lacks."""
    value = item.value
    if not is_live(item):
        return False
    if value.get("expires_at") is not None and ((end := time_in(value["expires_at"])) is None or end <= now):
        return False  # a date that cannot be read counts as past
    if failure is not None and failure.fingerprint and failure.fingerprint in fingerprints(value):
        return True
    trigger = trigger_in(value)
    if (tool := trigger.get("tool")) is None:
        return True
    if not isinstance(tool, str):
        return False
    other_failure = failure is not None and failure.tool != tool
    return tool in tools and not (other_failure and (trigger.get("signal") or trigger.get("fingerprint")))


def passes(lesson: Lesson, filters: Filters) -> bool:
    """Whether a lesson matches the filters. Of several values, any one must match."""
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
    index: Index, weights: Weights, usable: Usable, near: Mapping[str, float], limit: int = CANDIDATES
) -> dict[str, float]:
    """How well lessons fit a query, where 1 is just enough. Scores those that share most words, and those in `near`."""
    with index.lock:
        shared = index.matching(weights)
        keys = list(islice((key for key in shared if usable(index.entries[key].item)), limit))
        first = set(keys)
        keys += [key for key in near if key not in first and key in index.entries and usable(index.entries[key].item)]
        enough = MIN_SCORE * max(sum(weights.values()) / USUAL_TASK_WORDS, 1.0) ** 0.25
        asked = sum(map(_weight, weights))
        by_words = {
            key: _score(index, weights, asked, index.entries[key], shared.get(key, 0.0)) / enough for key in keys
        }
        return {key: math.hypot(score, near.get(key, 0.0) / MIN_SIMILARITY) for key, score in by_words.items()}


def _score(index: Index, weights: Weights, asked: float, entry: Entry, shared: float) -> float:
    """The score of a lesson that shares words of this weight with a query, whose own words weigh `asked`."""
    length = 0.5 + 0.5 * sum(map(_weight, entry.words)) / USUAL_LESSON_WORDS
    share = share_met(index, entry.when, weights)
    missing = (1 - share) * sum(map(_weight, entry.when))
    beyond = asked - sum(map(_weight, weights.keys() & entry.when))
    return shared * (1 + WHEN_BONUS * share) * 2.2 / (1 + 1.2 * length) / max(min(missing, beyond) / MAX_UNSHARED, 1.0)


def share_met(index: Index, when: Iterable[str], words: Collection[str]) -> float:
    """The share of a lesson's `when` that these words contain. Rare words count more."""
    return _share({word: index.rarity(word) * _weight(word) for word in when}, words)


def _share(weights: Mapping[str, float], words: Collection[str]) -> float:
    return sum(weight for word, weight in weights.items() if word in words) / (sum(weights.values()) or 1.0)


def _query_words(shelf: Shelf, task: str) -> Plan[tuple[dict[str, float], str]]:
    """The words of a task with their weights, highest in its request, and the request itself."""
    earlier = yield from shelf.earlier_tasks(task)
    weights: dict[str, float] = {}
    reading = in_thread(lambda: sentences(task, earlier), own=True)
    parts = (yield reading) if len(task) >= LONG_TASK else sentences(task)
    for sentence, share in parts:
        for word in words_of(sentence):
            weights[word] = max(weights.get(word, 0.0), share * _weight(word))
    return weights, " ".join(sentence for sentence, share in parts if share >= FURTHER)


def _weight(word: str) -> float:
    """The weight of a word by itself, however rare it is."""
    if word in STOP_WORDS:
        return FUNCTION_WEIGHT
    if not word.isascii():
        return UNSPACED_WEIGHT
    return SHORT_WEIGHT if len(word) == 1 or (word.isdigit() and len(word) < 3) else 1.0


def _similarities(shelf: Shelf, text: str) -> Plan[dict[str, float]]:
    """How similar lessons are to a text by the store's vectors, where an unrelated text has 0 and an equal one 1."""
    [near] = yield from shelf.nearest(text)
    if not near:
        return {}
    noise = shelf.index.noise
    if not near.keys() <= noise.keys():
        measured = {*shelf.index.entries, *near}
        all_found = yield from shelf.nearest(*UNRELATED)
        if not all(all_found):  # the embedding model failed
            return {}
        # A lesson that is not among the nearest is no more similar than the last of them.
        others = max(-1.0, *(min(found.values()) for found in all_found))
        highest = {key: max(found.get(key, -1.0) for found in all_found) for key in set().union(*all_found)}
        noise = shelf.index.noise = {key: highest.get(key, others) for key in measured}
    usual = {key: min(noise[key], 0.99) for key in near}
    return {key: max((score - usual[key]) / (1 - usual[key]), 0.0) for key, score in near.items()}


# ---------------------------------------------------------------- what fits


def _for_task(shelf: Shelf, request: str, weights: Weights, usable: Usable, topic: str) -> Plan[dict[str, Fit]]:
    """The lessons that fit a task, with their scores, or else those that hold for any task of its topic."""
    index = shelf.index

    def may_fit(item: Item) -> bool:
        entry = index.entries.get(item.key)  # another thread may forget it meanwhile
        return entry is not None and usable(item) and not _fits_when_not(index, entry, weights)

    near = yield from _similarities(shelf, request)
    scores = match(index, weights, may_fit, near)
    best = max(scores.values(), default=0.0)
    asked = words_of(request)
    for key, likeness in _taught_by_similar_tasks(index, request, may_fit).items():
        # A lesson that the same task taught fits as well as the best by words.
        scores[key] = max(scores.get(key, 0.0), 1.0, likeness * best)
    fit: dict[str, Fit] = {}
    for key, entry in index.entries_for(scores).items():
        # A lesson whose occasion the request meets fits, however many lessons share the occasion.
        is_met = len(entry.when & asked) >= 2 and share_met(index, entry.when, asked) >= MIN_WHEN_SHARE
        if scores[key] >= 1 or is_met:
            fit[key] = Fit(scores[key], max(scores[key], 1.0))
    if of_topic := _of_custom_topic(index, topic, scores):
        more = (item.key for item in of_topic if item.key not in fit and may_fit(item))
        fit |= {key: Fit(1.0 + scores.get(key, 0.0)) for key in islice(more, MAX_READ)}
    else:
        fit = _with_same_failure(index, fit, weights, may_fit)
    if not fit and topic != GENERAL:
        return {key: Fit(1.0 + scores.get(key, 0.0)) for key in _for_any_task_of_topic(index, topic, weights, may_fit)}
    return fit


def _with_same_failure(index: Index, fit: Mapping[str, Fit], weights: Weights, usable: Usable) -> dict[str, Fit]:
    """The lessons that fit, and others for the same failures, because models name one kind of task in many words.

    If only one fits, or few of many, another one fits only if its `when` has a word of the task. A failure that half of
    all lessons are for says nothing, because a check may say the same of every task. With one lesson for a failure
    shown at a time, this solves 1.5 more of 100 tasks of `benchmarks/natural.py`. It was set on three of its five
    seeds.
    """
    found = dict(fit)
    fitting = filter(None, map(index.items.get, fit))  # another thread may forget one meanwhile
    for failure in {mark for item in fitting for mark in fingerprints(item.value)}:
        bound = index.bound_to(failure)
        if 2 * len(bound) >= len(index.items):
            continue
        is_of_kind = len(bound & fit.keys()) >= max(2, SAME_KIND * len(bound))  # one may fit by chance
        for key, entry in index.entries_for(bound).items():
            if (key in fit or is_of_kind or not entry.when.isdisjoint(weights)) and usable(entry.item):
                known = found.get(key, Fit(share_met(index, entry.when, weights)))
                found[key] = known._replace(failures=known.failures | {failure})
    return found


def _taught_by_similar_tasks(index: Index, request: str, usable: Usable) -> dict[str, float]:
    """The lessons taught by the tasks most like this request, and the share of the words of such a task in it."""
    words = words_of(request) | function_words(request)
    with index.lock:
        shared = index.matching({word: _weight(word) for word in words}, of_tasks=True)
        entries = islice((entry for key in shared if usable((entry := index.entries[key]).item)), CANDIDATES)
        least = 2 if says_what(request) else 1  # a command may be one word
        likeness = {entry.item.key: _likeness(index, entry, words, least) for entry in entries}
    enough = max(LIKE_TASK, LIKE_BEST * max(likeness.values(), default=0.0))
    return {key: share for key, share in likeness.items() if share >= enough}


def _likeness(index: Index, entry: Entry, words: frozenset[str], least: int) -> float:
    """The share of the words of the most similar task that taught a lesson, with or without its function words."""
    shares = (
        _share({word: index.rarity(word, of_tasks=True) * _weight(word) for word in task}, words)
        for known in map(frozenset, map(str.split, tasks_of(entry.item.value)))
        for task in (known, known - STOP_WORDS)
        if len(task & words) >= least and not task & words <= STOP_WORDS
    )
    return max(shares, default=0.0)


def _for_failure(shelf: Shelf, weights: Weights, usable: Usable, failure: Failure) -> Plan[dict[str, Fit]]:
    """The lessons for exactly this failure first, then those for failures of this kind whose words fit."""
    index = shelf.index
    evidence = f"{failure.tool or ''} {failure.evidence[:1000]}"
    near = yield from _similarities(shelf, evidence)
    by_evidence = match(index, {word: _weight(word) for word in words_of(evidence)}, usable, near)
    by_task = match(index, weights, usable, near={})
    scores: dict[str, float] = {}
    for key, entry in index.entries_for({**by_evidence, **by_task}).items():
        trigger = trigger_in(entry.item.value)
        alike = (trigger.get("signal"), trigger.get("tool")) == (failure.signal, failure.tool)
        score = max(by_evidence.get(key, 0.0), by_task.get(key, 0.0) if alike else 0.0)
        if score >= 1:
            scores[key] = score / (score + 1) + alike
    bound = index.entries_for(index.bound_to(failure.fingerprint))
    for key, entry in bound.items():
        if not usable(entry.item):
            continue
        share = share_met(index, entry.when, weights)
        # A check may say the same of every task, so of several lessons, those that name another occasion do not apply.
        # They would take the place of reflections, from which more is learned: 0.7 more of 100 tasks are solved at the
        # first attempt in eight worlds of `natural.py` with a second one (± 0.7), with 2 more reflections.
        several = failure.tool is None and len(bound) > 1
        other_occasion = several and entry.when and share < MIN_WHEN_SHARE and (share > 0 or len(bound) > FEW_BOUND)
        if other_occasion:
            scores.pop(key, None)
        else:
            scores[key] = SAME_FAILURE_SCORE * (1 + share) + scores.get(key, 0.0)
    return {key: Fit(score) for key, score in scores.items()}


def _fits_when_not(index: Index, entry: Entry, weights: Weights) -> bool:
    """Whether the task meets a lesson's `when_not` better than its `when`."""
    against = entry.item.value.get("when_not")
    if not isinstance(against, str):
        return False

    def shared(words: Iterable[str]) -> float:
        return sum(index.rarity(word) * weights.get(word, 0.0) for word in words)

    score = shared(words_of(against))
    return score >= 1 and score > shared(entry.when)


def _of_custom_topic(index: Index, topic: str, scores: Mapping[str, float]) -> list[Item]:
    """The live lessons of a topic that is not built in: those that share most words with the task first, then active
    ones, then the newest.

    If half of all live lessons have the topic, it says little, and the list is empty. Without this, if all tasks have
    one topic, 7 fewer of 100 are solved in seven worlds of `benchmarks/natural.py` (± 3). A few are always offered.
    """
    if topic in (*TOPICS, GENERAL):
        return []
    live = [item for item in index.items.values() if is_live(item)]
    found = [item for item in live if item.value.get("topic") == topic]
    if len(found) > FEW_OF_TOPIC and 2 * len(found) >= len(live):
        return []
    return sorted(newest_first(found), key=lambda item: (-scores.get(item.key, 0.0), item.value["status"] != "active"))


def _for_any_task_of_topic(index: Index, topic: str, weights: Weights, usable: Usable) -> list[str]:
    """The lessons of a topic, or of none, whose `when` names only the topic and words of the task."""
    known = set(map(_root, (*weights, *ANY_REQUEST)))
    general = known | set(map(_root, NAMES.get(topic, ())))
    found = []
    for key, entry in list(index.entries.items()):  # other threads add to it
        value = entry.item.value
        own = value.get("topic") == topic or (value.get("topic") is None and not entry.when.isdisjoint(weights))
        if not own or any(w.isascii() and _root(w) not in general for w in entry.when):
            continue
        _, when = searchable(value)
        if when and usable(entry.item) and known.issuperset(map(_root, specific_words(topic, when))):
            found.append(key)
    return found


def _root(word: str) -> str:
    """A stemmed word without the ending of a noun: the same for `inventor`, `invention` and `invent`."""
    return _NOUN.sub("", word)


def _may_be_shown(found: StoredLesson, policy: MemoryPolicy) -> bool:
    """Whether a lesson's status is live, and a person has approved it if the policy wants that."""
    id = found.lesson.id
    if not OWN_ID.fullmatch(id) and (len(id) > 64 or suspicion(id)):
        logger.warning("Skipped the lesson %r: it does not have a lesson's id", id[:64])
        return False
    return found.lesson.status in LIVE and (not policy.approve or is_approved(found.item.value, found.evidence))


def _triggered_by(found: StoredLesson, failure: Failure | None) -> StoredLesson:
    """The lesson. If it is bound to this failure among others, its trigger names this one."""
    if failure is None or failure.fingerprint not in fingerprints(found.item.value):
        return found
    trigger = (found.lesson.trigger or Trigger()).model_copy(update={"fingerprint": failure.fingerprint})
    return found._replace(lesson=found.lesson.model_copy(update={"trigger": trigger}))
