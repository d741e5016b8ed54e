"""Credit: what came of each run counts for the lessons it was shown or went without, and moves their status."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from langgraph.store.base import Op, PutOp, SearchOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.access import Plan, drop, every, put, read
from langgraph_reflexion.memory.changes import moving, settled, unless_embedding_fails
from langgraph_reflexion.memory.records import Evidence, failure_of, run_record
from langgraph_reflexion.memory.shelf import REFUTED, Read, Shelf, episode_in, read_episode, read_some, topic_for
from langgraph_reflexion.schemas import Episode, Lesson, LessonStatus, Reflection
from langgraph_reflexion.text.secrets import mask_secrets
from langgraph_reflexion.text.topics import topic_of


def credit(shelf: Shelf, episode: Episode) -> Plan[None]:
    """Keep the episode, and what came of it for each lesson it was shown or went without.

    The last to finish under a run id stands: evidence that an earlier end of this run left is replaced. Beside that
    an episode is never changed: what the user says of it later is noted beside it.
    """
    before = yield from read_episode(shelf, episode.id)
    episode = episode.model_copy(update={"topic": episode.topic or topic_for(episode.task, shelf.policy)})
    kept = _masked(episode).model_copy(update={"created_at": episode.created_at or shelf.clock()})
    ops: list[Op] = [put(shelf.episodes, episode.id, kept.model_dump(mode="json"))]
    yield from _counted(shelf, episode, before, ops)
    yield from _drop_old_episodes(shelf)


def _drop_old_episodes(shelf: Shelf) -> Plan[None]:
    """Keep the latest `keep_runs` episodes, and up to a twentieth more, so that few runs have to read them all."""
    most = shelf.policy.keep_runs
    [more] = yield [SearchOp(shelf.episodes, None, 1, most + most // 20)]
    if more:
        items = yield from every(shelf.episodes)
        items.sort(key=lambda item: (str(item.value.get("created_at")), item.key))
        yield drop(items[: max(len(items) - most, 0)])


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


UNLIKELY = 0.01
"""A recent record this improbable for what was before is a drop."""

RECENT = range(2, 7)
"""How many of the latest runs are looked at for one."""


def next_status(lesson: Lesson, evidence: Evidence) -> tuple[LessonStatus, str] | None:
    """Where the evidence moves a lesson, and why; `None` where it stays. A person's word outranks the evidence."""
    record = f"{lesson.wins} won, {lesson.losses} lost"
    if evidence.vouched or lesson.name:  # what a user wants is not refuted by how runs end
        return None
    if lesson.status in ("candidate", "active") and bounds(*shared(lesson, evidence))[1] <= COIN:
        return "probation", f"it loses more than it wins: {record}"
    if lesson.status in ("candidate", "active") and (drop := _dropped(evidence)):
        return "probation", drop
    if lesson.status == "candidate" and (proof := _proof(lesson, evidence)):
        return "active", f"{proof}: {record}"
    if lesson.status == "probation":
        wins, losses, stood = _since_probation(evidence)
        if bounds(*shared(lesson, evidence))[1] < 0.4 or bounds(wins, losses)[1] < 0.4:
            return "retired", f"it goes on losing: {record}"
        if wins >= 2 and wins > losses:
            back: LessonStatus = "active" if stood == "active" or _proof(lesson, evidence) else "candidate"
            return back, f"it won again: {record}"
    return None


def _dropped(evidence: Evidence) -> str:
    """That the latest runs, since it was last promoted, are worse than those before could be by chance; or nothing."""
    counted = [run for run in evidence.shown if run.get("result") in ("win", "loss")]
    results = [run["result"] == "win" for run in counted]
    risen = next((one for one in reversed(evidence.changes) if one.status == "active"), None)
    fresh = sum(risen is None or datetime.fromisoformat(run["at"]) > risen.at for run in counted)
    for many in RECENT:
        before, latest = results[:-many], results[-many:]
        if sum(before) < 3 or fresh < many:
            return ""
        share, _ = posterior(sum(before), len(before) - sum(before))
        if _so_few(sum(latest), many, share) < UNLIKELY:
            return f"it won {sum(latest)} of its latest {many} runs, and {sum(before)} of {len(before)} before"
    return ""


