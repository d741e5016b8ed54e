"""The lesson book: memory's one door, for the nodes and for people alike."""

from __future__ import annotations

from collections.abc import Collection

from langgraph_reflexion.memory import recall as recalling
from langgraph_reflexion.memory.access import Plan, awork, work
from langgraph_reflexion.memory.arguments import a, an_id, maybe_text, names, text
from langgraph_reflexion.memory.book.upkeep import Upkeep
from langgraph_reflexion.memory.floor import Floor, floor
from langgraph_reflexion.memory.life import crediting, writing
from langgraph_reflexion.memory.values import Written
from langgraph_reflexion.schemas import Episode, Failure, Lesson


class LessonBook(Upkeep):
    """The lessons of one namespace of a store.

    Any LangGraph store will do, with or without an index. Every method that waits has a twin whose name begins
    with `a`. Many books, threads and processes may share a namespace: nothing is lost or counted twice. Books that
    are made anew for each run find faster with the same `indexes`.

    A namespace with fields, such as `("planner", "{user_id}")`, is filled from `context`, as it is for a run.
    """

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
        return work(self.store, self._add(lesson, task, answer, heard, doubt))

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
        return await awork(self.store, self._add(lesson, task, answer, heard, doubt))

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
        work(self.store, crediting.credit(self._shelf, a(Episode, episode, "episode")))

    async def acredit(self, episode: Episode) -> None:
        """The same, awaited."""
        await awork(self.store, crediting.credit(self._shelf, a(Episode, episode, "episode")))

    def feedback(self, run_id: str) -> bool:
        """Count a run as lost after all, because the user says so. `False` where the run is unknown."""
        return work(self.store, crediting.feedback(self._shelf, an_id(run_id, "run_id")))

    async def afeedback(self, run_id: str) -> bool:
        """The same, awaited."""
        return await awork(self.store, crediting.feedback(self._shelf, an_id(run_id, "run_id")))

    # ------------------------------------------------------------ plans

    def _add(
        self, lesson: Lesson, task: str | None, answer: str | None, heard: Collection[str], doubt: str | None
    ) -> Plan[Written]:
        said = maybe_text(task, "task"), maybe_text(answer, "answer"), names(heard, "heard"), maybe_text(doubt, "doubt")
        return writing.add(self._shelf, lesson, *said)

    def _recall(
        self, task: str, tools: Collection[str], failure: Failure | None, topic: str | None, exclude: Collection[str]
    ) -> Plan[list[Lesson]]:
        if failure is not None:
            a(Failure, failure, "failure")
        fit = names(tools, "tools")
        topic = maybe_text(topic, "topic")
        return recalling.recall(self._shelf, text(task, "task"), fit, failure, topic, names(exclude, "exclude"))
