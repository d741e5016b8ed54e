"""Credit: count the result of each run for the lessons it was shown or went without, and update their status."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.driver import in_thread
from langgraph_reflexion.memory.access import TOPIC, Plan, at_once, items_in, put, read_items, storable
from langgraph_reflexion.memory.choose import is_vouched
from langgraph_reflexion.memory.estimate import ALWAYS_SHOWN, Estimate, Tally, estimate, posterior, recent, share_won
from langgraph_reflexion.memory.evidence import COUNTS, NOTHING, Evidence, LessonRun, run_record
from langgraph_reflexion.memory.forget import remove_forgotten
from langgraph_reflexion.memory.gate import MAX_VALUES
from langgraph_reflexion.memory.index import names_any_task, task_words, tasks_of
from langgraph_reflexion.memory.items import TASKS, StoredLesson, failure_of, parse_item, stored_lesson, tool_of
from langgraph_reflexion.memory.models import topic_for
from langgraph_reflexion.memory.shelf import COUNTED, MARKS, Shelf, is_undone, time_in
from langgraph_reflexion.memory.upkeep import drop_old, is_due, sum_up_runs
from langgraph_reflexion.schemas import CUT_SHORT, Episode, Lesson, LessonStatus, Reflection
from langgraph_reflexion.text import draw, hash_of
from langgraph_reflexion.text.json_text import map_texts
from langgraph_reflexion.text.literals import mask_secrets

RETIRED_ABOVE = 2.5
"""Weight of recent losses above which a lesson on probation may be retired: about three losses in a row."""

ACTIVE_SHARE = 0.1
"""Factor on `control_share` for an active lesson: it is withheld from one run in fifty. A factor of a quarter costs
half a point more in the `usual` world of `benchmarks/lessons.py`."""

TOPIC_SLOTS = 50
"""Runs without lessons that are kept for a topic. A run's slot follows from its id, so no writer has to read first,
and a newer run overwrites an older one."""

EARLIER_WINS = 3
"""How many earlier wins of a lesson are searched for another run in which it fixed its failure. If only one is,
0.6 fewer of 100 tasks are solved at the first attempt in eight worlds of `benchmarks/natural.py` with a second attempt
(± 0.5)."""

FIXED_TWICE = "it fixed its failure in two runs of such tasks"

UNCOUNTED = frozenset({"asked_user", "handed_off", *CUT_SHORT})
"""Stop reasons that say nothing about the lessons of a run."""


# ---------------------------------------------------------------- counting


def credit(shelf: Shelf, episode: Episode) -> Plan[None]:
    """Keep the episode, and count its result for each lesson that the run was shown or went without.

    If a run finishes again under the same id, its last result replaces the earlier one.
    """
    topic = episode.topic or (yield from topic_for(episode.request or episode.task, shelf.policy))
    ended = {"id": storable(episode.id), "topic": topic, "created_at": episode.created_at or shelf.clock()}
    episode = episode.model_copy(update=ended)
    yield from _count(shelf, (yield in_thread(lambda: _mask(episode), own=True)))
    if draw(episode.id) * (shelf.policy.keep_runs // 100) < 1:  # in one of every `keep_runs` / 100 runs
        yield from drop_old(shelf)


def feedback(shelf: Shelf, run_id: str) -> Plan[bool]:
    """Count a run as lost because the user says that it was wrong. `False` for an unknown run."""
    before = yield from shelf.read_episode(run_id)
    if before is None:
        return False
    lost = {"success": False, "status": "failure", "stop_reason": "unchecked"}
    yield from _count(shelf, before.model_copy(update=lost))
    return True


def _count(shelf: Shelf, episode: Episode) -> Plan[None]:
    """Save an episode, and count its result for its lessons and its topic.

    If the run was counted before, the new result replaces the old one, and the episode says when.
    """
    ids, label = lessons_of(episode), topic_label(episode.topic or "")
    found, topics, [item] = yield from at_once(
        shelf.read_some(ids, exactly=False),
        runs_of_topics(shelf, [label] if ids else []),
        read_items(shelf.episodes, [episode.id]),
    )
    before = counted_episode(item)
    if before is not None:
        found |= yield from shelf.read_some([id for id in lessons_of(before) if id not in ids])
    listed = (run for entry in found.values() for run in entry.evidence.runs if run["run"] == episode.id)
    now = later_than_all(shelf.clock(), [item], listed)
    again = {} if item is None else {COUNTED: now.isoformat()}
    # Stores find it by its task, until an undo or a `forget` writes it again without vectors.
    ops: list[Op] = [put(shelf.episodes, episode.id, episode.model_dump(mode="json") | again, ["task"])]
    known: dict[str, StoredLesson] = {}
    for id, entry in found.items():
        counts, until_now = run_fields(episode, entry.lesson), counted_before(episode.id, before, entry)
        if counts is None and until_now is None:
            continue
        instead = None if item is None else until_now or NOTHING
        record = put(shelf.evidence_of(id), *run_record(episode.id, now, counts, instead))
        ops.append(record)
        if counts is not None and not counts.get("tried"):
            known[id] = stored_lesson(entry.item, entry.evidence.with_records([record])) or entry
    without = _without_lessons(episode, found, now)
    if without is None and item is not None and not topics:
        topics = yield from runs_of_topics(shelf, [label])
    topic_ops, of_topic = _topic_ops(shelf, label, episode.id, without, topics.get(label, ()))
    ops += [*topic_ops, *_status_ops(shelf, known.values(), of_topic, episode.id)]
    # One batch: after a crash either all of a run is counted or nothing.
    # It is read again after writing: if several write at once, the last one to read sees what all have written.
    found = yield from shelf.write(ops, found.values())
    now_known = [entry for id, entry in found.items() if id in known]
    yield from shelf.write(_status_ops(shelf, now_known, of_topic, episode.id), now_known)
    yield from _offer_at_start(shelf, episode, [entry for entry in now_known if not entry.evidence.vouched])
    for id, entry in found.items():
        if is_due(entry.evidence, now):
            yield from sum_up_runs(shelf, id)
    if episode.reflections:  # a lesson that it wrote may have been forgotten since
        [item], forgotten = yield from at_once(read_items(shelf.episodes, [episode.id]), items_in(shelf.forgotten))
        yield from remove_forgotten(shelf, [item] if item else [], forgotten)


def lessons_of(episode: Episode) -> list[str]:
    """The lessons for which a run may count."""
    return [*dict.fromkeys([*episode.shown, *episode.withheld, *episode.written])]


def run_fields(episode: Episode, lesson: Lesson) -> dict[str, Any] | None:
    """What a run counts for a lesson. `None` if the run does not concern it."""
    if lesson.id in (*episode.shown, *episode.withheld):
        if lesson.name:
            return None
        result = result_of(episode, lesson)
        recovered = result == "win" and _met_failure(episode, lesson)
        reflected = result == "win" and bool(episode.recalled_at.get(lesson.id) and episode.reflections)
        marks = {"withheld": lesson.id not in episode.shown, "recovered": recovered, "reflected": reflected}
        return {"result": result, **marks}
    if lesson.id not in episode.written:
        return None
    if _has_recovered(episode):
        return {"tried": True, "result": "win"}
    # The run's failures came before it wrote the lesson; `failed` says whether one came back after it.
    return {"tried": True, "result": result_of(episode.model_copy(update={"failures": []}), lesson)}


def counted_episode(item: Item | None) -> Episode | None:
    """The episode of an item, if it counts. `None` if it is missing, damaged or undone."""
    return None if item is None or is_undone(item) else parse_item(item, Episode)


def counted_before(run: str, episode: Episode | None, found: StoredLesson) -> dict[str, Any] | None:
    """What a run has counted for a lesson so far: from the lesson's list of runs or, for a run that is older or was
    imported, from its episode."""
    listed = next((row for row in found.evidence.runs if row["run"] == run), None)
    imported = (found.item.value.get(name) for name in COUNTS)
    if listed is not None or episode is None or not any((*found.evidence.earlier.values(), *imported)):
        return listed
    created, ended = found.lesson.created_at, episode.created_at
    if created is not None and ended is not None and created > ended:
        return None  # an earlier lesson with this id was forgotten since
    used = time_in(found.item.value.get("last_used_at")) if not any(found.evidence.earlier.values()) else None
    if used is not None and ended is not None and ended > used and found.lesson.id in episode.shown:
        return None  # it was imported from a file that is older than the run
    return run_fields(episode, found.lesson)


def later_than_all(now: datetime, items: Iterable[Item | None], runs: Iterable[Mapping[str, Any]]) -> datetime:
    """A time later than any in these episodes and runs: now, unless a clock went back."""
    marks = [item.value.get(mark) for item in items if item is not None for mark in MARKS]
    times = filter(None, map(time_in, (*marks, *(run.get("at") for run in runs))))
    return max([now, *(time + timedelta(microseconds=1) for time in times)])


def _offer_at_start(shelf: Shelf, episode: Episode, known: Sequence[StoredLesson]) -> Plan[None]:
    """If a lesson fixed its failure in two runs, keep their tasks with it as if they had taught it.

    So it is shown before such a task fails. In six worlds of `benchmarks/natural.py`, with a second attempt after each
    failure, this solves 2 to 7 more of 100 tasks at the first attempt (5 seeds).
    """
    ops: list[Op] = []
    for entry in known:
        won = [str(run["run"]) for run in entry.evidence.shown_results() if share_won(run) == 1]
        taught_by = tasks_of(entry.item.value)
        room = MAX_VALUES - len(taught_by)
        if episode.id not in won or not _fixed_failure(episode, entry.lesson) or room <= 0:
            continue
        earlier = [id for id in reversed(won) if id != episode.id][:EARLIER_WINS]
        items = yield from read_items(shelf.episodes, earlier)
        runs = [parse_item(item, Episode) for item in items if item is not None]
        other = next((run for run in runs if run is not None and _fixed_failure(run, entry.lesson)), None)
        if other is None:
            continue
        tasks: list[str] = []
        for run in (episode, other):
            asked = run.request or run.task
            tasks.append(task_words(asked, (yield from shelf.earlier_tasks(asked))))
        if new := [task for task in dict.fromkeys(tasks) if task and task not in taught_by][:room]:
            after = {TASKS: new}
            ops += shelf.change_ops(entry, None, "edited", by="evidence", why=FIXED_TWICE, run=episode.id, after=after)
    yield from shelf.write(ops, known)


def _fixed_failure(episode: Episode, lesson: Lesson) -> bool:
    """Whether the lesson was recalled after a failure, and the run then succeeded without a reflection."""
    after_failure = lesson.id in episode.shown and episode.recalled_at.get(lesson.id, 0) > 0
    return episode.success is True and after_failure and not episode.reflections


def result_of(episode: Episode, lesson: Lesson | None = None) -> str | None:
    """What a run counts for a lesson, or without one for its topic: `win`, `loss`, or `None` if it says nothing.

    If an answer was rejected for the lesson's own failure, although the lesson was shown or because it was withheld,
    the run is a loss, however it ended. A run without a verdict counts only for a lesson bound to a failure, and one
    whose last answer was rejected by a check that raised for no other.
    """
    if episode.status == "needs_input" or episode.stop_reason in UNCOUNTED:
        return None
    if lesson is not None and _met_failure(episode, lesson) and not _has_recovered(episode):
        return "loss"
    by_checks = episode.stop_reason != "unchecked"  # else the user may have said that the answer was wrong
    if by_checks and not episode.success and episode.failures and episode.failures[-1].is_broken_check:
        return None
    if episode.success is not None:
        return "win" if episode.success else "loss"
    if episode.status != "unverified":
        return "win" if episode.status == "success" else "loss"
    if lesson is None or not (bound := failure_of(lesson)):
        return None
    at = episode.recalled_at.get(lesson.id, 0)
    later = [failure for failure in episode.failures if not at or failure.step > at]
    return "loss" if any(failure.fingerprint == bound for failure in later) else "win"


def _met_failure(episode: Episode, lesson: Lesson) -> bool:
    """Whether the lesson's failure came back after it was shown, or occurred in a run that went without it."""
    bound, at = failure_of(lesson), episode.recalled_at.get(lesson.id, 0)
    steps = [failure.step for failure in episode.failures if bound is not None and failure.fingerprint == bound]
    if lesson.id in episode.shown:
        return lesson.id in episode.failed or any(step > at for step in steps)
    return lesson.id in episode.failed or (lesson.id in episode.withheld and bool(steps))


