"""Ranking: which few lessons fit a task, and that none does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from langgraph.store.base import Item

from langgraph_reflexion.memory.shelf.index import Index, Words
from langgraph_reflexion.memory.shelf.records import failure_of
from langgraph_reflexion.memory.text.likeness import likeness, opposed
from langgraph_reflexion.memory.text.words import count_tokens, weight
from langgraph_reflexion.schemas import Lesson

DENSE = 0.6
"""What a character says that two texts of a script without spaces share beside a word."""

ENOUGH = 1.62
"""Evidence from which a lesson fits a task, in telling words that no other lesson holds."""

ENOUGH_OF_A_FACT = 0.9
"""The same for what is known of the user and the project: such a fact has few words, and one telling one will do."""

USUAL_TASK = 15.0
"""Weight of a task up to which that is enough; a longer one holds some of a lesson's words by chance."""

MET = 3
"""Words of a lesson's `when`, plain ones too, by which a task meets its occasion, if they are three of four or more."""

OCCASION = 1.3
"""How much it speaks for a lesson that the task covers what it says of when it holds."""

LEAST_SHARE = 0.1
"""Share of the shorter text that must be shared: long texts hold some of the same words by chance."""

BESIDE = 0.7
"""Share of the best one's fit that a lesson needs to be shown beside it."""

TOO_ALIKE = 0.8
OVERHEAD = 14
"""Tokens of a lesson's place in a prompt beside its own words: its id, its record, the marks around it."""


@dataclass(frozen=True)
class Ranked:
    """One candidate: its key, its place among the others from 1 down to 0, how well it fits, and whether enough."""

    key: str
    score: float
    fit: float
    fits: bool


def rank(
    asked: Words, index: Index, near: Mapping[str, float], usable: Callable[[Item], bool], most: int = 30
) -> list[Ranked]:
    """The lessons by likeness in words and, where the store has them, vectors; the best first.

    `near` holds the similarities that a store with an index gave. Words that many lessons hold count less.
    """
    with index.lock:
        forms = index.forms(asked.counts)
        rare = {form: index.rarity(form) for of_a_word in forms.values() for form in of_a_word}
        keys = index.candidates(forms, usable, near, most)
        about = {key: index.entries[key].words for key in keys}
        facts = {key for key in keys if _is_a_fact(index.entries[key].item)}
    usual = sum(words.size for words in about.values()) / max(len(about), 1) or 1.0
    heard: dict[str, list[tuple[str, float]]] = {}
    for word, of_a_word in forms.items():
        for form, alike in of_a_word.items():
            heard.setdefault(form, []).append((word, alike * rare[form]))
    told = {key: _compared(asked, words, heard, usual) for key, words in about.items()}
    by_vectors = _above_the_usual({key: near[key] for key in keys if key in near})
    best = max((order for order, _, _ in told.values()), default=0.0) or 1.0
    stands_out = _standing_out([near[key] for key in keys if key in near])
    stretch = max(math.sqrt(asked.weight / USUAL_TASK), 1.0)
    found = []
    for key, (order, fit, share) in told.items():
        convinced = stands_out(near.get(key))
        least = (ENOUGH_OF_A_FACT if key in facts else ENOUGH) * stretch
        enough = (fit >= least and share >= LEAST_SHARE) or convinced
        score = order / best + by_vectors.get(key, 0.0)
        if score:
            found.append(Ranked(key, score, max(fit, ENOUGH) if convinced else fit, enough))
    return sorted(found, key=lambda one: (-one.score, one.key))


def _is_a_fact(item: Item) -> bool:
    """Something remembered under a name."""
    return bool(item.value.get("name")) and item.value.get("kind") in ("preference", "project")


