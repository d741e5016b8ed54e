"""The floor: a topic whose runs go worse with lessons than without gets none, but for a few runs that try again.

Of each topic the latest runs are kept in three rows: `shown`, `held` (lessons fitted, and were held back) and `bare`
(nothing fitted). A row has so many places, and a run's place follows its id: nothing is counted by reading first,
and an old run gives way to a newer one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from langgraph.store.base import Op

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.access import Plan, every, put
from langgraph_reflexion.memory.shelf import Shelf, read_some
from langgraph_reflexion.memory.worth import drawn, posterior, result_of
from langgraph_reflexion.schemas import Episode, Lesson
from langgraph_reflexion.text.topics import topic_of

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
    why = worse(topic, _counted(item.value for item in items))
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
    return {topic: dict(_counted(values)) for topic, values in sorted(found.items())}


def _place(shelf: Shelf, topic: str) -> Namespace:
    return shelf.evidence_of(LABEL + (re.sub(r"\W+", "-", topic).strip("-").lower()[:64] or "general"))


def _counted(values: Iterable[Mapping[str, Any]]) -> Record:
    record: dict[str, tuple[int, int]] = {}
    for value in values:
        if value.get("undone"):
            continue
        row, won = str(value.get("row")), value.get("result") == "win"
        wins, losses = record.get(row, (0, 0))
        record[row] = (wins + won, losses + (not won))
    return record
