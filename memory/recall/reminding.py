"""Reminding: which lessons that a run was shown, and that failed, are worth saying again in place of a reflection."""

from __future__ import annotations

from collections.abc import Collection

from langgraph_reflexion.memory.recall.showing import doubt_of
from langgraph_reflexion.memory.recall.worth import is_no_news
from langgraph_reflexion.memory.shelf.doors import Plan
from langgraph_reflexion.memory.shelf.shelf import Shelf, read_some
from langgraph_reflexion.schemas import Lesson


def reminders(shelf: Shelf, ids: Collection[str]) -> Plan[list[Lesson]]:
    """Those of these lessons that fail now and then, and now no oftener: what a reflection would say again."""
    known = yield from read_some(shelf, ids)
    return [
        one.lesson
        for one in known.values()
        if is_no_news(one.lesson, one.evidence) and doubt_of(one.lesson, one.evidence) is None
    ]
