"""Write a lesson: refuse it, quarantine it, add it, or merge it with a lesson that says the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.memory.access import Plan, put, storable
from langgraph_reflexion.memory.changes import (
    MOST,
    moving,
    new_records,
    replaced_by,
    retry_without_vectors,
    settled,
    write,
)
from langgraph_reflexion.memory.estimate import worth
from langgraph_reflexion.memory.evidence import LIVE, Change, ChangeAction, Evidence, folded
from langgraph_reflexion.memory.gate import MAX_READ, malformed, refusal, tidy
from langgraph_reflexion.memory.models import guard_objection
from langgraph_reflexion.memory.provenance import Foreign, as_foreign
from langgraph_reflexion.memory.records import (
    ALSO,
    FIELDS,
    change_record,
    failure_of,
    fingerprints,
    lesson_id,
    lesson_in,
    record,
    source_records,
    tool_of,
    whole_record,
)
from langgraph_reflexion.memory.shelf import (
    Read,
    Shelf,
    evidence_about,
    nearest,
    read_listed,
    read_one,
    read_some,
    stocked,
)
from langgraph_reflexion.memory.suspicion import suspicion, suspicion_of
from langgraph_reflexion.memory.upkeep import drop_old_notes, fold_runs, is_due
from langgraph_reflexion.schemas import SHOWN, TEXTS, Lesson, LessonStatus
from langgraph_reflexion.text.likeness import opposed, same, same_in_other_words
from langgraph_reflexion.text.tokens import fold, tokens

WriteAction = Literal["added", "merged", "unchanged", "refused", "quarantined"]

COMPARED = 12
"""Lessons, those with the most words in common, that a new one is compared with: bounds the time of a write."""

SAME_VECTORS = 0.95
"""Similarity of vectors from which two lessons in other words may be one: near the top of what embedding models give
for paraphrases, so that a model without an opinion merges nothing."""

NOTES_EACH = 50
"""One of so many new lessons removes old notes of changes: a tenth of the notes that a namespace keeps."""

MANY = 3
"""If more lessons than this are that similar, the model cannot tell lessons apart."""


@dataclass(frozen=True)
class Written:
    """The result of `add`, with the reason. If the lesson was refused, `lesson` is None."""

    action: WriteAction
    lesson: Lesson | None
    reason: str = ""


def add(
    shelf: Shelf,
    lesson: Lesson,
    task: str | None,
    answer: str | None,
    foreign: Foreign | Iterable[str] = (),
    doubt: str | None = None,
) -> Plan[Written]:
    """Keep a lesson as a candidate if it passes the gate; set it aside if its words cannot be trusted.

    `foreign` is what tools, files, pages and errors said in the run; a `doubt` is the caller's own reason.
    """
    if not isinstance(lesson, Lesson):
        raise ValueError(f"`add` takes a Lesson, got {lesson!r}")
    tidied = tidy(lesson)
    if reason := malformed(tidied):
        return Written("refused", None, reason)
    doubt = _distrust(lesson, tidied, as_foreign(foreign, [task] if task else [])) or doubt
    if not doubt and lesson.status == "quarantined":
        doubt = "it was quarantined before it was added"
    if not doubt and (reason := refusal(tidied, task, answer)):
        return Written("refused", None, reason)
    items = yield from stocked(shelf)
    now, expires = shelf.clock(), tidied.expires_at
    if expires is None and shelf.policy.expires_after is not None:
        expires = now + shelf.policy.expires_after
    new = tidied.model_copy(
        update={
            "id": lesson_id(shelf.namespace, tidied),
            "sources": [*dict.fromkeys(filter(None, map(storable, lesson.sources)))],
            "created_at": now,
            "updated_at": now,
            "expires_at": expires,
            "version": 1,
        }
    )
    if not doubt and shelf.policy.guard is not None and new.id not in items:
        doubt = yield from guard_objection(shelf.policy.guard, new)
    new = new.model_copy(update={"status": "quarantined" if doubt else "candidate"})
    twin, against = relatives(shelf, new, items)
    if twin is None and shelf.vectors:
        twin = yield from _twin_by_vectors(shelf, new, items)
    if twin is not None and not doubt and (yield from _restored_by_name(shelf, twin, new)):
        yield from merge(shelf, (yield from stocked(shelf)).get(twin.key, twin), new, None)
        return Written("added", (yield from read_one(shelf, twin.key)).lesson)
    if twin is not None:
        written = yield from merge(shelf, twin, new, doubt)
        if written is not None:
            if is_live(twin) and written.lesson is not None and written.lesson.status == "superseded":
                # Another writer has replaced it in the meantime: what takes its place gains the evidence, too.
                return (yield from add(shelf, lesson, task, answer, foreign, doubt))
            if not is_live(twin) and written.lesson is not None and written.lesson.status in LIVE:
                found = yield from read_one(shelf, twin.key)
                yield from write(shelf, (yield from _evictions(shelf, found, run_of(new))))
            return written
    if new.name and not doubt:
        elders = _same_name(new, items.values())
        new = new.model_copy(update={"supersedes": [*new.supersedes, *(elder.key for elder in elders)]})
    found, ops = _new_record(shelf, new, doubt or "")
    if doubt:
        yield from retry_without_vectors(ops)
        return Written("quarantined", new, doubt)
    yield from write(shelf, [*ops, *(yield from _consequences(shelf, found, items, against))])
    if int(new.id, 16) % NOTES_EACH == 0:
        yield from drop_old_notes(shelf)
    there = yield from stocked(shelf)
    if there.keys() - items.keys() == {new.id} and there[new.id].value == found.item.value:
        return Written("added", new)  # nobody else has added a lesson in the meantime
    return (yield from _reconciled(shelf, new, there))


def screen(text: str, foreign: Foreign | Iterable[str] = ()) -> str | None:
    """Why a text (a lesson, a patch, a plan) must not reach a model, or `None`.

    `foreign` is what tools, files, pages and errors said in this run.
    """
    return suspicion(text) or as_foreign(foreign).copied(text)


def _distrust(lesson: Lesson, tidied: Lesson, foreign: Foreign) -> str | None:
    """Why a lesson's words are not to be trusted. They are read as they came, too: tidying hides a line's start."""
    shown = {name: getattr(lesson, name)[:MAX_READ] for name in SHOWN}
    together = f"{shown['when']} {shown['text']}".strip()
    given = dict.fromkeys(words for words in (*shown.values(), together) if words.strip())
    if reason := suspicion_of(tidied):
        return reason
    return next((reason for words in given if (reason := screen(words, foreign))), None)


# ---------------------------------------------------------------- the lessons it is compared with


def relatives(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> tuple[Item | None, list[str]]:
    """The item that says the same as a new lesson, if one does, and the ids of those that advise the opposite.

    The same is said under the same id, in another spelling, or in nearly the same words. A superseded lesson of the
    same id counts only if no live one says the same. Recall never shows two together that advise the opposite.
    """
    words = set(tokens(new.text))
    shared = shelf.index.sharing(words, (len(words) + 2) // 3)
    known = [(n, items[item.key]) for n, item in shared if item.key in items and is_live(items[item.key])]
    near = sorted(known, key=lambda pair: (-pair[0], pair[1].key))
    compared = [item for _, item in near if item.key != new.id][:COMPARED]
    against = [item.key for item in compared if opposed(item.value["text"], new.text)]
    same_id = items.get(new.id)
    if same_id is not None and (new.name or same_id.value.get("status") != "superseded"):
        return same_id, against
    of_kind = [item for n, item in near if 2 * n >= len(words) and item.value.get("kind") == new.kind]
    of_kind = [item for item in of_kind if item.key not in new.supersedes]
    spelled = (item for item in of_kind if fold(item.value["text"]) == fold(new.text))
    if (twin := next(spelled, None)) is not None:
        return twin, against
    if new.status != "candidate" or new.name is not None:  # under a name, other words are a correction
        return same_id, against
    bound = [item for item in of_kind if has_same_tool(new, item.value)]
    return next((item for item in bound[:COMPARED] if same(item.value["text"], new.text)), same_id), against


def _twin_by_vectors(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[Item | None]:
    """The item that says the same in other words, by the store's embedding model, if their words agree, too."""
    if new.name is not None or new.status != "candidate":
        return None
    near = yield from nearest(shelf, new.text)
    close = [key for key, score in near.items() if SAME_VECTORS <= score <= 1.001]
    if len(close) > MANY:
        return None
    for key in sorted(close, key=lambda key: (-near[key], key)):
        item = items.get(key)
        if item is None or key in new.supersedes or item.value.get("kind") != new.kind or not is_live(item):
            continue
        if has_same_tool(new, item.value) and same_in_other_words(item.value["text"], new.text):
            return item
    return None


