"""Credit: count the result of each run for the lessons it was shown or went without, and update their status."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from langgraph.store.base import GetOp, Item, Op, PutOp

from langgraph_reflexion.memory.access import Plan, at_once, put, read
from langgraph_reflexion.memory.changes import moving, settled, unless_embedding_fails
from langgraph_reflexion.memory.estimate import ALWAYS_SHOWN, Estimate, estimate, posterior, recent
from langgraph_reflexion.memory.records import Evidence, again_key, failure_of, run_record, taken_back, whole_record
from langgraph_reflexion.memory.shelf import (
    REFUTED,
    Read,
    Shelf,
    episode_in,
    evidence_about,
    fit_for_a_label,
    read_episode,
    read_some,
    topic_for,
)
from langgraph_reflexion.memory.upkeep import LATE, drop_old, fold_runs, is_due
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus, Reflection
from langgraph_reflexion.text.likeness import in_common
from langgraph_reflexion.text.secrets import mask_secrets
from langgraph_reflexion.text.tokens import tokens

LOST = 2.5
"""Weight of recent losses above which a lesson on probation may be retired: about three losses in a row."""

ACTIVE_SHARE = 0.1
"""Factor on `control_share` for an active lesson: it is withheld from one run in fifty. A factor of a quarter costs
half a point more in the `usual` world of `benchmarks/lessons.py`."""

PLACES = 50
"""Runs without lessons that are kept for a topic. A run's place follows from its id, so no writer has to read first,
and a newer run overwrites an older one."""

MENDED = 3
"""How many earlier runs won with a lesson are searched for a second failure that it fixed."""

LONG = 400
"""Characters of a task that are read to find words for a `when`."""

OFFERED = "it mended its failure in two runs of such tasks"

TOPIC = "~topic-"
"""Prefix of the labels under which topics' runs are kept, next to those of lessons. No lesson's id holds a `~`."""

UNCOUNTED = frozenset({"asked_user", "handed_off", "model_error", "deadline", "token_budget"})
"""Stop reasons that say nothing about the lessons of a run."""


# ---------------------------------------------------------------- counting


def credit(shelf: Shelf, episode: Episode) -> Plan[None]:
    """Keep the episode, and count its result for each lesson that the run was shown or went without.

    If a run finishes again under the same id, its last result replaces the earlier one.
    """
    episode = episode.model_copy(update={"topic": episode.topic or topic_for(episode.task, shelf.policy)})
    kept = _masked(episode).model_copy(update={"created_at": episode.created_at or shelf.clock()})
    yield from _count(shelf, episode, [put(shelf.episodes, episode.id, kept.model_dump(mode="json"))])
    if _draw(episode.id) * (shelf.policy.keep_runs // 100) < 1:  # in one of every `keep_runs` / 100 runs
        yield from drop_old(shelf)


def feedback(shelf: Shelf, run_id: str) -> Plan[bool]:
    """Count a run as lost because the user says that it was wrong. `False` for an unknown run.

    The episode is kept as it was, with a note of when the user said so.
    """
    item = yield from read(shelf.episodes, run_id.replace("\0", "�"))
    if item is None or (before := episode_in(item)) is None:
        return False
    value = {**item.value, REFUTED: item.value.get(REFUTED) or shelf.clock().isoformat()}
    wrong = before.model_copy(update={"success": False, "status": "failure", "stop_reason": "unchecked"})
    yield from _count(shelf, wrong, [put(shelf.episodes, item.key, value)])
    return True


def _count(shelf: Shelf, episode: Episode, ops: list[Op]) -> Plan[None]:
    """Write `ops`, and the result of an episode for its lessons in place of an earlier result of the same run."""
    now = shelf.clock()
    concerned = dict.fromkeys([*episode.shown, *episode.withheld])
    wrote = [id for id in episode.written if id not in concerned]
    label = topic_label(episode.topic or "")
    found, topics, before = yield from at_once(
        read_some(shelf, [*concerned, *wrote], exactly=False),
        evidence_about(shelf, [label]),
        read_episode(shelf, episode.id),
    )
    topic = topics[label]
    old = dict.fromkeys([*before.shown, *before.withheld, *before.written]) if before is not None else {}
    replaced = (
        (yield from _replaced(shelf, episode.id, dict.fromkeys([*old, *concerned]))) if before is not None else {}
    )
    for id, one in (yield from read_some(shelf, [id for id in old if id not in concerned and id not in wrote])).items():
        instead = replaced.get(id) or _counted(one, before, now)
        key, value = run_record(episode.id, result=None, at=now, instead=instead)
        ops.append(put(shelf.evidence_of(id), key, taken_back(value, now)))
    known = {id: one for id, one in found.items() if id in concerned and not one.lesson.name}
    for id, one in known.items():
        withheld, instead = id not in episode.shown, replaced.get(id) or _counted(one, before, now)
        result = result_of(episode, one.lesson)
        key, value = run_record(episode.id, withheld=withheld, result=result, at=now, instead=instead)
        ops.append(put(shelf.evidence_of(id), key, value))
        known[id] = one.with_run(value)
    tried: dict[str, Read] = {}
    for id in (id for id in wrote if id in found):
        # The run's failures came before it wrote the lesson; `failed` says whether one came back after it.
        result = result_of(episode.model_copy(update={"failures": []}), found[id].lesson)
        key, value = run_record(episode.id, result=result, at=now, tried=True)
        ops.append(put(shelf.evidence_of(id), key, value))
        tried[id] = found[id].with_run(value)
    exempt = [id for id, one in found.items() if one.lesson.name or one.evidence.vouched]
    rows = _topic_rows(shelf, episode, exempt, now)
    for row in rows:
        topic = topic.with_run({**(row.value or {})})
    if rows or (known and not topic.runs):  # without this record a recall would have to read all that was appended
        ops += [*rows, put(shelf.evidence, label, whole_record(topic))]
    statuses = _status_ops(shelf, known, won_and_lost(topic), episode.id)
    moved = {op.namespace[-1] for op in statuses if isinstance(op, PutOp)}
    records = {id: one.evidence for id, one in (known | tried).items() if id not in moved}
    ops += [put(shelf.evidence, id, whole_record(evidence)) for id, evidence in records.items()]
    # One batch: after a crash either all of a run is counted or nothing.
    yield from unless_embedding_fails([*ops, *statuses])
    # Read again after writing: if several write at once, the last one to read sees what all have written.
    now_found = yield from settled(shelf, [*known, *tried])
    now_known = {id: one for id, one in now_found.items() if id in known}
    more = _status_ops(shelf, now_known, won_and_lost(topic), episode.id)
    if more:
        yield from unless_embedding_fails(more)
        yield from settled(shelf, known)
    yield from _offer_at_start(shelf, episode, [one for one in now_known.values() if not one.evidence.vouched])
    for id, one in now_found.items():
        if is_due(one.evidence, now):
            yield from fold_runs(shelf, id)


def _offer_at_start(shelf: Shelf, episode: Episode, known: Iterable[Read]) -> Plan[None]:
    """If a lesson fixed its failure in two runs, make the words that their tasks share its `when`.

    So it is shown before such a task fails.
    """
    ops: list[Op] = []
    for one in known:
        won = [str(run["run"]) for run in one.evidence.shown_results() if run["result"] == "win"]
        if episode.id not in won or not _mended(episode, one.lesson) or _is_offered(one.evidence):
            continue
        for run in [id for id in reversed(won) if id != episode.id][:MENDED]:
            other = yield from read_episode(shelf, run)
            when = in_common([episode.task[:LONG], other.task[:LONG]]) if other and _mended(other, one.lesson) else ""
            if len(set(tokens(when))) > 1:
                ops += moving(
                    shelf, one, None, "edited", by="evidence", why=OFFERED, run=episode.id, after={"when": when}
                )
                break
    if ops:
        yield from unless_embedding_fails(ops)
        yield from settled(shelf, [one.lesson.id for one in known])


def _mended(episode: Episode, lesson: Lesson) -> bool:
    """Whether the lesson was recalled after a failure, and the run then succeeded."""
    return episode.success is True and lesson.id in episode.shown and episode.recalled_at.get(lesson.id, 0) > 0


def _is_offered(evidence: Evidence) -> bool:
    return any(change.why == OFFERED for change in evidence.changes)


def _counted(found: Read, before: Episode | None, now: datetime) -> dict[str, Any] | None:
    """What an earlier result of this run counted for a lesson, if that may be in the lesson's counts by now."""
    if before is None:
        return None
    listed = next((run for run in found.evidence.runs if run["run"] == before.id), None)
    if listed is not None:
        return listed if now - datetime.fromisoformat(listed["at"]) > LATE / 2 else None
    id = found.lesson.id
    if not any(found.evidence.earlier.values()) or id not in (*before.shown, *before.withheld):
        return None
    return {"withheld": id not in before.shown, "result": result_of(before, found.lesson)}


