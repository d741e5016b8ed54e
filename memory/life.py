"""The life of a lesson after it was written: credit from runs, and the decisions of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langgraph.store.base import Op, PutOp

from langgraph_reflexion.memory.changing import move, moved, unless_embedding_fails
from langgraph_reflexion.memory.doors import Plan, drop, every, put, read
from langgraph_reflexion.memory.floor import placed, topics
from langgraph_reflexion.memory.masking import without_secrets
from langgraph_reflexion.memory.records import (
    FIELDS,
    LIVE,
    Evidence,
    lesson_of_change,
    run_record,
)
from langgraph_reflexion.memory.shelf import (
    Read,
    Shelf,
    evidence_items,
    fit_for_a_label,
    read_all,
    read_episode,
    read_one,
    read_some,
)
from langgraph_reflexion.memory.values import Change, ChangeAction
from langgraph_reflexion.memory.worth import Uplift, next_status, result_of, uplift
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus, Reflection

SIDE: tuple[LessonStatus, ...] = ("retired", "superseded", "quarantined")


# ---------------------------------------------------------------- what runs say


def credit(shelf: Shelf, episode: Episode) -> Plan[None]:
    """Keep the episode, and what came of it for each lesson it was shown or went without.

    The last to finish under a run id stands: evidence that an earlier end of this run left is replaced.
    """
    before = yield from read_episode(shelf, episode.id)
    now = shelf.clock()
    concerned = dict.fromkeys([*episode.shown, *episode.withheld])
    known = yield from read_some(shelf, concerned)
    kept = _masked(episode).model_copy(update={"created_at": episode.created_at or now})
    ops: list[Op] = [put(shelf.episodes, episode.id, kept.model_dump(mode="json"))]
    if before is not None:
        for old in dict.fromkeys([*before.shown, *before.withheld]):
            if old not in concerned:
                ops.append(PutOp(shelf.evidence_of(old), f"run/{episode.id}", None))
    for one, (_, lesson, _) in known.items():
        if lesson.name:  # what is remembered of a user is shown in run after run, and proven by none
            continue
        result = result_of(episode, lesson)
        went_without = one not in episode.shown
        beside = 0 if went_without else _company(lesson, [other.lesson for other in known.values()], episode)
        about = run_record(episode.id, withheld=went_without, result=result, at=now, beside=beside)
        ops.append(put(shelf.evidence_of(one), *about))
    exempt = [one for one, (_, lesson, about) in known.items() if lesson.name or about.vouched]
    yield [*ops, *placed(shelf, episode, exempt, now)]
    # Read again after writing: of several writers at once, the last one to read sees what all have written.
    for found in (yield from read_some(shelf, known)).values():
        step = next_status(found.lesson, found.evidence)
        if step is not None:
            status, why = step
            rises = status == "active" or (found.lesson.status == "probation" and status == "candidate")
            action: ChangeAction = "promoted" if rises else "demoted"
            yield from moved(shelf, found, status, action, by="evidence", why=why, run=episode.id)


def _company(lesson: Lesson, known: Iterable[Lesson], episode: Episode) -> int:
    """How many other episodes' lessons the run was shown beside this one; those of one episode speak as one.

    What is remembered of a user, under a name, is no advice that could have been the reason.
    """
    if lesson.name:
        return 0
    others = [one for one in known if one.id in episode.shown and one.id != lesson.id and not one.name]
    apart = [one for one in others if not set(one.sources) & set(lesson.sources)]
    return len({tuple(one.sources[:1]) or one.id for one in apart})


def _masked(episode: Episode) -> Episode:
    """The episode with no secret in what was asked, what failed and what was made of it."""
    failures = [one.model_copy(update={"evidence": without_secrets(one.evidence)}) for one in episode.failures]
    reflections = [Reflection.model_validate(_without_secrets(one.model_dump())) for one in episode.reflections]
    task = without_secrets(episode.task)
    return episode.model_copy(update={"task": task, "failures": failures, "reflections": reflections})


def _without_secrets(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_secrets(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_secrets(value) for value in data]
    return without_secrets(data) if isinstance(data, str) else data


def feedback(shelf: Shelf, run_id: str) -> Plan[bool]:
    """The user says that run was wrong: whatever was counted for it is now a loss. `False` for an unknown run."""
    episode = yield from read_episode(shelf, run_id)
    if episode is None:
        return False
    wrong = {"success": False, "status": "failure", "stop_reason": "unchecked"}
    yield from credit(shelf, episode.model_copy(update=wrong))
    return True


# ---------------------------------------------------------------- what people say


def approve(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Active, whatever it was; from here on the evidence moves it no more."""
    return (yield from move(shelf, lesson, "active", "approved", by="person"))


