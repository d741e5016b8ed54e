"""Rebuilding: what is kept of lessons is derived again, and mended where it is not the same.

A change holds the lesson's own record as it left it, an episode what came of a run: words, status and counts follow
from these, and so does the floor's record of each topic's latest runs. What was forgotten, and what was taken back of a
run, stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from langgraph.store.base import Item, PutOp

from langgraph_reflexion.memory.access import GIVE_WAY, SPELL, Plan, every, put
from langgraph_reflexion.memory.changes import as_recorded, settled, unless_embedding_fails
from langgraph_reflexion.memory.life.crediting import company, following, tried
from langgraph_reflexion.memory.recall.floor import LABEL, place_in, place_of, placed
from langgraph_reflexion.memory.recall.worth import result_of
from langgraph_reflexion.memory.records import FIELDS, Evidence, folded, lesson_in, run_key, run_record
from langgraph_reflexion.memory.shelf import Shelf, by_lesson, episode_in, evidence_items
from langgraph_reflexion.memory.values import Repair
from langgraph_reflexion.schemas import Episode, Lesson


class Mended(NamedTuple):
    """A repair, and the write that does it."""

    repair: Repair
    op: PutOp


class Kept(NamedTuple):
    """What is kept beside the lessons' own records: what was appended about each, and the runs."""

    about: dict[str, Evidence]
    items: dict[str, list[Item]]
    """The same as it lies in the store, with what was taken back."""
    episodes: dict[str, Episode]


def rebuild(shelf: Shelf, dry_run: bool) -> Plan[list[Repair]]:
    """What was mended, or under `dry_run` would be; nothing where nothing was lost."""
    items = {item.key: item for item in (yield from every(shelf.lessons))}
    kept = yield from _read(shelf)
    rows = [row for id in kept.about if (row := _row(shelf, id, kept, items.get(id))) is not None]
    values: dict[str, dict[str, Any]] = {key: item.value for key, item in items.items()}
    values |= {row.op.key: dict(row.op.value or {}) for row in rows}
    lessons = {id: known for id, value in values.items() if (known := _lesson(shelf, id, value, kept)) is not None}
    runs: list[Mended] = []
    for i, episode in enumerate(kept.episodes.values(), 1):
        runs += _of_a_run(shelf, episode, lessons, kept)
        if i % SPELL == 0:
            yield GIVE_WAY
    runs += [*_surplus(kept), *_of_the_floor(shelf, lessons, kept)]
    if not dry_run and (rows or runs):
        yield from unless_embedding_fails([mended.op for mended in (*rows, *runs)])
        counted = dict.fromkeys(mended.repair.lesson for mended in runs)
        for found in (yield from settled(shelf, counted)).values():
            yield from unless_embedding_fails(following(shelf, found, None))
    return [mended.repair for mended in (*rows, *runs)]


def _read(shelf: Shelf) -> Plan[Kept]:
    items, about = yield from by_lesson((yield from evidence_items(shelf)))
    told = yield from every(shelf.episodes)
    episodes = [one for item in told if (one := episode_in(item)) is not None]
    return Kept(about, items, {one.id: one for one in sorted(episodes, key=lambda one: one.id)})


def _row(shelf: Shelf, id: str, kept: Kept, item: Item | None) -> Mended | None:
    """The lesson's own record, where it is not what its changes make of the first one."""
    firsts = [one.value["row"] for one in kept.items[id] if isinstance(one.value.get("row"), dict)]
    whole = item is not None and lesson_in(item) is not None
    now = item.value if item is not None and whole else {}
    made = [_derived(first, kept.about[id], now) for first in firsts]  # two, where two writers wrote it at once
    if not made or now in made:
        return None
    value = made[-1]
    why = "its own record was lost" if item is None else "its own record was damaged"
    if whole:
        names = [name for name in {**value, **now} if value.get(name) != now.get(name)]
        why = f"its {', '.join(names)} differed from what its changes made of it"
    return Mended(Repair(id, why), put(shelf.lessons, id, value, FIELDS))


def _derived(first: dict[str, Any], about: Evidence, now: dict[str, Any]) -> dict[str, Any]:
    """The record that its changes make of the first one; how often it was reworded is counted, not recorded."""
    merged = sum(one.action == "merged" and bool(one.after) for one in about.changes)
    version = {"updated_at": first.get("updated_at"), "version": int(first.get("version", 1)) + merged}
    return as_recorded({**first, **version, **{name: now[name] for name in version if name in now}}, about)


