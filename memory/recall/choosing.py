"""Choosing: the few to show of the lessons that fit: different, in agreement, within the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from langgraph_reflexion.memory.records import failure_of
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.text.likeness import likeness, opposed
from langgraph_reflexion.text.words import count_tokens

BESIDE = 0.7
"""Share of the best one's fit that a lesson needs to be shown beside it."""

TOO_ALIKE = 0.8
"""Likeness from which two texts say the same."""

OVERHEAD = 14
"""Tokens of a lesson's place in a prompt beside its own words: its id, its record, the marks around it."""


def beside(found: Sequence[tuple[Lesson, float]], fits: Mapping[str, float]) -> list[tuple[Lesson, float]]:
    """Without those that fit far less well than the best one.

    A remedy for the same failure on the same occasion as one that stays does stay: of these the record decides, not the
    words. `fits` says how well; what it does not name is there for another reason than its words.
    """
    least = BESIDE * max((fits[one.id] for one, _ in found if one.id in fits), default=0.0)
    near = [one for one, _ in found if fits.get(one.id, least) >= least]
    return [one for one in found if one[0] in near or any(_rivals(one[0], other) for other in near)]


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
