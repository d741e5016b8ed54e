"""Reminding: which lessons that a run was shown, and that failed, are worth saying again in place of a reflection."""

from __future__ import annotations

from collections.abc import Collection

from langgraph_reflexion.memory.access import Plan
from langgraph_reflexion.memory.recall.showing import doubt_of
from langgraph_reflexion.memory.recall.worth import posterior, standing
from langgraph_reflexion.memory.records import Evidence
from langgraph_reflexion.memory.shelf import Shelf, read_some
from langgraph_reflexion.schemas import Lesson

NO_NEWS = 0.2
"""From this probability on it is no news that a lesson has failed again."""


def reminders(shelf: Shelf, ids: Collection[str]) -> Plan[list[Lesson]]:
    """Those of these lessons that fail now and then, and now no oftener: what a reflection would say again."""
    known = yield from read_some(shelf, ids)
    return [
        one.lesson
        for one in known.values()
        if _is_no_news(one.lesson, one.evidence) and doubt_of(one.lesson, one.evidence) is None
    ]


def _is_no_news(lesson: Lesson, evidence: Evidence) -> bool:
    """Whether a lesson that has just failed once more does so no oftener than its record says.

    The losses it had in a row, with this one, are held against its runs before them: if it lost some of those as well,
    and won two at least, there may be nothing to find out.
    """
    results = [run["result"] == "win" for run in evidence.shown if run.get("result") in ("win", "loss")]
    in_a_row = 1
    while results and not results[-1]:
        results.pop()
        in_a_row += 1
    if sum(results) < 2 or all(results) or standing(lesson, evidence) != "sound":
        return False
    share, _ = posterior(sum(results), len(results) - sum(results))
    return (1 - share) ** in_a_row >= NO_NEWS
