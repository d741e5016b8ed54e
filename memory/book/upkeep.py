"""Upkeep: what people do with a book. They decide, take back, sum up, mend, and carry lessons in and out."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from langgraph_reflexion.memory import exchange, undoing
from langgraph_reflexion.memory.access import Plan, asettle, awork, settle, work
from langgraph_reflexion.memory.arguments import a, a_place, an_id, text
from langgraph_reflexion.memory.book.opened import OpenBook
from langgraph_reflexion.memory.exchange import Place
from langgraph_reflexion.memory.life import deciding, distilling, wording
from langgraph_reflexion.memory.values import Change, Loaded
from langgraph_reflexion.schemas import Lesson


class Upkeep(OpenBook):
    """What people do with a book."""

    def approve(self, id: str) -> Lesson:
        """Make a lesson active, and have exactly these words shown. No later loss takes it back."""
        return work(self.store, deciding.approve(self._shelf, an_id(id)))

    async def aapprove(self, id: str) -> Lesson:
        """The same, awaited."""
        return await awork(self.store, deciding.approve(self._shelf, an_id(id)))

    def retire(self, id: str, why: str) -> Lesson:
        """Show a lesson no more, and keep it with the reason."""
        return work(self.store, deciding.retire(self._shelf, an_id(id), text(why, "why")))

    async def aretire(self, id: str, why: str) -> Lesson:
        """The same, awaited."""
        return await awork(self.store, deciding.retire(self._shelf, an_id(id), text(why, "why")))

    def restore(self, id: str) -> Lesson:
        """Bring back a lesson that is retired, superseded or quarantined."""
        return work(self.store, deciding.restore(self._shelf, an_id(id)))

    async def arestore(self, id: str) -> Lesson:
        """The same, awaited."""
        return await awork(self.store, deciding.restore(self._shelf, an_id(id)))

    def forget(self, id: str) -> None:
        """Remove a lesson's text, vectors, evidence and history for good."""
        work(self.store, deciding.forget(self._shelf, an_id(id)))
        settle(self.store)

    async def aforget(self, id: str) -> None:
        """The same, awaited."""
        await awork(self.store, deciding.forget(self._shelf, an_id(id)))
        await asettle(self.store)

    def undo(self, change_or_run: str | None = None, *, since: datetime | None = None) -> list[Change]:
        """Take back a change, all that a run changed, or all since a time. The record of it stays."""
        return work(self.store, self._undo(change_or_run, since))

    async def aundo(self, change_or_run: str | None = None, *, since: datetime | None = None) -> list[Change]:
        """The same, awaited."""
        return await awork(self.store, self._undo(change_or_run, since))

    def distill(self, model: Any = None) -> list[Lesson]:
        """Give lessons that say much the same one pattern that speaks for them, and return the new patterns.

        `model`, a chat model or a function of a prompt, words them; without one, or where it is not faithful, the best
        wording is taken. The lessons stay, linked. A second call finds nothing to do and asks no model.
        """
        wording.must_speak(model)
        made = []
        for cluster in work(self.store, distilling.clusters(self._shelf)):
            said = None if model is None else wording.spoken(model, wording.question(cluster.members))
            made.append(work(self.store, distilling.keep(self._shelf, cluster, said)))
        return [one for one in made if one is not None]

    async def adistill(self, model: Any = None) -> list[Lesson]:
        """The same, awaited."""
        wording.must_speak(model)
        made = []
        for cluster in await awork(self.store, distilling.clusters(self._shelf)):
            said = None if model is None else await wording.aspoken(model, wording.question(cluster.members))
            made.append(await awork(self.store, distilling.keep(self._shelf, cluster, said)))
        return [one for one in made if one is not None]

    def forget_named(self, name: str) -> int:
        """Remove what is kept under a name for good, its former values too, and say how many entries that were."""
        count = work(self.store, deciding.forget_named(self._shelf, text(name, "name")))
        settle(self.store)
        return count

    async def aforget_named(self, name: str) -> int:
        """The same, awaited."""
        count = await awork(self.store, deciding.forget_named(self._shelf, text(name, "name")))
        await asettle(self.store)
        return count

    def _undo(self, what: str | None, since: datetime | None) -> Plan[list[Change]]:
        if what is not None and not an_id(what, "change_or_run"):
            raise KeyError(what)  # nothing has an empty id, and what has none is not all meant
        return undoing.undo(self._shelf, what, None if since is None else a(datetime, since, "since"))

    # ------------------------------------------------------------ carrying

    def export(self, path_or_file: Place) -> int:
        """Write every lesson as a line of JSON, and say how many."""
        return exchange.write_lines(self.lessons(), a_place(path_or_file))

    async def aexport(self, path_or_file: Place) -> int:
        """The same, awaited."""
        return await asyncio.to_thread(exchange.write_lines, await self.alessons(), a_place(path_or_file))

    def load(self, path_or_file: Place, *, strict: bool = True, update: bool = False) -> Loaded:
        """Keep the lessons of such a file that are new here: all or nothing, or all but the bad lines.

        With `update`, lessons that are known by their id take the words that the file has for them.
        """
        lines = exchange.read_lines(a_place(path_or_file))
        return work(self.store, exchange.load(self._shelf, lines, strict, update))

    async def aload(self, path_or_file: Place, *, strict: bool = True, update: bool = False) -> Loaded:
        """The same, awaited."""
        lines = await asyncio.to_thread(exchange.read_lines, a_place(path_or_file))
        return await awork(self.store, exchange.load(self._shelf, lines, strict, update))
