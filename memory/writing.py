"""Write a lesson: it is refused, set aside, added, or merged with one that says the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from langgraph.store.base import Item, Op

from langgraph_reflexion.memory.access import Plan, put
from langgraph_reflexion.memory.changes import moved, moving, settled, unless_embedding_fails
from langgraph_reflexion.memory.credit import worth
from langgraph_reflexion.memory.gate import MAX_READ, malformed, refusal, tidy
from langgraph_reflexion.memory.merging import merge, opposites, run_of, source_records, twin_by_vectors, twin_of
from langgraph_reflexion.memory.models import guard_objection
from langgraph_reflexion.memory.provenance import copied
from langgraph_reflexion.memory.records import FIELDS, LIVE, Evidence, change_of, change_record, lesson_id, record
from langgraph_reflexion.memory.shelf import Read, Shelf, read_all, read_one, read_some, stocked
from langgraph_reflexion.memory.suspicion import suspicion, suspicion_of
from langgraph_reflexion.memory.values import Change, ChangeAction, Written
from langgraph_reflexion.schemas import Lesson, LessonStatus


def add(
    shelf: Shelf,
    lesson: Lesson,
    task: str | None,
    answer: str | None,
    foreign: Iterable[str] = (),
    doubt: str | None = None,
) -> Plan[Written]:
    """Keep a lesson as a candidate if it passes the gate; set it aside where its words are not to be trusted.

    `foreign` is what tools, files, pages and errors said in the run; a `doubt` is a reason of the caller's own.
    """
    if not isinstance(lesson, Lesson):
        raise ValueError(f"`add` takes a Lesson, got {lesson!r}")
    tidied = tidy(lesson)
    if reason := malformed(tidied):
        return Written("refused", None, reason)
    doubt = _distrust(lesson, tidied, task, list(foreign)) or doubt
    if not doubt and (reason := refusal(tidied, task, answer)):
        return Written("refused", None, reason)
    items = yield from stocked(shelf)
    if not doubt and lesson_id(shelf.namespace, tidied) not in items:
        doubt = yield from guard_objection(shelf.policy.guard, tidied)
    new = _fresh(shelf, tidied, "quarantined" if doubt else "candidate")
    twin = twin_of(shelf, new, items) or (yield from twin_by_vectors(shelf, new, items))
    if twin is not None and not doubt and (yield from _restored_by_name(shelf, twin, new, items.values())):
        return Written("added", (yield from read_one(shelf, twin.key)).lesson)
    if twin is not None:
        written = yield from merge(shelf, twin, new, doubt)
        if written is not None:
            if twin.value.get("status") not in LIVE and written.lesson is not None and written.lesson.status in LIVE:
                ops = yield from _evictions(shelf, (yield from read_one(shelf, twin.key)))
                yield from unless_embedding_fails(ops)
            return written
    if doubt:
        yield from unless_embedding_fails(_new_record(shelf, new, doubt)[1])
        return Written("quarantined", new, doubt)
    if elders := _same_name(new, items.values()):
        new = new.model_copy(update={"supersedes": [*new.supersedes, *(elder.key for elder in elders)]})
    yield from unless_embedding_fails((yield from _insertion(shelf, new, items)))
    return (yield from _reconciled(shelf, new))


def screen(text: str, foreign: Iterable[str] = (), own: Iterable[str] = ()) -> str | None:
    """Why a text (a lesson, a patch, a plan) must not reach a model, or `None`.

    `foreign` is what tools, files, pages and errors said in this run, `own` what the user said.
    """
    return suspicion(text) or (copied(text, foreign, own) if text.strip() else None)


def _distrust(lesson: Lesson, tidied: Lesson, task: str | None, foreign: list[str]) -> str | None:
    """Why a lesson's words are not to be trusted. They are read as they came, too: tidying hides a line's start."""
    given = lesson.model_copy(update={name: getattr(lesson, name)[:MAX_READ] for name in ("text", "when", "when_not")})
    reason = suspicion_of(given.model_copy(update={"why": ""})) or suspicion_of(tidied)
    own = [task] if task else []
    return reason or next(filter(None, (copied(text, foreign, own) for text in _texts(given))), None)


def _texts(lesson: Lesson) -> list[str]:
    """The texts of a lesson that a prompt shows, and its occasion and advice read together."""
    together = f"{lesson.when} {lesson.text}" if lesson.when else ""
    return [text for text in (lesson.text, lesson.when, lesson.when_not, together) if text]


def _insertion(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[list[Op]]:
    """The writes for a new lesson and all that follows from it, as one batch: a crash leaves all of it or nothing."""
    found, ops = _new_record(shelf, new)
    run = found.evidence.changes[0].run
    known = yield from read_some(shelf, [key for key in new.supersedes if key in items])
    for elder in known.values():
        why = f"{new.id} takes its place"
        ops += moving(shelf, elder, "superseded", "superseded", by="writer", why=why, run=run)
    rest = {key: item for key, item in items.items() if key not in new.supersedes}
    ops += _opposition(shelf, found, (yield from read_some(shelf, opposites(shelf, new, rest))).values())
    if sum(item.value.get("status") in LIVE for item in rest.values()) >= shelf.policy.max_kept:
        ops += yield from _evictions(shelf, found)
    return ops


def _opposition(shelf: Shelf, new: Read, others: Iterable[Read]) -> list[Op]:
    """The writes that record, on both sides, that two lessons advise the opposite."""
    ops: list[Op] = []
    run = run_of(new.lesson)
    for other in others:
        for found, against in ((new, other), (other, new)):
            why = f"{against.lesson.id} advises the opposite"
            if why not in {change.why for change in found.evidence.changes}:
                ops += moving(shelf, found, None, "opposed", by="writer", why=why, run=run)
    return ops


def _reconciled(shelf: Shelf, new: Lesson) -> Plan[Written]:
    """Look once more at what other writers added in the meantime.

    Where one says the same, the elder stays with the evidence of both; of two under one name the later stays.
    """
    items = yield from stocked(shelf)
    others = {key: item for key, item in items.items() if key != new.id}
    twin, rivals = twin_of(shelf, new, others), [item.key for item in _same_name(new, others.values())]
    near = [*rivals, *([twin.key] if twin is not None else [])]
    against = opposites(shelf, new, others)
    known = yield from settled(shelf, dict.fromkeys([new.id, *near, *against]))
    ours = known.get(new.id)
    if ours is None:
        return Written("added", new)
    yield from unless_embedding_fails(_opposition(shelf, ours, [known[key] for key in against if key in known]))
    if twin is not None and twin.key in known and known[twin.key].lesson.name == new.name:
        stays, goes = sorted((ours, known[twin.key]), key=lambda found: _age(shelf, found))
        yield from _supersede(shelf, goes, f"{stays.lesson.id} says the same")
        united = yield from merge(shelf, stays.item, goes.lesson, None)
        return Written("merged", united.lesson if united is not None else stays.lesson)
    by_age = sorted([ours, *(known[key] for key in rivals if key in known)], key=lambda found: _age(shelf, found))
    for goes in by_age[:-1]:
        yield from _supersede(shelf, goes, f"{by_age[-1].lesson.id} takes its place")
    return Written("added", ours.lesson)


def _supersede(shelf: Shelf, goes: Read, why: str) -> Plan[None]:
    if goes.lesson.status in LIVE:
        yield from moved(shelf, goes, "superseded", "superseded", by="writer", why=why)


def _age(shelf: Shelf, found: Read) -> tuple[datetime, str]:
    return found.lesson.created_at or shelf.clock(), found.lesson.id


def _restored_by_name(shelf: Shelf, twin: Item, new: Lesson, items: Iterable[Item]) -> Plan[bool]:
    """Bring a named entry's former value back, in place of the one that had replaced it."""
    if not new.name or twin.value.get("status") != "superseded" or twin.value.get("name") != new.name:
        return False
    run = run_of(new)
    known = yield from read_some(shelf, [twin.key, *(item.key for item in _same_name(new, items))])
    former = known.pop(twin.key, None)
    if former is None:
        return False
    ops = moving(shelf, former, "candidate", "restored", by="writer", why="it holds again", run=run)
    for found in known.values():
        why = f"{twin.key} takes its place"
        ops += moving(shelf, found, "superseded", "superseded", by="writer", why=why, run=run)
    yield from unless_embedding_fails(ops)
    return True


