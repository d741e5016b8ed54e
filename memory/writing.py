"""Write a lesson: refuse it, quarantine it, add it, or merge it with a lesson that says the same."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.driver import in_thread
from langgraph_reflexion.memory.access import Plan, put, storable
from langgraph_reflexion.memory.estimate import worth
from langgraph_reflexion.memory.evidence import LIVE, Change, ChangeAction, Evidence, source_records
from langgraph_reflexion.memory.gate import (
    MAX_LENGTH,
    MAX_READ,
    MAX_VALUES,
    is_about_one_thing,
    malformed,
    one_line,
    refusal,
    tidy,
)
from langgraph_reflexion.memory.index import task_words, tasks_of
from langgraph_reflexion.memory.items import (
    FIELDS,
    MORE_FAILURES,
    TASKS,
    StoredLesson,
    failure_of,
    fingerprints,
    is_live,
    item_value,
    lesson_id,
    tool_of,
    trigger_in,
)
from langgraph_reflexion.memory.models import guard_objection
from langgraph_reflexion.memory.screening import COPIED, Foreign, screen, suspicion_of
from langgraph_reflexion.memory.shelf import Shelf, same_name
from langgraph_reflexion.memory.upkeep import drop_old_notes, is_due, sum_up_runs
from langgraph_reflexion.schemas import SHOWN, TEXTS, Lesson, LessonStatus
from langgraph_reflexion.text.likeness import opposed, same, same_in_other_words
from langgraph_reflexion.text.tokens import fold, tokens

logger = logging.getLogger(__name__)

WriteAction = Literal["added", "merged", "unchanged", "refused", "quarantined"]

MAX_COMPARED = 12
"""A new lesson is compared with this many others, those that share the most words. This bounds the time of a write."""

SAME_VECTORS = 0.95
"""Similarity of vectors from which two lessons in other words may say the same. Embedding models give hardly more to a
paraphrase, so a model that finds all texts similar merges nothing."""

MANY = 3
"""If more lessons than this are that similar, the model cannot tell lessons apart, and its vectors are not used."""

NOTES_EACH = 6
"""One in this many new lessons removes old change notes: a tenth of the notes that a namespace keeps."""

SPARE = 100
"""If there are more than `max_kept` lessons, one in this many is retired at once, because finding the least useful one
reads the evidence of all. If each new lesson beyond 1,000 retired one, an `add` would take some 100 ms of processor
time, and not 20."""


HEADING = 4
"""Most content words of a `when` that may be a heading or an item of a menu. A longer one is a sentence."""


@dataclass(frozen=True)
class Written:
    """The result of `add`, with the reason. If the lesson was refused, `lesson` is None."""

    action: WriteAction
    lesson: Lesson | None
    reason: str = ""

    @property
    def kept(self) -> Lesson | None:
        """The lesson, if the book keeps it and it can be shown."""
        return self.lesson if self.action in ("added", "merged", "unchanged") else None


def add(
    shelf: Shelf, lesson: Lesson, task: str | None, answer: str | None, foreign: Foreign, doubt: str | None
) -> Plan[Written]:
    """Refuse a lesson that is not worth keeping, quarantine one that cannot be trusted, and keep any other.

    `foreign` holds what tools, files, pages and errors said in the run. A `doubt` is the caller's own reason not to
    trust the lesson.
    """
    if not isinstance(lesson, Lesson):
        raise ValueError(f"`add` takes a Lesson, got {lesson!r}")
    tidied = tidy(lesson)
    if reason := malformed(tidied):
        return Written("refused", None, reason)
    # Comparing it with all that tools said, or with a long task, may take a while, so the event loop does not do it.
    distrust, kept = yield in_thread(lambda: _screened(lesson, tidied, foreign), own=True)
    dropped = f"without its `when`: {COPIED}" if kept != tidied else ""
    tidied = kept.model_copy(update={"origin": "observed"}) if distrust == COPIED else kept
    doubt = distrust or doubt
    if not doubt and lesson.status == "quarantined":
        doubt = "it was quarantined before it was added"
    if not doubt and (reason := (yield in_thread(lambda: refusal(tidied, task, answer), own=True))):
        advice = tidied.model_copy(update={"when": ""})  # it may be general although its `when` repeats the task
        if advice == tidied or (yield in_thread(lambda: refusal(advice, task, answer), own=True)):
            return Written("refused", None, reason)
        tidied, dropped = advice, f"without its `when`: {reason}"
    now, policy = shelf.clock(), shelf.policy
    made = {
        "id": lesson_id(shelf.namespace, tidied),
        "sources": [*dict.fromkeys(filter(None, map(storable, lesson.sources)))],
        "created_at": now,
        "updated_at": now,
        "expires_at": tidied.expires_at or (now + policy.expires_after if policy.expires_after else None),
        "version": 1,
    }
    new = tidied.model_copy(update=made)
    if not doubt and policy.guard is not None:
        known = (yield from shelf.current_items()).get(new.id)
        if known is None or any(getattr(new, name) and not known.value.get(name) for name in SHOWN):
            doubt = yield from guard_objection(policy.guard, new, shelf.prompts)
    doubt = one_line(doubt or "", MAX_LENGTH)  # a guard may say anything
    status: LessonStatus = "quarantined" if doubt else "candidate"
    taught_by = ""
    if task:
        earlier = yield from shelf.earlier_tasks(task)
        taught_by = yield in_thread(lambda: task_words(task, earlier), own=True)
    written = yield from _merge_or_add(shelf, new.model_copy(update={"status": status}), doubt, taught_by)
    return replace(written, reason=written.reason or dropped)


def _merge_or_add(shelf: Shelf, new: Lesson, doubt: str, taught_by: str) -> Plan[Written]:
    """Merge a new lesson into one that says the same, or add it. `taught_by` holds the words of its task."""
    items = yield from shelf.current_items()
    duplicate, opposites = duplicate_and_opposites(shelf, new, items)
    if duplicate is None and shelf.has_vectors:
        duplicate = yield from _duplicate_by_vectors(shelf, new, items)
    if duplicate is not None and (written := (yield from merge(shelf, duplicate, new, doubt, taught_by))) is not None:
        was_live, status = is_live(duplicate), written.lesson and written.lesson.status
        if was_live and status == "superseded":
            # Another writer has superseded it in the meantime. Its successor gets the evidence, too.
            return (yield from _merge_or_add(shelf, new, doubt, taught_by))
        if not was_live and status in LIVE:
            found = yield from shelf.read_one(duplicate.key)
            yield from shelf.write((yield from _evictions(shelf, found, run_of(new))))
        return written
    if not doubt and (former := same_name(new, items)):
        new = new.model_copy(update={"supersedes": [*new.supersedes, *former]})
    found, ops = new_record(shelf, new, doubt, run_of(new), taught_by)
    if not doubt:
        ops += yield from _consequences(shelf, found, items, opposites)
    yield from shelf.write(ops, [found])
    if doubt:
        return Written("quarantined", new, doubt)
    if int(new.id, 16) % NOTES_EACH == 0:
        yield from drop_old_notes(shelf)
    there = yield from shelf.current_items()
    if there.keys() - items.keys() == {new.id} and there[new.id].value == found.item.value:
        return Written("added", new)  # nobody else has added a lesson in the meantime
    return (yield from _reconcile(shelf, new, there))


def _screened(lesson: Lesson, tidied: Lesson, foreign: Foreign) -> tuple[str | None, Lesson]:
    """Why a lesson cannot be trusted, and the lesson.

    If only its short `when` is a copy, that is dropped: headings and menus of pages name kinds of tasks, too. It is not
    dropped if its text completes it to a sentence that a tool said.
    """
    distrust = _reason_to_distrust(lesson, tidied, foreign)
    is_heading = len(tokens(tidied.when)) <= HEADING and not is_about_one_thing(lesson)
    if distrust == COPIED and is_heading and foreign.copied(tidied.when):
        given, kept = (form.model_copy(update={"when": ""}) for form in (lesson, tidied))
        whole = foreign.copied(_joined(lesson), besides=tidied.when)
        if whole is None and _reason_to_distrust(given, kept, foreign) is None:
            return None, kept
    return distrust, tidied


def _reason_to_distrust(lesson: Lesson, tidied: Lesson, foreign: Foreign) -> str | None:
    """Why a lesson cannot be trusted. Its texts are also read as they were given, because tidying joins their lines."""
    given = dict.fromkeys((*(getattr(lesson, name)[:MAX_READ] for name in SHOWN), _joined(lesson)))
    return suspicion_of(tidied) or next((reason for words in given if (reason := screen(words, foreign))), None)


def _joined(lesson: Lesson) -> str:
    """What a prompt shows of a lesson, as one text that begins with its `when`."""
    return " ".join(getattr(lesson, name)[:MAX_READ] for name in sorted(SHOWN, key=lambda name: name != "when")).strip()


# ---------------------------------------------------------------- the lessons it is compared with


def duplicate_and_opposites(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> tuple[Item | None, list[str]]:
    """The item that a new lesson duplicates, or `None`, and the ids of lessons that advise the opposite.

    A duplicate has the same id, the same text in another spelling or, if it is live, nearly the same words. One that is
    superseded counts only by its id, and only if there is no live duplicate.
    """
    words = set(tokens(new.text))
    shared = shelf.index.sharing(words)
    known = [(n, items[item.key]) for n, item in shared if item.key in items]
    near = sorted((pair for pair in known if is_live(pair[1])), key=lambda pair: (-pair[0], pair[1].key))
    opposites = [item.key for _, item in near[:MAX_COMPARED] if opposed(item.value["text"], new.text)]
    same_id = items.get(new.id)
    if same_id is not None and (new.name or same_id.value.get("status") != "superseded"):
        return same_id, opposites
    of_kind = [item for n, item in near if 2 * n >= len(words) and item.value.get("kind") == new.kind]
    of_kind = [item for item in of_kind if item.key not in new.supersedes]
    set_aside = (
        item for n, item in known if n == len(words) and item.value.get("status") in ("retired", "quarantined")
    )
    for item in (*of_kind, *(item for item in set_aside if item.value.get("kind") == new.kind)):
        if fold(str(item.value.get("text"))) == fold(new.text):
            return item, opposites
    if new.status != "candidate" or new.name is not None:  # under a name, other words are a correction
        return same_id, opposites
    bound = [item for item in of_kind if has_same_tool(new, item.value)]
    return next((item for item in bound[:MAX_COMPARED] if same(item.value["text"], new.text)), same_id), opposites


def _duplicate_by_vectors(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[Item | None]:
    """The item that says the same in other words, according to the store's embedding model and to their words."""
    if new.name is not None or new.status != "candidate":
        return None
    [near] = yield from shelf.nearest(new.text)
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


