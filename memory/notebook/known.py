"""What a notebook knows: the findings of one namespace held in mind, and the plans that read and write them."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any
from uuid import uuid4

from langgraph.store.base import Item, Op, PutOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.access import Plan, every, put
from langgraph_reflexion.memory.notebook import findings
from langgraph_reflexion.memory.notebook.additions import Additions
from langgraph_reflexion.memory.notebook.findings import doubt_of, finding_of, is_sound
from langgraph_reflexion.memory.notebook.grouping import Groups, Record
from langgraph_reflexion.memory.provenance import copied
from langgraph_reflexion.memory.records import hash_of
from langgraph_reflexion.text.words import fold

logger = logging.getLogger(__name__)

Finding = dict[str, Any]
"""A finding of the auditor's form, with its session, tool, score and time beside it."""


class Known:
    """The findings under one place of a store. What each plan gives is a copy; the oldest go above `max_kept`."""

    def __init__(self, place: Namespace, clock: Callable[[], datetime], max_kept: int) -> None:
        self._place = place
        self._clock = clock
        self._max_kept = max_kept
        self._additions = Additions(place, self._take, self._blank)
        self._lock = threading.Lock()
        self._last = 0
        self._counted: dict[str, Any] | None = None
        self._blank()

    def add(self, finding: Mapping[str, Any], session: str) -> Plan[Finding]:
        """Keep one finding."""
        tidy = finding_of(finding)
        yield from self._additions.look()
        record = self._made(tidy, session, None, uuid4().hex[:16], ())
        yield from self._keep([record])
        return _shown(record)

    def record(
        self, session: str, score: float | None, found: Collection[Mapping[str, Any]], foreign: Collection[str]
    ) -> Plan[list[Finding]]:
        """Keep what was found of one run, each once."""
        yield from self._additions.look()
        records: list[Record] = []
        for given in found:
            tidy = finding_of(given)
            id = _id_of(session, tidy)
            if id not in self._records and all(one["id"] != id for one in records):
                records.append(self._made(tidy, session, score, id, foreign))
        about = {"type": "session", "session": session, "score": score, "at": self._clock().isoformat()}
        yield from self._keep(records, about if session and session not in self._sessions else None)
        return [_shown(one) for one in records]

    def _made(self, tidy: Record, session: str, score: float | None, id: str, foreign: Collection[str]) -> Record:
        doubt = doubt_of(tidy) or copied(tidy["suggestion"], foreign)
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            order = self._last
        return {
            **tidy,
            "id": id,
            "session": session,
            "score": score,
            "at": self._clock().isoformat(),
            "order": order,
            "group": self._groups.place(tidy),
            "status": "quarantined" if doubt else "kept",
            "why": doubt or "",
        }

    def _keep(self, records: list[Record], session: Record | None = None) -> Plan[None]:
        ops: list[Op] = [put(self._place, one["id"], one) for one in records]
        key = f"session-{hash_of(session['session'], 16)}" if session is not None else ""
        if session is not None:
            ops.append(put(self._place, key, session))
        if not ops:
            return
        yield self._additions.marked(ops)
        for one in records:
            self._additions.wrote(one["id"])
            self._know(one)
        if session is not None:
            self._additions.wrote(key)
            self._sessions[session["session"]] = session
            self._counted = None
        if len(self._records) > self._max_kept:
            old = [one["id"] for one in self._in_order()[: len(self._records) - self._max_kept]]
            yield [PutOp(self._place, one, None) for one in old]
            self._additions.lost(old)
            kept = [one for one in self._in_order() if one["id"] not in set(old)]
            self._blank()
            for one in kept:
                self._know(one)

    def clear(self) -> Plan[int]:
        """Remove everything, and say how much that was."""
        items = yield from every(self._place)
        if items:
            yield [PutOp(self._place, item.key, None) for item in items]
        self._additions.drop()
        return sum(is_sound(item.value) for item in items)

    def found(self, choose: Callable[[list[Record]], list[Record]], limit: int | None = None) -> Plan[list[Finding]]:
        """Those that `choose` takes, or the last of them, the newest first."""
        yield from self._additions.look()
        found = choose(self._in_order())
        latest = found if limit is None else found[max(len(found) - limit, 0) :]
        return [_shown(one) for one in reversed(latest)]

    def statistics(self) -> Plan[dict[str, Any]]:
        """Counts of all of it."""
        yield from self._additions.look()
        if self._counted is None:
            self._counted = findings.statistics(self._in_order(), self._sessions.values(), self._groups)
        return deepcopy(self._counted)

    def rules_text(self, task: str, limit: int, least: int) -> Plan[str]:
        """The mistakes made most often, as lines for a prompt."""
        yield from self._additions.look()
        return findings.rules_text(self._groups, task, limit, least)

    def repeated(self, times: int) -> Plan[list[list[Finding]]]:
        """The groups found in so many sessions or more."""
        yield from self._additions.look()
        names = {group.first["group"] for group in self._groups.often(times)}
        found: dict[str, list[Finding]] = {name: [] for name in names}
        for one in self._in_order():
            if one["group"] in names and one["status"] == "kept":
                found[one["group"]].append(_shown(one))
        return list(found.values())

    # ------------------------------------------------------------ what is held in mind

    def _blank(self) -> None:
        self._records: dict[str, Record] = {}
        self._sessions: dict[str, Record] = {}
        self._ordered: list[Record] | None = None
        self._counted = None
        self._groups = Groups()

    def _take(self, item: Item) -> None:
        value = item.value
        if is_sound(value) and value["id"] == item.key:
            self._know(value)
        elif isinstance(value, dict) and value.get("type") == "session" and isinstance(value.get("at"), str):
            self._sessions[str(value.get("session"))] = value
            self._counted = None
        else:
            logger.warning("Left out the damaged finding %r", item.key)

    def _know(self, record: Record) -> None:
        self._records[record["id"]] = record
        self._counted = None
        self._groups.take(record)
        with self._lock:
            self._last = max(self._last, record["order"])
            ordered = self._ordered
            if ordered is not None and (not ordered or ordered[-1]["order"] <= record["order"]):
                ordered.append(record)
            else:
                self._ordered = None

    def _in_order(self) -> list[Record]:
        """All findings, the oldest first."""
        ordered = self._ordered
        if ordered is None:
            ordered = self._ordered = sorted(self._records.values(), key=lambda one: (one["order"], one["id"]))
        return ordered


def _shown(record: Record) -> Finding:
    shown = record.copy()
    if shown["evidence"]:
        shown["evidence"] = [*shown["evidence"]]
    return shown


def _id_of(session: str, tidy: Record) -> str:
    """The same for the same finding of the same run, however often it is recorded."""
    said = [session, tidy["category"], fold(tidy["description"]), fold(tidy["suggestion"])]
    return hash_of(json.dumps(said, ensure_ascii=False), 16) if session else uuid4().hex[:16]