def _so_few(won: int, many: int, share: float) -> float:
    """How probable so few wins or fewer are, where this share of runs is won."""
    return sum(math.comb(many, n) * share**n * (1 - share) ** (many - n) for n in range(won + 1))


def _proof(lesson: Lesson, evidence: Evidence) -> str:
    """Why a candidate has proved itself, or nothing: two wins of its own, or as much in company and missed without."""
    if lesson.wins < 2:
        return ""
    wins, _ = shared(lesson, evidence)
    in_company = sum(run.get("result") == "win" and bool(run.get("beside")) for run in evidence.shown)
    if lesson.wins - in_company >= 2:
        return "it won in two episodes"
    added = uplift(lesson)
    return "it won in company, and runs without it did worse" if wins > 1.99 and added and added.low > 0 else ""


def _since_probation(evidence: Evidence) -> tuple[int, int, str | None]:
    """Wins and losses since a lesson was put on probation, and where it stood before."""
    began = next((one for one in reversed(evidence.changes) if one.status == "probation"), None)
    runs: list[Any] = [
        run.get("result")
        for run in evidence.shown
        if began is None or (datetime.fromisoformat(run["at"]) >= began.at and run.get("run") != began.run)
    ]
    return runs.count("win"), runs.count("loss"), began.before.get("status") if began is not None else None


UNCOUNTED = frozenset({"asked_user", "handed_off", "model_error", "deadline", "token_budget"})
"""Ends of a run that say nothing about the lessons it was shown."""

ALWAYS_SHOWN = 3
"""Runs a candidate is shown in before it may be withheld."""

COMPARED = 4
"""Runs with a lesson, and without it, below which nobody can say what it adds."""

COIN = 0.501
"""A lesson that at best wins so often does worse than chance."""

FADES = 0.6
"""What is left of a run's weight when one more has come after it."""

Standing = Literal["sound", "doubtful", "out"]


class Uplift(NamedTuple):
    """How much more often runs succeed with a lesson than without it, and the bounds within which that lies."""

    mean: float
    low: float
    high: float


def bounds(wins: float, losses: float) -> tuple[float, float]:
    """The bounds within which the share of good runs probably lies; wide where little is known."""
    runs = wins + losses + 2
    share = (wins + 1) / runs
    middle = share + 1 / (2 * runs)
    half = math.sqrt(share * (1 - share) / runs + 1 / (4 * runs * runs))
    return (middle - half) / (1 + 1 / runs), (middle + half) / (1 + 1 / runs)


NEW, LOST_ONCE = bounds(0, 0)[0], bounds(0, 1)[0]
"""What is at least to be hoped of a lesson that no run was shown, and of one that was shown once, in vain."""


def interval(lesson: Lesson) -> tuple[float, float]:
    """The bounds of a lesson's share of good runs."""
    return bounds(lesson.wins, lesson.losses)


def uplift(lesson: Lesson) -> Uplift | None:
    """What a lesson adds, by the runs that went without it; `None` where they are too few: it is unproven."""
    if min(lesson.wins + lesson.losses, lesson.withheld_wins + lesson.withheld_losses) < COMPARED:
        return None
    ours, doubt = posterior(lesson.wins, lesson.losses)
    theirs, other = posterior(lesson.withheld_wins, lesson.withheld_losses)
    half = 1.645 * math.sqrt(doubt + other)
    return Uplift(ours - theirs, ours - theirs - half, ours - theirs + half)


def posterior(wins: int, losses: int) -> tuple[float, float]:
    """What share of runs is won, and its variance, by a Beta distribution that begins flat."""
    a, b = wins + 1, losses + 1
    return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))


def shared(lesson: Lesson, evidence: Evidence) -> tuple[float, float]:
    """A lesson's wins and losses, where a run counts by its part for each of the lessons it was shown."""
    wins, losses = float(lesson.wins), float(lesson.losses)
    for run in evidence.shown:
        rest = 1 - 1 / (1 + run["beside"]) if isinstance(run.get("beside"), int) and run["beside"] > 0 else 0.0
        wins -= rest * (run.get("result") == "win")
        losses -= rest * (run.get("result") == "loss")
    return wins, losses


