"""Changes: update a lesson's status, by evidence or by a person's decision, and record each change.

A change is recorded in the evidence, and the lesson's own item is updated in the same batch, so that recall need not
read all evidence. Two writers that read the same item can overwrite each other. So each reads again after writing, and
the last to read corrects the item (`read_and_correct`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.driver import either
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.access import Plan, at_once, drop, items_in, may_be_an_id, put, read_items
from langgraph_reflexion.memory.evidence import LIVE, By, Change, ChangeAction, Evidence
from langgraph_reflexion.memory.gate import one_line
from langgraph_reflexion.memory.index import remove_everywhere
from langgraph_reflexion.memory.records import (
    FIELDS,
    MORE_FAILURES,
    TASKS,
    change_record,
    hash_of,
    item_value,
    numbered,
    whole_record,
    with_records,
)
from langgraph_reflexion.memory.shelf import (
    MARKS,
    Shelf,
    StoredLesson,
    current_items,
    episode_in,
    read_one,
    read_some,
)
from langgraph_reflexion.memory.suspicion import shown_texts, suspicion_of
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.literals import mask_secrets
from langgraph_reflexion.text.tokens import fold

logger = logging.getLogger(__name__)

LOOKS = 8
"""How often an item is corrected before that is left to the other writers."""

MOST = 16
"""Tags, and further fingerprints, that one lesson can have."""

MAX_REASON = 1_000
"""Characters of a person's reason: a long paragraph."""

_CLAUSE_END = re.compile(r"[.;,!?](?=\s)|[。；，！？\n]")

_UNITED = (MORE_FAILURES, TASKS)
"""Fields to which each writer only adds. A change's `after` holds what it added."""


