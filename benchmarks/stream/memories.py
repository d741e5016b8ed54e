"""The memories that are compared: a lesson book, used as the agent's nodes use it, and simple ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory import withheld
from langgraph_reflexion.schemas import Trigger
from langgraph_reflexion.text.literals import fingerprint
from stream.world import Advice, Task, World


class Memory:
    """No memory. `world` is looked into by `KnowsAll` alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.notes: list[Advice] = []

    def shown(self, task: Task) -> list[Advice]:
        """What a run is shown at its start."""
        return []

    def learn(self, task: Task, advice: Advice) -> None:
        """Keep what the reflector said."""
        self.notes.append(advice)

    def finish(self, task: Task, accepted: bool) -> None:
        """The run is over, with what the check said."""

    def of_kind(self, task: Task) -> list[Advice]:
        """The notes for this kind of task, the newest first. To be so well sorted is given to the simple memories."""
        return [one for one in reversed(self.notes) if one.kind in (None, task.kind)]


class Last(Memory):
    """The latest reflection, whatever task it was made on."""

    def shown(self, task: Task) -> list[Advice]:
        return self.notes[:-2:-1]


class LastThree(Memory):
    """The latest three."""

    def shown(self, task: Task) -> list[Advice]:
        return self.notes[:-4:-1]


class LastOfKind(Memory):
    """The latest one of the kind."""

    def shown(self, task: Task) -> list[Advice]:
        return self.of_kind(task)[:1]


class LastThreeOfKind(Memory):
    """The latest three of the kind."""

    def shown(self, task: Task) -> list[Advice]:
        return self.of_kind(task)[:3]


class RandomThree(Memory):
    """Three of the kind by lot."""

    def shown(self, task: Task) -> list[Advice]:
        found = list(dict.fromkeys(self.of_kind(task)))
        return Random(f"{task.number}").sample(found, min(3, len(found)))


class Everything(Memory):
    """All of the kind, as far as a prompt reaches."""

    def shown(self, task: Task) -> list[Advice]:
        return self.of_kind(task)[:60]


class KnowsAll(Memory):
    """No memory but a bound: it knows the effect of each note, and shows the best one if it helps."""

    def shown(self, task: Task) -> list[Advice]:
        alone = self.world.share_solved(task, [])
        found = [(self.world.effect(task.kind, one, alone), -i, one) for i, one in enumerate(self.of_kind(task))]
        return [max(found)[2]] if found and max(found)[0] > alone else []


class NewestThatFits(Memory):
    """The newest lesson that the book's own recall finds, with no credit at all."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.clock = datetime(2025, 1, 1, tzinfo=UTC)
        self.book = LessonBook(InMemoryStore(), policy=MemoryPolicy(max_kept=2000), clock=lambda: self.clock)
        self.meant: dict[str, Advice] = {}

    def shown(self, task: Task) -> list[Advice]:
        self.clock += timedelta(minutes=1)
        found = sorted(self.book.recall(task.text), key=lambda one: str(one.created_at), reverse=True)
        return [self.meant[one.text] for one in found[:1]]

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
        self.with_ids = [one.id for one in found if not withheld(one, run, share)]
        held = getattr(found, "held", None)
        self.without = [one.id for one in found if one.id not in self.with_ids] + ([held.id] if held else [])
        return [self.meant[one.text] for one in found if one.id in self.with_ids]

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