# ---------------------------------------------------------------- merging


def merge(shelf: Shelf, item: Item, new: Lesson, doubt: str, taught_by: str) -> Plan[Written | None]:
    """Add the evidence of a new lesson to the known one that it duplicates, and keep the better wording.

    A new lesson with a `doubt` adds no evidence to a live lesson, and restores none. `None` if the known item is
    damaged, or was forgotten in the meantime. Then the new lesson may take its place.
    """
    run = run_of(new)
    found = (yield from shelf.read_snapshots([item])).get(item.key)
    if found is None:
        return None
    now = shelf.clock()
    _, old, evidence = found
    known = {(str(source["source"]), source.get("origin")) for source in evidence.sources}
    ops: list[Op] = [
        put(shelf.evidence_of(old.id), key, value)
        for key, value in source_records(new, now)
        if (value["source"], value["origin"]) not in known and not (doubt and old.status in LIVE)
    ]
    status, why = (None, "") if doubt else _restored_as(found, new, is_new=bool(ops) or not new.sources)
    if not doubt and (status or old.status in LIVE):
        update = _update(old, new, now, evidence.approved)
        better = item_value(old.model_copy(update={**update, "updated_at": now, "version": old.version + 1}))
        after = {name: better[name] for name in update} | _new_trigger_and_task(new, item.value, taught_by)
        action: ChangeAction = "restored" if status else "merged"
        if ops or after or status:
            unrecorded = {name: better[name] for name in ("updated_at", "version")} if after else {}
            ops += shelf.change_ops(
                found, status, action, by="writer", why=why, run=run, after=after, unrecorded=unrecorded
            )
        if status or "name" in update:
            ops += yield from shelf.replaced_by(old.model_copy(update=update), run)
    reading = shelf.write(ops, [found]) if ops else shelf.read_and_correct([old.id])
    if (present := (yield from reading).get(old.id)) is None:
        return None
    merged = present.lesson
    if is_due(present.evidence, now):
        yield from sum_up_runs(shelf, old.id)
    if old.status == "quarantined":
        return Written("quarantined", merged, doubt or "it was quarantined before")
    reason = ("" if ops else "it is known") if merged.status in LIVE else f"it is known and {merged.status}"
    is_former_value = status is not None and old.status == "superseded"
    return Written("added" if is_former_value else "merged" if ops else "unchanged", merged, reason)


