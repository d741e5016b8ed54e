"""Showing: whether a lesson may be shown at all, whatever the task, and if not, why."""

from __future__ import annotations

from langgraph_reflexion.memory.access import Plan
from langgraph_reflexion.memory.gate import overlong
from langgraph_reflexion.memory.records import LIVE, Evidence, hash_of
from langgraph_reflexion.memory.shelf import Shelf, read_one
from langgraph_reflexion.memory.trust.guard import LOOKED_AT, of_both, shown_texts, suspicion
from langgraph_reflexion.schemas import Lesson


def doubt_of(lesson: Lesson, evidence: Evidence) -> str | None:
    """What speaks against a lesson's words at the second look, or `None`.

    Words that a person approved are shown as they stand. The approval is of exactly these: what another program
    puts in their place is looked at again.
    """
    overlength = next(filter(None, map(overlong, (lesson.text, lesson.when, lesson.when_not))), None)
    approved = evidence.approved_words
    looked_at = [text for text in shown_texts(lesson) if not approved or hash_of(text) not in approved]
    doubt = overlength or next(filter(None, (suspicion(text[:LOOKED_AT]) for text in looked_at)), None)
    return doubt or (of_both(lesson) if lesson.text in looked_at else None)


def hidden(shelf: Shelf, lesson: str) -> Plan[str | None]:
    """Why a lesson is shown to no run, or `None` where it is to those it fits. An unknown id is a `KeyError`."""
    _, now, evidence = yield from read_one(shelf, lesson)
    if now.status not in LIVE:
        changes = (*reversed(evidence.standing), *reversed(evidence.changes))
        moved = next((change for change in changes if now.status in (change.status, change.action)), None)
        return f"it is {now.status}" + (f": {moved.why}" if moved is not None and moved.why else "")
    if now.expires_at is not None and now.expires_at <= shelf.clock():
        return f"its time was over on {now.expires_at:%Y-%m-%d}"
    return doubt_of(now, evidence)