def retire(shelf: Shelf, lesson: str, why: str) -> Plan[Lesson]:
    """Kept with the reason, and shown no more."""
    return (yield from move(shelf, lesson, "retired", "retired", by="person", why=why))


def restore(shelf: Shelf, lesson: str) -> Plan[Lesson]:
    """Back to where it stood before it was set aside; one that was never shown becomes a candidate."""
    found = yield from read_one(shelf, lesson)
    status_now = found.lesson.status
    if status_now not in SIDE:
        raise ValueError(f"`restore` is for retired, superseded and quarantined lessons, {lesson} is {status_now}")
    held = [change.before.get("status") for change in found.evidence.changes if change.status in SIDE]
    stood = next((one for one in reversed(held) if one not in SIDE), "candidate")  # it may be retired twice
    status: LessonStatus = "active" if stood == "active" else "candidate"
    return (yield from moved(shelf, found, status, "restored", by="person"))


def forget(shelf: Shelf, lesson: str) -> Plan[None]:
    """Remove a lesson, its evidence, its changes and its words in the episodes it came from; damaged ones too."""
    item = (yield from read(shelf.lessons, lesson)) if fit_for_a_label(lesson) else None
    if item is None:
        raise KeyError(lesson)
    about = yield from every(shelf.evidence_of(lesson))
    ops = drop([item, *about])
    for source in {str(one.value["source"]) for one in about if one.value.get("source")}:
        episode = yield from read_episode(shelf, source)
        if episode is not None:
            spared = _without(episode, item.value.get("text"))
            ops.append(put(shelf.episodes, source, spared.model_dump(mode="json")))
    yield ops


def forget_named(shelf: Shelf, name: str) -> Plan[int]:
    """The same for all that was ever kept under a name."""
    items = yield from every(shelf.lessons)
    meant = [item.key for item in items if item.value.get("name") == name]
    for key in meant:
        yield from forget(shelf, key)
    return len(meant)


def _without(episode: Episode, text: Any) -> Episode:
    reflections = [
        one.model_copy(update={"memory_to_write": [memo for memo in one.memory_to_write if memo.text != text]})
        for one in episode.reflections
    ]
    return episode.model_copy(update={"reflections": reflections})


# ---------------------------------------------------------------- looking back


def history(shelf: Shelf, lesson: str) -> Plan[list[Change]]:
    """What happened to a lesson, in order; to a named entry, what happened to its former values before that."""
    found = yield from read_one(shelf, lesson)
    if not found.lesson.name:
        return list(found.evidence.changes)
    chain = {lesson: found}
    wanted = list(found.lesson.supersedes)
    while wanted:
        more = yield from read_some(shelf, [one for one in wanted if one not in chain])
        chain |= more
        wanted = [one for read in more.values() for one in read.lesson.supersedes if one not in chain]
    changes = [change for one in chain.values() for change in one.evidence.changes]
    return sorted(changes, key=lambda change: (change.at, change.lesson != lesson))


def explain(shelf: Shelf, run_id: str) -> Plan[dict[str, Any]]:
    """What a run was shown and went without, what it wrote, and what came of it. An unknown run is a `KeyError`."""
    episode = yield from read_episode(shelf, run_id)
    if episode is None:
        raise KeyError(run_id)
    known = yield from read_some(shelf, [*episode.shown, *episode.withheld])
    everything = yield from read_all(shelf)
    return {
        "run": run_id,
        "task": episode.task,
        "status": _end(episode),
        "stop_reason": episode.stop_reason,
        "score": episode.score,
        "shown": [_told(one, known.get(one), run_id) for one in episode.shown],
        "withheld": [_told(one, known.get(one), run_id) for one in episode.withheld],
        "written": [one.lesson.id for one in everything.values() if run_id in one.lesson.sources],
        "changes": [
            {"lesson": change.lesson, "action": change.action, "why": change.why}
            for one in everything.values()
            for change in one.evidence.changes
            if change.run == run_id
        ],
    }


def _end(episode: Episode) -> str:
    if episode.status == "unverified" and episode.success is not None:
        return "success" if episode.success else "failure"
    return episode.status


def _told(lesson: str, found: Read | None, run_id: str) -> dict[str, Any]:
    if found is None:
        return {"lesson": lesson, "text": None, "result": None}
    _, now, evidence = found
    result = next((run.get("result") for run in evidence.runs if run.get("run") == run_id), None)
    return {
        "lesson": lesson,
        "text": now.text,
        "result": result,
        "wins": now.wins,
        "losses": now.losses,
        "uplift": _added(now),
    }