def _fresh(shelf: Shelf, lesson: Lesson, status: LessonStatus) -> Lesson:
    """The lesson as it is written for the first time."""
    now = shelf.clock()
    expires = lesson.expires_at
    if expires is None and shelf.policy.expires_after is not None:
        expires = now + shelf.policy.expires_after
    return lesson.model_copy(
        update={
            "id": lesson_id(shelf.namespace, lesson),
            "status": status,
            "sources": [source for source in dict.fromkeys(lesson.sources) if source],
            "created_at": now,
            "updated_at": now,
            "expires_at": expires,
            "version": 1,
        }
    )


def _same_name(new: Lesson, items: Iterable[Item]) -> list[Item]:
    """The live entries that a new one of the same kind and name replaces; one, unless many write at once."""
    name = (new.kind, new.name)
    live = (item for item in items if item.value.get("status") in LIVE)
    return [item for item in live if new.name and (item.value.get("kind"), item.value.get("name")) == name]


def _new_record(shelf: Shelf, new: Lesson, doubt: str = "") -> tuple[Read, list[Op]]:
    """A new lesson as it will be read, and the writes that keep it."""
    at = new.created_at or shelf.clock()
    action: ChangeAction = "quarantined" if doubt else "added"
    run = run_of(new)
    # Its sources are kept with the evidence alone: two writers of one lesson must not overwrite each other's.
    bare = record(new.model_copy(update={"sources": []}))
    key, value = change_record(Evidence(), Change("", new.id, action, at, "writer", doubt, None, run), bare)
    about = shelf.evidence_of(new.id)
    ops: list[Op] = [put(shelf.lessons, new.id, bare, FIELDS), put(about, key, value)]
    ops += [put(about, *source) for source in source_records(new, at)]
    item = Item(namespace=shelf.lessons, key=new.id, value=bare, created_at=at, updated_at=at)
    return Read(item, new, Evidence(changes=(change_of(value),))), ops


def _evictions(shelf: Shelf, new: Read) -> Plan[list[Op]]:
    """The writes that retire the least useful lessons above the cap, the new one among them, but no approved one."""
    found = {**(yield from read_all(shelf)), new.lesson.id: new}
    gone = {key for key in new.lesson.supersedes if key in found}
    live = [other for key, other in found.items() if other.lesson.status in LIVE and key not in gone]
    free = sorted((other for other in live if not other.evidence.approved), key=lambda other: _usefulness(shelf, other))
    cap = shelf.policy.max_kept
    run, why = new.evidence.changes[0].run, f"{cap} lessons are kept"
    ops: list[Op] = []
    for other in free[: max(len(live) - cap, 0)]:
        ops += moving(shelf, other, "retired", "retired", by="policy", why=why, run=run)
    return ops


def _usefulness(shelf: Shelf, found: Read) -> tuple[bool, float, float, str]:
    """The order in which lessons go: expired ones first, then the least useful, then those long unused."""
    _, lesson, evidence = found
    now = shelf.clock()
    used = lesson.last_used_at or lesson.created_at or now
    return lesson.expires_at is None or lesson.expires_at > now, worth(lesson, evidence), used.timestamp(), lesson.id
