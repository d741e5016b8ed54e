"""Deciding: what people say of a lesson. Their word outranks what runs say."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import Item, Op

from langgraph_reflexion.memory.access import Plan, drop, every, put, read
from langgraph_reflexion.memory.changes import moved
from langgraph_reflexion.memory.records import hash_of
from langgraph_reflexion.memory.shelf import REFUTED, Shelf, episode_in, fit_for_a_label, read_one
from langgraph_reflexion.memory.trust.guard import shown_texts, suspicion_of
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus
from langgraph_reflexion.text.words import fold

SIDE: tuple[LessonStatus, ...] = ("retired", "superseded", "quarantined")


def approve(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Active, whatever it was: from here on no run, no cap and no date moves it, and exactly these words are shown."""
    found = yield from read_one(shelf, lesson)
    texts = tuple(hash_of(text) for text in shown_texts(found.lesson))
    set_aside = [one.why for one in found.evidence.changes if one.action == found.lesson.status == "quarantined"]
    doubt = suspicion_of(found.lesson) or next(reversed(set_aside), "")
    why = "exactly these words" + (f", although {doubt}" if doubt else "")
    for_good = {"expires_at": None} if found.lesson.expires_at is not None else {}
    return (yield from moved(shelf, found, "active", "approved", by="person", why=why, words=texts, after=for_good))


def retire(shelf: Shelf, lesson: str, why: str) -> Plan[Lesson]:
    """Kept with the reason, and shown no more."""
    found = yield from read_one(shelf, lesson)
    return (yield from moved(shelf, found, "retired", "retired", by="person", why=why))


def restore(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Back to where it stood before it was set aside; one that was never shown becomes a candidate."""
    found = yield from read_one(shelf, lesson)
    status_now = found.lesson.status
    if status_now not in SIDE:
        raise ValueError(f"`restore` is for retired, superseded and quarantined lessons, {lesson} is {status_now}")
    held = [found.evidence.born, *(one.status for one in found.evidence.standing if one.status is not None)]
    stood = next((one for one in reversed(held) if one not in (None, *SIDE)), "candidate")  # it may be retired twice
    status: LessonStatus = "active" if stood == "active" else "candidate"
    return (yield from moved(shelf, found, status, "restored", by="person", why=f"it was {status_now}"))


def forget(shelf: Shelf, lesson: str) -> Plan[None]:
    """Remove a lesson, its evidence, its changes and its words in the episodes it came from; damaged ones too.

    A pattern that speaks in its very words goes with it.
    """
    if not fit_for_a_label(lesson) or (yield from read(shelf.lessons, lesson)) is None:
        raise KeyError(lesson)
    yield from _forget(shelf, [lesson])


def forget_named(shelf: Shelf, name: str) -> Plan[int]:
    """The same for all that was ever kept under a name."""
    items = yield from every(shelf.lessons)
    meant = [item.key for item in items if item.value.get("name") == name]
    yield from _forget(shelf, meant)
    return len(meant)


def _forget(shelf: Shelf, meant: list[str]) -> Plan[None]:
    """In one batch: half forgotten would be remembered."""
    items = {item.key: item for item in (yield from every(shelf.lessons))}
    speaking = [key for one in meant for key, item in items.items() if _speaks_in_its_words(item, items[one])]
    ops: list[Op] = []
    episodes: dict[str, Episode] = {}
    noted: dict[str, dict[str, Any]] = {}
    for one in dict.fromkeys([*meant, *speaking]):
        about = yield from every(shelf.evidence_of(one))
        said = {items[one].value.get("text")}
        for item in about:
            said |= {item.value.get(side, {}).get("text") for side in ("before", "after") if item.value.get(side)}
        for source in {str(item.value["source"]) for item in about if item.value.get("source")}:
            kept = yield from read(shelf.episodes, source)
            episode = episodes.get(source) or (episode_in(kept, as_it_was=True) if kept is not None else None)
            if episode is not None and kept is not None:
                noted[source] = {REFUTED: kept.value[REFUTED]} if kept.value.get(REFUTED) else {}
                episodes[source] = _without(episode, {fold(text) for text in said if isinstance(text, str)})
        ops += drop([items[one], *about])
    ops += [put(shelf.episodes, run, one.model_dump(mode="json") | noted[run]) for run, one in episodes.items()]
    if ops:
        yield ops


def _speaks_in_its_words(pattern: Item, lesson: Item) -> bool:
    text, supersedes = pattern.value.get("text"), pattern.value.get("supersedes")
    if pattern.value.get("kind") != "pattern" or not isinstance(supersedes, list) or lesson.key not in supersedes:
        return False
    return isinstance(text, str) and fold(text) == fold(str(lesson.value.get("text")))


def _without(episode: Episode, said: set[str]) -> Episode:
    """The episode without these words, also as they were before the details of the task became slots."""

    def holds(text: str) -> bool:
        return fold(text) in said

    reflections = [
        one.model_copy(
            update={
                "memory_to_write": [memo for memo in one.memory_to_write if not holds(memo.text)],
                "patch_prompt": "" if holds(one.patch_prompt) else one.patch_prompt,
            }
        )
        for one in episode.reflections
    ]
    return episode.model_copy(update={"reflections": reflections})
