"""Choose which of the fitting lessons are shown: few, useful, different, in agreement and within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from langgraph_reflexion.memory.estimate import Estimate
from langgraph_reflexion.memory.evidence import Evidence
from langgraph_reflexion.memory.gate import overlong
from langgraph_reflexion.memory.records import hash_of
from langgraph_reflexion.memory.suspicion import shown_texts, suspicion
from langgraph_reflexion.schemas import SHOWN, Lesson
from langgraph_reflexion.text.likeness import Advice, likeness, opposed
from langgraph_reflexion.text.tokens import count_tokens

BESIDE = 0.7
"""Share of the best lesson's score that another lesson needs to be shown as well. Set on the tuning halves of
`benchmarks/recall.py`."""

SIDE_GAIN = 1 / 3
"""Share of the best lesson's expected gain that another one needs at the start. A lesson that was just taught and never
tried always has it: its estimate is a third of the way from the one without lessons to 1."""

TOO_ALIKE = 0.8
"""Likeness from which two texts say the same."""

OVERHEAD = 14
"""Tokens of a lesson in a prompt in addition to its words: its id, its record and the marks around it, as counted."""


class Fit(NamedTuple):
    """A lesson's score, and the part of it that comes from shared words; `None` if it fits for another reason."""

    score: float
    words: float | None = None


class Selection(list[Lesson]):
    """The lessons to show, the best first. If all that depend on their record are held back, `held` is the best of them
    and `why` the reason.

    A run records `held` as withheld, so that runs without it are still counted.
    """

    def __init__(self, lessons: Sequence[Lesson] = (), held: Lesson | None = None, why: str = "") -> None:
        super().__init__(lessons)
        self.held = held
        self.why = why


def choose(
    rules: Sequence[Lesson],
    fit: Sequence[tuple[Lesson, Fit]],
    evidence: Mapping[str, Evidence],
    kind: Estimate,
    most: int,
    budget: int,
    shown_before: Sequence[str],
    failed: bool,
) -> Selection:
    """The lessons to show. `rules` hold for any task and come first, but leave a place for a lesson that fits.

    At the start, a lesson is held back if runs do as well without it. If the best of those that would be shown is held
    back, so are the worse ones: they would only delay the runs without lessons that all are compared with. Nor is one
    shown beside a better one if it is expected to add less than `SIDE_GAIN` of what that one adds. After a failure, a
    lesson that lost its last run is left out. Of several lessons for the same sort of failure on the same occasion, and
    of lessons that advise the opposite, only the one with the highest estimate is shown, with those that give the same
    advice: so the run says whether that advice works.
    """
    doubtful = [lesson.id for lesson, _ in fit if not is_vouched(lesson, evidence)]
    why: dict[str, str] = {}
    best: Lesson | None = None
    if failed:
        last = {id: evidence[id].shown_results()[-1:] for id in doubtful}
        lost = {id for id, results in last.items() if results and results[0]["result"] == "loss"}
        worthy = [item for item in fit if item[0].id not in lost]
    else:
        why = {id: kind.holds_back(id, evidence[id]) for id in doubtful}
        near = [lesson for lesson, _ in _near(fit) if lesson.id in why]
        best = max(near, key=lambda lesson: (kind.values[lesson.id], why[lesson.id]), default=None)
        if best is not None and (reason := why[best.id]):
            why = {id: why[id] or (reason if kind.values[id] <= kind.values[best.id] else "") for id in doubtful}
        worthy = [item for item in fit if not why.get(item[0].id)]
    worthy = _near(worthy)
    read = cache(Advice)
    gone = _replaced([*rules, *(lesson for lesson, _ in worthy)], evidence)
    offered = [item for item in worthy if item[0].id not in gone]
    places = max(most - 1, 1) if offered else most
    chosen: list[Lesson] = []
    for lesson in rules:
        cost, others = tokens_of(lesson), [read(known.text) for known in chosen]
        fits = len(chosen) < places and cost <= budget and lesson.id not in gone
        if fits and not any(_clash(read(lesson.text), other) for other in others):
            chosen.append(lesson)
            budget -= cost
    gains = {id: value - kind.without for id, value in kind.values.items()}
    for lesson in _in_order(offered, evidence, kind, read):
        if len(chosen) >= most:
            break
        best_gain = max((gains[known.id] for known in chosen if known.id in gains), default=0.0)
        if lesson.id in why and gains[lesson.id] < SIDE_GAIN * best_gain:
            continue
        if (cost := tokens_of(lesson)) <= budget:
            texts = [
                *shown_before,
                *(known.text for known in chosen if kind.advice.get(known.id) != kind.advice[lesson.id]),
            ]
            if not any(_clash(read(lesson.text), read(text)) for text in texts):
                chosen.append(lesson)
                budget -= cost
    if best is None or not all(why.values()):
        return Selection(chosen)
    return Selection(chosen, best, why[best.id])


