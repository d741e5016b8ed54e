"""Worth: what the runs a lesson was shown in say about it, and whether it may be shown."""

from __future__ import annotations

import hashlib
import math
from typing import Literal, NamedTuple

from langgraph_reflexion.memory.records import Evidence, failure_of
from langgraph_reflexion.schemas import Episode, Lesson

UNCOUNTED = frozenset({"asked_user", "handed_off", "model_error", "deadline", "token_budget"})
"""Ends of a run that say nothing about the lessons it was shown."""

ALWAYS_SHOWN = 3
"""Runs a candidate is shown in before it may be withheld."""

COMPARED = 4
"""Runs with a lesson, and without it, below which nobody can say what it adds."""

COIN = 0.501
"""A lesson that at best wins so often does worse than chance."""

FADES = 0.6
"""What is left of a run's weight when one more has come after it."""

Standing = Literal["sound", "doubtful", "out"]


class Uplift(NamedTuple):
    """How much more often runs succeed with a lesson than without it, and the bounds within which that lies."""

    mean: float
    low: float
    high: float


def bounds(wins: float, losses: float) -> tuple[float, float]:
    """The bounds within which the share of good runs probably lies; wide where little is known."""
    runs = wins + losses + 2
    share = (wins + 1) / runs
    middle = share + 1 / (2 * runs)
    half = math.sqrt(share * (1 - share) / runs + 1 / (4 * runs * runs))
    return (middle - half) / (1 + 1 / runs), (middle + half) / (1 + 1 / runs)


NEW, LOST_ONCE = bounds(0, 0)[0], bounds(0, 1)[0]
"""What is at least to be hoped of a lesson that no run was shown, and of one that was shown once, in vain."""


def interval(lesson: Lesson) -> tuple[float, float]:
    """The bounds of a lesson's share of good runs."""
    return bounds(lesson.wins, lesson.losses)


def uplift(lesson: Lesson) -> Uplift | None:
    """What a lesson adds, by the runs that went without it; `None` where they are too few: it is unproven."""
    if min(lesson.wins + lesson.losses, lesson.withheld_wins + lesson.withheld_losses) < COMPARED:
        return None
    ours, doubt = posterior(lesson.wins, lesson.losses)
    theirs, other = posterior(lesson.withheld_wins, lesson.withheld_losses)
    half = 1.645 * math.sqrt(doubt + other)
    return Uplift(ours - theirs, ours - theirs - half, ours - theirs + half)


def posterior(wins: int, losses: int) -> tuple[float, float]:
    """What share of runs is won, and its variance, by a Beta distribution that begins flat."""
    a, b = wins + 1, losses + 1
    return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))


def shared(lesson: Lesson, evidence: Evidence) -> tuple[float, float]:
    """A lesson's wins and losses, where a run counts by its part for each of the lessons it was shown."""
    wins, losses = float(lesson.wins), float(lesson.losses)
    for run in evidence.shown:
        rest = 1 - 1 / (1 + run["beside"]) if isinstance(run.get("beside"), int) and run["beside"] > 0 else 0.0
        wins -= rest * (run.get("result") == "win")
        losses -= rest * (run.get("result") == "loss")
    return wins, losses


def usefulness(lesson: Lesson, evidence: Evidence = Evidence()) -> float:  # noqa: B008 — frozen
    """What is at least to be hoped of the lesson: around 0.2 for a new one, towards 1 for one that always helps.

    It is never more than what the lesson was seen to add.
    """
    return _as_added(lesson, bounds(*shared(lesson, evidence))[0])


def promise(lesson: Lesson, evidence: Evidence) -> float:
    """How useful a lesson is as of late, by its runs; one without any is as useful as its record says.

    So one that a changed world has made wrong gives way after a run or two to one that was learned since; and one
    that its own run tried in vain comes after one that nobody has tried.
    """
    return _as_added(lesson, lately(evidence)) if evidence.counted else usefulness(lesson, evidence)


