"""Writing: a lesson that is offered is refused, set aside, added, or merged with one that says the same."""

from __future__ import annotations

from collections.abc import Iterable

from langgraph.store.base import Item, Op

from langgraph_reflexion.memory.changing import move, moved, unless_embedding_fails
from langgraph_reflexion.memory.doors import Plan, put
from langgraph_reflexion.memory.gate import for_others, malformed, tidy
from langgraph_reflexion.memory.guard import overreach, suspicion_of
from langgraph_reflexion.memory.merging import link, merge, source_records, twin_by_vectors, twin_of
from langgraph_reflexion.memory.provenance import copied
from langgraph_reflexion.memory.records import FIELDS, LIVE, Evidence, change_record, lesson_id, record
from langgraph_reflexion.memory.shelf import Read, Shelf, read_all, read_one, stocked
from langgraph_reflexion.memory.values import Change, ChangeAction, Written
from langgraph_reflexion.memory.worth import usefulness
from langgraph_reflexion.schemas import Lesson, LessonStatus


def add(
    shelf: Shelf,
    lesson: Lesson,
    task: str | None,
    answer: str | None,
    heard: Iterable[str] = (),
    doubt: str | None = None,
) -> Plan[Written]:
    """Keep a lesson as a candidate, if it passes the gate; with a `doubt`, set it aside for a person.

    Details of its task become slots; a lesson that says nothing without them is refused, and stays with its run.
    """
    if not isinstance(lesson, Lesson):
        raise ValueError(f"`add` takes a Lesson, got {lesson!r}")
    tidied = tidy(lesson)
    reason = malformed(tidied)
    if reason is not None:
        return Written("refused", None, reason)
    offered, reason = for_others(tidied, task, answer)
    # Looked at as it came, too: on one line a role's name at the head of the second is hard to see.
    doubt = (
        suspicion_of(lesson.model_copy(update={"why": ""}))
        or suspicion_of(tidied)
        or suspicion_of(offered)
        or copied(lesson.text, heard)
        or (overreach(tidied.text) if offered.origin == "observed" else None)
        or doubt
    )
    if reason is not None and not doubt:
        return Written("refused", None, reason)
    items = yield from stocked(shelf)
    new = _fresh(shelf, offered, "quarantined" if doubt else "candidate")
    twin = twin_of(shelf, new, items) or (yield from twin_by_vectors(shelf, new, items))
    if twin is not None and not doubt and (yield from _holds_again(shelf, twin, new, items.values())):
        return Written("added", (yield from read_one(shelf, twin.key)).lesson)
    if twin is not None:
        written = yield from merge(shelf, twin, new, doubt)
        if written is not None:
            return written
    if doubt:
        yield from _keep(shelf, new, doubt)
        return Written("quarantined", new, doubt)
    elder = _namesake(new, items.values())
    if elder is not None:
        new = new.model_copy(update={"supersedes": [*new.supersedes, elder.key]})
    yield from _keep(shelf, new)
    for key in new.supersedes:
        if key in items:
            yield from move(shelf, key, "superseded", "superseded", by="writer", why=f"{new.id} takes its place")
    yield from link(shelf, new, {key: item for key, item in items.items() if key not in new.supersedes})
    if sum(item.value.get("status") in LIVE for item in items.values()) >= shelf.policy.max_kept:
        yield from _make_room(shelf)
    return Written("added", new)


def _holds_again(shelf: Shelf, twin: Item, new: Lesson, items: Iterable[Item]) -> Plan[bool]:
    """Bring a named entry's former value back, in place of the one that had taken its place."""
    if not new.name or twin.value.get("status") != "superseded" or twin.value.get("name") != new.name:
        return False
    elder = _namesake(new, items)
    yield from move(shelf, twin.key, "candidate", "restored", by="writer", why="it holds again")
    if elder is not None:
        yield from move(shelf, elder.key, "superseded", "superseded", by="writer", why=f"{twin.key} takes its place")
    return True


def _fresh(shelf: Shelf, lesson: Lesson, status: LessonStatus) -> Lesson:
    now = shelf.clock()
    expires = lesson.expires_at
    if expires is None and shelf.policy.expires_after is not None:
        expires = now + shelf.policy.expires_after
    return lesson.model_copy(
        update={
            "id": lesson_id(shelf.namespace, lesson),
            "status": status,
            "sources": [one for one in dict.fromkeys(lesson.sources) if one],
            "created_at": now,
            "updated_at": now,
            "expires_at": expires,
            "version": 1,
        }
    )


def _namesake(new: Lesson, items: Iterable[Item]) -> Item | None:
    """A named entry that the new one of that name takes the place of."""
    for item in items:
        value = item.value
        if new.name and value.get("name") == new.name and value.get("kind") == new.kind and value.get("status") in LIVE:
            return item
    return None


def _keep(shelf: Shelf, new: Lesson, doubt: str = "") -> Plan[None]:
    at = new.created_at or shelf.clock()
    action: ChangeAction = "quarantined" if doubt else "added"
    run = next(iter(new.sources), None)
    key, value = change_record(Evidence(), Change("", new.id, action, at, "writer", doubt, None, run))
    about = shelf.evidence_of(new.id)
    # Its sources lie with the evidence alone: two writers of the same lesson must not overwrite each other's.
    bare = record(new.model_copy(update={"sources": []}))
    ops: list[Op] = [put(shelf.lessons, new.id, bare, FIELDS), put(about, key, value)]
    ops += [put(about, *one) for one in source_records(new, at)]
    yield from unless_embedding_fails(ops)


def _make_room(shelf: Shelf) -> Plan[None]:
    """Retire the least useful lessons above the cap; an approved one never goes."""
    found = yield from read_all(shelf)
    live = [one for one in found.values() if one[1].status in LIVE]
    idle = sorted((one for one in live if not one[2].approved), key=lambda one: _use(shelf, one))
    for one in idle[: max(len(live) - shelf.policy.max_kept, 0)]:
        yield from moved(shelf, one, "retired", "retired", by="policy", why=f"{shelf.policy.max_kept} lessons are kept")


def _use(shelf: Shelf, found: Read) -> tuple[bool, float, float, str]:
    """The order in which lessons go: the expired first, then the least useful, then those long unused."""
    _, lesson, _ = found
    now = shelf.clock()
    seen = lesson.last_used_at or lesson.created_at or now
    return lesson.expires_at is None or lesson.expires_at > now, usefulness(lesson), seen.timestamp(), lesson.id