def change_ops(
    shelf: Shelf,
    found: StoredLesson,
    status: LessonStatus | None,
    action: ChangeAction,
    *,
    by: By,
    why: str = "",
    run: str | None = None,
    words: tuple[str, ...] = (),
    after: Mapping[str, Any] = MappingProxyType({}),
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> list[Op]:
    """The operations that change a lesson's status and record the change.

    `after` holds other changed fields, or what is added to them, and `beside` fields whose change is not recorded.
    """
    item, lesson, evidence = found
    before: dict[str, Any] = {"status": lesson.status} if status else {}
    full = item_value(lesson) | item.value  # the item of another release may lack fields
    before |= {name: full.get(name) for name in after if name not in _UNITED}
    change = Change("", lesson.id, action, shelf.clock(), by, why, status, run, before, dict(after), words)
    change = numbered(evidence, change)
    ops: list[Op] = [put(shelf.evidence_of(lesson.id), *change_record(change))]
    right = as_recorded({**item.value, **beside}, evidence.with_change(change))
    if right != item.value:
        ops.append(put(shelf.lessons, item.key, right, FIELDS))
    return ops


def write(shelf: Shelf, ops: list[Op], known: Iterable[StoredLesson] = ()) -> Plan[dict[str, StoredLesson]]:
    """Write, and return the updated lessons whose evidence was added to.

    For lessons that are `known`, the record of all their evidence is written in the same batch.
    """
    about: dict[str, list[PutOp]] = {}
    for op in ops:
        if isinstance(op, PutOp) and op.namespace[:-1] == shelf.evidence and may_be_an_id(op.namespace[-1]):
            about.setdefault(op.namespace[-1], []).extend([op] if op.value else [])
    evidence = {found.lesson.id: found.evidence for found in known}
    wholes = [
        put(shelf.evidence, id, whole_record(with_records(evidence[id], about[id]))) for id in about if id in evidence
    ]
    yield from retry_without_vectors([*ops, *wholes])
    return (yield from read_and_correct(shelf, about))


def read_and_correct(shelf: Shelf, ids: Iterable[str]) -> Plan[dict[str, StoredLesson]]:
    """The current state of these lessons. An item or record that differs from the appended evidence is corrected.

    Data that was written about a lesson while it was being forgotten is removed.
    """
    wanted = [id for id in dict.fromkeys(ids) if may_be_an_id(id)]
    found: dict[str, StoredLesson] = {}
    for _ in range(LOOKS if wanted else 0):
        found, kept, forgotten = yield from at_once(
            read_some(shelf, wanted), read_items(shelf.evidence, wanted), read_items(shelf.forgotten, wanted)
        )
        ops: list[Op] = []
        for id, item, is_forgotten in zip(wanted, kept, forgotten, strict=True):
            if is_forgotten is not None:
                found.pop(id, None)
                left = [item, *(yield from read_items(shelf.lessons, [id]))]
                left += yield from items_in(shelf.evidence_of(id))
                ops += drop(there for there in left if there is not None)
            elif (entry := found.get(id)) is not None:
                right, whole = as_recorded(entry.item.value, entry.evidence), whole_record(entry.evidence)
                if right != entry.item.value:
                    ops.append(PutOp(shelf.lessons, id, right, FIELDS))
                if item is None or item.value != whole:
                    ops.append(put(shelf.evidence, entry.lesson.id, whole))
        if not ops:
            break
        yield from retry_without_vectors(ops)
    return found


def as_recorded(value: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
    """An item's value after the changes that were not taken back."""
    right = dict(value)
    for change in evidence.standing:
        for name, new in change.after.items():
            old = right.get(name)
            if isinstance(old, list) and (name in _UNITED or (name == "tags" and change.by == "writer")):
                right[name] = list(dict.fromkeys(mark for mark in [*old, *new] if isinstance(mark, str)))[:MOST]
            else:
                right[name] = new
    statuses = evidence.statuses()
    return {**right, "status": statuses[-1]} if statuses else right


def retry_without_vectors(ops: list[Op]) -> Plan[None]:
    """Write, and if that fails, write again without vectors, so that no lesson is lost because an embedder is down."""
    if not ops:
        return
    try:
        yield ops
    except StoreError:  # an error of the file, not of the embedding model
        raise
    except Exception as fault:
        if not any(isinstance(op, PutOp) and op.index for op in ops):
            raise
        logger.warning("Writing without vectors: %s: %s", type(fault).__name__, mask_secrets(str(fault)))
        yield [op._replace(index=False) if isinstance(op, PutOp) and op.index else op for op in ops]


ASIDE: tuple[LessonStatus, ...] = ("retired", "superseded", "quarantined")


def approve(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Make a lesson active with exactly these texts. No later run, cap or expiry date changes that."""
    found = yield from read_one(shelf, lesson)
    texts = tuple(hash_of(text) for text in shown_texts(found.lesson))
    set_aside = [
        change.why for change in found.evidence.changes if change.action == found.lesson.status == "quarantined"
    ]
    doubt = suspicion_of(found.lesson) or next(reversed(set_aside), "")
    why = "exactly these words" + (f", although {doubt}" if doubt else "")
    for_good = {"expires_at": None} if found.lesson.expires_at is not None else {}
    ops = change_ops(shelf, found, "active", "approved", by="person", why=why, words=texts, after=for_good)
    ops += yield from replaced_by(shelf, found.lesson)
    return (yield from _decided(shelf, found, ops))


def retire(shelf: Shelf, lesson: str, why: str) -> Plan[Lesson]:
    """Stop showing a lesson, and keep it with the reason."""
    found = yield from read_one(shelf, lesson)
    ops = change_ops(shelf, found, "retired", "retired", by="person", why=one_line(why, MAX_REASON))
    return (yield from _decided(shelf, found, ops))


def restore(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Restore the status that a lesson had before it was removed from use, or make it a candidate."""
    found = yield from read_one(shelf, lesson)
    status_now = found.lesson.status
    if status_now not in ASIDE:
        raise ValueError(f"`restore` is for retired, superseded and quarantined lessons, {lesson} is {status_now}")
    held = [found.evidence.born, *(change.status for change in found.evidence.standing if change.status is not None)]
    shown_as = [status for status in held if status not in (None, *ASIDE)]  # it may have been set aside several times
    status: LessonStatus = "active" if shown_as[-1:] == ["active"] else "candidate"
    ops = change_ops(shelf, found, status, "restored", by="person", why=f"it was {status_now}")
    ops += yield from replaced_by(shelf, found.lesson)
    return (yield from _decided(shelf, found, ops))


def replaced_by(shelf: Shelf, lesson: Lesson, run: str | None = None) -> Plan[list[Op]]:
    """The writes that supersede the other live entries of a lesson's kind and name: one name has one live value."""
    if not lesson.name:
        return []
    name = (lesson.kind, lesson.name)
    items = yield from current_items(shelf)
    others = [key for key, item in items.items() if key != lesson.id and item.value.get("status") in LIVE]
    same_name = [key for key in others if (items[key].value.get("kind"), items[key].value.get("name")) == name]
    why, ops = f"{lesson.id} takes its place", list[Op]()
    for found in (yield from read_some(shelf, same_name)).values():
        ops += change_ops(shelf, found, "superseded", "superseded", by="writer", why=why, run=run)
    return ops


def _decided(shelf: Shelf, found: StoredLesson, ops: list[Op]) -> Plan[Lesson]:
    """Write a person's decision, and return the updated lesson, or the old one if it was forgotten meanwhile."""
    now = yield from write(shelf, ops, [found])
    return now[found.lesson.id].lesson if found.lesson.id in now else found.lesson


def forget(shelf: Shelf, lesson: str) -> Plan[None]:
    """Remove a lesson, its evidence, its changes and its words in the episodes it came from; damaged ones too.

    A pattern with the same text is deleted too.
    """
    if not may_be_an_id(lesson) or (yield from read_items(shelf.lessons, [lesson])) == [None]:
        raise KeyError(lesson)
    yield from forget_all(shelf, [lesson])


def forget_named(shelf: Shelf, name: str) -> Plan[int]:
    """Delete all entries that ever had a name."""
    items = yield from items_in(shelf.lessons)
    meant = [item.key for item in items if item.value.get("name") == name]
    yield from forget_all(shelf, meant)
    return len(meant)


def forget_all(shelf: Shelf, meant: list[str]) -> Plan[None]:
    """Remove these lessons in one batch, so that a crash forgets all or none.

    Hashes of their texts stay, so that what other writers still write about them can be removed.
    """
    items = {item.key: item for item in (yield from read_items(shelf.lessons, meant)) if item is not None}
    items |= yield from current_items(shelf)
    meant = [id for id in meant if id in items]
    speaking = [key for id in meant for key, item in items.items() if _has_same_text(item, items[id])]
    ops: list[Op] = []
    words: set[str] = set()
    wordings: dict[str, list[str]] = {}
    gone = list(dict.fromkeys([*meant, *speaking]))
    for id in gone:
        about = yield from items_in(shelf.evidence_of(id))
        values = [items[id].value, *(item.value.get(side) for item in about for side in ("before", "after"))]
        texts = (value.get("text") for value in values if isinstance(value, dict))
        wordings[id] = [text for text in texts if isinstance(text, str)]
        its_words = sorted({hash_of(fold(text)) for text in wordings[id]})
        words.update(its_words)
        ops += [*drop([items[id], *about]), PutOp(shelf.evidence, id, None)]
        ops.append(put(shelf.forgotten, id, {"at": shelf.clock().isoformat(), "words": its_words}))
    # Only the latest sources of a lesson are recorded, so every episode that may contain its words is read.
    ops += without_words(shelf, (yield from items_in(shelf.episodes)) if gone else [], words, wordings)
    if ops:
        yield ops
    yield from read_and_correct(shelf, gone)
    remove_everywhere(shelf.store, shelf.lessons, gone)
    # A pattern may have been made from them in the meantime.
    made = [
        key
        for key, item in (yield from current_items(shelf)).items()
        if key not in gone and any(_has_same_text(item, items[id]) for id in gone)
    ]
    if made:
        yield from forget_all(shelf, made)
    if hasattr(shelf.store, "settle"):  # the file and its log are overwritten, too
        yield either(shelf.store.settle, shelf.store.asettle)


def without_words(
    shelf: Shelf,
    episodes: Iterable[Item],
    words: Collection[str],
    wordings: Mapping[str, list[str]] = MappingProxyType({}),
) -> list[Op]:
    """The writes that remove texts with these hashes from episodes, and those that say what these lessons said."""
    ops: list[Op] = []
    for item in episodes:
        episode = episode_in(item, as_it_was=True) if item.value.get("reflections") else None
        if episode is not None and (without := _without(episode, words, wordings)) != episode:
            marks = {name: item.value[name] for name in MARKS if item.value.get(name)}
            ops.append(put(shelf.episodes, item.key, without.model_dump(mode="json") | marks))
    return ops


def forgotten_words(forgotten: Iterable[Item]) -> set[str]:
    """The hashes of the texts that were forgotten."""
    return {word for item in forgotten if isinstance(words := item.value.get("words"), list) for word in words}


def _has_same_text(pattern: Item, lesson: Item) -> bool:
    text, supersedes = pattern.value.get("text"), pattern.value.get("supersedes")
    if pattern.value.get("kind") != "pattern" or not isinstance(supersedes, list) or lesson.key not in supersedes:
        return False
    return isinstance(text, str) and fold(text) == fold(str(lesson.value.get("text")))


def _without(episode: Episode, words: Collection[str], wordings: Mapping[str, list[str]]) -> Episode:
    """The episode without texts that have these hashes or hold all sentences of one of these wordings, and without
    those that say the same as a lesson it wrote."""
    known = [sentences for texts in wordings.values() for text in texts if (sentences := _sentences(text))]
    its_own = [text for id in episode.written for text in wordings.get(id, ())]

    def without(text: str) -> str:
        sentences = _sentences(text)
        is_gone = hash_of(fold(text)) in words or any(part <= sentences for part in known)
        return "" if is_gone or any(same(text, other) for other in its_own) else text

    reflections = [
        made.model_copy(
            update={
                "memory_to_write": [memo for memo in made.memory_to_write if without(memo.text)],
                "patch_prompt": without(made.patch_prompt),
                "explanation": without(made.explanation),
                "fix_strategy": [fix.model_copy(update={"text": without(fix.text)}) for fix in made.fix_strategy],
                "lessons": [text for text in made.lessons if without(text)],
            }
        )
        for made in episode.reflections
    ]
    return episode.model_copy(update={"reflections": reflections})


def _sentences(text: str) -> set[str]:
    """The sentences and clauses of a text, as keys to compare."""
    return {part for clause in _CLAUSE_END.split(text) if (part := fold(clause))}
