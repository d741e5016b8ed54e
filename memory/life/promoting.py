"""Promoting: where the runs a lesson was shown in move its status, up or down."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from langgraph_reflexion.memory.records import Evidence
from langgraph_reflexion.memory.worth import COIN, bounds, posterior, shared, uplift
from langgraph_reflexion.schemas import Lesson, LessonStatus

UNLIKELY = 0.01
"""A recent record this improbable for what was before is a drop."""

RECENT = range(2, 7)
"""How many of the latest runs are looked at for one."""


def next_status(lesson: Lesson, evidence: Evidence) -> tuple[LessonStatus, str] | None:
    """Where the evidence moves a lesson, and why; `None` where it stays. A person's word outranks the evidence."""
    record = f"{lesson.wins} won, {lesson.losses} lost"
    if evidence.vouched or lesson.name:  # what a user wants is not refuted by how runs end
        return None
    if lesson.status in ("candidate", "active") and bounds(*shared(lesson, evidence))[1] <= COIN:
        return "probation", f"it loses more than it wins: {record}"
    if lesson.status in ("candidate", "active") and (drop := _dropped(evidence)):
        return "probation", drop
    if lesson.status == "candidate" and (proof := _proof(lesson, evidence)):
        return "active", f"{proof}: {record}"
    if lesson.status == "probation":
        wins, losses, stood = _since_probation(evidence)
        if bounds(*shared(lesson, evidence))[1] < 0.4 or bounds(wins, losses)[1] < 0.4:
            return "retired", f"it goes on losing: {record}"
        if wins >= 2 and wins > losses:
            back: LessonStatus = "active" if stood == "active" or _proof(lesson, evidence) else "candidate"
            return back, f"it won again: {record}"
    return None


def _dropped(evidence: Evidence) -> str:
    """That the latest runs, since it was last promoted, are worse than those before could be by chance; or nothing."""
    counted = [run for run in evidence.shown if run.get("result") in ("win", "loss")]
    results = [run["result"] == "win" for run in counted]
    risen = next((one for one in reversed(evidence.changes) if one.status == "active"), None)
    fresh = sum(risen is None or datetime.fromisoformat(run["at"]) > risen.at for run in counted)
    for many in RECENT:
        before, latest = results[:-many], results[-many:]
        if sum(before) < 3 or fresh < many:
            return ""
        share, _ = posterior(sum(before), len(before) - sum(before))
        if _so_few(sum(latest), many, share) < UNLIKELY:
            return f"it won {sum(latest)} of its latest {many} runs, and {sum(before)} of {len(before)} before"
    return ""


def _so_few(won: int, many: int, share: float) -> float:
    """How probable so few wins or fewer are, where this share of runs is won."""
    return sum(math.comb(many, n) * share**n * (1 - share) ** (many - n) for n in range(won + 1))


def _proof(lesson: Lesson, evidence: Evidence) -> str:
    """Why a candidate has proved itself, or nothing: two wins of its own, or as much in company and missed without."""
    if lesson.wins < 2:
        return ""
    wins, _ = shared(lesson, evidence)
    in_company = sum(run.get("result") == "win" and bool(run.get("beside")) for run in evidence.shown)
    if lesson.wins - in_company >= 2:
        return "it won in two episodes"
    added = uplift(lesson)
    return "it won in company, and runs without it did worse" if wins > 1.99 and added and added.low > 0 else ""


def _since_probation(evidence: Evidence) -> tuple[int, int, str | None]:
    """Wins and losses since a lesson was put on probation, and where it stood before."""
    began = next((one for one in reversed(evidence.changes) if one.status == "probation"), None)
    runs: list[Any] = [
        run.get("result")
        for run in evidence.shown
        if began is None or (datetime.fromisoformat(run["at"]) >= began.at and run.get("run") != began.run)
    ]
    return runs.count("win"), runs.count("loss"), began.before.get("status") if began is not None else None
