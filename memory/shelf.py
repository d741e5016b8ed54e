"""The shelf: one namespace of lessons, which reads and changes them.

A change is recorded in the evidence, and the lesson's own item is updated in the same batch, so that recall need not
read all evidence. Two writers that read the same item can overwrite each other. So each reads again after writing, and
the last to read corrects the item (`read_and_correct`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, SearchOp

from langgraph_reflexion.context import MemoryPolicy, Namespace
from langgraph_reflexion.driver import either
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.access import (
    FORGOTTEN,
    NOTES,
    PAGE,
    PAUSE,
    PAUSE_AFTER,
    TOPIC,
    Plan,
    at_once,
    drop,
    items_below,
    items_in,
    may_be_an_id,
    pause,
    put,
    read_items,
    settle,
    storable,
)
from langgraph_reflexion.memory.evidence import By, Change, ChangeAction, Evidence
from langgraph_reflexion.memory.gate import MAX_VALUES
from langgraph_reflexion.memory.index import Index, IndexUpdate
from langgraph_reflexion.memory.items import (
    FIELDS,
    MORE_FAILURES,
    TASKS,
    StoredLesson,
    is_live,
    item_value,
    parse_item,
    stored_lesson,
)
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus
from langgraph_reflexion.text.literals import mask_secrets
from langgraph_reflexion.text.task import LONG_TASK

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]

NEAREST = 50
"""Lessons that the vector search of a store is asked for."""

SMALL_NAMESPACE = 50
"""A namespace with at most this many lessons is read completely each time. That takes as long as reading its notes."""

PAST_TASKS = 20
"""Earlier tasks that a long one is compared with."""

MAX_NOTES = 60
"""Change notes that a namespace keeps. A recall reads all of them, in about 1 ms on PostgreSQL. An index that is
further behind reads the namespace again, in about 25 ms if it has 1,000 lessons."""

UNDONE = "undone"
"""Field added to an episode: when its result was undone. Of this field and `COUNTED`, the later one counts."""

COUNTED = "counted"
"""Field added to an episode: when it was counted again, because its run finished again or the user said that it was
wrong."""

MARKS = (UNDONE, COUNTED)
"""The fields that are added to an episode."""

MAX_BATCH = 16_000
"""Items that one batch writes. A statement of PostgreSQL takes at most 65,535 parameters, four of them for an item."""

MAX_CORRECTIONS = 8
"""How often an item is corrected before that is left to the other writers."""

_ADDED_TO = (MORE_FAILURES, TASKS)
"""Fields to which each writer only adds. A change's `after` holds what it added."""


def _stored_lessons(items: Iterable[Item], evidence: Mapping[str, Evidence]) -> Plan[dict[str, StoredLesson]]:
    found = {}
    for i, item in enumerate(items, 1):
        yield from pause(i)
        if (entry := stored_lesson(item, evidence.get(item.key, Evidence()))) is not None:
            found[item.key] = entry
    return found


