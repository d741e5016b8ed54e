"""Estimates: what share of runs is won without lessons on a kind of task, and with each of its lessons.

The tasks that the same lessons fit are one kind. Both estimates are a share of runs won with two assumed runs added:

- without lessons: `b = (won + 2t) / (won + lost + 2)`, where `t` is the share for the whole topic;
- with a lesson: `(won + taught + 2b) / (won + lost + taught + 2)`. Each time it is taught counts as a run won.

A run that succeeded although the lesson's failure occurred counts as three quarters of a run won, in both. Each later
event reduces the weight of earlier ones to nine tenths. A lesson is worth showing as long as its estimate is not below
the one without lessons. A lesson that lost its last run must be clearly above it, while hardly any run of the topic
without lessons is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from langgraph_reflexion.memory.evidence import Evidence, LessonRun
from langgraph_reflexion.memory.items import StoredLesson, tool_of
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.tokens import tokens

DECAY = 0.9
"""Factor by which each later event reduces the weight of earlier runs and teachings, so that about ten count. Set on
the worlds marked `set` in `benchmarks/lessons.py`; 0.85 to 0.93 do equally well there."""

RECOVERED = 0.75
"""The weight of a run that succeeded although the lesson's failure occurred, with the lesson or without. If it counts
as lost, a lesson that avoids the failure but lowers success stays; if as won, one that avoids it without harm is held
back."""

PRIOR_RUNS = 2.0
"""Assumed runs that each estimate starts with: a lesson's with the share without lessons, a kind's with the share of
its topic. 2 to 4 do equally well."""

EASY_SHARE = 0.8
"""Lowest share of runs won without lessons on tasks of an easy kind. There, a lesson is shown only if it is expected to
win at least half of the runs that are lost without it. Set on the same worlds; 0.7 to 0.8 do equally well."""

ENOUGH_RUNS = 5
"""Runs of a topic without lessons that are enough to compare with. With 5 to 12, lessons that harm on easy tasks are
found equally well; with fewer, some are still shown after 40 runs. More runs cost up to one point in worlds where
lessons help. With half the `margin`, some that harm are still shown; with one and a half times, the gain is smaller."""

MIN_COMPARED_RUNS = 4
"""Runs needed with a lesson, and as many without it, before its uplift is reported."""

Z_90 = 1.645
"""Standard deviations on each side of an uplift that make a 90 % interval."""

ALWAYS_SHOWN = 3
"""Runs that a candidate is shown in before it may be withheld: a new lesson gets a fair start."""


class Tally(NamedTuple):
    """How many runs were won and lost. An older run may count less than 1."""

    won: float
    lost: float


class Uplift(NamedTuple):
    """How much more often runs succeed with a lesson than without it, with a 90 % interval."""

    mean: float
    low: float
    high: float


class Estimate(NamedTuple):
    """What share of runs is won without lessons on a kind of task, and with each of its lessons (`values`).

    `margin` is how far above it a lesson that lost its last run must be: the standard deviation of the share of the
    topic, or 0 once enough of its runs without lessons are known.
    `advice` maps each lesson to the first one that says the same.
    """

    without: float
    values: Mapping[str, float]
    margin: float
    advice: Mapping[str, str]

    def holds_back(self, found: StoredLesson) -> str:
        """Why a lesson is held back at the start of a task of this kind; empty if it is not."""
        value = self.values[found.lesson.id]
        counted = [run for run in found.evidence.runs if run.get("result") in ("win", "loss")]
        lost_last = bool(counted) and not share_won(counted[-1]) and not counted[-1].get("withheld")
        if value < self.without:
            return f"runs of this kind are won in {self.without:.0%} without lessons, and in {value:.0%} with this one"
        if lost_last and len(found.evidence.shown) >= ALWAYS_SHOWN and value < self.without + self.margin:
            return "it lost its last run, and too few runs without lessons are known"
        if self.without >= EASY_SHARE and value < (1 + self.without) / 2:
            return f"runs of this kind are won in {self.without:.0%} without lessons"
        return ""


def estimate(lessons: Iterable[StoredLesson], of_topic: Tally) -> Estimate:
    """Estimate the share of runs won without these lessons, and with each of them.

    `of_topic` counts the runs without lessons on tasks of the topic. Lessons that give the same advice share their
    evidence.
    """
    by_id = {found.lesson.id: found for found in lessons}
    won, lost = _runs_without(found.evidence for found in by_id.values())
    topic_share = (of_topic.won + 1) / (sum(of_topic) + 2)
    base = (won + PRIOR_RUNS * topic_share) / (won + lost + PRIOR_RUNS)
    advice = _group_by_advice({id: found.lesson for id, found in by_id.items()})
    taught = _times_taught(by_id.values(), advice)
    values: dict[str, float] = {}
    for group in set(advice.values()):
        members = [id for id in by_id if advice[id] == group]
        wins, losses = recent([by_id[id] for id in members])
        wins += taught[group]
        values |= dict.fromkeys(members, (wins + PRIOR_RUNS * base) / (wins + losses + PRIOR_RUNS))
    margin = math.sqrt(posterior(*of_topic)[1]) if sum(of_topic) < ENOUGH_RUNS else 0.0
    return Estimate(base, values, margin, advice)


def recent(alike: Iterable[StoredLesson]) -> Tally:
    """The runs won and lost with lessons that give the same advice; later runs count more.

    A run that wrote such a lesson itself, or that reflected beside it after a failure, counts only if it lost. If the
    latter counted as won, 0.3 to 6.1 fewer of 100 tasks would be solved at the first attempt in four worlds of
    `benchmarks/agent_lessons.py`.
    """
    runs: dict[str, LessonRun] = {}
    tried: list[LessonRun] = []
    wins = losses = 0.0
    for _, lesson, evidence in alike:
        shown = evidence.shown_results()
        runs |= {str(run["run"]): run for run in shown if not run.get("reflected")}
        tried += [run for run in evidence.runs if run.get("tried") and run.get("result") == "loss"]
        # Runs that are only counted are older than those that are listed.
        results = [run["result"] for run in shown]
        before = max(lesson.wins - results.count("win"), 0), max(lesson.losses - results.count("loss"), 0)
        faded = min(1.0, 1 / (1 - DECAY) / max(sum(before), 1))
        wins, losses = wins + faded * before[0], losses + faded * before[1]
    ordered = sorted([*runs.values(), *tried], key=lambda run: str(run["at"]))
    return _decayed(Tally(wins, losses), map(share_won, ordered))


def share_won(run: LessonRun) -> float:
    """How far a run was won: 1, 0 or, if it recovered from the failure, `RECOVERED`."""
    return RECOVERED if run.get("recovered") else float(run["result"] == "win")


def _decayed(before: Tally, runs: Iterable[float | None]) -> Tally:
    """The tally after these runs, in order of time. Each reduces the weight of what came before it.

    A run is the share of it that was won; `None` counts only for the weight.
    """
    won, lost = before
    for share in runs:
        won, lost = DECAY * won + (share or 0), DECAY * lost + (0 if share is None else 1 - share)
    return Tally(won, lost)


def _times_taught(lessons: Iterable[StoredLesson], advice: Mapping[str, str]) -> dict[str, float]:
    """How often each advice was taught; what was taught later counts more."""
    times: dict[tuple[str, str], set[str]] = {}
    for _, lesson, evidence in lessons:
        for source in evidence.sources:
            times.setdefault((str(source["at"]), str(source["source"])), set()).add(advice[lesson.id])
    found = dict.fromkeys(advice.values(), 0.0)
    for _, taught in sorted(times.items()):
        found = {name: DECAY * weight + (name in taught) for name, weight in found.items()}
    return found


def _runs_without(evidence: Iterable[Evidence]) -> Tally:
    """Runs won and lost without any of these lessons; each later run of the kind reduces their weight."""
    runs: dict[str, LessonRun] = {}
    for about in evidence:
        for run in about.runs:
            known = runs.get(str(run.get("run")))
            if run.get("tried") or run.get("result") not in ("win", "loss"):
                continue
            if known is None or (known.get("withheld") and not run.get("withheld")):
                runs[str(run.get("run"))] = run
    ordered = sorted(runs.values(), key=lambda run: str(run["at"]))
    return _decayed(Tally(0.0, 0.0), (share_won(run) if run.get("withheld") else None for run in ordered))


def _group_by_advice(lessons: Mapping[str, Lesson]) -> dict[str, str]:
    """For each lesson, the first one that says the same: in `text` and `when` together.

    If each has only its own evidence, 1.0 fewer of 100 tasks are solved in eight worlds of `benchmarks/lessons.py`.
    """
    texts = {id: f"{lesson.text} {lesson.when}" for id, lesson in lessons.items()}
    words = {id: {word for word in tokens(text) if word.isascii()} for id, text in texts.items()}
    found: dict[str, str] = {}
    for id, lesson in lessons.items():
        near = (
            other
            for other in dict.fromkeys(found.values())
            if lesson.when and (lesson.kind, tool_of(lesson)) == (lessons[other].kind, tool_of(lessons[other]))
            if words[id] <= words[other]
            or words[other] <= words[id]  # otherwise `same` is false, and takes twenty times as long
            if same(texts[id], texts[other])
        )
        found[id] = next(near, id)
    return found


def worth(found: StoredLesson) -> float:
    """The share of runs that a lesson is likely to win, for any kind of task."""
    id = found.lesson.id
    wins, losses = recent([found])
    wins += max(_times_taught([found], {id: id})[id], 1.0)  # a lesson that is being written counts as taught once
    return (wins + PRIOR_RUNS / 2) / (wins + losses + PRIOR_RUNS)


def uplift(lesson: Lesson) -> Uplift | None:
    """What a lesson adds, compared with the runs that went without it; `None` if there are too few runs to compare."""
    if min(lesson.wins + lesson.losses, lesson.withheld_wins + lesson.withheld_losses) < MIN_COMPARED_RUNS:
        return None
    ours, variance = posterior(lesson.wins, lesson.losses)
    theirs, their_variance = posterior(lesson.withheld_wins, lesson.withheld_losses)
    half = Z_90 * math.sqrt(variance + their_variance)
    added = ours - theirs
    return Uplift(added, max(added - half, -1.0), min(added + half, 1.0))


def record_text(lesson: Lesson) -> str:
    """A lesson's record in words; empty if no run was won or lost with it.

    It is `proven` only if runs with it are won more often than runs without it by more than chance explains.
    """
    shown, without = lesson.wins + lesson.losses, lesson.withheld_wins + lesson.withheld_losses
    if not shown:
        return ""
    added = uplift(lesson)
    compared = f", {lesson.withheld_wins} of {without} without" if without else ""
    verdict = ", not compared yet" if added is None else ", proven" if added.low > 0 else ""
    return f"won {lesson.wins} of {shown} with it{compared}{verdict}"


def posterior(wins: float, losses: float) -> tuple[float, float]:
    """Mean and variance of the share of runs won: the Beta posterior with a uniform prior."""
    a, b = max(wins, 0) + 1, max(losses, 0) + 1
    return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