def beside(found: Sequence[tuple[Lesson, float]], fits: Mapping[str, float]) -> list[tuple[Lesson, float]]:
    """Without those that fit far less well than the best one.

    A remedy for the same failure on the same occasion as one that stays does stay: of these the record decides, not the
    words. `fits` says how well; what it does not name is there for another reason than its words.
    """
    least = BESIDE * max((fits[one.id] for one, _ in found if one.id in fits), default=0.0)
    near = [one for one, _ in found if fits.get(one.id, least) >= least]
    return [one for one in found if one[0] in near or any(_rivals(one[0], other) for other in near)]


def shared_weight(query: Words, words: Words) -> float:
    """How much two texts have in common: each shared word once, by what it says."""
    shared = query.counts.keys() & words.counts.keys()
    return sum(weight(word) for word in shared)


def similarity(one: Ranked, near: float | None) -> float:
    """How well a lesson answers a search, from 0 to 1: by words 0.5 is just enough to be shown to a run."""
    by_words = one.fit / (one.fit + ENOUGH)
    return round(min(max(by_words, near if near is not None and near <= 1 else 0.0), 1.0), 4)


def choose(
    ranked: Sequence[tuple[Lesson, float]],
    *,
    most: int,
    budget: int,
    doubtful: Callable[[Lesson], bool],
    worth: Callable[[Lesson], float],
    vouched: Callable[[Lesson], bool],
    told: Sequence[str] = (),
) -> list[Lesson]:
    """The lessons to show, the best first: few, different, in agreement, within the budget of tokens.

    A record of wins lifts a lesson; a doubtful one is shown only where no other fits. Of several remedies for one
    failure the one with the best record is shown alone, so that its run says which of them works; the others have
    their turn when it fails. A summary that has proved nothing yet comes after all lessons. `told` holds texts shown
    before: they are neither repeated nor contradicted. Nothing takes the place of what is `vouched` for.
    """
    weighed = sorted(ranked, key=lambda one: (_is_unproven_summary(one[0]), -one[1] * (0.5 + worth(one[0]))))
    sound = [lesson for lesson, _ in weighed if not doubtful(lesson)]
    gone = _replaced(sound, vouched)
    firm = [lesson for lesson in sound if vouched(lesson)]
    gone |= {lesson.id for lesson in sound if lesson not in firm and any(_clash(lesson.text, one.text) for one in firm)}
    gone |= {lesson.id for lesson in sound if lesson.kind == "strategy" and _is_a_rule(lesson.text, sound)}
    chosen: list[Lesson] = []
    offered = [lesson for lesson in sound or [lesson for lesson, _ in weighed] if lesson.id not in gone]
    for first in offered:
        if len(chosen) == most:
            break
        if any(_rivals(first, other) for other in chosen):
            continue
        rivals = [first, *(one for one in offered if _rivals(one, first))]
        lesson = max(
            rivals, key=lambda one: (vouched(one), worth(one), one.created_at.timestamp() if one.created_at else 0.0)
        )
        cost = tokens_of(lesson)
        said = [*told, *(other.text for other in chosen)]
        if cost > budget or any(_clash(lesson.text, other) for other in said):
            continue
        chosen.append(lesson)
        budget -= cost
    return chosen


def within(lessons: Sequence[Lesson], budget: int) -> list[Lesson]:
    """As many of these, in their order, as the budget of tokens holds."""
    chosen = []
    for lesson in lessons:
        if (cost := tokens_of(lesson)) <= budget:
            chosen.append(lesson)
            budget -= cost
    return chosen


def tokens_of(lesson: Lesson) -> int:
    """What a lesson costs in a prompt."""
    return count_tokens(lesson.text) + count_tokens(lesson.when) + count_tokens(lesson.when_not) + OVERHEAD


def _is_a_rule(text: str, lessons: Sequence[Lesson]) -> bool:
    """Whether a rule says the same."""
    return any(one.kind == "rule" and likeness(text, one.text) >= TOO_ALIKE for one in lessons)