def _has_recovered(episode: Episode) -> bool:
    """Whether something failed in the run, but no answer was rejected, and it still succeeded."""
    return episode.success is True and bool(episode.failures) and not _had_rejected_answer(episode)


def _had_rejected_answer(episode: Episode) -> bool:
    return any(failure.signal == "check_failed" for failure in episode.failures)


def _mask(episode: Episode) -> Episode:
    """The episode with secrets masked in its task, its failures and its reflections."""
    failures = [past.model_copy(update={"evidence": mask_secrets(past.evidence)}) for past in episode.failures]
    reflections = [
        Reflection.model_validate(map_texts(past.model_dump(), mask_secrets)) for past in episode.reflections
    ]
    texts = {"task": mask_secrets(episode.task), "request": mask_secrets(episode.request)}
    return episode.model_copy(update={**texts, "failures": failures, "reflections": reflections})


# ---------------------------------------------------------------- comparison


def withheld(lesson: Lesson, run_id: str, share: float) -> bool:
    """Whether this run goes without the lesson, so that the lesson's worth can be measured. Always the same runs do.

    A candidate is withheld from this `share` of the runs after the first three it was shown in; an active lesson from
    a tenth of that. An entry that has a name, or that holds for any task, is never withheld.
    """
    holds_always = names_any_task(vars(lesson)) and lesson.origin != "observed" and tool_of(lesson) is None
    if lesson.name or holds_always or lesson.shown < ALWAYS_SHOWN:
        return False
    return draw(f"{run_id}\n{lesson.id}") < share * (ACTIVE_SHARE if lesson.status == "active" else 1)