def _added(lesson: Lesson) -> dict[str, float] | str:
    """What a lesson adds to the share of good runs, or that nobody can say."""
    added = uplift(lesson)
    return "unproven" if added is None else {name: round(value, 3) for name, value in added._asdict().items()}


def stats(shelf: Shelf) -> Plan[dict[str, Any]]:
    """How many lessons and episodes there are, of what sort, and how the lessons did.

    `uplift` counts the live lessons that were compared with runs without them, and those that were not: `unproven`.
    `topics` has the runs won and lost with lessons, with such as fitted held back, and with none that fitted.
    """
    found = [one.lesson for one in (yield from read_all(shelf)).values()]
    episodes = yield from every(shelf.episodes)
    items = yield from evidence_items(shelf)
    added = [uplift(one) for one in found if one.status in LIVE]
    return {
        "lessons": len(found),
        "live": sum(one.status in LIVE for one in found),
        "status": dict(Counter(one.status for one in found)),
        "kind": dict(Counter(one.kind for one in found)),
        "origin": dict(Counter(one.origin for one in found)),
        "shown": sum(one.shown for one in found),
        "wins": sum(one.wins for one in found),
        "losses": sum(one.losses for one in found),
        "episodes": len(episodes),
        "uplift": dict(Counter(map(_in_a_word, added))),
        "topics": topics((item.namespace, item.value) for item in items),
    }


def _in_a_word(added: Uplift | None) -> str:
    if added is None:
        return "unproven"
    return "helps" if added.low > 0 else "harms" if added.high < 0 else "unclear"


def undo(shelf: Shelf, what: str | None, since: datetime | None) -> Plan[list[Change]]:
    """Take back a change, all changes of a run, or all since a time, the latest first; the record of them stays.

    What is taken back of a run is also the evidence it left. An unknown id is a `KeyError` with it.
    """
    if (what is None) == (since is None):
        raise ValueError("`undo` takes a change's id, a run's id, or `since`: one of them")
    one = lesson_of_change(what) if what is not None else None
    if one is not None:
        found = {one: (yield from read_one(shelf, one))}
    else:
        found = yield from read_all(shelf)
    meant = [change for _, _, evidence in found.values() for change in evidence.changes if _meant(change, what, since)]
    if what is not None and one is None:
        meant = yield from _with_run(shelf, what, meant)
    if what is not None and one is not None and not meant:
        raise KeyError(what)
    for change in sorted(meant, key=lambda change: (change.at, change.id), reverse=True):
        yield from _take_back(shelf, change)
    return meant


def _meant(change: Change, what: str | None, since: datetime | None) -> bool:
    if change.action == "undone":
        return False
    return change.at >= since if since is not None else what in (change.id, change.run)


def _with_run(shelf: Shelf, run_id: str, meant: list[Change]) -> Plan[list[Change]]:
    items = yield from evidence_items(shelf)
    left = [item for item in items if item.value.get("run") == run_id and item.value.get("type") == "run"]
    if not left and not meant and (yield from read_episode(shelf, run_id)) is None:
        raise KeyError(run_id)
    if left:
        yield drop(left)
    return meant


def _take_back(shelf: Shelf, change: Change) -> Plan[None]:
    found = (yield from read_some(shelf, [change.lesson])).get(change.lesson)
    if found is None:
        return
    item, lesson, evidence = found
    why = f"{change.action} is taken back"
    if change.action in ("added", "quarantined"):
        if not _rests_elsewhere(lesson, change):
            yield from moved(shelf, found, "retired", "undone", by="person", why=why)
    elif change.status is not None:
        status = change.before.get("status", "candidate")
        yield from moved(shelf, found, status, "undone", by="person", why=why)
    elif change.before and _last_wording(evidence, change):
        yield from unless_embedding_fails(
            [PutOp(shelf.lessons, lesson.id, {**item.value, **change.before, "status": lesson.status}, FIELDS)]
        )
        yield from move(shelf, lesson.id, None, "undone", by="person", why=why)


def _rests_elsewhere(lesson: Lesson, change: Change) -> bool:
    """Whether other runs than the one taken back wrote it as well."""
    return change.run is not None and any(source != change.run for source in lesson.sources)


def _last_wording(evidence: Evidence, change: Change) -> bool:
    return not any(one.id > change.id and one.action in ("merged", "edited") for one in evidence.changes)
