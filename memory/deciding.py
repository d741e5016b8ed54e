"""Deciding: what people say of a lesson. Their word outranks what runs say."""

from __future__ import annotations

from typing import Any

from langgraph_reflexion.memory.changing import move, moved
from langgraph_reflexion.memory.doors import Plan, drop, every, put, read
from langgraph_reflexion.memory.guard import shown_texts, suspicion_of
from langgraph_reflexion.memory.records import hash_of
from langgraph_reflexion.memory.shelf import Shelf, fit_for_a_label, read_episode, read_one
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus

SIDE: tuple[LessonStatus, ...] = ("retired", "superseded", "quarantined")


def approve(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Active, whatever it was; from here on the evidence moves it no more, and exactly these words are shown."""
    found = yield from read_one(shelf, lesson)
    texts = tuple(hash_of(text) for text in shown_texts(found.lesson))
    set_aside = [one.why for one in found.evidence.changes if one.action == found.lesson.status == "quarantined"]
    doubt = suspicion_of(found.lesson) or next(reversed(set_aside), "")
    why = f"exactly these words, although {doubt}" if doubt else ""
    return (yield from moved(shelf, found, "active", "approved", by="person", why=why, words=texts))


def retire(shelf: Shelf, lesson: str, why: str) -> Plan[Lesson]:
    """Kept with the reason, and shown no more."""
    return (yield from move(shelf, lesson, "retired", "retired", by="person", why=why))


def restore(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Back to where it stood before it was set aside; one that was never shown becomes a candidate."""
    found = yield from read_one(shelf, lesson)
    status_now = found.lesson.status
    if status_now not in SIDE:
        raise ValueError(f"`restore` is for retired, superseded and quarantined lessons, {lesson} is {status_now}")
    held = found.evidence.stood(status_now)
    stood = next((one for one in reversed(held) if one not in SIDE), "candidate")  # it may be retired twice
    status: LessonStatus = "active" if stood == "active" else "candidate"
    return (yield from moved(shelf, found, status, "restored", by="person"))


def forget(shelf: Shelf, lesson: str) -> Plan[None]:
    """Remove a lesson, its evidence, its changes and its words in the episodes it came from; damaged ones too."""
    item = (yield from read(shelf.lessons, lesson)) if fit_for_a_label(lesson) else None
    if item is None:
        raise KeyError(lesson)
    about = yield from every(shelf.evidence_of(lesson))
    ops = drop([item, *about])
    for source in {str(one.value["source"]) for one in about if one.value.get("source")}:
        episode = yield from read_episode(shelf, source)
        if episode is not None:
            spared = _without(episode, item.value.get("text"))
            ops.append(put(shelf.episodes, source, spared.model_dump(mode="json")))
    yield ops


def forget_named(shelf: Shelf, name: str) -> Plan[int]:
    """The same for all that was ever kept under a name."""
    items = yield from every(shelf.lessons)
    meant = [item.key for item in items if item.value.get("name") == name]
    for key in meant:
        yield from forget(shelf, key)
    return len(meant)


def _without(episode: Episode, text: Any) -> Episode:
    reflections = [
        one.model_copy(update={"memory_to_write": [memo for memo in one.memory_to_write if memo.text != text]})
        for one in episode.reflections
    ]
    return episode.model_copy(update={"reflections": reflections})