def replaces_reflection(lesson: Lesson) -> bool:
    """Whether a lesson for exactly this failure replaces a reflection: not if it failed as often as it helped."""
    return lesson.losses == 0 or lesson.wins > lesson.losses


# ---------------------------------------------------------------- status


def next_status(found: StoredLesson, estimates: Estimate) -> tuple[LessonStatus, str] | None:
    """The new status by the evidence, and why. `None` if it stays. What a person wants shown is never demoted."""
    lesson, evidence = found.lesson, found.evidence
    if lesson.name or not evidence.shown_results():
        return None
    record = f"{lesson.wins} won, {lesson.losses} lost"
    behind = estimates.holds_back(found)
    # If a run recovered from the lesson's failure, or reflected on it, something else helped.
    helped = lesson.wins - sum(bool(run.get("recovered") or run.get("reflected")) for run in evidence.shown)
    if evidence.vouched:
        # Wins before a person's decision do not change it.
        promoted = lesson.status != "active" and not behind and evidence.wins_since_decision >= 2
        return ("active", f"it won in two episodes: {record}") if promoted else None
    if behind and lesson.status in ("candidate", "active"):
        return "probation", f"{behind}; {record}"
    if lesson.status == "probation":
        wins, losses = recent([found])
        share, variance = posterior(wins, losses)
        if losses > RETIRED_ABOVE and share + math.sqrt(variance) < estimates.without:
            return "retired", f"it keeps losing: {record}"
        if not behind:
            return "active" if helped >= 2 else "candidate", f"runs do better with it again: {record}"
    if lesson.status == "candidate" and not behind and helped >= 2:
        return "active", f"it won in two episodes: {record}"
    return None