def _restored_as(found: StoredLesson, new: Lesson, *, is_new: bool) -> tuple[LessonStatus | None, str]:
    """The status in which a lesson is restored because it was learned again, and why. `None` if it is not restored.

    A superseded value of a name is restored whenever it is written again. A retired lesson is restored only if a run
    that `is_new` learned it: as a candidate if it was retired to make room, on probation if it lost too often.
    """
    old, last = found.lesson, found.evidence.last_status_change
    if old.status == "superseded" and new.name and old.name == new.name:
        return "candidate", "its value holds again"
    if old.status == "retired" and is_new and last is not None and last.by in ("policy", "evidence"):
        return "candidate" if last.by == "policy" else "probation", "it was learned again"
    return None, ""


def run_of(new: Lesson) -> str | None:
    """The run that wrote a new lesson."""
    return next(iter(new.sources), None)


def has_same_tool(new: Lesson, value: Mapping[str, Any]) -> bool:
    """Whether a lesson and an item have the same tool and the same name, each of which may be none."""
    return (tool_of(new), new.name) == (trigger_in(value).get("tool"), value.get("name"))


def _update(old: Lesson, new: Lesson, now: datetime, approved: bool) -> dict[str, Any]:
    """The fields that a known lesson takes from a new one. A text that a person approved stays."""
    update: dict[str, Any] = {}
    if not approved:
        if fold(old.text) != fold(new.text) and _informativeness(new.text) > _informativeness(old.text):
            update["text"] = new.text
        for name in TEXTS:
            ours, theirs = getattr(old, name), getattr(new, name)
            if isinstance(ours, list):
                both = list(dict.fromkeys([*ours, *theirs]))[:MAX_VALUES]
                update |= {name: both} if both != ours else {}
            elif theirs and not ours:
                update[name] = theirs
    if old.trigger and old.trigger.tool and old.trigger.tool != tool_of(new):
        # It was learned with another tool, too, so it is not bound to the first.
        update["trigger"] = old.trigger.model_copy(update={"tool": None})
    if old.topic and new.topic and old.topic != new.topic:
        update["topic"] = None  # it was learned from tasks of two topics, so it holds for any
    if old.expires_at is not None and old.expires_at <= now and new.expires_at != old.expires_at:
        update["expires_at"] = new.expires_at
    return update


