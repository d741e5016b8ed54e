"""The shelf: one namespace of lessons, and the plans that read it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from langgraph.store.base import GetOp, Item, Op, SearchOp

from langgraph_reflexion.context import MemoryPolicy, Namespace
from langgraph_reflexion.memory.doors import GIVE_WAY, PAGE, SPELL, Plan, below, every
from langgraph_reflexion.memory.ranking import Words
from langgraph_reflexion.memory.records import Evidence, evidence_in, folded, lesson_in
from langgraph_reflexion.memory.words import plain, weight
from langgraph_reflexion.schemas import Episode, Lesson

logger = logging.getLogger(__name__)

NEAREST = 50
"""Lessons that a store with an index is asked for."""


class Read(NamedTuple):
    """A lesson as it is now, with the item it was read from and the evidence it was folded with."""

    item: Item
    lesson: Lesson
    evidence: Evidence


ROOMS = ("lessons", "episodes", "evidence", "notebook")
"""What lies directly in a namespace."""


class Reader:
    """What texts were found to be about, each looked at once.

    It follows from the text alone, so books of any namespace may share a reader, in any number of threads.
    """

    def __init__(self, most: int = 5000) -> None:
        self._most = most
        self._plain: dict[str, str] = {}
        self._words: dict[str, Words] = {}

    def plain(self, text: str) -> str:
        """The text in one width and case."""
        known = self._plain.get(text)
        if known is None:
            if len(self._plain) >= self._most:
                self._plain.clear()
            known = self._plain[text] = plain(text)
        return known

    def words(self, text: str) -> Words:
        """The words of the text, counted."""
        known = self._words.get(text)
        if known is None:
            if len(self._words) >= self._most:
                self._words.clear()
            known = self._words[text] = Words.of(text)
        return known


@dataclass(frozen=True)
class Shelf:
    """Where a book's lessons, their evidence and the episodes lie, by which rules, and who reads them."""

    namespace: Namespace
    policy: MemoryPolicy
    clock: Callable[[], datetime]
    reader: Reader

    @property
    def lessons(self) -> Namespace:
        return (*self.namespace, "lessons")

    @property
    def episodes(self) -> Namespace:
        return (*self.namespace, "episodes")

    @property
    def evidence(self) -> Namespace:
        return (*self.namespace, "evidence")

    def evidence_of(self, lesson: str) -> Namespace:
        return (*self.evidence, lesson)

    def words(self, item: Item) -> Words:
        """The words a lesson is found by."""
        return self.reader.words(found_by(item.value))

    def count(self, items: Collection[Item]) -> Plan[None]:
        """Have the words of these records counted, so that comparing them takes no long breath."""
        for i, item in enumerate(items, 1):
            self.words(item)
            if i % SPELL == 0:
                yield GIVE_WAY

    def holding(self, query: Words, items: Mapping[str, Item], near: Collection[str] = ()) -> Plan[dict[str, Words]]:
        """The words of those items that may share a telling one with the query, or are near it.

        Looking for a few beginnings in a text is far cheaper than finding all its words, and most have none of them.
        """
        telling = [word for word in query.counts if weight(word) == 1] or list(query.counts)
        begins = [word[: max(3, len(word) - 1)] if word.isascii() else word for word in telling]
        found = {}
        for i, (key, item) in enumerate(items.items(), 1):
            text = found_by(item.value)
            flat = self.reader.plain(text)
            if key in near or any(begin in flat for begin in begins):
                found[key] = self.reader.words(text)
            if i % SPELL == 0:
                yield GIVE_WAY
        return found


def found_by(value: Mapping[str, Any]) -> str:
    """The fields of a record that a search looks at, as one text."""
    tags = value.get("tags")
    parts = [value.get("text"), value.get("when"), value.get("topic"), *(tags if isinstance(tags, list) else [])]
    return "\n".join(part for part in parts if isinstance(part, str))


def read_one(shelf: Shelf, lesson: str) -> Plan[Read]:
    """A lesson as it is now. One that is not there, or damaged, is a `KeyError` with its id."""
    found = yield from read_some(shelf, [lesson])
    if lesson not in found:
        raise KeyError(lesson)
    return found[lesson]


