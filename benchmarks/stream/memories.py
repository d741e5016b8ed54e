"""The memories that are compared: a lesson book, used as the agent's nodes use it, and simple ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory import withheld
from langgraph_reflexion.schemas import Trigger
from langgraph_reflexion.text.literals import fingerprint
from stream.world import Advice, Task, World

Choose = Callable[[list[Advice], Task], list[Advice]]


class Memory:
    """No memory."""

    def __init__(self, world: World) -> None:
        self.world = world

    def shown(self, task: Task) -> list[Advice]:
        """What a run is shown at its start."""
        return []

    def learn(self, task: Task, advice: Advice) -> None:
        """Keep what the reflector said."""

    def finish(self, task: Task, accepted: bool) -> None:
        """The run is over, with what the check said."""


class Notes(Memory):
    """Every reflection, the newest first, of which `choose` shows some."""

    def __init__(self, world: World, choose: Choose) -> None:
        super().__init__(world)
        self.choose = choose
        self.notes: list[Advice] = []

    def shown(self, task: Task) -> list[Advice]:
        return self.choose(self.notes, task)

    def learn(self, task: Task, advice: Advice) -> None:
        self.notes.insert(0, advice)


def of_kind(notes: list[Advice], task: Task) -> list[Advice]:
    """The notes for this kind of task. To be so well sorted is given to the simple memories."""
    return [note for note in notes if note.kind in (None, task.kind)]


def three_at_random(notes: list[Advice], task: Task) -> list[Advice]:
    """Three of the kind."""
    found = list(dict.fromkeys(of_kind(notes, task)))
    return Random(f"{task.number}").sample(found, min(3, len(found)))


def knowing_all(world: World) -> Notes:
    """No memory but a bound: it knows the effect of each note, and shows the best one if it helps."""

    def choose(notes: list[Advice], task: Task) -> list[Advice]:
        alone = world.share_solved(task, [])
        found = [(world.effect(task.kind, note, alone), -i, note) for i, note in enumerate(of_kind(notes, task))]
        return [max(found)[2]] if found and max(found)[0] > alone else []

    return Notes(world, choose)


class NewestThatFits(Memory):
    """The newest lesson that the book's own recall finds, with no credit at all."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.clock = datetime(2025, 1, 1, tzinfo=UTC)
        self.book = LessonBook(InMemoryStore(), policy=MemoryPolicy(max_kept=2000), clock=lambda: self.clock)
        self.meant: dict[str, Advice] = {}

    def shown(self, task: Task) -> list[Advice]:
        self.clock += timedelta(minutes=1)
        found = sorted(self.book.recall(task.text), key=lambda lesson: str(lesson.created_at), reverse=True)
        return [self.meant[lesson.text] for lesson in found[:1]]

    def learn(self, task: Task, advice: Advice) -> None:
        self.meant[advice.text] = advice
        mark = fingerprint("check_failed", None, self.world.evidence(task))
        trigger = Trigger(signal="check_failed", fingerprint=mark)
        run = f"run-{task.number}"
        lesson = Lesson(
            kind="rule", text=advice.text, when=advice.when, origin="verified", trigger=trigger, sources=[run]
        )
        written = self.book.add(lesson, task=task.text)
        if written.lesson is not None:
            self.meant.setdefault(written.lesson.text, advice)


class Ours(NewestThatFits):
    """The lesson book, with recall, withholding and credit."""

    def shown(self, task: Task) -> list[Advice]:
        self.clock += timedelta(minutes=1)
        found = self.book.recall(task.text)
        run, share = f"run-{task.number}", self.book.policy.control_share
        self.with_ids = [lesson.id for lesson in found if not withheld(lesson, run, share)]
        held = getattr(found, "held", None)
        self.without = [lesson.id for lesson in (*found, *([held] if held else [])) if lesson.id not in self.with_ids]
        return [self.meant[lesson.text] for lesson in found if lesson.id in self.with_ids]

    def finish(self, task: Task, accepted: bool) -> None:
        evidence = self.world.evidence(task)
        mark = fingerprint("check_failed", None, evidence)
        failure = Failure(signal="check_failed", evidence=evidence, fingerprint=mark)
        self.book.credit(
            Episode(
                id=f"run-{task.number}",
                task=task.text,
                success=accepted,
                shown=self.with_ids,
                withheld=self.without,
                failures=[] if accepted else [failure],
                status="success" if accepted else "failure",
                stop_reason="accepted" if accepted else "max_attempts",
            )
        )


SIMPLE: dict[str, Callable[[World], Memory]] = {
    "the last one": partial(Notes, choose=lambda notes, _: notes[:1]),
    "the last three": partial(Notes, choose=lambda notes, _: notes[:3]),
    "the last of the kind": partial(Notes, choose=lambda notes, task: of_kind(notes, task)[:1]),
    "three of the kind": partial(Notes, choose=lambda notes, task: of_kind(notes, task)[:3]),
    "three at random": partial(Notes, choose=three_at_random),
    "everything": partial(Notes, choose=lambda notes, task: of_kind(notes, task)[:60]),  # as far as a prompt reaches
    "the newest that fits": NewestThatFits,
}
"""The simple memories. All but the first two are given the kind of each task, or find it by the book's recall."""
