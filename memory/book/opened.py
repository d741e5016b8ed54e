"""An open book: the lessons of one namespace of a store, to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, TypedDict, Unpack, cast, get_args

from langgraph.store.base import BaseStore

from langgraph_reflexion.context import MemoryPolicy, Namespace, aware
from langgraph_reflexion.memory import recall as recalling
from langgraph_reflexion.memory import showing
from langgraph_reflexion.memory.access import Plan, awork, every, work
from langgraph_reflexion.memory.arguments import a, an_id, maybe_text, names, text, whole
from langgraph_reflexion.memory.index import Indexes
from langgraph_reflexion.memory.life import explaining, looking
from langgraph_reflexion.memory.namespaces import place_in
from langgraph_reflexion.memory.recall import passes
from langgraph_reflexion.memory.records import LIVE, lesson_in
from langgraph_reflexion.memory.shelf import Shelf, read_all, read_episode, read_some
from langgraph_reflexion.memory.values import Change, Found
from langgraph_reflexion.schemas import Episode, Kind, Lesson, LessonStatus, Origin

Wanted = str | Collection[str] | None
"""A word to filter by, or several of which one must hold."""


class Filters(TypedDict, total=False):
    """What lessons may be asked for by."""

    kind: Wanted
    status: Wanted
    topic: Wanted
    tag: Wanted
    origin: Wanted


FILTERS: dict[str, tuple[str, ...]] = {
    "kind": get_args(Kind),
    "status": get_args(LessonStatus),
    "topic": (),
    "tag": (),
    "origin": get_args(Origin),
}
"""Each filter, and its words where they are a closed set."""


class OpenBook:
    """What can be asked of a book without changing it."""

    def __init__(
        self,
        store: BaseStore,
        namespace: Namespace = ("reflexion", "reflexion_agent"),
        policy: MemoryPolicy | None = None,
        clock: Callable[[], datetime] | None = None,
        indexes: Indexes | None = None,
        context: Any = None,
    ) -> None:
        self.store = store
        self.namespace = place_in(store, namespace, context)
        self.policy = MemoryPolicy() if policy is None else a(MemoryPolicy, policy, "policy")
        index = (indexes or Indexes()).index(store, (*self.namespace, "lessons"))
        embed = getattr(store, "embeddings", self)
        vectors = embed is not None and not getattr(embed, "spelling_only", False)
        self._shelf = Shelf(self.namespace, self.policy, aware(clock), index, vectors)

    def get(self, id: str) -> Lesson | None:
        """A lesson as it is now, or `None`."""
        return work(self.store, self._get(an_id(id)))

    async def aget(self, id: str) -> Lesson | None:
        """The same, awaited."""
        return await awork(self.store, self._get(an_id(id)))

    def has(self, id_or_name: str) -> bool:
        """Whether there is a lesson of this id or name."""
        return work(self.store, self._has(an_id(id_or_name, "id_or_name")))

    async def ahas(self, id_or_name: str) -> bool:
        """The same, awaited."""
        return await awork(self.store, self._has(an_id(id_or_name, "id_or_name")))

    def lessons(self, **filters: Unpack[Filters]) -> list[Lesson]:
        """All lessons that have what is asked for, the oldest first."""
        return work(self.store, self._lessons(_known(filters)))

    async def alessons(self, **filters: Unpack[Filters]) -> list[Lesson]:
        """The same, awaited."""
        return await awork(self.store, self._lessons(_known(filters)))

    def search(self, query: str, limit: int = 10, **filters: Unpack[Filters]) -> list[Found]:
        """The lessons nearest to a query in whatever status, with how near they are."""
        return work(self.store, self._search(query, limit, filters))

    async def asearch(self, query: str, limit: int = 10, **filters: Unpack[Filters]) -> list[Found]:
        """The same, awaited."""
        return await awork(self.store, self._search(query, limit, filters))

    def episode(self, run_id: str) -> Episode | None:
        """The record of a run, or `None`."""
        return work(self.store, read_episode(self._shelf, an_id(run_id, "run_id")))

    async def aepisode(self, run_id: str) -> Episode | None:
        """The same, awaited."""
        return await awork(self.store, read_episode(self._shelf, an_id(run_id, "run_id")))

    def history(self, id: str) -> list[Change]:
        """What happened to a lesson, in order; each change has an id that `undo` takes."""
        return work(self.store, looking.history(self._shelf, an_id(id)))

    async def ahistory(self, id: str) -> list[Change]:
        """The same, awaited."""
        return await awork(self.store, looking.history(self._shelf, an_id(id)))

    def explain(self, run_id: str | None = None) -> dict[str, Any]:
        """What a run was shown and went without, why, from which evidence, what it wrote, and what came of it.

        Where no run is named, it is the latest.
        """
        return work(self.store, explaining.explain(self._shelf, maybe_text(run_id, "run_id")))

    async def aexplain(self, run_id: str | None = None) -> dict[str, Any]:
        """The same, awaited."""
        return await awork(self.store, explaining.explain(self._shelf, maybe_text(run_id, "run_id")))

    def hidden(self, id: str) -> str | None:
        """Why a lesson is shown to no run: where it stands, that its time is over, or what its words look like.

        `None` where runs that it fits are shown it.
        """
        return work(self.store, showing.hidden(self._shelf, an_id(id)))

    async def ahidden(self, id: str) -> str | None:
        """The same, awaited."""
        return await awork(self.store, showing.hidden(self._shelf, an_id(id)))

    def stats(self) -> dict[str, Any]:
        """How many lessons there are, by status, kind and origin, and how they did."""
        return work(self.store, looking.stats(self._shelf))

    async def astats(self) -> dict[str, Any]:
        """The same, awaited."""
        return await awork(self.store, looking.stats(self._shelf))

    def profile(self) -> list[Lesson]:
        """The entries that have a name and hold now, the oldest first."""
        return work(self.store, self._profile())

    async def aprofile(self) -> list[Lesson]:
        """The same, awaited."""
        return await awork(self.store, self._profile())

    # ------------------------------------------------------------ plans

    def _search(self, query: str, limit: int, filters: Filters) -> Plan[list[Found]]:
        return recalling.search(self._shelf, text(query, "query"), whole(limit, "limit"), _known(filters))

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


def _known(filters: Filters) -> recalling.Filters:
    """The filters; a word that no lesson can hold is a slip, and would read as an empty book."""
    if strange := sorted(set(filters) - set(FILTERS)):
        raise TypeError(f"there is no filter {strange[0]!r}; there are {', '.join(FILTERS)}")
    for name, allowed in FILTERS.items():
        wanted = cast(Wanted, filters.get(name))
        for word in [] if wanted is None else [wanted] if isinstance(wanted, str) else names(wanted, name):
            if allowed and word not in allowed:
                raise ValueError(f"`{name}` is one of {', '.join(allowed)}, got {word!r}")
    return filters