def _status_ops(shelf: Shelf, known: Collection[StoredLesson], of_topic: Iterable[LessonRun], run: str) -> list[Op]:
    """The writes that update the status of lessons after their runs were counted."""
    estimates = estimate(known, won_and_lost(of_topic, known))
    ops: list[Op] = []
    for entry in known:
        if (step := next_status(entry, estimates)) is None:
            continue
        status, why = step
        rises = status == "active" or (entry.lesson.status == "probation" and status == "candidate")
        ops += shelf.change_ops(entry, status, "promoted" if rises else "demoted", by="evidence", why=why, run=run)
    return ops


# ---------------------------------------------------------------- topics


def topic_label(topic: str) -> str:
    """The label for the runs of a topic that had no lessons at their start."""
    return TOPIC + (re.sub(r"\W+", "-", topic).strip("-").lower()[:64] or "general")


def runs_of_topics(shelf: Shelf, labels: list[str]) -> Plan[dict[str, tuple[LessonRun, ...]]]:
    """The runs of these topics without lessons at the start. They are kept beside the lessons' records, so that a
    database reads both in one query."""
    keys = [_topic_key(label, slot) for label in labels for slot in range(TOPIC_SLOTS)]
    items = yield from read_items(shelf.evidence, keys)
    parts = [items[at : at + TOPIC_SLOTS] for at in range(0, len(items), TOPIC_SLOTS)]
    return {label: Evidence().with_records(filter(None, part)).runs for label, part in zip(labels, parts, strict=True)}