def read_some(shelf: Shelf, ids: Iterable[str]) -> Plan[dict[str, Read]]:
    """Those of these lessons that are there, as they are now."""
    wanted = [one for one in dict.fromkeys(ids) if fit_for_a_label(one)]
    if not wanted:
        return {}
    items = yield [GetOp(shelf.lessons, one) for one in wanted]
    evidence = yield from evidence_about(shelf, wanted)
    return (yield from _together((item for item in items if item is not None), evidence))


def read_all(shelf: Shelf) -> Plan[dict[str, Read]]:
    """Every lesson as it is now, the oldest first."""
    items = yield from every(shelf.lessons)
    evidence = yield from all_evidence(shelf)
    found = yield from _together(items, evidence)
    return dict(sorted(found.items(), key=lambda one: (one[1].lesson.created_at or shelf.clock(), one[0])))


def evidence_about(shelf: Shelf, ids: Iterable[str]) -> Plan[dict[str, Evidence]]:
    """What was appended about these lessons, asked for at once."""
    wanted = list(ids)
    if not wanted:
        return {}
    asked: list[Op] = [SearchOp(shelf.evidence_of(one), None, PAGE) for one in wanted]
    pages = yield asked
    found = {}
    for one, page in zip(wanted, pages, strict=True):
        exactly = [item for item in page if tuple(item.namespace) == shelf.evidence_of(one)]
        if len(page) == PAGE:
            exactly = yield from every(shelf.evidence_of(one))
        found[one] = evidence_in(exactly)
    return found


def evidence_items(shelf: Shelf) -> Plan[list[Item]]:
    """Everything appended about the lessons of this namespace; a label like `evidence` may open another one below."""
    items = yield from below(shelf.evidence)
    deep = len(shelf.evidence) + 1
    return [one for one in items if len(one.namespace) == deep and one.namespace[-1] not in ROOMS]


def all_evidence(shelf: Shelf) -> Plan[dict[str, Evidence]]:
    """What was appended about every lesson."""
    items = yield from evidence_items(shelf)
    of: dict[str, list[Item]] = {}
    for item in items:
        of.setdefault(item.namespace[-1], []).append(item)
    about = {}
    for i, (one, found) in enumerate(of.items(), 1):
        about[one] = evidence_in(found)
        if i % SPELL == 0:
            yield GIVE_WAY
    return about


def nearest(shelf: Shelf, query: str) -> Plan[dict[str, float]]:
    """The similarities a store with an index gives; nothing where it has none, or its embedder is down."""
    try:
        [page] = yield [SearchOp(shelf.lessons, None, NEAREST, 0, query[:2000])]
    except Exception as fault:  # noqa: BLE001 - an embedder is anybody's code; words go on without it
        logger.warning("Searched without vectors: %s: %s", type(fault).__name__, fault)
        return {}
    return {
        item.key: float(item.score)
        for item in page
        if tuple(item.namespace) == shelf.lessons and getattr(item, "score", None) is not None
    }


def read_episode(shelf: Shelf, run_id: str) -> Plan[Episode | None]:
    """The record of a run, or `None`."""
    [item] = yield [GetOp(shelf.episodes, run_id.replace("\0", "�"))]
    if item is None:
        return None
    try:
        return Episode.model_validate(item.value)
    except ValueError as error:
        logger.warning("Left out the damaged episode %r: %s", run_id, str(error).split("\n")[0])
        return None


def fit_for_a_label(text: str) -> bool:
    """Whether a text could be a lesson's id: anything else is certainly unknown."""
    return bool(text) and all(one.isalnum() or one in "-_" for one in text)


def _together(items: Iterable[Item], evidence: Mapping[str, Evidence]) -> Plan[dict[str, Read]]:
    found = {}
    for i, item in enumerate(items, 1):
        if i % SPELL == 0:
            yield GIVE_WAY
        lesson = lesson_in(item)
        if lesson is not None:
            about = evidence.get(lesson.id, Evidence())
            found[lesson.id] = Read(item, folded(lesson, about), about)
    return found
