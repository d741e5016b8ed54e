"""Crediting: a finished run is kept, and what came of it counts for the lessons it was shown or went without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langgraph.store.base import Op, PutOp

from langgraph_reflexion.memory.access import Plan, put, read
from langgraph_reflexion.memory.changes import moving, settled, unless_embedding_fails
from langgraph_reflexion.memory.floor import placed
from langgraph_reflexion.memory.life.promoting import next_status
from langgraph_reflexion.memory.records import run_record
from langgraph_reflexion.memory.shelf import REFUTED, Read, Shelf, episode_in, read_episode, read_some
from langgraph_reflexion.memory.worth import result_of
from langgraph_reflexion.schemas import Episode, Lesson, Reflection
from langgraph_reflexion.text.secrets import mask_secrets


def credit(shelf: Shelf, episode: Episode) -> Plan[None]:
    """Keep the episode, and what came of it for each lesson it was shown or went without.

    The last to finish under a run id stands: evidence that an earlier end of this run left is replaced. Beside that
    an episode is never changed: what the user says of it later is noted beside it.
    """
    before = yield from read_episode(shelf, episode.id)
    kept = _masked(episode).model_copy(update={"created_at": episode.created_at or shelf.clock()})
    ops: list[Op] = [put(shelf.episodes, episode.id, kept.model_dump(mode="json"))]
    yield from _counted(shelf, episode, before, ops)


def feedback(shelf: Shelf, run_id: str) -> Plan[bool]:
    """The user says that run was wrong: whatever was counted for it is now a loss. `False` for an unknown run."""
    item = yield from read(shelf.episodes, run_id.replace("\0", "�"))
    if item is None or (before := episode_in(item)) is None:
        return False
    value = {**item.value, REFUTED: item.value.get(REFUTED) or shelf.clock().isoformat()}
    wrong = before.model_copy(update={"success": False, "status": "failure", "stop_reason": "unchecked"})
    yield from _counted(shelf, wrong, before, [put(shelf.episodes, item.key, value)])
    return True


def _counted(shelf: Shelf, episode: Episode, before: Episode | None, ops: list[Op]) -> Plan[None]:
    """Write, and with it what an episode says of its lessons, in place of what it said before."""
    now = shelf.clock()
    concerned = dict.fromkeys([*episode.shown, *episode.withheld])
    wrote = [one for one in episode.written if one not in concerned]
    read = yield from read_some(shelf, [*concerned, *wrote])
    known = {one: found for one, found in read.items() if one in concerned}
    if before is not None:
        for old in dict.fromkeys([*before.shown, *before.withheld, *before.written]):
            if old not in concerned and old not in wrote:
                ops.append(PutOp(shelf.evidence_of(old), f"run/{episode.id}", None))
    for one, found in known.items():
        if found.lesson.name:  # what is remembered of a user is shown in run after run, and proven by none
            continue
        went_without = one not in episode.shown
        beside = 0 if went_without else company(found.lesson, [other.lesson for other in known.values()], episode)
        result = result_of(episode, found.lesson)
        key, value = run_record(episode.id, withheld=went_without, result=result, at=now, beside=beside)
        ops += [put(shelf.evidence_of(one), key, value), *following(shelf, found.with_run(value), episode.id)]
    for one in (one for one in wrote if one in read):
        key, value = run_record(episode.id, result=tried(episode, read[one].lesson), at=now, tried=True)
        ops.append(put(shelf.evidence_of(one), key, value))
    exempt = [one for one, (_, lesson, about) in known.items() if lesson.name or about.vouched]
    yield from unless_embedding_fails([*ops, *placed(shelf, episode, exempt, now)])
    # Read again after writing: of several writers at once, the last one to read sees what all have written.
    more = [op for found in (yield from settled(shelf, known)).values() for op in following(shelf, found, episode.id)]
    if more:
        yield from unless_embedding_fails(more)
        yield from settled(shelf, known)


def following(shelf: Shelf, found: Read, run: str | None) -> list[Op]:
    """What follows for a lesson's status from the runs that are counted, written with them in one batch."""
    step = next_status(found.lesson, found.evidence)
    if step is None:
        return []
    status, why = step
    rises = status == "active" or (found.lesson.status == "probation" and status == "candidate")
    return moving(shelf, found, status, "promoted" if rises else "demoted", by="evidence", why=why, run=run)


def tried(episode: Episode, lesson: Lesson) -> str | None:
    """What came of a run that had written the lesson: what it was learned from came before, `failed` tells the rest."""
    return result_of(episode.model_copy(update={"failures": []}), lesson)


def company(lesson: Lesson, known: Iterable[Lesson], episode: Episode) -> int:
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
    failures = [one.model_copy(update={"evidence": mask_secrets(one.evidence)}) for one in episode.failures]
    reflections = [Reflection.model_validate(_mask_secrets(one.model_dump())) for one in episode.reflections]
    task = mask_secrets(episode.task)
    return episode.model_copy(update={"task": task, "failures": failures, "reflections": reflections})


def _mask_secrets(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _mask_secrets(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_mask_secrets(value) for value in data]
    return mask_secrets(data) if isinstance(data, str) else data
