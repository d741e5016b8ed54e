"""The lesson book: the only interface to memory, for nodes and for people."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, get_args

from langgraph.store.base import BaseStore

from langgraph_reflexion.context import MemoryPolicy, Namespace, aware
from langgraph_reflexion.driver import in_thread
from langgraph_reflexion.memory import credit, decisions, distill, exchange, forget, history, recall, writing
from langgraph_reflexion.memory.access import Plan, both, items_in
from langgraph_reflexion.memory.arguments import (
    DEFAULT_NAMESPACE,
    check_choice,
    check_count,
    check_id,
    check_instance,
    check_names,
    check_place,
    check_text,
    place_in,
)
from langgraph_reflexion.memory.choose import Selection
from langgraph_reflexion.memory.evidence import LIVE, Change
from langgraph_reflexion.memory.exchange import Loaded, Place
from langgraph_reflexion.memory.index import Indexes
from langgraph_reflexion.memory.items import parse_item
from langgraph_reflexion.memory.recall import Found
from langgraph_reflexion.memory.screening import Foreign
from langgraph_reflexion.memory.shelf import Shelf
from langgraph_reflexion.memory.writing import Written
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Episode, Failure, Kind, Lesson, LessonStatus, Origin

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

Wanted = str | Collection[str] | None
"""A value to filter by, or several, one of which must match."""


class Filters(TypedDict, total=False):
    """The filters for lessons."""

    kind: Kind | Collection[Kind] | None
    status: LessonStatus | Collection[LessonStatus] | None
    topic: Wanted
    tag: Wanted
    origin: Origin | Collection[Origin] | None


FILTERS: dict[str, tuple[str, ...]] = dict.fromkeys(Filters.__annotations__, ()) | {
    "kind": get_args(Kind),
    "status": get_args(LessonStatus),
    "origin": get_args(Origin),
}
"""Each filter, with its allowed values if they are a closed set."""


class LessonBook:
    """The lessons of one namespace of a store, which may be any of LangGraph's stores, with or without an index.

    Each method that waits has an async twin whose name begins with `a`. Several books, threads and processes may share
    a namespace: nothing is lost or counted twice. If you open a new book for each run, pass the same `indexes` each
    time, which makes searches faster. The fields of a namespace such as `("planner", "{user_id}")` are filled from
    `context`, as in a run. With `MemoryPolicy(by_user=True)`, it is the book of the context's `user_id`. A guard and
    `distill` use `prompts`.
    """

    def __init__(
        self,
        store: BaseStore,
        namespace: Namespace = DEFAULT_NAMESPACE,
        policy: MemoryPolicy | None = None,
        clock: Callable[[], datetime] | None = None,
        indexes: Indexes | None = None,
        context: Any = None,
        prompts: Prompts | None = None,
    ) -> None:
        self.store = store
        self.policy = MemoryPolicy() if policy is None else check_instance(MemoryPolicy, policy, "policy")
        self.namespace = place_in(store, namespace, context, by_user=self.policy.by_user)
        index = (indexes or Indexes()).index(store, (*self.namespace, "lessons"))
        self._shelf = Shelf(store, self.namespace, self.policy, aware(clock), index, prompts or Prompts())

    # ------------------------------------------------------------ what runs do

    def _add(
        self,
        lesson: Lesson,
        *,
        task: str | None = None,
        answer: str | None = None,
        foreign: Foreign | Collection[str] = (),
        doubt: str | None = None,
    ) -> Plan[Written]:
        """Add a lesson as a candidate. If a similar lesson is known, the evidence is added to that one.

        A lesson that restates `task` or `answer` is refused. `foreign` holds the texts of tools, files, pages and
        errors in the run: a lesson that copies one of them is quarantined. So is a lesson with a `doubt`, the caller's
        own reason.
        """
        for name, value in (("task", task), ("answer", answer), ("doubt", doubt)):
            check_text(value, name, optional=True)
        if not isinstance(foreign, Foreign):
            check_names(foreign, "foreign")
            texts, own = foreign, [task] if task else []
            indexed: Foreign = yield in_thread(lambda: Foreign(texts, own), own=True)  # long ones take a while
            foreign = indexed
        return (yield from writing.add(self._shelf, lesson, task, answer, foreign, doubt))

    add, aadd = both(_add)

    def _recall(
        self,
        task: str,
        tools: Collection[str] = (),
        failure: Failure | None = None,
        topic: str | None = None,
        *,
        exclude: Collection[str] = (),
    ) -> Plan[Selection]:
        """The few lessons that fit a task, or the failure if one is given. Often none.

        `tools` names the tools at hand: a lesson from a failure of another tool is left out, and so are the ids in
        `exclude`.

        The list also has the attributes `held` and `why`. If all matching lessons are held back at the start of a task,
        because such tasks go as well without them, `held` is the best of them and `why` gives the reason.
        """
        check_text(task, "task")
        check_text(topic, "topic", optional=True)
        if failure is not None:
            check_instance(Failure, failure, "failure")
        tools, exclude = check_names(tools, "tools"), check_names(exclude, "exclude")
        return (yield from recall.recall(self._shelf, task, tools, failure, topic, exclude))

    recall, arecall = both(_recall)

    def _credit(self, episode: Episode) -> Plan[None]:
        """Save a finished run and count its result. If a run id is credited again, the last result counts."""
        yield from credit.credit(self._shelf, check_instance(Episode, episode, "episode"))

    credit, acredit = both(_credit)

    def _feedback(self, run_id: str) -> Plan[bool]:
        """Count a run as lost because the user says that it was wrong. `False` if the run is unknown."""
        return (yield from credit.feedback(self._shelf, check_id(run_id, "run_id")))

    feedback, afeedback = both(_feedback)

    # ------------------------------------------------------------ looking

    def _get(self, id: str) -> Plan[Lesson | None]:
        """A lesson as it is now, or `None`."""
        found = yield from self._shelf.read_some([check_id(id)])
        return found[id].lesson if id in found else None

    get, aget = both(_get)

    def _has(self, id_or_name: str) -> Plan[bool]:
        """Whether there is a lesson with this id or name."""
        check_id(id_or_name, "id_or_name")
        items = yield from items_in(self._shelf.lessons)
        meant = [item for item in items if id_or_name in (item.key, item.value.get("name"))]
        return any(parse_item(item, Lesson) is not None for item in meant)

    has, ahas = both(_has)

    def _lessons(self, **filters: Unpack[Filters]) -> Plan[list[Lesson]]:
        """All lessons that match the filters, oldest first."""
        wanted = _check_filters(filters)
        found = yield from self._shelf.read_all()
        return [entry.lesson for entry in found.values() if recall.passes(entry.lesson, wanted)]

    lessons, alessons = both(_lessons)

    def _search(self, query: str, limit: int = 10, **filters: Unpack[Filters]) -> Plan[list[Found]]:
        """The lessons most similar to a query, whatever their status, with their scores."""
        check_text(query, "query")
        return (yield from recall.search(self._shelf, query, check_count(limit, "limit"), _check_filters(filters)))

    search, asearch = both(_search)

    def _profile(self) -> Plan[list[Lesson]]:
        """The live named entries, oldest first."""
        found = yield from self._shelf.read_all()
        return [entry.lesson for entry in found.values() if entry.lesson.name and entry.lesson.status in LIVE]

    profile, aprofile = both(_profile)

    def _hidden(self, id: str) -> Plan[str | None]:
        """Why a lesson is never shown: its status, its expiry, or suspicious text. `None` if it can be shown."""
        return (yield from history.hidden(self._shelf, check_id(id)))

    hidden, ahidden = both(_hidden)

    def _episode(self, run_id: str) -> Plan[Episode | None]:
        """The record of a run, or `None`."""
        return (yield from self._shelf.read_episode(check_id(run_id, "run_id")))

    episode, aepisode = both(_episode)

    def _episodes(self, limit: int | None = None) -> Plan[list[Episode]]:
        """The records of all runs, or of the latest `limit`, newest first."""
        return (yield from history.episodes(self._shelf, None if limit is None else check_count(limit, "limit")))

    episodes, aepisodes = both(_episodes)

    def _history(self, id: str) -> Plan[list[Change]]:
        """The changes to a lesson, in order. Each has an id that `undo` takes."""
        return (yield from history.history(self._shelf, check_id(id)))

    history, ahistory = both(_history)

    def _explain(self, run_id: str | None = None) -> Plan[dict[str, Any]]:
        """Which lessons a run was shown and why, which were withheld, the evidence, what it wrote, and its result.

        Without an id, the latest run.
        """
        return (yield from history.explain(self._shelf, check_text(run_id, "run_id", optional=True)))

    explain, aexplain = both(_explain)

    def _stats(self) -> Plan[dict[str, Any]]:
        """The number of lessons by status, kind and origin, and their results."""
        return (yield from history.stats(self._shelf))

    stats, astats = both(_stats)

    # ------------------------------------------------------------ deciding

    def _approve(self, id: str) -> Plan[Lesson]:
        """Make a lesson active, with exactly its current text. Later losses do not change that."""
        return (yield from decisions.approve(self._shelf, check_id(id)))

    approve, aapprove = both(_approve)

    def _retire(self, id: str, why: str) -> Plan[Lesson]:
        """Stop showing a lesson, and keep it with the reason."""
        return (yield from decisions.retire(self._shelf, check_id(id), check_text(why, "why")))

    retire, aretire = both(_retire)

    def _restore(self, id: str) -> Plan[Lesson]:
        """Bring back a lesson that is retired, superseded or quarantined."""
        return (yield from decisions.restore(self._shelf, check_id(id)))

    restore, arestore = both(_restore)

    def _forget(self, id: str) -> Plan[None]:
        """Delete a lesson's text, vectors, evidence and history permanently."""
        yield from forget.forget(self._shelf, check_id(id))

    forget, aforget = both(_forget)

    def _clear(self) -> Plan[int]:
        """Delete all lessons, runs and findings of the namespace permanently, and return the number of lessons."""
        return (yield from forget.clear(self._shelf))

    clear, aclear = both(_clear)

    def _undo(self, change_or_run: str | None = None, *, since: datetime | None = None) -> Plan[list[Change]]:
        """Revert a change, everything a run changed, or everything since a time. The history keeps a record."""
        if change_or_run is not None and not check_id(change_or_run, "change_or_run"):
            raise KeyError(change_or_run)  # an empty id must not mean all changes
        moment = None if since is None else check_instance(datetime, since, "since")
        return (yield from decisions.undo(self._shelf, change_or_run, moment))

    undo, aundo = both(_undo)

    # ------------------------------------------------------------ upkeep

    def _distill(self, model: Runnable[Any, Any] | Callable[[str], Any] | None = None) -> Plan[list[Lesson]]:
        """Summarize similar lessons in one pattern per group, and return the new patterns.

        `model`, a chat model or a function of a prompt, writes the patterns. Without one, or if its text does not cover
        every lesson, the best existing wording is used. The lessons stay and are linked to the pattern. A second call
        finds nothing to do and makes no model call.
        """
        return (yield from distill.distill(self._shelf, model))

    distill, adistill = both(_distill)

    def _export(self, path_or_file: Place, **filters: Unpack[Filters]) -> Plan[int]:
        """Write every lesson that matches the filters as a line of JSON, and return their number."""
        wanted, place = _check_filters(filters), check_place(path_or_file)
        found = yield from self._shelf.read_all()
        kept = [entry for entry in found.values() if recall.passes(entry.lesson, wanted)]
        return (yield from exchange.export(kept, place))

    export, aexport = both(_export)

    def _load(self, path_or_file: Place, *, strict: bool = True, untrusted: bool = False) -> Plan[Loaded]:
        """Add the new lessons of an exported file: all or none or, if not `strict`, all except invalid lines.

        A file is trusted as if you had written it. With `untrusted`, its lessons become new candidates with the origin
        `observed`, without a record or a name.
        """
        return (yield from exchange.load(self._shelf, check_place(path_or_file), strict, untrusted))

    load, aload = both(_load)


def _check_filters(filters: Filters) -> Filters:
    """The filters. An impossible value is refused, because an empty result would look like an empty book."""
    if unknown := sorted(set(filters) - set(FILTERS)):
        raise TypeError(f"there is no filter {unknown[0]!r}; the filters are {', '.join(FILTERS)}")
    for name, allowed in FILTERS.items():
        wanted = cast(Wanted, filters.get(name))
        for word in [] if wanted is None else [wanted] if isinstance(wanted, str) else check_names(wanted, name):
            if allowed:
                check_choice(word, name, allowed)
    return filters