def _near(fit: Sequence[tuple[Lesson, Fit]]) -> list[tuple[Lesson, Fit]]:
    """Those that share about as many words with the task as the best of them, and those that fit for another reason."""
    least = BESIDE * max((place.words for _, place in fit if place.words is not None), default=0.0)
    return [item for item in fit if item[1].words is None or item[1].words >= least]


def _in_order(
    fit: Sequence[tuple[Lesson, Fit]], evidence: Mapping[str, Evidence], kind: Estimate, read: Callable[[str], Advice]
) -> Iterator[Lesson]:
    """The lessons that may be shown together, the best first."""

    ranks: dict[str, tuple[bool, bool, float]] = {}
    for lesson, place in fit:
        untried = lesson.kind == "pattern" and bool(lesson.supersedes) and lesson.status != "active"
        # A strategy, which worked once, ranks below what a reflection says.
        ranks[lesson.id] = lesson.kind == "strategy", untried, -place.score * (0.5 + kind.values[lesson.id])
    offered = sorted((lesson for lesson, _ in fit), key=lambda lesson: ranks[lesson.id])
    firm = [lesson for lesson in offered if is_vouched(lesson, evidence)]
    offered = [
        lesson
        for lesson in offered
        if lesson in firm or not any(_clash(read(lesson.text), read(other.text)) for other in firm)
    ]
    while offered:
        first = offered[0]
        rivals = [
            lesson
            for lesson in offered
            if lesson is first or are_rivals(lesson, first) or opposed(read(lesson.text), read(first.text))
        ]
        best = max(
            rivals,
            key=lambda lesson: (
                is_vouched(lesson, evidence),
                kind.values[lesson.id],
                lesson.created_at.timestamp() if lesson.created_at else 0.0,
            ),
        )
        alike = [lesson for lesson in rivals if lesson is not best and kind.advice[lesson.id] == kind.advice[best.id]]
        yield from (best, *alike)
        offered = [lesson for lesson in offered if lesson not in rivals]


def is_vouched(lesson: Lesson, evidence: Mapping[str, Evidence]) -> bool:
    """Whether a person wants the lesson shown, regardless of its record."""
    return bool(lesson.name) or evidence[lesson.id].vouched


def are_rivals(lesson: Lesson, other: Lesson) -> bool:
    """Whether two lessons say what to do about the same sort of failure on the same occasion.

    Lessons from the same run belong together and are not rivals.
    """
    if lesson.trigger is None or other.trigger is None or not lesson.when or set(lesson.sources) & set(other.sources):
        return False
    if (lesson.kind == "strategy") != (other.kind == "strategy"):
        return False  # a strategy does not replace advice
    same_sort = (lesson.trigger.signal, lesson.trigger.tool) == (other.trigger.signal, other.trigger.tool)
    return same_sort and lesson.trigger.signal is not None and likeness(lesson.when, other.when) >= TOO_ALIKE


def tokens_of(lesson: Lesson) -> int:
    """What a lesson costs in a prompt."""
    return sum(count_tokens(getattr(lesson, name)) for name in SHOWN) + OVERHEAD


def is_approved(value: Mapping[str, Any], evidence: Evidence) -> bool:
    """Whether a person approved a lesson in exactly these words."""
    words = evidence.approved_words
    return evidence.approved and (
        not words or all(hash_of(str(value[name])) in words for name in SHOWN if value.get(name))
    )


def doubt_of(lesson: Lesson, evidence: Evidence) -> str | None:
    """Why a lesson's words should not be shown, checked again before they are; `None` if nothing is wrong.

    Words that a person approved are not checked. The approval is for exactly these words: if another program changes
    them, they are checked again.
    """
    overlength = next(filter(None, (overlong(getattr(lesson, name)) for name in SHOWN)), None)
    approved = evidence.approved_words
    looked_at = [text for text in shown_texts(lesson) if not approved or hash_of(text) not in approved]
    doubt = overlength or next(filter(None, (suspicion(text) for text in looked_at)), None)
    together = f"{lesson.when} {lesson.text}" if lesson.when and lesson.text in looked_at else ""
    return doubt or suspicion(together)


def _replaced(lessons: Sequence[Lesson], evidence: Mapping[str, Evidence]) -> set[str]:
    """The ids of lessons that are left out because their successor is shown, or the other way round.

    A pattern replaces the lessons it sums up. Until it is active, those come first that are verified, told by a person
    or vouched for.
    """
    by_id = {lesson.id: lesson for lesson in lessons}
    gone: set[str] = set()
    for lesson in lessons:
        old = [by_id[id] for id in lesson.supersedes if id in by_id]
        firm = any(is_vouched(member, evidence) for member in old) and not is_vouched(lesson, evidence)
        trusted = any(member.origin in ("verified", "told") for member in old) and lesson.status != "active"
        gone |= {lesson.id} if lesson.kind == "pattern" and (firm or trusted) else {member.id for member in old}
    return gone


def _clash(text: Advice, other: Advice) -> bool:
    return likeness(text, other) >= TOO_ALIKE or opposed(text, other)