def _replaced(shelf: Shelf, run: str, ids: Iterable[str]) -> Plan[dict[str, dict[str, Any]]]:
    """By lesson, the result of this run that a later one has replaced already: that one is still in the counts."""
    asked: list[Op] = [GetOp(shelf.evidence_of(id), again_key(run)) for id in ids if fit_for_a_label(id)]
    items: list[Item | None] = (yield asked) if asked else []
    return {
        item.namespace[-1]: item.value["instead"] for item in items if item is not None and item.value.get("instead")
    }


def result_of(episode: Episode, lesson: Lesson | None = None) -> str | None:
    """What a run counts for a lesson, or without one for its topic: `win`, `loss`, or `None` if it says nothing.

    A lesson loses if its own failure came back after it was shown, however the run ended. A run that went without the
    lesson is a loss if that failure occurred. A run without a verdict counts only for a lesson bound to a failure.
    """
    bound = failure_of(lesson) if lesson is not None else None
    met = bound is not None and any(failure.fingerprint == bound for failure in episode.failures)
    if lesson is not None and lesson.id in episode.failed:
        return "loss"
    if episode.status == "needs_input" or episode.stop_reason in UNCOUNTED:
        return None
    if lesson is not None and lesson.id not in episode.shown and lesson.id in episode.withheld and met:
        return "loss"
    if episode.success is not None:
        return "win" if episode.success else "loss"
    if episode.status != "unverified":
        return "win" if episode.status == "success" else "loss"
    if lesson is None or not bound:
        return None
    at = episode.recalled_at.get(lesson.id, 0)
    later = [failure for failure in episode.failures if not at or failure.step > at]
    return "loss" if any(failure.fingerprint == bound for failure in later) else "win"


