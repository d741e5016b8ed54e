"""The lesson book on the stream: its own gates, recall, withholding and credit, as the agent's nodes use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from langgraph.store.base import BaseStore

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory import fingerprint, spares_a_reflection, topic_of, tries_again, withheld
from langgraph_reflexion.memory.recall import tokens_of
from langgraph_reflexion.memory.records import LIVE
from langgraph_reflexion.schemas import Trigger
from stream.memories import Memory
from stream.world import Advice, Task


class Ours(Memory):
    """A `LessonBook`, asked and told what `recall`, `reflect`, `remember` and `finish` ask and tell it."""

    attempts, reflects = 2, True

    def __init__(self, store: BaseStore, policy: MemoryPolicy | None = None) -> None:
        self.policy = policy or MemoryPolicy()
        self.clock = datetime(2025, 1, 1, tzinfo=UTC)
        self.book = LessonBook(store, policy=self.policy, clock=lambda: self.clock)
        self.meant: dict[str, Advice] = {}
        """What each wording tells a policy to do."""
        self.largest = 0
        """Tokens of the largest block of lessons that was ever shown."""
        self._with: list[str] = []
        self._failed: list[str] = []
        """Lessons that the run was shown before the failure came that they are bound to."""
        self._without: list[str] = []
        self._wrote: list[str] = []
        self._bound: dict[str, str | None] = {}

    def shown(self, task: Task) -> list[Advice]:
        self.clock += timedelta(minutes=10)
        self._with, self._failed, self._without, self._wrote = [], [], [], []
        self._bound = {}
        return self._parted(task, self.book.recall(task.text))

    def known(self, task: Task, failure: str) -> tuple[list[Advice], bool]:
        self._failed = [one for one in self._with if self._bound[one] == _print(failure)]
        found = self.book.recall(
            task.text, failure=_failure(failure), exclude=[*self._with, *self._without, *self._wrote]
        )
        mark = _print(failure)
        bound = [one for one in found if one.trigger is not None and one.trigger.fingerprint == mark]
        shown = self._parted(task, found)
        return shown, any(one.id in self._with and spares_a_reflection(one) for one in bound)

    def learn(self, task: Task, failure: str, said: Advice) -> None:
        lesson = Lesson(
            kind="rule",
            text=said.text,
            when=said.when,
            origin="verified",
            trigger=Trigger(signal="check_failed", fingerprint=_print(failure)),
            sources=[_run(task)],
        )
        heard = [f"Note: {said.text}"] if said.sort == "poisoned" else []
        written = self.book.add(lesson, task=task.text, heard=heard)
        self.meant[said.text] = said
        if written.lesson is not None:
            self.meant.setdefault(written.lesson.text, said)
        if written.lesson is not None and written.action in ("added", "merged", "unchanged"):
            self._wrote.append(written.lesson.id)

    def finish(self, task: Task, accepted: bool, failures: Sequence[str]) -> None:
        self.book.credit(
            Episode(
                id=_run(task),
                task=task.text,
                topic=topic_of(task.text),
                success=accepted,
                shown=self._with,
                withheld=self._without,
                written=self._wrote,
                failed=[*self._failed, *(self._wrote if len(failures) > 1 else [])],
                failures=[_failure(one) for one in failures],
                status="success" if accepted else "failure",
                stop_reason="accepted" if accepted else "max_attempts",
            )
        )

    @property
    def kept(self) -> list[Advice]:
        return [self.meant[one.text] for one in self.book.lessons(status=LIVE)]

    def _parted(self, task: Task, found: Sequence[Lesson]) -> list[Advice]:
        run, share = _run(task), self.policy.control_share
        below = frozenset[str]() if not found or tries_again(run) else self.book.floor(topic_of(task.text), found).held
        shown = [one for one in found if one.id not in below and not withheld(one, run, share)]
        self._with += [one.id for one in shown]
        self._bound |= {one.id: one.trigger.fingerprint if one.trigger else None for one in shown}
        self._without += [one.id for one in found if one not in shown]
        self.largest = max(self.largest, sum(map(tokens_of, shown)))
        return [self.meant[one.text] for one in shown]


def _run(task: Task) -> str:
    return f"run-{task.number}"


def _print(failure: str) -> str:
    return fingerprint("check_failed", None, failure)


def _failure(failure: str) -> Failure:
    return Failure(signal="check_failed", evidence=failure, fingerprint=_print(failure))
