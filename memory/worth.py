"""Worth: what the runs a lesson was shown in say about it, and what follows from it."""

from __future__ import annotations

import hashlib
import math

from langgraph_reflexion.memory.records import Evidence
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus

UNCOUNTED = frozenset({"asked_user", "handed_off", "model_error", "deadline", "token_budget"})
"""Ends of a run that say nothing about the lessons it was shown."""

ALWAYS_SHOWN = 3
"""Runs a candidate is shown in before it may be withheld."""


def interval(lesson: Lesson) -> tuple[float, float]:
    """The bounds within which the share of good runs probably lies; wide where little is known."""
    runs = lesson.wins + lesson.losses + 2
    share = (lesson.wins + 1) / runs
    middle = share + 1 / (2 * runs)
    half = math.sqrt(share * (1 - share) / runs + 1 / (4 * runs * runs))
    return (middle - half) / (1 + 1 / runs), (middle + half) / (1 + 1 / runs)


def usefulness(lesson: Lesson) -> float:
    """What is at least to be hoped of the lesson: around 0.2 for a new one, towards 1 for one that always helps."""
    return interval(lesson)[0]


def hurts(lesson: Lesson) -> bool:
    """Whether it probably does worse than a coin."""
    return interval(lesson)[1] <= 0.501


def withheld(lesson: Lesson, run_id: str, share: float) -> bool:
    """Whether this run is to go without the lesson, so that its worth can be measured.

    Only a candidate is ever withheld, and never from the first three runs it fits; then from this `share` of the
    runs, always the same ones. What is remembered of a user, under a name, is no experiment.
    """
    if lesson.name or lesson.status != "candidate" or lesson.shown < ALWAYS_SHOWN or share <= 0:
        return False
    drawn = hashlib.sha256(f"{run_id}\n{lesson.id}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") / 2**64 < share


def result_of(episode: Episode, lesson: Lesson | None = None) -> str | None:
    """`win`, `loss`, or `None` where the run says nothing about the lesson, or nothing at all where there is none.

    A run that nobody judged counts only for a lesson bound to a failure: it lost if that failure came back.
    """
    if episode.status == "needs_input" or episode.stop_reason in UNCOUNTED:
        return None
    if episode.success is not None:
        return "win" if episode.success else "loss"
    if episode.status != "unverified":
        return "win" if episode.status == "success" else "loss"
    bound = lesson.trigger.fingerprint if lesson is not None and lesson.trigger else None
    if not bound:
        return None
    return "loss" if any(failure.fingerprint == bound for failure in episode.failures) else "win"


def next_status(lesson: Lesson, evidence: Evidence) -> tuple[LessonStatus, str] | None:
    """Where the evidence moves a lesson, and why; `None` where it stays. A person's word outranks the evidence."""
    record = f"{lesson.wins} won, {lesson.losses} lost"
    if evidence.vouched or lesson.name:  # what a user wants is not refuted by how runs end
        return None
    if lesson.status in ("candidate", "active") and hurts(lesson):
        return "probation", f"it loses more than it wins: {record}"
    if lesson.status == "candidate" and lesson.wins >= 2:
        return "active", f"it won in two episodes: {record}"
    if lesson.status == "probation":
        if interval(lesson)[1] < 0.4:
            return "retired", f"it goes on losing: {record}"
        if lesson.wins >= 2 and lesson.wins > lesson.losses:
            return "active", f"it won again: {record}"
    return None
