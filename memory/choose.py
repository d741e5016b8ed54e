"""Choose which of the fitting lessons are shown: few, useful, different, in agreement and within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.memory.estimate import Estimate, share_won
from langgraph_reflexion.memory.evidence import Evidence
from langgraph_reflexion.memory.gate import overlong
from langgraph_reflexion.memory.index import names_any_task
from langgraph_reflexion.memory.items import StoredLesson, tool_of
from langgraph_reflexion.memory.screening import suspicion_of
from langgraph_reflexion.schemas import SHOWN, Lesson
from langgraph_reflexion.text import hash_of
from langgraph_reflexion.text.likeness import Advice, likeness, opposed
from langgraph_reflexion.text.tokens import count_tokens

SHARE_OF_BEST = 0.7
"""Lowest share of the best lesson's score at which another lesson is shown as well. Set on the `tune` parts of
`benchmarks/recall.py`. Without it, 100 tasks of its other parts are shown 0.2 more lessons that fit, and 2.6 more that
do not (± 1.1)."""

SAME_LIKENESS = 0.8
"""Lowest likeness of two texts that say the same."""

TOKEN_OVERHEAD = 14
"""Tokens of a lesson in a prompt in addition to its words: its id, its record and the marks around it, as counted."""


class Fit(NamedTuple):
    """A lesson's score, and the part of it that comes from shared words; `None` if it fits for another reason.

    `failures` are the fingerprints of the failures by which a lesson that fits brings others with it. Fewer than half
    of all lessons are for each of them.
    """

    score: float
    words: float | None = None
    failures: frozenset[str] = frozenset()


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
    always: Sequence[StoredLesson],
    fitting: Sequence[StoredLesson],
    scores: Mapping[str, Fit],
    estimates: Estimate,
    policy: MemoryPolicy,
    shown_before: Sequence[str],
    *,
    after_failure: bool,
) -> Selection:
    """The lessons to show. Lessons for any task (`always`) come first, but leave a place for one that fits.

    At the start, a lesson is held back if runs do as well without it. After a failure, a lesson is left out if it lost
    its last run, or if its failure came back in that run. If lessons contradict each other, or are for the same
    failure, only the one with the highest estimate is shown, with those that give the same advice, so the run tells
    whether that advice works. If half of all lessons are for one failure, those for different occasions may be shown
    together.
    """
    values, advice = estimates.values, estimates.advice
    on_record = {found.lesson.id: found for found in fitting if not is_vouched(found)}
    why: dict[str, str] = {}  # the reason why a lesson is held back, or an empty text if it is not
    if after_failure:
        last = {id: found.evidence.shown_results()[-1:] for id, found in on_record.items()}
        worthy = [found for found in fitting if all(share_won(run) == 1 for run in last.get(found.lesson.id, ()))]
    else:
        why = {id: estimates.holds_back(found) for id, found in on_record.items()}
        worthy = [found for found in fitting if not why.get(found.lesson.id)]
    worthy = _near(worthy, scores)
    replaced = _replaced_ids([*always, *worthy])
    offered = [found for found in worthy if found.lesson.id not in replaced]
    read = cache(Advice)
    chosen: list[Lesson] = []
    budget = policy.lesson_tokens

    def join(lesson: Lesson, texts: Iterable[str]) -> None:
        """Choose the lesson if it is within the budget, and neither repeats nor contradicts one of these texts."""
        nonlocal budget
        fits = tokens_of(lesson) <= budget
        if fits and not any(_repeats_or_contradicts(read(lesson.text), read(text)) for text in texts):
            chosen.append(lesson)
            budget -= tokens_of(lesson)

    places = max(policy.max_lessons - 1, 1) if offered else policy.max_lessons
    for _, lesson, _ in always:
        if len(chosen) < places and lesson.id not in replaced:
            join(lesson, (known.text for known in chosen))
    for lesson in _in_order(offered, scores, estimates, read):
        if len(chosen) >= policy.max_lessons:
            break
        others = [known.text for known in chosen if advice.get(known.id) != advice[lesson.id]]
        join(lesson, [*shown_before, *others])
    held = [found.lesson for found in _near(fitting, scores) if found.lesson.id in why]
    if not held or not all(why.values()):
        return Selection(chosen)
    best = max(held, key=lambda lesson: values[lesson.id])
    return Selection(chosen, best, why[best.id])


def _near(fitting: Sequence[StoredLesson], scores: Mapping[str, Fit]) -> list[StoredLesson]:
    """The lessons that share about as many words with the task as the best one, or fit for another reason."""
    words = {found.lesson.id: scores[found.lesson.id].words for found in fitting}
    least = SHARE_OF_BEST * max((shared for shared in words.values() if shared is not None), default=0.0)
    return [found for found in fitting if (shared := words[found.lesson.id]) is None or shared >= least]


def _in_order(
    fitting: Sequence[StoredLesson], scores: Mapping[str, Fit], estimates: Estimate, read: Callable[[str], Advice]
) -> Iterator[Lesson]:
    """The lessons that may be shown together, the best first."""
    values, advice = estimates.values, estimates.advice

    def rank(lesson: Lesson) -> tuple[bool, float]:
        # A strategy, which worked once, ranks below what a reflection says.
        return lesson.kind == "strategy", -scores[lesson.id].score * (0.5 + values[lesson.id])

    vouched = {found.lesson.id: found.lesson for found in fitting if is_vouched(found)}
    waiting = [
        lesson
        for lesson in sorted((found.lesson for found in fitting), key=rank)
        if lesson.id in vouched
        or not any(_repeats_or_contradicts(read(lesson.text), read(other.text)) for other in vouched.values())
    ]
    none = frozenset[str]()
    failures = {lesson.id: none if lesson.id in vouched else scores[lesson.id].failures for lesson in waiting}
    made_at = {lesson.id: lesson.created_at.timestamp() if lesson.created_at else 0.0 for lesson in waiting}
    while waiting:
        first = waiting[0]
        rivals = {
            lesson.id: lesson
            for lesson in waiting
            if lesson is first
            or are_rivals(lesson, first, one_kind=not failures[lesson.id].isdisjoint(failures[first.id]))
            or opposed(read(lesson.text), read(first.text))
        }
        best = max(rivals.values(), key=lambda lesson: (lesson.id in vouched, values[lesson.id], made_at[lesson.id]))
        yield best
        yield from (lesson for id, lesson in rivals.items() if id != best.id and advice[id] == advice[best.id])
        waiting = [lesson for lesson in waiting if lesson.id not in rivals]


def is_vouched(found: StoredLesson) -> bool:
    """Whether a person wants the lesson shown, regardless of its record."""
    return bool(found.lesson.name) or found.evidence.vouched


def are_rivals(lesson: Lesson, other: Lesson, *, one_kind: bool) -> bool:
    """Whether two lessons say what to do about the same failure: if not `one_kind`, on the same occasion.

    Lessons from the same run belong together and are not rivals. If rivals are shown side by side, 2.8 fewer of 100
    tasks are solved in eight worlds of `benchmarks/lessons.py`, and as many in eleven of `natural.py`.
    """
    if lesson.trigger is None or set(lesson.sources) & set(other.sources):
        return False
    if (lesson.kind == "strategy") != (other.kind == "strategy"):
        return False  # a strategy does not replace advice
    same_failure = lesson.trigger.signal is not None and lesson.trigger == other.trigger
    same_occasion = bool(lesson.when) and likeness(lesson.when, other.when) >= SAME_LIKENESS
    return one_kind or (same_failure and same_occasion)


def tokens_of(lesson: Lesson) -> int:
    """What a lesson costs in a prompt."""
    return sum(count_tokens(getattr(lesson, name)) for name in SHOWN) + TOKEN_OVERHEAD


def holds_always(found: StoredLesson) -> bool:
    """Whether a lesson is shown with any task. Text from a tool cannot claim that by itself, not even under a name, and
    that the tool's next call ran confirms only what was learned about the tool."""
    origins = {found.item.value.get("origin"), *(source.get("origin") for source in found.evidence.sources)}
    may_claim_it = origins - {None} != {"observed"} and tool_of(found.lesson) is None
    return names_any_task(found.item.value) and (may_claim_it or found.evidence.vouched)


