"""Forget: remove lessons for good, with their evidence, their vectors, and their words in the episodes of runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.memory.access import (
    COLLECTIONS,
    Plan,
    drop,
    items_below,
    items_in,
    may_be_an_id,
    pause,
    put,
    read_items,
    settle,
)
from langgraph_reflexion.memory.index import remove_everywhere
from langgraph_reflexion.memory.items import parse_item
from langgraph_reflexion.memory.shelf import MARKS, Shelf
from langgraph_reflexion.schemas import Episode
from langgraph_reflexion.text import hash_of
from langgraph_reflexion.text.json_text import texts_in
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.tokens import fold

_CLAUSE_END = re.compile(r"[.;,!?](?=\s)|[。；，！？\n]")


def forget(shelf: Shelf, lesson: str) -> Plan[None]:
    """Remove a lesson, its evidence, its changes and its words in the episodes it came from; damaged ones too.

    A pattern that has or had one of its texts is deleted too.
    """
    if not may_be_an_id(lesson) or (yield from read_items(shelf.lessons, [lesson])) == [None]:
        raise KeyError(lesson)
    yield from forget_all(shelf, [lesson])


def forget_all(shelf: Shelf, meant: list[str]) -> Plan[None]:
    """Remove these lessons in one batch, so that a crash forgets all or none.

    Hashes of their sentences stay, so that what other writers still write about them can be removed.
    """
    items = {item.key: item for item in (yield from read_items(shelf.lessons, meant)) if item is not None}
    items |= yield from shelf.current_items()
    meant = [id for id in meant if id in items]
    summaries = [key for key, item in items.items() if key not in meant and _summarizes(item, meant)]
    about: dict[str, list[Item]] = {}
    for id in [*meant, *summaries]:
        about[id] = yield from items_in(shelf.evidence_of(id))
    texts = {id: _texts_of(items[id], about[id]) for id in about}
    forgotten_texts = {fold(text) for id in meant for text in texts[id]}
    texts = {id: its for id, its in texts.items() if id in meant or not forgotten_texts.isdisjoint(map(fold, its))}
    ops: list[Op] = []
    gone = list(texts)
    for id in gone:
        hashes = sorted({tuple(sorted(_hashes_of(text))) for text in texts[id]})
        ops += [*drop([items[id], *about[id]]), PutOp(shelf.evidence, id, None)]
        ops.append(put(shelf.forgotten, id, {"at": shelf.clock().isoformat(), "words": [*map(list, hashes)]}))
    # Only the latest sources of a lesson are recorded, so every episode that may contain its text is read.
    forgotten = {_hashes_of(text) for its in texts.values() for text in its}
    episodes = (yield from items_in(shelf.episodes)) if gone else []
    ops += yield from _without_texts(shelf, episodes, forgotten, texts)
    yield ops
    yield from shelf.read_and_correct(gone)
    remove_everywhere(shelf.store, shelf.lessons, gone)
    # A pattern may have been made from them in the meantime.
    now = yield from shelf.current_items()
    patterns = [key for key, item in now.items() if key not in gone and _summarizes(item, gone)]
    if same_text := [key for key in patterns if fold(str(now[key].value.get("text"))) in forgotten_texts]:
        yield from forget_all(shelf, same_text)
    yield from settle(shelf.store)


def clear(shelf: Shelf) -> Plan[int]:
    """Delete everything below the namespace in one batch, and return the number of lessons."""
    lessons = yield from items_in(shelf.lessons)
    items: list[Item] = []
    for label in COLLECTIONS:
        place = (*shelf.namespace, label)
        items += [item for item in (yield from items_below(place)) if tuple(item.namespace[: len(place)]) == place]
    yield drop(items)
    remove_everywhere(shelf.store, shelf.lessons, [item.key for item in lessons])
    yield from settle(shelf.store)
    return len(lessons)


def remove_forgotten(shelf: Shelf, episodes: Iterable[Item], forgotten: Iterable[Item]) -> Plan[None]:
    """Remove what these episodes repeat of texts that were forgotten."""
    lists = [item.value.get("words") for item in forgotten]
    texts = (text for texts in lists if isinstance(texts, list) for text in texts if isinstance(text, list))
    if ops := (yield from _without_texts(shelf, episodes, {frozenset(map(str, text)) for text in texts}, {})):
        yield ops
        yield from settle(shelf.store)


def _without_texts(
    shelf: Shelf, episodes: Iterable[Item], forgotten: Collection[frozenset[str]], texts: Mapping[str, list[str]]
) -> Plan[list[Op]]:
    """The writes that remove from episodes the reflections that repeat a text that was `forgotten`, or one of the
    `texts` of a lesson."""

    def without(item: Item) -> Op | None:
        episode = parse_item(item, Episode) if item.value.get("reflections") else None
        if episode is None or (kept := _without_forgotten(episode, forgotten, texts)) == episode:
            return None
        marks = {name: item.value[name] for name in MARKS if item.value.get(name)}
        return put(shelf.episodes, item.key, kept.model_dump(mode="json") | marks)

    found: list[str] = []
    for i, item in enumerate(episodes, 1):
        yield from pause(i)
        found += [item.key] if without(item) else []
    # Other tasks may have written some of them during the pauses.
    now = filter(None, (yield from read_items(shelf.episodes, found)))
    return [op for item in now if (op := without(item)) is not None]


def _texts_of(item: Item, about: Iterable[Item]) -> list[str]:
    """The texts that a lesson has or, according to its changes, had."""
    values = [item.value, *(record.value.get(side) for record in about for side in ("before", "after"))]
    given = (value.get("text") for value in values if isinstance(value, dict))
    return [text for text in given if isinstance(text, str)]


def _summarizes(item: Item, lessons: Collection[str]) -> bool:
    """Whether an item is a pattern that summarizes one of these lessons."""
    old = item.value.get("supersedes")
    return item.value.get("kind") == "pattern" and isinstance(old, list) and any(id in lessons for id in old)


def _without_forgotten(
    episode: Episode, forgotten: Collection[frozenset[str]], texts: Mapping[str, list[str]]
) -> Episode:
    """The episode without the reflections that repeat a forgotten text: one of their texts has all its sentences, or
    says the same as a forgotten lesson that the run wrote."""
    written = [text for id in episode.written for text in texts.get(id, ())]

    def is_forgotten(text: str) -> bool:
        hashes = _hashes_of(text)
        return any(part and part <= hashes for part in forgotten) or any(same(text, other) for other in written)

    kept = [found for found in episode.reflections if not any(map(is_forgotten, texts_in(found.model_dump())))]
    return episode.model_copy(update={"reflections": kept})


def _hashes_of(text: str) -> frozenset[str]:
    """The hashes of a text's sentences and clauses."""
    return frozenset(hash_of(part) for clause in _CLAUSE_END.split(text) if (part := fold(clause)))