def _replaced(lessons: Sequence[Lesson], vouched: Callable[[Lesson], bool]) -> set[str]:
    """The ids of those that are left to their successors. They are never shown side by side.

    A pattern takes the place of lessons it was made of. What is verified, or told by a person, gives way only to a
    pattern that proved itself, what is vouched for only to one that is as well; until then the pattern stands back.
    """
    by_id = {lesson.id: lesson for lesson in lessons}
    gone: set[str] = set()
    for lesson in lessons:
        old = [by_id[id] for id in lesson.supersedes if id in by_id]
        firm = any(vouched(one) for one in old) and not vouched(lesson)
        proven = lesson.status == "active" or not any(one.origin in ("verified", "told") for one in old)
        gives_way = lesson.kind != "pattern" or (proven and not firm)
        gone |= {one.id for one in old} if gives_way else {lesson.id}
    return gone


def _is_unproven_summary(lesson: Lesson) -> bool:
    return lesson.kind == "pattern" and bool(lesson.supersedes) and lesson.status != "active"


def _rivals(one: Lesson, other: Lesson) -> bool:
    """Whether two lessons each say what to do about the same failure on the same occasion."""
    if one.id == other.id or not one.when or not failure_of(one) or failure_of(one) != failure_of(other):
        return False
    return likeness(one.when, other.when) >= TOO_ALIKE


def _clash(text: str, other: str) -> bool:
    return likeness(text, other) >= TOO_ALIKE or opposed(text, other)


def _compared(
    asked: Words, words: Words, heard: Mapping[str, Sequence[tuple[str, float]]], usual: float
) -> tuple[float, float, float]:
    """How well a lesson ranks, how well it fits, and how much of the shorter of the two texts is shared.

    `heard` tells for a lesson's word which words of the task it answers, and how much it says in their place. It fits
    by the telling words it shares, the better the more of the task they are, and the more of what the lesson itself
    says of when it holds.
    """
    best: dict[str, tuple[float, str]] = {}
    for form in words.counts:
        for word, says in heard.get(form, ()):
            if word not in best or best[word] < (says, form):
                best[word] = says, form
    order = shared = 0.0
    held: set[str] = set()
    length = 0.4 + 0.6 * words.size / usual
    for word, (says, form) in best.items():
        strength = says * min(weight(word), weight(form))
        count = words.counts[form]
        shared += strength
        order += strength * 2.2 * count / (count + 1.2 * length)
        held.add(form)
    dense = {one for word in held if not word.isascii() for one in word}
    if dense:
        shared += DENSE * min(len((asked.characters & words.characters) - dense), 2)
    occasion = sum(map(weight, words.when))
    covered = sum(weight(word) for word in words.when & held) / occasion if occasion >= 0.6 else 0.0
    share = shared / max(min(asked.weight, words.weight), 1.0)
    fit = shared * (1 + OCCASION * covered) * math.sqrt(0.5 + min(share, 1.0))
    met = words.when & held
    if len(met) >= MET and 4 * len(met) >= 3 * len(words.when):
        fit = max(fit, ENOUGH)
    return order * (1 + 0.25 * covered), fit, share


def _above_the_usual(scores: Mapping[str, float]) -> dict[str, float]:
    """Similarities as shares of the best one's distance from the usual one."""
    if not scores:
        return {}
    usual, best = median(scores.values()), max(scores.values())
    if len(scores) < 4 or best <= usual:
        return {key: max(score, 0.0) for key, score in scores.items()}
    return {key: max((score - usual) / (best - usual), 0.0) for key, score in scores.items()}


def _standing_out(scores: Sequence[float]) -> Callable[[float | None], bool]:
    """Models differ in what they call near: a vector alone convinces only where it is far nearer than most."""
    usual = median(scores) if len(scores) >= 4 else 0.6

    def convinces(score: float | None) -> bool:
        return score is not None and 0.6 <= score <= 1.001 and score - usual >= 0.2

    return convinces