def _same_name(new: Lesson, items: Iterable[Item]) -> list[Item]:
    """The live entries that a new one of the same kind and name replaces. It is one, unless many write at once."""
    name = (new.kind, new.name)
    return [item for item in items if is_live(item) and (item.value.get("kind"), item.value.get("name")) == name]


# ---------------------------------------------------------------- merging


def merge(shelf: Shelf, item: Item, new: Lesson, doubt: str | None) -> Plan[Written | None]:
    """Combine the evidence of a known and a new lesson, and keep the better wording. If nothing is new, change nothing.
    `None` if the known record is damaged, or forgotten meanwhile: the new lesson may replace it.
    """
    run = run_of(new)
    evidence = (yield from evidence_about(shelf, [item.key]))[item.key]
    kept = lesson_in(item)
    if kept is None:
        return None
    now = shelf.clock()
    old = folded(kept, evidence)
    about = shelf.evidence_of(old.id)
    known = {(str(source["source"]), source["origin"]) for source in evidence.sources}
    ops: list[Op] = [
        put(about, key, value)
        for key, value in source_records(new, now)
        if (value["source"], value["origin"]) not in known
    ]
    if old.status in LIVE and not doubt:
        update, failures = _update(kept, new, now, evidence.approved), _new_failures(new, item.value)
        change = Change("", old.id, "merged", now, "writer", "", None, run, {})
        if update or failures:
            better = kept.model_copy(update={**update, "updated_at": now, "version": kept.version + 1})
            before, after = (
                {name: lesson.model_dump(mode="json")[name] for name in update} for lesson in (kept, better)
            )
            change = replace(change, before=before, after=after | ({ALSO: failures} if failures else {}))
            ops.append(put(shelf.lessons, old.id, record(better, [*fingerprints(item.value), *failures]), FIELDS))
        if ops:
            ops.append(put(about, *change_record(evidence, change)))
    elif (
        old.status == "retired"
        and not doubt
        and (ops or not new.sources)
        and (last := evidence.last_status_change)
        and last.by in ("policy", "evidence")
    ):
        # A lesson that was removed to make room returns as new. One that lost too often returns on probation.
        status: LessonStatus = "candidate" if last.by == "policy" else "probation"
        why = "it was learned again"
        ops += moving(shelf, Read(item, old, evidence), status, "restored", by="writer", why=why, run=run)
    yield from retry_without_vectors([*ops, *new_records(shelf, ops, {old.id: evidence})])
    if (now_known := (yield from settled(shelf, [old.id])).get(old.id)) is None:
        return None
    merged = now_known.lesson
    if is_due(now_known.evidence, now):
        yield from fold_runs(shelf, old.id)
    if old.status == "quarantined":
        return Written("quarantined", merged, doubt or "it was set aside before")
    reason = ("" if ops else "it is known") if merged.status in LIVE else f"it is known and {merged.status}"
    return Written("merged" if ops else "unchanged", merged, reason)