def _lesson(shelf: Shelf, id: str, value: dict[str, Any], kept: Kept) -> Lesson | None:
    now = shelf.clock()
    lesson = lesson_in(Item(value=value, key=id, namespace=shelf.lessons, created_at=now, updated_at=now))
    return lesson and folded(lesson, kept.about.get(id, Evidence()))


def _of_a_run(shelf: Shelf, episode: Episode, lessons: Mapping[str, Lesson], kept: Kept) -> Iterable[Mended]:
    """The records of a run that are not what its episode makes of them."""
    concerned = [one for id in dict.fromkeys([*episode.shown, *episode.withheld]) if (one := lessons.get(id))]
    wrote = [one for id in episode.written if (one := lessons.get(id)) and one not in concerned]
    for lesson in (*concerned, *wrote):
        about = kept.about.get(lesson.id, Evidence())
        item = next((one for one in kept.items.get(lesson.id, []) if one.key == run_key(episode.id)), None)
        # One that was forgotten, and learned again since, begins anew. What is remembered under a name is not counted.
        ended = episode.created_at if episode.created_at is not None and episode.created_at.tzinfo is not None else None
        later = bool(about.changes) and (ended is None or ended < about.changes[0].at)
        if lesson.name or (item is None and later) or (item is not None and item.value.get("undone")):
            continue
        known = next((one for one in about.runs if one.get("run") == episode.id), None)
        went_without = lesson.id in episode.withheld and lesson.id not in episode.shown
        result = tried(episode, lesson) if lesson in wrote else result_of(episode, lesson)
        as_it_was = {"withheld": went_without, "result": result, "tried": lesson in wrote}
        if known is not None and all(known.get(name, False) == value for name, value in as_it_was.items()):
            continue
        at = datetime.fromisoformat(known["at"]) if known is not None else ended or shelf.clock()
        beside = known.get("beside", 0) if known is not None else company(lesson, concerned, episode)
        alone = went_without or lesson in wrote
        key, value = run_record(
            episode.id,
            withheld=went_without,
            result=result,
            at=at,
            beside=0 if alone else beside,
            tried=lesson in wrote,
        )
        why = "it was lost what came of a run" if item is None else "a run was counted otherwise than it ended"
        yield Mended(Repair(lesson.id, why, episode.id), put(shelf.evidence_of(lesson.id), key, value))


def _surplus(kept: Kept) -> Iterable[Mended]:
    """Records of runs whose episodes do not know the lesson."""
    for id, about in kept.about.items():
        for run in about.runs:
            episode = kept.episodes.get(str(run.get("run")))
            if episode is None or id in (*episode.shown, *episode.withheld, *episode.written) or id.startswith(LABEL):
                continue
            item = next(one for one in kept.items[id] if one.key == run_key(episode.id))
            why = "a run was counted that had nothing to do with it"
            yield Mended(Repair(id, why, episode.id), PutOp(item.namespace, item.key, None))


def _of_the_floor(shelf: Shelf, lessons: Mapping[str, Lesson], kept: Kept) -> Iterable[Mended]:
    """The latest runs of each topic, where there is nothing in the place that a run has by its id."""
    taken = {(item.namespace, place_in(item.key)) for items in kept.items.values() for item in items if _in_row(item)}
    exempt = [id for id, one in lessons.items() if one.name or (id in kept.about and kept.about[id].vouched)]
    found: dict[tuple[Any, str], Mended] = {}
    for episode in sorted(kept.episodes.values(), key=lambda one: (str(one.created_at), one.id)):
        at = episode.created_at or shelf.clock()
        for op in placed(shelf, episode, exempt, at):
            if isinstance(op, PutOp) and (op.namespace, place_in(op.key)) not in taken:
                repair = Repair(place_of(shelf, episode)[-1], "it was lost how a run of this topic ended", episode.id)
                found[op.namespace, op.key] = Mended(repair, op)
    return found.values()


def _in_row(item: Item) -> bool:
    return item.namespace[-1].startswith(LABEL) and item.value.get("row") is not None
