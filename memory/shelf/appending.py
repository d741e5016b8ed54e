"""Appending: how the sources, runs and changes of a lesson lie in its evidence, each under a key of its own."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langgraph.store.base import Item

from langgraph_reflexion.memory.shelf.records import Evidence, hash_of
from langgraph_reflexion.memory.shelf.values import Change
from langgraph_reflexion.schemas import Origin

logger = logging.getLogger(__name__)

_BY_CHANCE = ("at", "run", "why")
"""What of a conclusion from the evidence depends on who drew it."""


def source_record(source: str, origin: Origin, at: datetime) -> tuple[str, dict[str, Any]]:
    """The key and value that say: this lesson also rests on that episode."""
    return source_key(source, origin), {"type": "source", "source": source, "origin": origin, "at": at.isoformat()}


def run_record(
    run: str, *, result: str | None, at: datetime, withheld: bool = False, beside: int = 0, tried: bool = False
) -> tuple[str, dict[str, Any]]:
    """The key and value that say what came of a run; the last to finish under a run id stands.

    `beside` says how many other lessons it was shown with that may as well have been the reason; `tried`, that the run
    had written the lesson itself, so that it is no proof and counts in the ranking alone.
    """
    value: dict[str, Any] = {
        "type": "run",
        "run": run,
        "withheld": withheld,
        "result": result,
        "at": at.isoformat(),
        **({"beside": beside} if beside else {}),
        **({"tried": True} if tried else {}),
    }
    return run_key(run), value


def source_key(source: str, origin: str) -> str:
    """Under which it lies that a lesson rests on an episode."""
    return f"source/{origin}/{source}"


def run_key(run: str) -> str:
    """Under which it lies what came of a run."""
    return f"run/{run}"


def taken_back(value: dict[str, Any], at: datetime) -> dict[str, Any]:
    """The same record, kept and counted no more."""
    return {**value, "undone": at.isoformat()}


def change_record(known: Evidence, change: Change, row: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """The key and value of a change, after all those already known of its lesson.

    With the first of them goes the lesson's own record, so that it can be derived again.
    """
    place = 1 + max((int(_place(one.id)) for one in known.changes), default=-1)
    value: dict[str, Any] = {
        "type": "change",
        "lesson": change.lesson,
        "action": change.action,
        "at": change.at.isoformat(),
        "by": change.by,
        "why": change.why,
        "status": change.status,
        "run": change.run,
        "before": change.before,
        **({"after": change.after} if change.after else {}),
        **({"words": list(change.words)} if change.words else {}),
        **({"undoes": change.undoes} if change.undoes else {}),
    }
    # Writers who come to the same conclusion at once leave one record of it.
    own = _BY_CHANCE if change.by in ("evidence", "policy") else ("at", "run") if change.action == "opposed" else ()
    telling = {name: one for name, one in value.items() if name not in own}
    said = hash_of(json.dumps(telling, sort_keys=True), 8)
    key = f"change/{place:06d}/{said}"
    return key, {**value, "id": f"{change.lesson}.{place:06d}.{said}", **({"row": row} if row is not None else {})}


def lesson_of_change(change_id: str) -> str | None:
    """The lesson that a change's id belongs to, or `None` where it is no such id."""
    found = re.fullmatch(r"([\w-]+)\.\d{6}\.[0-9a-f]{8}", change_id)
    return found.group(1) if found else None


def evidence_in(items: Iterable[Item]) -> Evidence:
    """What these items say of one lesson; damaged ones are left out."""
    sources, runs, changes = [], [], []
    for item in items:
        value = item.value
        try:
            at = datetime.fromisoformat(value["at"])
            if value.get("undone"):
                continue
            if value["type"] == "source":
                sources.append((at, str(value["source"]), value))
            elif value["type"] == "run":
                runs.append((at, str(value["run"]), value))
            elif value["type"] == "change":
                changes.append((item.key, change_of(value)))
        except (KeyError, TypeError, ValueError):
            logger.warning("Left out the damaged evidence %r", item.key)
    return Evidence(
        sources=tuple(one[2] for one in sorted(sources, key=lambda one: one[:2])),
        runs=tuple(one[2] for one in sorted(runs, key=lambda one: one[:2])),
        changes=tuple(one[1] for one in sorted(changes, key=lambda one: one[0])),
    )


def _place(change_id: str) -> str:
    return change_id.split(".")[1]


def change_of(value: dict[str, Any]) -> Change:
    """The change that a record is of."""
    return Change(
        id=value["id"],
        lesson=value["lesson"],
        action=value["action"],
        at=datetime.fromisoformat(value["at"]),
        by=value["by"],
        why=value["why"],
        status=value["status"],
        run=value["run"],
        before=value["before"],
        after=value.get("after", {}),
        words=tuple(value.get("words", ())),
        undoes=value.get("undoes"),
    )