def run_of(new: Lesson) -> str | None:
    """The run that a new lesson was written by."""
    return next(iter(new.sources), None)


def of_any_tool(when: str, tool: str | None) -> str:
    """An occasion that names a tool, with `a tool` in its place."""
    return re.sub(rf"(?:\bthe )?(?<!\w)`?{re.escape(tool)}`?(?!\w)(?: tool\b)?", "a tool", when) if tool else when


def is_live(item: Item) -> bool:
    """Whether an item is a lesson that may be shown."""
    return item.value.get("status") in LIVE and isinstance(item.value.get("text"), str)


def has_same_tool(new: Lesson, value: Mapping[str, Any]) -> bool:
    """Whether a record and a lesson have the same tool, or none, and the same name, or none."""
    trigger = value.get("trigger")
    tool = trigger.get("tool") if isinstance(trigger, dict) else None
    return bool(tool_of(new) == tool) and value.get("name") == new.name


def _update(old: Lesson, new: Lesson, now: datetime, approved: bool) -> dict[str, Any]:
    """The fields that the old lesson takes from the new one. A text that a person approved stays."""
    update: dict[str, Any] = {} if approved else _better_words(old, new)
    if old.trigger and old.trigger.tool and old.trigger.tool != tool_of(new):
        # Learned with another tool too, it is not bound to the first.
        update["trigger"] = old.trigger.model_copy(update={"tool": None})
        if not approved and (when := of_any_tool(old.when, old.trigger.tool)) != old.when:
            update["when"] = when
    if old.topic and new.topic and old.topic != new.topic:
        update["topic"] = None  # what two topics taught holds for all of them
    if old.expires_at is not None and old.expires_at <= now:
        update["expires_at"] = new.expires_at
    return update