def won_and_lost(runs: Iterable[LessonRun], lessons: Iterable[StoredLesson] = ()) -> Tally:
    """How many of a topic's runs were won, and how many lost, compared with runs that were shown these lessons."""
    bound = {hash_of(mark, 8) for found in lessons if (mark := failure_of(found.lesson))}
    shares = []
    for run in runs:
        if run.get("result") in ("win", "loss"):
            marks = run.get("failures")
            met = isinstance(marks, list) and not bound.isdisjoint(map(str, marks))
            shares.append(share_won(run | {"recovered": met and run["result"] == "win"}))
    return Tally(sum(shares), len(shares) - sum(shares))


def _without_lessons(episode: Episode, found: Mapping[str, StoredLesson], at: datetime) -> LessonRun | None:
    """The record of a run without lessons at its start, or `None` if it had some or says nothing.

    Named lessons and those that a person wants shown do not count as lessons here. A rejected answer is a loss.
    """
    exempt = {id for id, entry in found.items() if is_vouched(entry)}
    had_some = any(id not in exempt and not episode.recalled_at.get(id, 0) for id in episode.shown)
    if had_some or (result := result_of(episode)) is None:
        return None
    return {
        "type": "run",
        "run": episode.id,
        "result": "loss" if _had_rejected_answer(episode) else result,
        "at": at.isoformat(),
        "failures": sorted({hash_of(failure.fingerprint, 8) for failure in episode.failures}),
    }


def _topic_ops(
    shelf: Shelf, label: str, run: str, without: LessonRun | None, runs: Iterable[LessonRun]
) -> tuple[list[Op], Collection[LessonRun]]:
    """The writes that save the record of a run without lessons at its start, and the topic's runs with it.

    If there is no record, the one that the run left when it finished first is deleted.
    """
    kept = {_slot_of(row["run"]): row for row in runs}
    slot, ops = _slot_of(run), list[Op]()
    if without is not None:
        kept[slot] = without
        ops = [put(shelf.evidence, _topic_key(label, slot), without)]
    elif slot in kept and kept[slot]["run"] == run:
        del kept[slot]
        ops = [PutOp(shelf.evidence, _topic_key(label, slot), None)]
    return ops, kept.values()


def _slot_of(run: str) -> int:
    return int(draw(run) * TOPIC_SLOTS)


def _topic_key(label: str, slot: int) -> str:
    return f"{label}.{slot:02d}"
