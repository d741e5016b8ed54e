"""Ranking: which few lessons fit a task, and that none does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from langgraph_reflexion.memory.likeness import likeness, opposed
from langgraph_reflexion.memory.words import characters, count_tokens, tokens, weight
from langgraph_reflexion.memory.worth import hurts, usefulness
from langgraph_reflexion.schemas import Lesson

ENOUGH = 1.5
"""Weight of shared words from which a lesson fits: two telling words, or one that is most of what was said."""

TOO_ALIKE = 0.8
OVERHEAD = 14
"""Tokens of a lesson's place in a prompt beside its own words: its id, its record, the marks around it."""


@dataclass(frozen=True)
class Words:
    """The words of a text, counted, and the telling characters of scripts without spaces."""

    counts: Mapping[str, int]
    characters: frozenset[str] = frozenset()
    size: int = 0
    weight: float = 0.0

    @classmethod
    def of(cls, text: str) -> Words:
        counts = Counter(tokens(text))
        return cls(counts, frozenset(characters(text)), counts.total(), sum(map(weight, counts)))


@dataclass(frozen=True)
class Ranked:
    """One candidate: the key of its record, how well it fits, and whether it fits well enough to be shown."""

    key: str
    score: float
    fits: bool


def rank(query: Words, candidates: Mapping[str, Words], near: Mapping[str, float]) -> list[Ranked]:
    """The candidates by likeness in words and, where the store has them, vectors; the best first.

    `near` holds the similarities that a store with an index gave. Words that most candidates hold count less.
    """
    lexical = _bm25(query, candidates)
    fit = {key: shared_weight(query, words) for key, words in candidates.items()}
    by_words = _places({key: (score, fit[key]) for key, score in lexical.items() if fit[key] > 0})
    by_vectors = _places({key: (score, 0.0) for key, score in near.items() if key in candidates})
    stands_out = _standing_out([near[key] for key in candidates if key in near])
    found = []
    for key, words in candidates.items():
        score = sum(1 / (10 + places[key]) for places in (by_words, by_vectors) if key in places)
        if score:
            enough = fit[key] >= _needed(query, words) or stands_out(near.get(key))
            found.append(Ranked(key, 10 * score * (0.4 + min(_share(fit[key], query, words), 1)), enough))
    return sorted(found, key=lambda one: (-one.score, one.key))


def shared_weight(query: Words, words: Words) -> float:
    """How much two texts have in common: each shared word once, by what it says."""
    shared = query.counts.keys() & words.counts.keys()
    whole = sum(weight(word) for word in shared)
    beside = (query.characters & words.characters) - {one for word in shared for one in word}
    return whole + (0.6 * min(len(beside), 2) if any(not word.isascii() for word in shared) else 0)


def similarity(query: Words, words: Words, near: float | None) -> float:
    """How well a text answers a search, from 0 to 1."""
    held = shared_weight(query, words) / query.weight if query.weight else 0.0
    return round(min(max(held, near if near is not None and 0 <= near <= 1 else 0.0), 1.0), 4)


def choose(
    ranked: Sequence[tuple[Lesson, float]],
    *,
    most: int,
    budget: int,
    vouched: Callable[[Lesson], bool],
    told: Sequence[str] = (),
) -> list[Lesson]:
    """The lessons to show, the best first: few, different, in agreement, within the budget of tokens.

    A record of wins lifts a lesson. One that hurt more than it helped is shown only where no other fits. `told`
    holds texts shown before: they are neither repeated nor contradicted.
    """
    weighed = sorted(ranked, key=lambda one: -one[1] * (0.5 + usefulness(one[0])))
    sound = [lesson for lesson, _ in weighed if vouched(lesson) or not hurts(lesson)]
    gone = {old for lesson in sound for old in lesson.supersedes}
    chosen: list[Lesson] = []
    for lesson in sound or [lesson for lesson, _ in weighed]:
        if len(chosen) == most:
            break
        cost = tokens_of(lesson)
        said = [*told, *(other.text for other in chosen)]
        if lesson.id in gone or cost > budget or any(_clash(lesson.text, other) for other in said):
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


def _clash(text: str, other: str) -> bool:
    return likeness(text, other) >= TOO_ALIKE or opposed(text, other)


def _bm25(query: Words, candidates: Mapping[str, Words]) -> dict[str, float]:
    holding = Counter(word for words in candidates.values() for word in words.counts if word in query.counts)
    mean = sum(words.size for words in candidates.values()) / max(len(candidates), 1) or 1.0
    rarity = {word: math.log(1 + (len(candidates) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
    scores = {}
    for key, words in candidates.items():
        length = 0.5 + 0.5 * words.size / mean
        scores[key] = sum(
            rarity[word] * weight(word) * 2.2 * count / (count + 1.2 * length)
            for word, count in ((word, words.counts[word]) for word in query.counts.keys() & words.counts.keys())
        )
    return scores


def _needed(query: Words, words: Words) -> float:
    """A single word is enough where it is most of what was said; long texts share two words by chance."""
    return min(max(ENOUGH, 0.2 * min(query.weight, words.weight)), max(1.0, 0.55 * query.weight))


def _share(fit: float, query: Words, words: Words) -> float:
    return fit / max(min(query.weight, words.weight), 1.0)


def _places(scores: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    ordered = sorted(scores, key=lambda key: (-scores[key][0], -scores[key][1], key))
    return {key: place for place, key in enumerate(ordered)}


def _standing_out(scores: Sequence[float]) -> Callable[[float | None], bool]:
    """Models differ in what they call near: a vector alone convinces only where it is far nearer than most."""
    usual = median(scores) if len(scores) >= 4 else 0.6

    def convinces(score: float | None) -> bool:
        return score is not None and 0.6 <= score <= 1.001 and score - usual >= 0.2

    return convinces
