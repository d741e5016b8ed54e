"""The error notebook: save the findings of finished runs, count them, and turn them into rules for a prompt."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from langgraph.store.base import BaseStore, Op, PutOp

from langgraph_reflexion.context import Namespace, aware
from langgraph_reflexion.driver import in_thread
from langgraph_reflexion.memory import findings
from langgraph_reflexion.memory.access import Plan, both, drop, items_in, put, settle, storable
from langgraph_reflexion.memory.arguments import DEFAULT_NAMESPACE, check_count, check_id, check_text, place_in
from langgraph_reflexion.memory.findings import CATEGORIES, Finding, finding_of, is_sound, suspicion_of_finding
from langgraph_reflexion.memory.screening import Foreign
from langgraph_reflexion.text import hash_of
from langgraph_reflexion.text.tokens import fold, known_word

logger = logging.getLogger(__name__)


Session = Mapping[str, Any]
"""The record of one run: its id, its score and its time."""


class ErrorNotebook:
    """The findings of one namespace of a store, under `(*namespace, "notebook")`.

    Each method has an async twin whose name begins with `a`. Findings are dictionaries in the auditor's format. If
    there are more than `max_kept` findings or recorded runs, the oldest are deleted. Fields of the namespace are filled
    from `context`, as in a run.
    """

    def __init__(
        self,
        store: BaseStore,
        namespace: Namespace = DEFAULT_NAMESPACE,
        clock: Callable[[], datetime] | None = None,
        max_kept: int = 1_000,
        context: Any = None,
    ) -> None:
        if not check_count(max_kept, "max_kept"):
            raise ValueError(f"`max_kept` must be 1 or more, got {max_kept!r}")
        self.store = store
        self.namespace = place_in(store, namespace, context)
        self._place = (*self.namespace, "notebook")
        self._clock = aware(clock)
        self._max_kept = max_kept

    # ------------------------------------------------------------ writing

    def _add(self, finding: Mapping[str, Any], session: str = "") -> Plan[Finding]:
        """Save a finding and return it as saved. A finding that imitates another role is quarantined.

        An unknown category or severity, or an empty description, is a `ValueError`.
        """
        tidy, known = finding_of(finding), (yield from self._read())[0]
        check_text(session, "session")
        kept = self._new_finding(tidy, known, session, None, uuid4().hex[:16], suspicion_of_finding(tidy))
        yield from self._save(known, [kept])
        return kept

    add, aadd = both(_add)

    def _record(
        self,
        session: str,
        score: float | None,
        found: Collection[Mapping[str, Any]],
        foreign: Foreign | Collection[str] = (),
    ) -> Plan[list[Finding]]:
        """Save an auditor's findings about one run. The same finding of a session is saved only once.

        `foreign` holds the output of tools: a finding that copies it is quarantined.
        """
        if score is not None and not _is_score(score):
            raise ValueError(f"`score` must be a number from 0 to 100 or None, got {score!r}")
        check_text(session, "session")
        by_tools = foreign if isinstance(foreign, Foreign) else Foreign(foreign)
        tidied = list(map(finding_of, found))
        # Comparing them with all that tools said may take seconds, so the event loop does not do it.
        doubts = yield in_thread(lambda: [_doubt_of(tidy, by_tools) for tidy in tidied], own=True)
        known, sessions = yield from self._read()
        made: dict[str, Finding] = {}
        for tidy, doubt in zip(tidied, doubts, strict=True):
            id = _id_of(session, tidy)
            if id not in made and all(finding["id"] != id for finding in known):
                made[id] = self._new_finding(tidy, [*known, *made.values()], session, score, id, doubt)
        new = bool(session) and session not in {other["session"] for other in sessions}
        about = {"type": "session", "session": session, "score": score, "at": self._clock().isoformat()}
        yield from self._save(known, list(made.values()), sessions, about if new else None)
        return list(made.values())

    record, arecord = both(_record)

    def _remove(self, id: str) -> Plan[None]:
        """Delete a finding permanently. An unknown id is a `KeyError`."""
        if all(finding["id"] != check_id(id) for finding in (yield from self._read())[0]):
            raise KeyError(id)
        yield [PutOp(self._place, id, None)]
        yield from settle(self.store)

    remove, aremove = both(_remove)

    def _remove_older(self, than: datetime | timedelta) -> Plan[int]:
        """Delete the findings made before a time, or older than an age, and return their number."""
        if not isinstance(than, (datetime, timedelta)) or (isinstance(than, datetime) and than.tzinfo is None):
            raise ValueError(f"`than` must be a timedelta or a datetime with a time zone, got {than!r}")
        try:
            end = self._clock() - than if isinstance(than, timedelta) else than
        except OverflowError:
            raise ValueError(f"`than` must not reach back before the year 1, got {than!r}") from None
        known, sessions = yield from self._read()
        old = [finding["id"] for finding in known if datetime.fromisoformat(finding["at"]) < end]
        gone = [_session_key(ended["session"]) for ended in sessions if datetime.fromisoformat(ended["at"]) < end]
        if ops := list[Op](PutOp(self._place, key, None) for key in (*old, *gone)):
            yield ops
            yield from settle(self.store)
        return len(old)

    remove_older, aremove_older = both(_remove_older)

    def _clear(self) -> Plan[int]:
        """Delete everything and return the number of findings."""
        items = yield from items_in(self._place)
        yield drop(items)
        yield from settle(self.store)
        return sum(is_sound(item.value) for item in items)

    clear, aclear = both(_clear)

    # ------------------------------------------------------------ reading

    def _recent(self, limit: int = 20) -> Plan[list[Finding]]:
        """The latest findings, newest first."""
        return (yield from self._findings())[: check_count(limit, "limit")]

    recent, arecent = both(_recent)

    def _by_session(self, id: str) -> Plan[list[Finding]]:
        """The findings of one run, newest first."""
        session = storable(check_text(id, "id"))
        return (yield from self._findings(lambda finding: finding["session"] == session))

    by_session, aby_session = both(_by_session)

    def _by_category(self, name: str) -> Plan[list[Finding]]:
        """The findings of one of the seven categories, in any spelling ("Tool misuse"), newest first."""
        category = known_word(name, CATEGORIES)
        if category is None:
            raise ValueError(f"`category` must be one of {', '.join(CATEGORIES)}, got {name!r}")
        return (yield from self._findings(lambda finding: finding["category"] == category))

    by_category, aby_category = both(_by_category)

    def _by_tool(self, name: str) -> Plan[list[Finding]]:
        """The findings about one tool, newest first."""
        tool = check_text(name, "name")
        return (yield from self._findings(lambda finding: findings.concerns(finding, tool)))

    by_tool, aby_tool = both(_by_tool)

    def _statistics(self) -> Plan[dict[str, Any]]:
        """Counts by category, severity and tool, and the mean score."""
        return findings.statistics(*(yield from self._read()))

    statistics, astatistics = both(_statistics)

    def _rules_text(self, task: str = "", limit: int = 10, min_repetitions: int = 1) -> Plan[str]:
        """The most frequent mistakes as a block for a prompt, those that fit the task first. Empty if there are
        none."""
        least = check_count(min_repetitions, "min_repetitions")
        known, _ = yield from self._read()
        return findings.rules_text(known, check_text(task, "task"), check_count(limit, "limit"), least)

    rules_text, arules_text = both(_rules_text)

    # ------------------------------------------------------------ the store

    def _read(self) -> Plan[tuple[list[Finding], list[Session]]]:
        """All findings, oldest first, and the recorded runs. Damaged records are left out."""
        known: list[Finding] = []
        sessions: list[Session] = []
        for item in (yield from items_in(self._place)):
            value = item.value
            if is_sound(value) and value["id"] == item.key:
                known.append(value.copy())
            elif isinstance(value, dict) and value.get("type") == "session" and isinstance(value.get("at"), str):
                score = value.get("score") if _is_score(value.get("score")) else None
                sessions.append({**value, "session": str(value.get("session")), "score": score})
            else:
                logger.warning("Skipped the damaged finding %r", item.key)
        return sorted(known, key=lambda finding: (finding["order"], finding["id"])), sessions

    def _findings(self, wanted: Callable[[Finding], bool] | None = None) -> Plan[list[Finding]]:
        return [finding for finding in reversed((yield from self._read())[0]) if wanted is None or wanted(finding)]

    def _new_finding(
        self, tidy: Finding, known: list[Finding], session: str, score: float | None, id: str, doubt: str | None
    ) -> Finding:
        return {
            **tidy,
            "id": id,
            "session": session,
            "score": score,
            "at": self._clock().isoformat(),
            "order": max(time.time_ns(), known[-1]["order"] + 1 if known else 0),
            "group": findings.group_of(tidy, known),
            "status": "quarantined" if doubt else "kept",
            "why": doubt or "",
        }

    def _save(
        self, known: list[Finding], made: list[Finding], runs: Collection[Session] = (), new_run: Session | None = None
    ) -> Plan[None]:
        ops = [put(self._place, finding["id"], finding) for finding in made]
        too_many = len(known) + len(made) - self._max_kept
        gone = [finding["id"] for finding in [*known, *made][: max(too_many, 0)]]
        if new_run is not None:
            ops.append(put(self._place, _session_key(new_run["session"]), dict(new_run)))
            oldest = sorted(runs, key=lambda run: run["at"])[: max(len(runs) + 1 - self._max_kept, 0)]
            gone += [_session_key(run["session"]) for run in oldest]
        yield [*ops, *(PutOp(self._place, key, None) for key in gone)]


def _doubt_of(tidy: Finding, foreign: Foreign) -> str | None:
    """Why a finding must not be shown, or `None`."""
    copies = (foreign.copied(tidy[name]) for name in ("suggestion", "description"))
    return suspicion_of_finding(tidy) or next(filter(None, copies), None)


def _is_score(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 100


def _session_key(session: str) -> str:
    return f"session-{hash_of(session, 16)}"


def _id_of(session: str, tidy: Finding) -> str:
    """The same id for the same finding of the same run, however often it is recorded."""
    words = [session, tidy["category"], fold(tidy["description"]), fold(tidy["suggestion"])]
    return hash_of(json.dumps(words, ensure_ascii=False), 16) if session else uuid4().hex[:16]