def _informativeness(text: str) -> tuple[int, int]:
    """How informative a wording is: by its different content words. Of equal ones, the shorter wins."""
    return len(set(tokens(text))), -len(text)


def _new_trigger_and_task(new: Lesson, value: dict[str, Any], taught_by: str) -> dict[str, list[str]]:
    """The failure that the new lesson is bound to, and its task, if the known item lacks them and has room for them."""
    bound, known, tasks = failure_of(new), fingerprints(value), tasks_of(value)
    more = {
        MORE_FAILURES: [bound] if bound and bound not in known and len(known) <= MAX_VALUES else [],
        TASKS: [taught_by] if taught_by and taught_by not in tasks and len(tasks) < MAX_VALUES else [],
    }
    return {name: values for name, values in more.items() if values}


# ---------------------------------------------------------------- adding


def new_record(
    shelf: Shelf, new: Lesson, why: str, run: str | None, taught_by: str = ""
) -> tuple[StoredLesson, list[Op]]:
    """A new lesson as it will be read from the store, and the writes that save it."""
    at = new.created_at or shelf.clock()
    action: ChangeAction = "quarantined" if new.status == "quarantined" else "added"
    _, record = Evidence().with_change(Change("", new.id, action, at, "writer", why, None, run))
    # The sources are kept only in the evidence, where two writers of one lesson do not overwrite each other's.
    bare = item_value(new.model_copy(update={"sources": []})) | ({TASKS: [taught_by]} if taught_by else {})
    about = [put(shelf.evidence_of(new.id), *row) for row in (record, *source_records(new, at))]
    item = Item(namespace=shelf.lessons, key=new.id, value=bare, created_at=at, updated_at=at)
    ops: list[Op] = [put(shelf.lessons, new.id, bare, FIELDS), PutOp(shelf.forgotten, new.id, None), *about]
    return StoredLesson(item, new, Evidence().with_records(about)), ops