def usefulness(lesson: Lesson, evidence: Evidence = Evidence()) -> float:  # noqa: B008 — frozen
    """What is at least to be hoped of the lesson: around 0.2 for a new one, towards 1 for one that always helps.

    It is never more than what the lesson was seen to add.
    """
    return _as_added(lesson, bounds(*shared(lesson, evidence))[0])


def promise(lesson: Lesson, evidence: Evidence) -> float:
    """How useful a lesson is as of late, by its runs; one without any is as useful as its record says.

    So one that a changed world has made wrong gives way after a run or two to one that was learned since; and one
    that its own run tried in vain comes after one that nobody has tried.
    """
    return _as_added(lesson, lately(evidence)) if evidence.counted else usefulness(lesson, evidence)


def _as_added(lesson: Lesson, hoped: float) -> float:
    """What is hoped of a lesson, and no more than it was seen to add."""
    added = uplift(lesson)
    return hoped if added is None else min(hoped, max(added.mean, 0.0))


def lately(evidence: Evidence) -> float:
    """The share of good runs that is at least to be hoped for, where a run counts less with each that came after."""
    wins = losses = 0.0
    for run in evidence.counted:
        part = 1 / (1 + run["beside"]) if isinstance(run.get("beside"), int) else 1.0
        wins = FADES * wins + part * (run["result"] == "win")
        losses = FADES * losses + part * (run["result"] == "loss")
    return bounds(wins, losses)[0]


def standing(lesson: Lesson, evidence: Evidence, *, failed: bool = False) -> Standing:
    """Whether a lesson may be shown: freely, only where no other fits, or for now not at all.

    A new one is sound. One whose latest runs were lost is doubtful, however long its record, and out where it lost more
    than once and won nothing since: it comes back when a run learns it again and wins. Against a failure of the run
    (`failed`) one that is doubtful, or lost the last time, is no help. Runs without it may say that it helps all the
    same, or that it harms; a person's word outranks all of it.
    """
    if evidence.vouched or lesson.name:
        return "sound"
    added, runs = uplift(lesson), evidence.counted
    if added and added.high < 0:
        return "out"
    if runs and not (added and added.low > 0):
        hoped = lately(evidence)
        lost_last = bool(evidence.shown) and runs[-1]["result"] == "loss"
        if hoped < LOST_ONCE or (failed and (hoped < NEW or lost_last)):
            return "out"
        if hoped < NEW:
            return "doubtful"
    return "doubtful" if lesson.status == "probation" or hurts(lesson) else "sound"


def hurts(lesson: Lesson) -> bool:
    """Whether it probably does worse than a coin."""
    return interval(lesson)[1] <= COIN


def spares_a_reflection(lesson: Lesson) -> bool:
    """Whether a lesson for this very failure is answer enough: not where it failed as often as it helped."""
    return lesson.losses == 0 or lesson.wins > lesson.losses


def withheld(lesson: Lesson, run_id: str, share: float) -> bool:
    """Whether this run is to go without the lesson, so that its worth can be measured.

    Only a candidate is ever withheld, and never from the first three runs it fits; then from this `share` of the
    runs, always the same ones. What is remembered of a user, under a name, is no experiment.
    """
    if lesson.name or lesson.status != "candidate" or lesson.shown < ALWAYS_SHOWN or share <= 0:
        return False
    return drawn(f"{run_id}\n{lesson.id}") < share


def drawn(said: str) -> float:
    """A number from 0 to 1 by lot, always the same for the same text."""
    return int.from_bytes(hashlib.sha256(said.encode("utf-8", "replace")).digest()[:8], "big") / 2**64


def result_of(episode: Episode, lesson: Lesson | None = None) -> str | None:
    """`win`, `loss`, or `None` where the run says nothing about the lesson, or nothing at all where there is none.

    A lesson that was shown and whose own failure came back all the same has lost, however the run ended.
    A run that nobody judged counts only for a lesson bound to a failure: it lost if that failure came back, and the
    one that it was recalled for is none that came back.
    """
    if lesson is not None and lesson.id in episode.failed:
        return "loss"
    if episode.status == "needs_input" or episode.stop_reason in UNCOUNTED:
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


PLACES = 50
"""Runs that are kept of each row."""

ENOUGH = 5
"""Runs on either side below which nothing is said."""