def _better_words(old: Lesson, new: Lesson) -> dict[str, Any]:
    """The wording that says more, and the texts that the old lesson lacks."""
    update: dict[str, Any] = {}
    if fold(old.text) != fold(new.text) and _informs(new.text) > _informs(old.text):
        update["text"] = new.text
    for name in TEXTS:
        ours, theirs = getattr(old, name), getattr(new, name)
        if isinstance(ours, list):
            update |= {name: united} if (united := list(dict.fromkeys([*ours, *theirs]))[:MOST]) != ours else {}
        elif theirs and not ours:
            update[name] = theirs
    return update


def _informs(text: str) -> tuple[int, int]:
    """The number of different content words in a wording. Of equal wordings, the shorter is better."""
    return len(set(tokens(text))), -len(text)


def _new_failures(new: Lesson, value: dict[str, Any]) -> list[str]:
    """The failure that the new lesson is bound to, if the record does not have it and has room for it."""
    bound, known = failure_of(new), fingerprints(value)
    return [bound] if bound and bound not in known and len(known) <= MOST else []


# ---------------------------------------------------------------- adding


def _new_record(shelf: Shelf, new: Lesson, doubt: str) -> tuple[Read, list[Op]]:
    """A new lesson as it will be read, and the writes that keep it."""
    at = new.created_at or shelf.clock()
    action: ChangeAction = "quarantined" if doubt else "added"
    change = Change("", new.id, action, at, "writer", doubt, None, run_of(new))
    # Its sources are kept with the evidence alone: two writers of one lesson must not overwrite each other's.
    bare = record(new.model_copy(update={"sources": []}))
    key, value = change_record(Evidence(), change, bare)
    about = shelf.evidence_of(new.id)
    sources = source_records(new, at)
    evidence = Evidence(tuple(source for _, source in sources), changes=(replace(change, id=value["id"]),))
    ops: list[Op] = [put(shelf.lessons, new.id, bare, FIELDS), put(shelf.evidence, new.id, whole_record(evidence))]
    ops.append(PutOp(shelf.forgotten, new.id, None))
    ops += [put(about, *row) for row in ((key, value), *sources)]
    item = Item(namespace=shelf.lessons, key=new.id, value=bare, created_at=at, updated_at=at)
    return Read(item, new, evidence), ops


def _consequences(shelf: Shelf, found: Read, items: Mapping[str, Item], against: list[str]) -> Plan[list[Op]]:
    """The writes that follow from a new lesson: they go into its own batch, so that a crash leaves all or nothing."""
    new, ops = found.lesson, list[Op]()
    if concerned := [key for key in (*new.supersedes, *against) if key in items]:
        known = yield from read_some(shelf, concerned)
        for key in dict.fromkeys(key for key in new.supersedes if key in known):
            why = f"{new.id} takes its place"
            ops += moving(shelf, known[key], "superseded", "superseded", by="writer", why=why, run=run_of(new))
        others = [known[key] for key in against if key in known and key not in new.supersedes]
        ops += _opposition(shelf, found, others)
    live = sum(is_live(item) for key, item in items.items() if key not in new.supersedes)
    if live >= shelf.policy.max_kept:
        ops += yield from _evictions(shelf, found, run_of(new))
    return ops


def _opposition(shelf: Shelf, new: Read, others: Iterable[Read]) -> list[Op]:
    """The writes that record, on both sides, that two lessons advise the opposite."""
    ops: list[Op] = []
    for other in others:
        for found, against in ((new, other), (other, new)):
            why = f"{against.lesson.id} advises the opposite"
            if why not in {change.why for change in found.evidence.changes}:
                ops += moving(shelf, found, None, "opposed", by="writer", why=why, run=run_of(new.lesson))
    return ops