def _consequences(shelf: Shelf, found: StoredLesson, items: Mapping[str, Item], opposites: list[str]) -> Plan[list[Op]]:
    """The writes to other lessons that follow from a new one. They go into its batch, so a crash leaves all or none."""
    new, ops = found.lesson, list[Op]()
    for key, old in (yield from shelf.read_some([*new.supersedes, *opposites])).items():
        if key not in new.supersedes:
            ops += _opposition(shelf, found, [old])
        elif old.lesson.status in LIVE:  # one that was set aside stays so
            why = f"{new.id} takes its place"
            ops += shelf.change_ops(old, "superseded", "superseded", by="writer", why=why, run=run_of(new))
    live = sum(is_live(item) for key, item in items.items() if key not in new.supersedes)
    if live >= shelf.policy.max_kept:
        ops += yield from _evictions(shelf, found, run_of(new))
    return ops


def _opposition(shelf: Shelf, new: StoredLesson, others: Iterable[StoredLesson]) -> list[Op]:
    """The writes that record, on both sides, that two lessons advise the opposite."""
    ops: list[Op] = []
    for other in others:
        for found, opposite in ((new, other), (other, new)):
            why = f"{opposite.lesson.id} advises the opposite"
            if why not in {change.why for change in found.evidence.changes}:
                ops += shelf.change_ops(found, None, "opposed", by="writer", why=why, run=run_of(new.lesson))
    return ops


