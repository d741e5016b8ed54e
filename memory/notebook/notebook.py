"""The error notebook: what auditors found wrong with finished runs, grouped, counted, and told as rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from langgraph.store.base import BaseStore

from langgraph_reflexion.context import Namespace, aware
from langgraph_reflexion.memory.access import Plan, awork, work
from langgraph_reflexion.memory.arguments import text, whole
from langgraph_reflexion.memory.namespaces import place_in
from langgraph_reflexion.memory.notebook.findings import CATEGORIES, concerns
from langgraph_reflexion.memory.notebook.grouping import Record
from langgraph_reflexion.memory.notebook.known import Finding, Known


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
        self._known = Known((*self.namespace, "notebook"), aware(clock), max_kept)

    # ------------------------------------------------------------ writing

    def add(self, finding: Mapping[str, Any], session: str = "") -> Finding:
        """Keep a finding and give it back as it is kept; one in the words of an attack is set aside.

        A category or severity that there is none of, or an empty description, is a `ValueError`.
        """
        return work(self.store, self._known.add(finding, text(session, "session")))

    async def aadd(self, finding: Mapping[str, Any], session: str = "") -> Finding:
        """The same, awaited."""
        return await awork(self.store, self._known.add(finding, text(session, "session")))

    def record(
        self, session: str, score: float | None, found: Collection[Mapping[str, Any]], foreign: Collection[str] = ()
    ) -> list[Finding]:
        """Keep what an auditor says of one run. Recorded twice under a session, it is kept once.

        `foreign` is what tools said: a suggestion copied from there is set aside.
        """
        return work(self.store, self._known.record(session, score, found, foreign))

    async def arecord(
        self, session: str, score: float | None, found: Collection[Mapping[str, Any]], foreign: Collection[str] = ()
    ) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._known.record(session, score, found, foreign))

    def clear(self) -> int:
        """Remove everything, and say how many findings that were."""
        return work(self.store, self._known.clear())

    async def aclear(self) -> int:
        """The same, awaited."""
        return await awork(self.store, self._known.clear())

    # ------------------------------------------------------------ looking

    def recent(self, limit: int = 20) -> list[Finding]:
        """The latest findings, the newest first."""
        return work(self.store, self._known.found(list, whole(limit, "limit")))

    async def arecent(self, limit: int = 20) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._known.found(list, whole(limit, "limit")))

    def get(self, id: str) -> Finding | None:
        """A finding by its id, or `None`."""
        return next(iter(work(self.store, self._known.found(_with("id", id), 1))), None)

    async def aget(self, id: str) -> Finding | None:
        """The same, awaited."""
        return next(iter(await awork(self.store, self._known.found(_with("id", id), 1))), None)

    def by_session(self, id: str) -> list[Finding]:
        """What was found of one run, the newest first."""
        return work(self.store, self._known.found(_with("session", text(id, "id"))))

    async def aby_session(self, id: str) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._known.found(_with("session", text(id, "id"))))

    def by_category(self, name: str) -> list[Finding]:
        """The findings of one of the seven categories, the newest first."""
        return work(self.store, self._known.found(_with("category", _category(name))))

    async def aby_category(self, name: str) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._known.found(_with("category", _category(name))))

    def by_tool(self, name: str) -> list[Finding]:
        """The findings about one tool, the newest first."""
        return work(self.store, self._known.found(_about_tool(text(name, "name"))))

    async def aby_tool(self, name: str) -> list[Finding]:
        """The same, awaited."""
        return await awork(self.store, self._known.found(_about_tool(text(name, "name"))))

    def statistics(self) -> dict[str, Any]:
        """Counts by category, severity and tool, the mean score, and how both move."""
        return work(self.store, self._known.statistics())

    async def astatistics(self) -> dict[str, Any]:
        """The same, awaited."""
        return await awork(self.store, self._known.statistics())

    def rules_text(self, task: str = "", limit: int = 10, min_repetitions: int = 1) -> str:
        """The mistakes made most often, those that fit the task first, as lines for a prompt; empty where none is."""
        return work(self.store, self._rules_text(task, limit, min_repetitions))

    async def arules_text(self, task: str = "", limit: int = 10, min_repetitions: int = 1) -> str:
        """The same, awaited."""
        return await awork(self.store, self._rules_text(task, limit, min_repetitions))

    def repeated(self, times: int) -> list[list[Finding]]:
        """The groups found in so many sessions or more, the members of each in order."""
        return work(self.store, self._known.repeated(times))

    async def arepeated(self, times: int) -> list[list[Finding]]:
        """The same, awaited."""
        return await awork(self.store, self._known.repeated(times))

    def _rules_text(self, task: str, limit: int, least: int) -> Plan[str]:
        return self._known.rules_text(text(task, "task"), whole(limit, "limit"), whole(least, "min_repetitions"))


def _with(field: str, value: str) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [one for one in records if one[field] == value]


def _about_tool(name: str) -> Callable[[list[Record]], list[Record]]:
    return lambda records: [
        one for one in records if one["tool"] == name or (one["tool"] is None and concerns(one, name))
    ]


def _category(name: str) -> str:
    if name not in CATEGORIES:
        raise ValueError(f"`category` is one of {', '.join(CATEGORIES)}, got {name!r}")
    return name