def is_approved(value: Mapping[str, Any], evidence: Evidence) -> bool:
    """Whether a person approved a lesson in exactly these words."""
    words = evidence.approved_words
    shown = (str(value[name]) for name in SHOWN if value.get(name))
    return evidence.approved and (not words or all(hash_of(text) in words for text in shown))


def doubt_of(found: StoredLesson) -> str | None:
    """Why a lesson's words should not be shown, checked again before they are; `None` if nothing is wrong.

    Words that a person approved are not checked. The approval is for exactly these words: if another program changes
    them, they are checked again.
    """
    overlength = next(filter(None, (overlong(getattr(found.lesson, name)) for name in SHOWN)), None)
    return overlength or suspicion_of(found.lesson, found.evidence.approved_words)


def _replaced_ids(lessons: Sequence[StoredLesson]) -> set[str]:
    """The ids of lessons that are left out because their successor is shown, or the other way round.

    A pattern replaces the lessons it summarizes, unless one of them is vouched for or, until the pattern is active, is
    verified or told.
    """
    by_id = {found.lesson.id: found for found in lessons}
    replaced: set[str] = set()
    for found in lessons:
        lesson = found.lesson
        old = [by_id[id] for id in lesson.supersedes if id in by_id]
        vouched = any(map(is_vouched, old)) and not is_vouched(found)
        trusted = any(member.lesson.origin in ("verified", "told") for member in old) and lesson.status != "active"
        stays = lesson.kind != "pattern" or not (vouched or trusted)
        replaced |= {member.lesson.id for member in old} if stays else {lesson.id}
    return replaced


def _repeats_or_contradicts(text: Advice, other: Advice) -> bool:
    return likeness(text, other) >= SAME_LIKENESS or opposed(text, other)
