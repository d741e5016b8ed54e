"""The error notebook: what auditors found wrong with finished runs, grouped, counted, and told as rules."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any
from uuid import uuid4

from langgraph.store.base import BaseStore, Item, Op, PutOp

from langgraph_reflexion.context import Namespace, aware
from langgraph_reflexion.memory.notebook import findings
from langgraph_reflexion.memory.notebook.findings import CATEGORIES, concerns, doubt_of, finding_of, is_sound
from langgraph_reflexion.memory.notebook.grouping import Groups, Record
from langgraph_reflexion.memory.shelf.doors import Plan, awork, every, put, work
from langgraph_reflexion.memory.shelf.given import text, whole
from langgraph_reflexion.memory.shelf.ledger import Ledger
from langgraph_reflexion.memory.shelf.namespaces import place_in
from langgraph_reflexion.memory.text.words import fold
from langgraph_reflexion.memory.trust.provenance import copied

logger = logging.getLogger(__name__)

Finding = dict[str, Any]
"""A finding of the auditor's form, with its session, tool, score and time beside it."""


class ErrorNotebook:
    """The findings of one namespace of a store, under `(*namespace, "notebook")`.

    Every method that waits has a twin whose name begins with `a`. Findings are dictionaries of the auditor's form.
    The oldest go when there are more than `max_kept`. Fields of the namespace are filled from `context`, as for a run.
    """

    def __init__(
        self,
        store: BaseStore,
        namespace: Namespace = ("reflexion", "reflexion_agent"),
        clock: Callable[[], datetime] | None = None,
        max_kept: int = 10_000,
        context: Any = None,
    ) -> None:
        if not whole(max_kept, "max_kept"):
            raise ValueError(f"`max_kept` must be 1 or more, got {max_kept!r}")
        self.store = store
        self.namespace = place_in(store, namespace, context)
        self._place: Namespace = (*self.namespace, "notebook")
        self._clock = aware(clock)
        self._max_kept = max_kept
        self._ledger = Ledger(self._place, self._take, self._blank)
        self._lock = threading.Lock()
        self._last = 0
        self._counted: dict[str, Any] | None = None
        self._blank()

    # ------------------------------------------------------------ writing

    def add(self, finding: Mapping[str, Any], session: str = "") -> Finding:
        """Keep a finding and give it back as it is kept; one in the words of an attack is set aside.

        A category or severity that there is none of, or an empty description, is a `ValueError`.
        """
        return work(self.store, self._add(finding, text(session, "session")))

    async def aadd(self, finding: Mapping[str, Any], session: str = "") -> Finding:
        """The same, awaited."""
        return await awork(self.store, self._add(finding, text(session, "session")))

    def record(
        self, session: str, score: float | None, found: Collection[Mapping[str, Any]], heard: Collection[str] = ()
    ) -> list[Finding]:
        """Keep what an auditor says of one run. Recorded twice under a session, it is kept once.

        `heard` is what tools said: a suggestion copied from there is set aside.
        """
        return work(self.store, self._record(session, score, found, heard))

    async def arecord(
        self, session: str, score: float | None, found: Collection[Mapping[str, Any]], heard: Collection[str] = ()
    ) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._record(session, score, found, heard))

    def clear(self) -> int:
        """Remove everything, and say how many findings that were."""
        return work(self.store, self._clear())

    async def aclear(self) -> int:
        """The same, awaited."""
        return await awork(self.store, self._clear())

    # ------------------------------------------------------------ looking

    def recent(self, limit: int = 20) -> list[Finding]:
        """The latest findings, the newest first."""
        return work(self.store, self._found(list, whole(limit, "limit")))

    async def arecent(self, limit: int = 20) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._found(list, whole(limit, "limit")))

    def get(self, id: str) -> Finding | None:
        """A finding by its id, or `None`."""
        return next(iter(work(self.store, self._found(_with("id", id), 1))), None)

    async def aget(self, id: str) -> Finding | None:
        """The same, awaited."""
        return next(iter(await awork(self.store, self._found(_with("id", id), 1))), None)

    def by_session(self, id: str) -> list[Finding]:
        """What was found of one run, the newest first."""
        return work(self.store, self._found(_with("session", text(id, "id"))))

    async def aby_session(self, id: str) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._found(_with("session", text(id, "id"))))

    def by_category(self, name: str) -> list[Finding]:
        """The findings of one of the seven categories, the newest first."""
        return work(self.store, self._found(_with("category", _known(name))))

    async def aby_category(self, name: str) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._found(_with("category", _known(name))))

    def by_tool(self, name: str) -> list[Finding]:
        """The findings about one tool, the newest first."""
        return work(self.store, self._found(_about_tool(text(name, "name"))))

    async def aby_tool(self, name: str) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._found(_about_tool(text(name, "name"))))

    def statistics(self) -> dict[str, Any]:
        """Counts by category, severity and tool, the mean score, and how both move."""
        return work(self.store, self._statistics())

    async def astatistics(self) -> dict[str, Any]:
        """The same, awaited."""
        return await awork(self.store, self._statistics())

    def rules_text(self, task: str = "", limit: int = 10, min_repetitions: int = 1) -> str:
        """The mistakes made most often, those that fit the task first, as lines for a prompt; empty where none is."""
        return work(
            self.store,
            self._rules_text(text(task, "task"), whole(limit, "limit"), whole(min_repetitions, "min_repetitions")),
        )

    async def arules_text(self, task: str = "", limit: int = 10, min_repetitions: int = 1) -> str:
        """The same, awaited."""
        return await awork(
            self.store,
            self._rules_text(text(task, "task"), whole(limit, "limit"), whole(min_repetitions, "min_repetitions")),
        )

    def repeated(self, times: int) -> list[list[Finding]]:
        """The groups found in so many sessions or more, the members of each in order."""
        return work(self.store, self._repeated(times))

    async def arepeated(self, times: int) -> list[list[Finding]]:
        """The same, awaited."""
        return await awork(self.store, self._repeated(times))

    # ------------------------------------------------------------ plans

    def _add(self, finding: Mapping[str, Any], session: str) -> Plan[Finding]:
        tidy = finding_of(finding)
        yield from self._ledger.look()
        record = self._made(tidy, session, None, uuid4().hex[:16], ())
        yield from self._keep([record])
        return _shown(record)

    def _record(
        self, session: str, score: float | None, found: Collection[Mapping[str, Any]], heard: Collection[str]
    ) -> Plan[list[Finding]]:
        yield from self._ledger.look()
        records: list[Record] = []
        for given in found:
            tidy = finding_of(given)
            id = _id_of(session, tidy)
            if id not in self._records and all(one["id"] != id for one in records):
                records.append(self._made(tidy, session, score, id, heard))
        about = {"type": "session", "session": session, "score": score, "at": self._clock().isoformat()}
        yield from self._keep(records, about if session and session not in self._sessions else None)
        return [_shown(one) for one in records]

    def _made(self, tidy: Record, session: str, score: float | None, id: str, heard: Collection[str]) -> Record:
        doubt = doubt_of(tidy) or copied(tidy["suggestion"], heard)
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
        key = _session_key(session["session"]) if session is not None else ""
        if session is not None:
            ops.append(put(self._place, key, session))
        if not ops:
            return
        yield self._ledger.marked(ops)
        for one in records:
            self._ledger.wrote(one["id"])
            self._know(one)
        if session is not None:
            self._ledger.wrote(key)
            self._sessions[session["session"]] = session
            self._counted = None
        if len(self._records) > self._max_kept:
            old = [one["id"] for one in self._in_order()[: len(self._records) - self._max_kept]]
            yield [PutOp(self._place, one, None) for one in old]
            self._ledger.lost(old)
            kept = [one for one in self._in_order() if one["id"] not in set(old)]
            self._blank()
            for one in kept:
                self._know(one)

    def _clear(self) -> Plan[int]:
        items = yield from every(self._place)
        if items:
            yield [PutOp(self._place, item.key, None) for item in items]
        self._ledger.drop()
        return sum(is_sound(item.value) for item in items)

    def _found(self, choose: Callable[[list[Record]], list[Record]], limit: int | None = None) -> Plan[list[Finding]]:
        """Those that `choose` takes, or the last of them, the newest first."""
        yield from self._ledger.look()
        found = choose(self._in_order())
        latest = found if limit is None else found[max(len(found) - limit, 0) :]
        return [_shown(one) for one in reversed(latest)]

    def _statistics(self) -> Plan[dict[str, Any]]:
        yield from self._ledger.look()
        if self._counted is None:
            self._counted = findings.statistics(self._in_order(), self._sessions.values(), self._groups)
        return deepcopy(self._counted)

    def _rules_text(self, task: str, limit: int, least: int) -> Plan[str]:
        yield from self._ledger.look()
        return findings.rules_text(self._groups, task, limit, least)

    def _repeated(self, times: int) -> Plan[list[list[Finding]]]:
        yield from self._ledger.look()
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


def _with(field: str, value: str) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [one for one in records if one[field] == value]


def _about_tool(name: str) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [
        one for one in records if one["tool"] == name or (one["tool"] is None and concerns(one, name))
    ]


def _known(category: str) -> str:
    if category not in CATEGORIES:
        raise ValueError(f"`category` is one of {', '.join(CATEGORIES)}, got {category!r}")
    return category


def _shown(record: Record) -> Finding:
    shown = record.copy()
    if shown["evidence"]:
        shown["evidence"] = [*shown["evidence"]]
    return shown


def _id_of(session: str, tidy: Record) -> str:
    """The same for the same finding of the same run, however often it is recorded."""
    said = [session, tidy["category"], fold(tidy["description"]), fold(tidy["suggestion"])]
    return _hash(json.dumps(said, ensure_ascii=False)) if session else uuid4().hex[:16]


def _session_key(session: str) -> str:
    return f"session-{_hash(session)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