def _masked(episode: Episode) -> Episode:
    """The episode with secrets masked in its task, its failures and its reflections."""
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


# ---------------------------------------------------------------- comparison


def withheld(lesson: Lesson, run_id: str, share: float) -> bool:
    """Whether this run is to go without the lesson, so that its worth can be measured: always the same runs.

    A candidate is withheld from this `share` of the runs after the first three it was shown in; an active lesson from
    a tenth of that. An entry that has a name is never withheld.
    """
    if lesson.name or lesson.shown < ALWAYS_SHOWN:
        return False
    return _draw(f"{run_id}\n{lesson.id}") < share * (ACTIVE_SHARE if lesson.status == "active" else 1)


def spares_a_reflection(lesson: Lesson) -> bool:
    """Whether a lesson for this very failure makes a reflection unnecessary: not if it failed as often as it helped."""
    return lesson.losses == 0 or lesson.wins > lesson.losses


def _draw(text: str) -> float:
    """A number from 0 to 1, always the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big") / 2**64


# ---------------------------------------------------------------- status


def next_status(found: Read, kind: Estimate) -> tuple[LessonStatus, str] | None:
    """The new status by the evidence, and why; `None` if it stays. A person's decision outranks the evidence."""
    lesson, evidence = found.lesson, found.evidence
    if evidence.vouched or lesson.name or not evidence.shown_results():
        return None
    record = f"{lesson.wins} won, {lesson.losses} lost"
    behind = kind.holds_back(lesson.id, evidence)
    if behind and lesson.status in ("candidate", "active"):
        return "probation", f"{behind}; {record}"
    if lesson.status == "probation":
        wins, losses = recent([(lesson, evidence)])
        share, variance = posterior(wins, losses)
        if losses > LOST and share + math.sqrt(variance) < kind.without:
            return "retired", f"it goes on losing: {record}"
        if not behind:
            return "active" if _has_won_twice(lesson) else "candidate", f"it does better than nothing again: {record}"
    if lesson.status == "candidate" and not behind and _has_won_twice(lesson):
        return "active", f"it won in two episodes: {record}"
    return None


def _has_won_twice(lesson: Lesson) -> bool:
    return lesson.wins >= 2


def _status_ops(shelf: Shelf, known: Mapping[str, Read], topic: tuple[int, int], run: str) -> list[Op]:
    """The writes that update the status of lessons after their runs were counted."""
    kind = estimate(
        {id: one.lesson for id, one in known.items()}, {id: one.evidence for id, one in known.items()}, topic
    )
    ops: list[Op] = []
    for one in known.values():
        if (step := next_status(one, kind)) is None:
            continue
        status, why = step
        rises = status == "active" or (one.lesson.status == "probation" and status == "candidate")
        ops += moving(shelf, one, status, "promoted" if rises else "demoted", by="evidence", why=why, run=run)
    return ops


# ---------------------------------------------------------------- topics


def topic_label(topic: str) -> str:
    """The label under which the runs of a topic without lessons at the start are kept."""
    return TOPIC + (re.sub(r"\W+", "-", topic).strip("-").lower()[:64] or "general")


def won_and_lost(runs: Evidence) -> tuple[int, int]:
    """How many of these runs were won, and how many lost."""
    results = [run.get("result") for run in runs.runs]
    return results.count("win"), results.count("loss")


def topics_in(items: Iterable[Item]) -> dict[str, dict[str, int]]:
    """Each topic's runs won and lost without lessons, from the items below `evidence`."""
    found: dict[str, dict[str, int]] = {}
    for item in items:
        label, result = item.namespace[-1], item.value.get("result")
        if label.startswith(TOPIC) and result in ("win", "loss") and not item.value.get("undone"):
            row = found.setdefault(label.removeprefix(TOPIC), {"won": 0, "lost": 0})
            row["won" if result == "win" else "lost"] += 1
    return dict(sorted(found.items()))


def _topic_rows(shelf: Shelf, episode: Episode, exempt: Collection[str], at: datetime) -> list[PutOp]:
    """The write that records a run without lessons at its start. If an answer was rejected, it counts as a loss."""
    result = result_of(episode)
    shown = [id for id in episode.shown if id not in exempt and not episode.recalled_at.get(id, 0)]
    if result is None or shown:
        return []
    refused = any(failure.signal == "check_failed" for failure in episode.failures)
    value = {"type": "run", "run": episode.id, "result": "loss" if refused else result, "at": at.isoformat()}
    place = shelf.evidence_of(topic_label(episode.topic or ""))
    return [put(place, f"{int(_draw(episode.id) * PLACES):02d}", value)]