class Shelf:
    """One namespace of lessons in a store, with its policy, clock, index and prompts. Its methods are plans."""

    def __init__(
        self, store: BaseStore, namespace: Namespace, policy: MemoryPolicy, clock: Clock, index: Index, prompts: Prompts
    ) -> None:
        self.store: Any = store  # `FaissStore` has more methods than LangGraph's interface
        self.namespace, self.policy, self.clock = namespace, policy, clock
        self.index, self.prompts = index, prompts
        self.lessons: Namespace = (*namespace, "lessons")
        self.episodes: Namespace = (*namespace, "episodes")
        self.evidence: Namespace = (*namespace, "evidence")
        self.notes: Namespace = (*self.evidence, NOTES)
        self.forgotten: Namespace = (*self.evidence, FORGOTTEN)
        unknown = self if getattr(store, "index_config", self) else None  # a store that does not say may have vectors
        embeddings = getattr(store, "embeddings", unknown)
        self.has_vectors = embeddings is not None and not getattr(embeddings, "spelling_only", False)
        """Whether the store may find lessons by meaning."""

    def evidence_of(self, lesson: str) -> Namespace:
        return (*self.evidence, lesson)

    def current_items(self) -> Plan[Mapping[str, Item]]:
        """The current items of the lessons, by key. Updates the index with them."""
        index = self.index
        while True:
            version = index.version
            if not hasattr(self.store, "changes"):
                update = yield from self._update_from_notes(index)
            elif (news := (yield either(self.store.changes, self.store.achanges, self.lessons, index.seq))) is None:
                update = IndexUpdate((yield from items_in(self.lessons)), complete=True)  # items may expire
            else:
                gone = () if news.keys is None else index.items.keys() - news.keys
                update = IndexUpdate(news.items, gone, news.since < 0, news.seq)
            new = [item for item in update.items if index.is_new(item)]
            *first, last = [new[at : at + PAUSE_AFTER] for at in range(0, len(new), PAUSE_AFTER)] or [new]
            for part in first:
                index.add(part)
                yield PAUSE
            if index.apply(version, update, last, partly=bool(first)):
                return index.items

    def _update_from_notes(self, index: Index) -> Plan[IndexUpdate]:
        """What the index must read, according to the change notes, for a store that cannot tell what changed."""
        if len(index.items) <= SMALL_NAMESPACE:
            [page] = yield [SearchOp(self.lessons, None, SMALL_NAMESPACE + 1)]
            if len(page) <= SMALL_NAMESPACE:
                return IndexUpdate([item for item in page if item.namespace == self.lessons], complete=True)
        all_notes = yield from items_in(self.notes)
        notes = {note.key for note in all_notes}
        if index.notes is None or ((index.notes or len(notes) >= MAX_NOTES) and index.notes.isdisjoint(notes)):
            return IndexUpdate((yield from items_in(self.lessons)), complete=True, notes=notes)
        new = [note.value.get("lessons") for note in all_notes if note.key not in index.notes]
        keys = list(dict.fromkeys(key for ids in new if isinstance(ids, list) for key in ids if isinstance(key, str)))
        items = yield from read_items(self.lessons, keys)
        gone = [key for key, item in zip(keys, items, strict=True) if item is None]
        return IndexUpdate([item for item in items if item is not None], gone, notes=notes)

    def read_one(self, lesson: str) -> Plan[StoredLesson]:
        """The current state of a lesson. A missing or damaged one is a `KeyError` with its id."""
        return (yield from self.read_some([lesson]))[lesson]

    def read_some(self, ids: Iterable[str], *, exactly: bool = True) -> Plan[dict[str, StoredLesson]]:
        """The current state of these lessons, if they exist, from all their evidence.

        If not `exactly`, their snapshots are read instead. That is enough where the lessons are read again after
        writing.
        """
        wanted = [id for id in dict.fromkeys(ids) if may_be_an_id(id)]
        about = self.read_evidence(wanted) if exactly else read_items(self.evidence, wanted)
        items, evidence = yield from at_once(read_items(self.lessons, wanted), about)
        there = [item for item in items if item is not None]
        return (yield from _stored_lessons(there, evidence) if exactly else self._from_snapshots(there, evidence))

    def read_all(self) -> Plan[dict[str, StoredLesson]]:
        """The current state of all lessons, oldest first."""
        items = yield from items_in(self.lessons)
        evidence = {}
        for i, (label, about) in enumerate((yield from self.evidence_items()).items(), 1):
            evidence[label] = Evidence().with_records(about)
            yield from pause(i)
        found = yield from _stored_lessons(items, evidence)
        return dict(sorted(found.items(), key=lambda entry: (entry[1].lesson.created_at or self.clock(), entry[0])))

    def read_snapshots(self, listed: Iterable[Item]) -> Plan[dict[str, StoredLesson]]:
        """The current state of the lessons among these items, in their order, from their snapshots."""
        items = [item for item in listed if item.namespace == self.lessons and may_be_an_id(item.key)]
        records = yield from read_items(self.evidence, [item.key for item in items])
        return (yield from self._from_snapshots(items, records))

    def _from_snapshots(self, items: list[Item], records: Iterable[Item | None]) -> Plan[dict[str, StoredLesson]]:
        """The state of lessons from their snapshots. All evidence is read if a snapshot is missing, damaged or old.

        It is old if its last status is not that of the lesson's item.
        """
        status = {item.key: item.value.get("status") for item in items}
        evidence: dict[str, Evidence] = {}
        for i, record in enumerate(filter(None, records), 1):
            snapshot = Evidence.from_snapshot(record.value)
            if snapshot is not None and status.get(record.key) == (snapshot.statuses() or ["candidate"])[-1]:
                evidence[record.key] = snapshot
            yield from pause(i)
        evidence |= yield from self.read_evidence([item.key for item in items if item.key not in evidence])
        return (yield from _stored_lessons(items, evidence))

    def read_evidence(self, labels: list[str]) -> Plan[dict[str, Evidence]]:
        """All evidence about these lessons, read in one batch."""
        pages = yield [SearchOp(self.evidence_of(label), None, PAGE) for label in labels]
        found = {}
        for i, (label, page) in enumerate(zip(labels, pages, strict=True), 1):
            exactly = [item for item in page if tuple(item.namespace) == self.evidence_of(label)]
            if len(page) == PAGE:
                exactly = yield from items_in(self.evidence_of(label))
            found[label] = Evidence().with_records(exactly)
            yield from pause(i)
        return found

    def evidence_items(self) -> Plan[dict[str, list[Item]]]:
        """Everything appended about the lessons and topics of this namespace, by their labels."""
        items: dict[str, list[Item]] = {}
        for item in (yield from items_below(self.evidence)):
            if item.namespace == self.evidence and item.key.startswith(TOPIC):
                items.setdefault(item.key.rpartition(".")[0], []).append(item)
            # A label like `evidence` may open another namespace below.
            if item.namespace[:-1] == self.evidence and may_be_an_id(item.namespace[-1]):
                items.setdefault(item.namespace[-1], []).append(item)
        return items

    def nearest(self, *queries: str) -> Plan[list[dict[str, float]]]:
        """For each query, the similarities from a store with an index. Empty if it has none, or if its embedding model
        fails."""
        pages: list[list[Any]] = [[] for _ in queries]
        if self.has_vectors:
            try:
                pages = yield [SearchOp(self.lessons, None, NEAREST, 0, query[:2000]) for query in queries]
            except Exception as fault:  # noqa: BLE001 - an embedder may raise anything; words still work
                logger.warning("Searched without vectors: %s: %s", type(fault).__name__, mask_secrets(str(fault)))
        return [
            {
                item.key: float(item.score)
                for item in page
                if tuple(item.namespace) == self.lessons and getattr(item, "score", None) is not None
            }
            for page in pages
        ]

    def read_episode(self, run_id: str) -> Plan[Episode | None]:
        """The record of a run, or `None`."""
        [item] = yield [GetOp(self.episodes, storable(run_id))]
        return parse_item(item, Episode) if item is not None else None

    def earlier_tasks(self, task: str) -> Plan[list[str]]:
        """Tasks of earlier runs, if this one is so long that it may share a template with them."""
        if len(task) < LONG_TASK:
            return []
        [items] = yield [SearchOp(self.episodes, None, PAST_TASKS)]
        return [past for past in (str(item.value.get("task")) for item in items) if past != task]

    # ------------------------------------------------------------ changes

    def change_ops(
        self,
        found: StoredLesson,
        status: LessonStatus | None,
        action: ChangeAction,
        *,
        by: By,
        why: str,
        run: str | None = None,
        words: tuple[str, ...] = (),
        after: Mapping[str, Any] = MappingProxyType({}),
        unrecorded: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[Op]:
        """The operations that change a lesson's status and record the change.

        `after` holds other changed fields, or what is added to them, `unrecorded` fields whose change is not recorded.
        """
        item, lesson, evidence = found
        before: dict[str, Any] = {"status": lesson.status} if status else {}
        full = item_value(lesson) | item.value  # the item of another release may lack fields
        before |= {name: full.get(name) for name in after if name not in _ADDED_TO}
        change = Change("", lesson.id, action, self.clock(), by, why, status, run, before, dict(after), words)
        evidence, record = evidence.with_change(change)
        ops: list[Op] = [put(self.evidence_of(lesson.id), *record)]
        return ops + self.item_ops(item, {**item.value, **unrecorded}, evidence)

    def item_ops(self, item: Item, value: dict[str, Any], evidence: Evidence) -> list[Op]:
        """The operation that saves a value of a lesson's item, after the changes that were not undone, if it is new."""
        right = as_recorded(value, evidence)
        return [put(self.lessons, item.key, right, FIELDS)] if right != item.value else []

    def write(self, ops: list[Op], known: Iterable[StoredLesson] = ()) -> Plan[dict[str, StoredLesson]]:
        """Write, and return the updated lessons whose evidence was added to.

        The snapshots of lessons that are `known` are written in the same batch.
        """
        about: dict[str, list[PutOp]] = {}
        for op in ops:
            if isinstance(op, PutOp) and op.namespace[:-1] == self.evidence and may_be_an_id(op.namespace[-1]):
                about.setdefault(op.namespace[-1], []).extend([op] if op.value else [])
        snapshots = [
            put(self.evidence, found.lesson.id, found.evidence.with_records(records).snapshot_record())
            for found in known
            if (records := about.get(found.lesson.id)) is not None
        ]
        yield from self.save([*ops, *snapshots])
        return (yield from self.read_and_correct(about))

    def read_and_correct(self, ids: Iterable[str]) -> Plan[dict[str, StoredLesson]]:
        """The current state of these lessons. An item or snapshot that differs from the evidence is corrected.

        Data that was written about a lesson while it was being forgotten is removed.
        """
        wanted = [id for id in dict.fromkeys(ids) if may_be_an_id(id)]
        found: dict[str, StoredLesson] = {}
        for _ in range(MAX_CORRECTIONS):
            found, snapshots, forgotten = yield from at_once(
                self.read_some(wanted), read_items(self.evidence, wanted), read_items(self.forgotten, wanted)
            )
            ops: list[Op] = []
            for id, snapshot, was_forgotten in zip(wanted, snapshots, forgotten, strict=True):
                if was_forgotten is not None:
                    found.pop(id, None)
                    left = [snapshot, *(yield from read_items(self.lessons, [id]))]
                    left += yield from items_in(self.evidence_of(id))
                    ops += drop(item for item in left if item is not None)
                elif (entry := found.get(id)) is not None:
                    ops += self.item_ops(entry.item, entry.item.value, entry.evidence)
                    right = entry.evidence.snapshot_record()
                    if snapshot is None or snapshot.value != right:
                        ops.append(put(self.evidence, entry.lesson.id, right))
            if not ops:
                break
            yield from self.save(ops)
            if any(forgotten):
                yield from settle(self.store)
        return found

    def save(self, ops: list[Op]) -> Plan[None]:
        """Write, and if the embedding model fails, write again without vectors, so that no lesson is lost."""
        try:
            yield ops
        except Exception as fault:
            has_index = getattr(self.store, "embeddings", self) is not None
            embeds = has_index and any(isinstance(op, PutOp) and op.index for op in ops)
            if not embeds or isinstance(fault, StoreError):  # an error of the file, not of the embedding model
                raise
            logger.warning("Writing without vectors: %s: %s", type(fault).__name__, mask_secrets(str(fault)))
            yield [op._replace(index=False) if isinstance(op, PutOp) and op.index else op for op in ops]

    def in_batches(self, groups: Iterable[list[Op]]) -> Iterator[list[Op]]:
        """The operations as one batch or, if there are too many for a database, as several. A group stays together."""
        batch: list[Op] = []
        for group in groups:
            # A `FaissStore` has no limit.
            if batch and len(batch) + len(group) > MAX_BATCH and not hasattr(self.store, "changes"):
                yield batch
                batch = []
            batch.extend(group)
        yield batch

    def replaced_by(self, lesson: Lesson, run: str | None = None) -> Plan[list[Op]]:
        """The writes that supersede the other live entries of a lesson's kind and name: one name has one live value."""
        if not lesson.name:
            return []
        others = same_name(lesson, (yield from self.current_items()))
        why, ops = f"{lesson.id} takes its place", list[Op]()
        for found in (yield from self.read_some(others)).values():
            ops += self.change_ops(found, "superseded", "superseded", by="writer", why=why, run=run)
        return ops


def is_undone(item: Item) -> bool:
    """Whether the counts of this episode's run were undone, and nothing was counted since."""
    undone, counted = (time_in(item.value.get(mark)) or datetime.min.replace(tzinfo=UTC) for mark in MARKS)
    return undone > counted


def time_in(mark: Any) -> datetime | None:
    """The time in a value of the store, if it is one with a zone."""
    try:
        time = datetime.fromisoformat(mark)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo is not None else None


def as_recorded(value: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
    """An item's value after the changes that were not undone."""
    right = dict(value)
    for change in evidence.standing:
        for name, new in change.after.items():
            old = right.get(name)
            if isinstance(old, list) and (name in _ADDED_TO or (name == "tags" and change.by == "writer")):
                right[name] = list(dict.fromkeys(mark for mark in [*old, *new] if isinstance(mark, str)))[:MAX_VALUES]
            else:
                right[name] = new
    statuses = evidence.statuses()
    return {**right, "status": statuses[-1]} if statuses else right


def same_name(lesson: Lesson, items: Mapping[str, Item]) -> list[str]:
    """The ids of the other live entries of a lesson's kind and name. None if it has no name."""
    if not lesson.name:
        return []
    live = (item for item in items.values() if item.key != lesson.id and is_live(item))
    return [item.key for item in live if (item.value.get("kind"), item.value.get("name")) == (lesson.kind, lesson.name)]
