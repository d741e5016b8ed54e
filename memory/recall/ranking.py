"""Ranking: how well lessons fit a task, and which of them do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from langgraph.store.base import Item

from langgraph_reflexion.memory.index import Index
from langgraph_reflexion.text.words import Words, weight

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


def shared_weight(query: Words, words: Words) -> float:
    """How much two texts have in common: each shared word once, by what it says."""
    shared = query.counts.keys() & words.counts.keys()
    return sum(weight(word) for word in shared)


def similarity(one: Ranked, near: float | None) -> float:
    """How well a lesson answers a search, from 0 to 1: by words 0.5 is just enough to be shown to a run."""
    by_words = one.fit / (one.fit + ENOUGH)
    return round(min(max(by_words, near if near is not None and near <= 1 else 0.0), 1.0), 4)


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
