"""The lesson book: memory's one door, for the nodes and for people alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, get_args

from langgraph.store.base import BaseStore

from langgraph_reflexion.context import MemoryPolicy, Namespace
from langgraph_reflexion.memory import (
    crediting,
    deciding,
    distilling,
    exchange,
    explaining,
    looking,
    rebuilding,
    recalling,
    showing,
    undoing,
    writing,
)
from langgraph_reflexion.memory.doors import Plan, awork, every, work
from langgraph_reflexion.memory.exchange import Place
from langgraph_reflexion.memory.floor import Floor, floor
from langgraph_reflexion.memory.index import Reader
from langgraph_reflexion.memory.namespaces import place_in
from langgraph_reflexion.memory.precedent import Precedent, precedent
from langgraph_reflexion.memory.recalling import passes
from langgraph_reflexion.memory.records import LIVE, lesson_in
from langgraph_reflexion.memory.shelf import Shelf, read_all, read_episode, read_some
from langgraph_reflexion.memory.values import Change, Found, Loaded, Repair, Written
from langgraph_reflexion.schemas import Episode, Failure, Kind, Lesson, LessonStatus, Origin

Wanted = str | Collection[str] | None
"""A word to filter by, or several of which one must hold."""


class LessonBook:
    """The lessons of one namespace of a store.

    Any LangGraph store will do, with or without an index. Every method that waits has a twin whose name begins
    with `a`. Many books, threads and processes may share a namespace: nothing is lost or counted twice. Books that
    are made anew for each run find faster with one `reader` between them.

    A namespace with fields, such as `("planner", "{user_id}")`, is filled from `context`, as it is for a run.
    """

    def __init__(
        self,
        store: BaseStore,
        namespace: Namespace = ("reflexion", "reflexion_agent"),
        policy: MemoryPolicy | None = None,
        clock: Callable[[], datetime] | None = None,
        reader: Reader | None = None,
        context: Any = None,
    ) -> None:
        self.store = store
        self.namespace = place_in(store, namespace, context)
        self.policy = policy or MemoryPolicy()
        index = (reader or Reader()).index(store, (*self.namespace, "lessons"))
        embed = getattr(store, "embeddings", self)
        vectors = embed is not None and not getattr(embed, "spelling_only", False)
        self._shelf = Shelf(self.namespace, self.policy, clock or _now, index, vectors)

    # ------------------------------------------------------------ for runs

    def add(
        self,
        lesson: Lesson,
        *,
        task: str | None = None,
        answer: str | None = None,
        heard: Collection[str] = (),
        doubt: str | None = None,
    ) -> Written:
        """Offer a lesson. `task` and `answer` are what it must not retell, `heard` what it must not be copied from.

        It is kept as a candidate at most; one known already, in whatever spelling, gains the evidence. With a `doubt`,
        why it should not be shown, it is set aside.
        """
        return work(self.store, writing.add(self._shelf, lesson, task, answer, heard, doubt))

    async def aadd(
        self,
        lesson: Lesson,
        *,
        task: str | None = None,
        answer: str | None = None,
        heard: Collection[str] = (),
        doubt: str | None = None,
    ) -> Written:
        """The same, awaited."""
        return await awork(self.store, writing.add(self._shelf, lesson, task, answer, heard, doubt))

    def recall(
        self,
        task: str,
        tools: Collection[str] = (),
        failure: Failure | None = None,
        topic: str | None = None,
        *,
        exclude: Collection[str] = (),
    ) -> list[Lesson]:
        """The few lessons that fit a task, or a failure where there is one; often none. `exclude` holds ids."""
        return work(self.store, self._recall(task, tools, failure, topic, exclude))

    async def arecall(
        self,
        task: str,
        tools: Collection[str] = (),
        failure: Failure | None = None,
        topic: str | None = None,
        *,
        exclude: Collection[str] = (),
    ) -> list[Lesson]:
        """The same, awaited."""
        return await awork(self.store, self._recall(task, tools, failure, topic, exclude))

    def floor(self, topic: str, lessons: Collection[Lesson]) -> Floor:
        """Which of these lessons to hold back, because runs of this topic go worse with lessons than without."""
        return work(self.store, floor(self._shelf, topic, lessons))

    async def afloor(self, topic: str, lessons: Collection[Lesson]) -> Floor:
        """The same, awaited."""
        return await awork(self.store, floor(self._shelf, topic, lessons))

    def credit(self, episode: Episode) -> None:
        """Keep a finished run and count what came of it; the last to finish under a run id stands."""
        work(self.store, crediting.credit(self._shelf, episode))

    async def acredit(self, episode: Episode) -> None:
        """The same, awaited."""
        await awork(self.store, crediting.credit(self._shelf, episode))

    def feedback(self, run_id: str) -> bool:
        """Count a run as lost after all, because the user says so. `False` where the run is unknown."""
        return work(self.store, crediting.feedback(self._shelf, run_id))

    async def afeedback(self, run_id: str) -> bool:
        """The same, awaited."""
        return await awork(self.store, crediting.feedback(self._shelf, run_id))

    # ------------------------------------------------------------ looking

    def get(self, id: str) -> Lesson | None:
        """A lesson as it is now, or `None`."""
        return work(self.store, self._get(id))

    async def aget(self, id: str) -> Lesson | None:
        """The same, awaited."""
        return await awork(self.store, self._get(id))

    def has(self, id_or_name: str) -> bool:
        """Whether there is a lesson of this id or name."""
        return work(self.store, self._has(id_or_name))

    async def ahas(self, id_or_name: str) -> bool:
        """The same, awaited."""
        return await awork(self.store, self._has(id_or_name))

    def lessons(
        self,
        *,
        kind: Wanted = None,
        status: Wanted = None,
        topic: Wanted = None,
        tag: Wanted = None,
        origin: Wanted = None,
    ) -> list[Lesson]:
        """All lessons that have what is asked for, the oldest first."""
        return work(self.store, self._lessons(_filters(kind, status, topic, tag, origin)))

    async def alessons(
        self,
        *,
        kind: Wanted = None,
        status: Wanted = None,
        topic: Wanted = None,
        tag: Wanted = None,
        origin: Wanted = None,
    ) -> list[Lesson]:
        """The same, awaited."""
        return await awork(self.store, self._lessons(_filters(kind, status, topic, tag, origin)))

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        kind: Wanted = None,
        status: Wanted = None,
        topic: Wanted = None,
        tag: Wanted = None,
        origin: Wanted = None,
    ) -> list[Found]:
        """The lessons nearest to a query in whatever status, with how near they are."""
        filters = _filters(kind, status, topic, tag, origin)
        return work(self.store, recalling.search(self._shelf, query, limit, filters))

    async def asearch(
        self,
        query: str,
        limit: int = 10,
        *,
        kind: Wanted = None,
        status: Wanted = None,
        topic: Wanted = None,
        tag: Wanted = None,
        origin: Wanted = None,
    ) -> list[Found]:
        """The same, awaited."""
        filters = _filters(kind, status, topic, tag, origin)
        return await awork(self.store, recalling.search(self._shelf, query, limit, filters))

    def episode(self, run_id: str) -> Episode | None:
        """The record of a run, or `None`."""
        return work(self.store, read_episode(self._shelf, run_id))

    async def aepisode(self, run_id: str) -> Episode | None:
        """The same, awaited."""
        return await awork(self.store, read_episode(self._shelf, run_id))

    def precedent(
        self, task: str, failure: Failure | None = None, *, but: str | None = None, exclude: Collection[str] = ()
    ) -> Precedent | None:
        """The run of a like task that succeeded, with the advice and the lessons that led there; often none.

        One that got over the same failure comes first. `but` is a run's id, `exclude` holds lessons' ids.
        """
        return work(self.store, self._precedent(task, failure, but, exclude))

    async def aprecedent(
        self, task: str, failure: Failure | None = None, *, but: str | None = None, exclude: Collection[str] = ()
    ) -> Precedent | None:
        """The same, awaited."""
        return await awork(self.store, self._precedent(task, failure, but, exclude))

    def history(self, id: str) -> list[Change]:
        """What happened to a lesson, in order; each change has an id that `undo` takes."""
        return work(self.store, looking.history(self._shelf, id))

    async def ahistory(self, id: str) -> list[Change]:
        """The same, awaited."""
        return await awork(self.store, looking.history(self._shelf, id))

    def explain(self, run_id: str | None = None) -> dict[str, Any]:
        """What a run was shown and went without, why, from which evidence, what it wrote, and what came of it.

        Where no run is named, it is the latest.
        """
        return work(self.store, explaining.explain(self._shelf, run_id))

    async def aexplain(self, run_id: str | None = None) -> dict[str, Any]:
        """The same, awaited."""
        return await awork(self.store, explaining.explain(self._shelf, run_id))

    def hidden(self, id: str) -> str | None:
        """Why a lesson is shown to no run: where it stands, that its time is over, or what its words look like.

        `None` where runs that it fits are shown it.
        """
        return work(self.store, showing.hidden(self._shelf, id))

    async def ahidden(self, id: str) -> str | None:
        """The same, awaited."""
        return await awork(self.store, showing.hidden(self._shelf, id))

    def stats(self) -> dict[str, Any]:
        """How many lessons there are, by status, kind and origin, and how they did."""
        return work(self.store, looking.stats(self._shelf))

    async def astats(self) -> dict[str, Any]:
        """The same, awaited."""
        return await awork(self.store, looking.stats(self._shelf))

    # ------------------------------------------------------------ deciding

    def approve(self, id: str) -> Lesson:
        """Make a lesson active, and have exactly these words shown. No later loss takes it back."""
        return work(self.store, deciding.approve(self._shelf, id))

    async def aapprove(self, id: str) -> Lesson:
        """The same, awaited."""
        return await awork(self.store, deciding.approve(self._shelf, id))

    def retire(self, id: str, why: str) -> Lesson:
        """Show a lesson no more, and keep it with the reason."""
        return work(self.store, deciding.retire(self._shelf, id, why))

    async def aretire(self, id: str, why: str) -> Lesson:
        """The same, awaited."""
        return await awork(self.store, deciding.retire(self._shelf, id, why))

    def restore(self, id: str) -> Lesson:
        """Bring back a lesson that is retired, superseded or quarantined."""
        return work(self.store, deciding.restore(self._shelf, id))

    async def arestore(self, id: str) -> Lesson:
        """The same, awaited."""
        return await awork(self.store, deciding.restore(self._shelf, id))

    def forget(self, id: str) -> None:
        """Remove a lesson's text, vectors, evidence and history for good."""
        work(self.store, deciding.forget(self._shelf, id))

    async def aforget(self, id: str) -> None:
        """The same, awaited."""
        await awork(self.store, deciding.forget(self._shelf, id))

    def undo(self, change_or_run: str | None = None, *, since: datetime | None = None) -> list[Change]:
        """Take back a change, all that a run changed, or all since a time. The record of it stays."""
        return work(self.store, undoing.undo(self._shelf, change_or_run, since))

    async def aundo(self, change_or_run: str | None = None, *, since: datetime | None = None) -> list[Change]:
        """The same, awaited."""
        return await awork(self.store, undoing.undo(self._shelf, change_or_run, since))

    def distill(self, model: Any = None) -> list[Lesson]:
        """Give lessons that say much the same one pattern that speaks for them, and return the new patterns.

        `model`, a chat model or a function of a prompt, words them; without one, or where it is not faithful, the best
        wording is taken. The lessons stay, linked. A second call finds nothing to do and asks no model.
        """
        made = []
        for cluster in work(self.store, distilling.clusters(self._shelf)):
            said = None if model is None else distilling.spoken(model, distilling.question(cluster))
            made.append(work(self.store, distilling.keep(self._shelf, cluster, said)))
        return [one for one in made if one is not None]

    async def adistill(self, model: Any = None) -> list[Lesson]:
        """The same, awaited."""
        made = []
        for cluster in await awork(self.store, distilling.clusters(self._shelf)):
            said = None if model is None else await distilling.aspoken(model, distilling.question(cluster))
            made.append(await awork(self.store, distilling.keep(self._shelf, cluster, said)))
        return [one for one in made if one is not None]

    def rebuild(self, *, dry_run: bool = False) -> list[Repair]:
        """Derive the lessons again from their changes and the episodes, and mend what is not the same.

        A lesson whose record was lost or written over gets its words, status and counts back. Where nothing was lost
        nothing changes. With `dry_run` it is only said what would be mended.
        """
        return work(self.store, rebuilding.rebuild(self._shelf, dry_run))

    async def arebuild(self, *, dry_run: bool = False) -> list[Repair]:
        """The same, awaited."""
        return await awork(self.store, rebuilding.rebuild(self._shelf, dry_run))

    # ------------------------------------------------------------ what is remembered of the user and the project

    def profile(self) -> list[Lesson]:
        """The entries that have a name and hold now, the oldest first."""
        return work(self.store, self._profile())

    async def aprofile(self) -> list[Lesson]:
        """The same, awaited."""
        return await awork(self.store, self._profile())

    def forget_named(self, name: str) -> int:
        """Remove what is kept under a name for good, its former values too, and say how many entries that were."""
        return work(self.store, deciding.forget_named(self._shelf, name))

    async def aforget_named(self, name: str) -> int:
        """The same, awaited."""
        return await awork(self.store, deciding.forget_named(self._shelf, name))

    # ------------------------------------------------------------ carrying

    def export(self, path_or_file: Place) -> int:
        """Write every lesson as a line of JSON, and say how many."""
        return exchange.write_lines(self.lessons(), path_or_file)

    async def aexport(self, path_or_file: Place) -> int:
        """The same, awaited."""
        return await asyncio.to_thread(exchange.write_lines, await self.alessons(), path_or_file)

    def load(self, path_or_file: Place, *, strict: bool = True, update: bool = False) -> Loaded:
        """Keep the lessons of such a file that are new here: all or nothing, or all but the bad lines.

        With `update`, lessons that are known by their id take the words that the file has for them.
        """
        lines = exchange.read_lines(path_or_file)
        return work(self.store, exchange.load(self._shelf, lines, strict, update))

    async def aload(self, path_or_file: Place, *, strict: bool = True, update: bool = False) -> Loaded:
        """The same, awaited."""
        lines = await asyncio.to_thread(exchange.read_lines, path_or_file)
        return await awork(self.store, exchange.load(self._shelf, lines, strict, update))

    # ------------------------------------------------------------ plans

    def _recall(
        self, task: str, tools: Collection[str], failure: Failure | None, topic: str | None, exclude: Collection[str]
    ) -> Plan[list[Lesson]]:
        return recalling.recall(self._shelf, task, set(tools), failure, topic, set(exclude))

    def _precedent(
        self, task: str, failure: Failure | None, but: str | None, exclude: Collection[str]
    ) -> Plan[Precedent | None]:
        return precedent(self._shelf, task, failure.fingerprint if failure is not None else "", but, exclude)

    def _get(self, id: str) -> Plan[Lesson | None]:
        found = yield from read_some(self._shelf, [id])
        return found[id][1] if id in found else None

    def _has(self, id_or_name: str) -> Plan[bool]:
        items = yield from every(self._shelf.lessons)
        meant = [item for item in items if id_or_name in (item.key, item.value.get("name"))]
        return any(lesson_in(item) is not None for item in meant)

    def _profile(self) -> Plan[list[Lesson]]:
        found = yield from read_all(self._shelf)
        return [lesson for _, lesson, _ in found.values() if lesson.name and lesson.status in LIVE]

    def _lessons(self, filters: recalling.Filters) -> Plan[list[Lesson]]:
        found = yield from read_all(self._shelf)
        return [lesson for _, lesson, _ in found.values() if passes(lesson, filters)]


def _now() -> datetime:
    return datetime.now(UTC)


def _filters(kind: Wanted, status: Wanted, topic: Wanted, tag: Wanted, origin: Wanted) -> recalling.Filters:
    """What is asked for; a word that no lesson can hold is a slip, and would read as an empty book."""
    for name, wanted, words in (("kind", kind, Kind), ("status", status, LessonStatus), ("origin", origin, Origin)):
        for word in [wanted] if isinstance(wanted, str) else wanted or ():
            if word not in get_args(words):
                raise ValueError(f"`{name}` is one of {', '.join(get_args(words))}, got {word!r}")
    return {"kind": kind, "status": status, "topic": topic, "tag": tag, "origin": origin}