def _as_added(lesson: Lesson, hoped: float) -> float:
    """What is hoped of a lesson, and no more than it was seen to add."""
    added = uplift(lesson)
    return hoped if added is None else min(hoped, max(added.mean, 0.0))


def lately(evidence: Evidence) -> float:
    """The share of good runs that is at least to be hoped for, where a run counts less with each that came after."""
    wins = losses = 0.0
    for run in evidence.counted:
        part = 1 / (1 + run["beside"]) if isinstance(run.get("beside"), int) else 1.0
        wins = FADES * wins + part * (run["result"] == "win")
        losses = FADES * losses + part * (run["result"] == "loss")
    return bounds(wins, losses)[0]


def standing(lesson: Lesson, evidence: Evidence, *, failed: bool = False) -> Standing:
    """Whether a lesson may be shown: freely, only where no other fits, or for now not at all.

    A new one is sound. One whose latest runs were lost is doubtful, however long its record, and out where it lost more
    than once and won nothing since: it comes back when a run learns it again and wins. Against a failure of the run
    (`failed`) one that is doubtful, or lost the last time, is no help. Runs without it may say that it helps all the
    same, or that it harms; a person's word outranks all of it.
    """
    if evidence.vouched or lesson.name:
        return "sound"
    added, runs = uplift(lesson), evidence.counted
    if added and added.high < 0:
        return "out"
    if runs and not (added and added.low > 0):
        hoped = lately(evidence)
        lost_last = bool(evidence.shown) and runs[-1]["result"] == "loss"
        if hoped < LOST_ONCE or (failed and (hoped < NEW or lost_last)):
            return "out"
        if hoped < NEW:
            return "doubtful"
    return "doubtful" if lesson.status == "probation" or hurts(lesson) else "sound"


def hurts(lesson: Lesson) -> bool:
    """Whether it probably does worse than a coin."""
    return interval(lesson)[1] <= COIN


def spares_a_reflection(lesson: Lesson) -> bool:
    """Whether a lesson for this very failure is answer enough: not where it failed as often as it helped."""
    return lesson.losses == 0 or lesson.wins > lesson.losses


def withheld(lesson: Lesson, run_id: str, share: float) -> bool:
    """Whether this run is to go without the lesson, so that its worth can be measured.

    Only a candidate is ever withheld, and never from the first three runs it fits; then from this `share` of the
    runs, always the same ones. What is remembered of a user, under a name, is no experiment.
    """
    if lesson.name or lesson.status != "candidate" or lesson.shown < ALWAYS_SHOWN or share <= 0:
        return False
    return drawn(f"{run_id}\n{lesson.id}") < share


def drawn(said: str) -> float:
    """A number from 0 to 1 by lot, always the same for the same text."""
    return int.from_bytes(hashlib.sha256(said.encode("utf-8", "replace")).digest()[:8], "big") / 2**64


def result_of(episode: Episode, lesson: Lesson | None = None) -> str | None:
    """`win`, `loss`, or `None` where the run says nothing about the lesson, or nothing at all where there is none.

    A lesson that was shown and whose own failure came back all the same has lost, however the run ended.
    A run that nobody judged counts only for a lesson bound to a failure: it lost if that failure came back, and the
    one that it was recalled for is none that came back.
    """
    if lesson is not None and lesson.id in episode.failed:
        return "loss"
    if episode.status == "needs_input" or episode.stop_reason in UNCOUNTED:
        return None
    if episode.success is not None:
        return "win" if episode.success else "loss"
    if episode.status != "unverified":
        return "win" if episode.status == "success" else "loss"
    if lesson is None or not (bound := failure_of(lesson)):
        return None
    at = episode.recalled_at.get(lesson.id, 0)
    later = [failure for failure in episode.failures if not at or failure.step > at]
    return "loss" if any(failure.fingerprint == bound for failure in later) else "win"