SURE = 2.0
"""How many times its own uncertainty the difference must be."""

TRY_AGAIN = 0.1
"""Share of the runs in which a topic below the floor gets its lessons all the same."""

LABEL = "topic-"
"""What the names of the places begin with, beside those of lessons in the evidence."""

Record = Mapping[str, tuple[int, int]]
"""Runs won and lost of each row."""


class Floor(NamedTuple):
    """The lessons that a run is better off without, and why; mostly none."""

    why: str = ""
    held: frozenset[str] = frozenset()


def floor(shelf: Shelf, topic: str, lessons: Collection[Lesson]) -> Plan[Floor]:
    """Which of these lessons to hold back. What a person approved, or wants remembered, never is."""
    ids = [one.id for one in lessons if not one.name]
    if not ids:
        return Floor()
    items = yield from every(_place(shelf, topic))
    why = worse(topic, _by_row(item.value for item in items))
    if not why:
        return Floor()
    known = yield from read_some(shelf, ids)
    held = frozenset(one for one in ids if one not in known or not known[one].evidence.vouched)
    return Floor(why, held) if held else Floor()


def tries_again(run_id: str) -> bool:
    """Whether this run gets its lessons although their topic is below the floor: always the same few."""
    return drawn(f"{run_id}\nfloor") < TRY_AGAIN


def worse(topic: str, record: Record) -> str:
    """Why a topic is below the floor, or nothing.

    The fair comparison is with runs that lessons fitted and that went without. Until there are enough of those, it
    is with all runs without; they may have been easier, so it only makes memory stand back until that is known.
    """
    none = (0, 0)
    shown, held, bare = (record.get(row, none) for row in ("shown", "held", "bare"))
    without = held if sum(held) >= ENOUGH else (held[0] + bare[0], held[1] + bare[1])
    if min(sum(shown), sum(without)) < ENOUGH:
        return ""
    (ours, doubt), (theirs, other) = posterior(*shown), posterior(*without)
    if theirs - ours <= SURE * math.sqrt(doubt + other):
        return ""
    return (
        f"Lessons are held back in the topic {topic!r}: of the latest runs with them {shown[0]} of "
        f"{sum(shown)} succeeded, of those without {without[0]} of {sum(without)}."
    )


def placed(shelf: Shelf, episode: Episode, exempt: Collection[str], at: datetime) -> list[Op]:
    """What records a run for its topic. `exempt` are lessons that are shown whatever the record."""
    result = result_of(episode)
    if result is None:
        return []
    row = "shown" if set(episode.shown) - set(exempt) else "held" if episode.withheld else "bare"
    place = int.from_bytes(hashlib.sha256(episode.id.encode("utf-8", "replace")).digest()[:8], "big") % PLACES
    value = {"type": "run", "run": episode.id, "row": row, "result": result, "at": at.isoformat()}
    return [put(place_of(shelf, episode), f"{row}/{place:02d}", value)]


def place_of(shelf: Shelf, episode: Episode) -> Namespace:
    """Where the runs of this one's topic lie."""
    return _place(shelf, episode.topic or topic_of(episode.task))


def place_in(key: str) -> str:
    """The place of a run in its row, which follows its id."""
    return key.rpartition("/")[2]


def topics(runs: Iterable[tuple[Namespace, Mapping[str, Any]]]) -> dict[str, dict[str, tuple[int, int]]]:
    """Runs won and lost by topic and row, of what lies beside the lessons' evidence."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for namespace, value in runs:
        if namespace[-1].startswith(LABEL):
            found.setdefault(namespace[-1].removeprefix(LABEL), []).append(value)
    return {topic: dict(_by_row(values)) for topic, values in sorted(found.items())}


def _place(shelf: Shelf, topic: str) -> Namespace:
    return shelf.evidence_of(LABEL + (re.sub(r"\W+", "-", topic).strip("-").lower()[:64] or "general"))


def _by_row(values: Iterable[Mapping[str, Any]]) -> Record:
    record: dict[str, tuple[int, int]] = {}
    for value in values:
        if value.get("undone"):
            continue
        row, won = str(value.get("row")), value.get("result") == "win"
        wins, losses = record.get(row, (0, 0))
        record[row] = (wins + won, losses + (not won))
    return record