def _reconcile(shelf: Shelf, new: Lesson, items: Mapping[str, Item]) -> Plan[Written]:
    """Compare a new lesson with what other writers added in the meantime.

    Of two duplicates, the older one is kept and gets the evidence of both. Of two with one name, the newer is kept.
    """
    others = {key: item for key, item in items.items() if key != new.id}
    duplicate, opposites = duplicate_and_opposites(shelf, new, others)
    rivals = same_name(new, others)  # at most one, unless several write at once
    near = [*rivals, *([duplicate.key] if duplicate is not None else [])]
    known = yield from shelf.read_and_correct(dict.fromkeys([new.id, *near, *opposites]))
    ours = known.get(new.id)
    if ours is None:
        return Written("added", new)
    if (written := _added_or_evicted(ours)).reason:
        return written
    yield from shelf.write(_opposition(shelf, ours, [known[key] for key in opposites if key in known]))
    if duplicate is not None and duplicate.key in known and known[duplicate.key].lesson.name == new.name:
        kept, dropped = sorted((ours, known[duplicate.key]), key=lambda found: _age(shelf, found))
        merged = yield from merge(shelf, kept.item, dropped.lesson, "", "".join(tasks_of(dropped.item.value)[:1]))
        yield from _supersede(shelf, dropped, f"{kept.lesson.id} says the same")
        now = yield from shelf.read_some([kept.lesson.id, dropped.lesson.id])
        kept_now, dropped_now = now.get(kept.lesson.id), now.get(dropped.lesson.id)
        if dropped_now is None or (kept_now is not None and kept_now.lesson.status != "superseded"):
            return Written("merged", merged.lesson if merged is not None else kept.lesson)
        # Another writer has superseded the kept one in the meantime. Its successor gets the evidence.
        why = f"{kept.lesson.id} was replaced"
        yield from shelf.write(shelf.change_ops(dropped_now, "candidate", "restored", by="writer", why=why))
        if dropped is ours:
            return (yield from _reconcile(shelf, new, (yield from shelf.current_items())))
    by_age = sorted([ours, *(known[key] for key in rivals if key in known)], key=lambda found: _age(shelf, found))
    for dropped in by_age[:-1]:
        yield from _supersede(shelf, dropped, f"{by_age[-1].lesson.id} takes its place")
    if sum(map(is_live, items.values())) > shelf.policy.max_kept:
        ours = (yield from shelf.read_some([new.id])).get(new.id, ours)
        now = yield from shelf.write((yield from _evictions(shelf, ours, run_of(new))))
        ours = now.get(new.id, ours)
    return _added_or_evicted(ours)


def _added_or_evicted(found: StoredLesson) -> Written:
    """The result for a new lesson. The reason says if it was retired at once to make room."""
    move = found.evidence.last_status_change
    made_room = move is not None and move.by == "policy"
    return Written("added", found.lesson, f"it is retired at once: {move.why}" if move and made_room else "")


def _supersede(shelf: Shelf, found: StoredLesson, why: str) -> Plan[None]:
    if found.lesson.status in LIVE:
        yield from shelf.write(shelf.change_ops(found, "superseded", "superseded", by="writer", why=why))


def _age(shelf: Shelf, found: StoredLesson) -> tuple[datetime, str]:
    return found.lesson.created_at or shelf.clock(), found.lesson.id


def _evictions(shelf: Shelf, new: StoredLesson, run: str | None) -> Plan[list[Op]]:
    """The writes that retire the least useful lessons if there are more than the cap: perhaps the new one, but never an
    approved one."""
    items = yield from shelf.current_items()
    replaced = {new.lesson.id, *new.lesson.supersedes}
    known = yield from shelf.read_snapshots(
        item for key, item in items.items() if is_live(item) and key not in replaced
    )
    live = [found for found in (*known.values(), new) if found.lesson.status in LIVE]
    free = sorted((other for other in live if not other.evidence.approved), key=lambda other: _usefulness(shelf, other))
    cap = shelf.policy.max_kept
    too_many = len(live) - (cap - cap // SPARE) if len(live) > cap else 0
    if too_many > cap // SPARE + 1:
        logger.warning("Retired %d lessons at once, because the policy of this book keeps %d", too_many, cap)
    ops: list[Op] = []
    for other in free[:too_many]:
        ops += shelf.change_ops(other, "retired", "retired", by="policy", why=f"{cap} lessons are kept", run=run)
    return ops


def _usefulness(shelf: Shelf, found: StoredLesson) -> tuple[bool, float, float, str]:
    """The order in which lessons are retired: expired ones first, then the least useful, then those long unused."""
    lesson = found.lesson
    now = shelf.clock()
    used = lesson.last_used_at or lesson.created_at or now
    return lesson.expires_at is None or lesson.expires_at > now, worth(found), used.timestamp(), lesson.id