def _reconciled(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[Written]:
    """Take into account what other writers added in the meantime.

    Where one says the same, the elder stays with the evidence of both; of two under one name the later stays.
    """
    others = {key: item for key, item in items.items() if key != new.id}
    twin, against = relatives(shelf, new, others)
    rivals = [item.key for item in _same_name(new, others.values())] if new.name else []
    near = [*rivals, *([twin.key] if twin is not None else [])]
    known = yield from settled(shelf, dict.fromkeys([new.id, *near, *against]))
    ours = known.get(new.id)
    if ours is None:
        return Written("added", new)
    if (written := _added(ours)).reason:
        return written
    yield from write(shelf, _opposition(shelf, ours, [known[key] for key in against if key in known]))
    if twin is not None and twin.key in known and known[twin.key].lesson.name == new.name:
        stays, goes = sorted((ours, known[twin.key]), key=lambda found: _age(shelf, found))
        united = yield from merge(shelf, stays.item, goes.lesson, None)
        yield from _supersede(shelf, goes, f"{stays.lesson.id} says the same")
        both = yield from read_some(shelf, [stays.lesson.id, goes.lesson.id])
        left, gone = both.get(stays.lesson.id), both.get(goes.lesson.id)
        if gone is None or (left is not None and left.lesson.status != "superseded"):
            return Written("merged", united.lesson if united is not None else stays.lesson)
        # Another writer has replaced the one that stays in the meantime: what takes its place gains the evidence.
        why = f"{stays.lesson.id} was replaced"
        yield from write(shelf, moving(shelf, gone, "candidate", "restored", by="writer", why=why))
        if goes is ours:
            return (yield from _reconciled(shelf, new, (yield from stocked(shelf))))
    by_age = sorted([ours, *(known[key] for key in rivals if key in known)], key=lambda found: _age(shelf, found))
    for goes in by_age[:-1]:
        yield from _supersede(shelf, goes, f"{by_age[-1].lesson.id} takes its place")
    if sum(map(is_live, items.values())) > shelf.policy.max_kept:
        ours = (yield from read_some(shelf, [new.id])).get(new.id, ours)
        now = yield from write(shelf, (yield from _evictions(shelf, ours, run_of(new))))
        ours = now.get(new.id, ours)
    return _added(ours)


def _added(found: Read) -> Written:
    """A new lesson; the reason says if it had to make room at once."""
    move = found.evidence.last_status_change
    made_room = move is not None and move.by == "policy"
    return Written("added", found.lesson, f"it is retired at once: {move.why}" if move and made_room else "")


def _supersede(shelf: Shelf, goes: Read, why: str) -> Plan[None]:
    if goes.lesson.status in LIVE:
        yield from write(shelf, moving(shelf, goes, "superseded", "superseded", by="writer", why=why))


def _age(shelf: Shelf, found: Read) -> tuple[datetime, str]:
    return found.lesson.created_at or shelf.clock(), found.lesson.id


def _restored_by_name(shelf: Shelf, twin: Item, new: Lesson) -> Plan[bool]:
    """Restore a named entry's former value, instead of the one that replaced it."""
    if not new.name or twin.value.get("status") != "superseded" or twin.value.get("name") != new.name:
        return False
    run = run_of(new)
    former = (yield from read_some(shelf, [twin.key])).get(twin.key)
    if former is None:
        return False
    ops = moving(shelf, former, "candidate", "restored", by="writer", why="it holds again", run=run)
    yield from write(shelf, [*ops, *(yield from replaced_by(shelf, former.lesson, run))])
    return True


def _evictions(shelf: Shelf, new: Read, run: str | None) -> Plan[list[Op]]:
    """The writes that retire the least useful lessons above the cap, the new one among them, but no approved one."""
    items = yield from stocked(shelf)
    others = {new.lesson.id, *new.lesson.supersedes}
    known = yield from read_listed(shelf, (item for key, item in items.items() if is_live(item) and key not in others))
    live = [found for found in (*known, new) if found.lesson.status in LIVE]
    free = sorted((other for other in live if not other.evidence.approved), key=lambda other: _usefulness(shelf, other))
    cap = shelf.policy.max_kept
    ops: list[Op] = []
    for other in free[: max(len(live) - cap, 0)]:
        ops += moving(shelf, other, "retired", "retired", by="policy", why=f"{cap} lessons are kept", run=run)
    return ops


def _usefulness(shelf: Shelf, found: Read) -> tuple[bool, float, float, str]:
    """The order in which lessons go: expired ones first, then the least useful, then those long unused."""
    _, lesson, evidence = found
    now = shelf.clock()
    used = lesson.last_used_at or lesson.created_at or now
    return lesson.expires_at is None or lesson.expires_at > now, worth(lesson, evidence), used.timestamp(), lesson.id
