"""What the lesson book is worth where runs recover from the errors of tools, on simulated streams of tasks.

`python benchmarks/recovery.py [--seeds 4] [--tasks 300] [--short]`

No model takes part. A tool raises an error at a set rate, and the run nearly always succeeds anyway. What a reflection
on the error teaches is right (it prevents the error), useless, or harmful (it avoids the tool: no error, but success is
rarer). So a lesson may lower both the number of errors and the share of successful runs. Each row is a world: how often
the tool raises, how often runs succeed without advice and with harmful advice, and how many of the reflections are
right, useless and harmful. The figures are points of success above no memory, the share of runs with an error, and for
this memory the share of runs that reflect. The constant `RECOVERED` in `memory/estimate.py` was set on worlds like the
first four.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import NamedTuple

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory import replaces_reflection, withheld
from langgraph_reflexion.schemas import Trigger

KINDS = (
    ("Plan the {} meeting in the calendar.", "planning a meeting in the calendar"),
    ("Convert the {} parcel weight for shipping.", "converting a parcel weight for shipping"),
    ("Query the {} invoice total from the ledger.", "querying invoice totals from the ledger"),
    ("Read the weather for the {} trip.", "reading the weather for a trip"),
    ("Look up the {} stock quote.", "looking up a stock quote"),
    ("Scale the {} recipe for guests.", "scaling a recipe for guests"),
    ("Find the gate of the {} flight.", "finding the gate of a flight"),
    ("Compute the tax of the {} order.", "computing the tax of an order"),
)
NAMES = ("red", "blue", "green", "amber", "violet", "coral", "ivory", "olive", "teal", "navy")
ADVICE = {
    "right": "Give the tool the exact form that it expects when {}.",
    "useless": "Be patient with the tool when {}.",
    "harmful": "Avoid the tool and guess the result when {}.",
}
STILL_RAISES = 0.03
"""How often the tool raises although advice prevents it."""

COST = 0.05
"""How much less often a run succeeds after an error."""


class World(NamedTuple):
    raises: float
    succeeds: float
    harmed: float
    right: float
    useless: float


class Result(NamedTuple):
    """Percentages of runs."""

    successes: float
    errors: float
    reflections: float


RATES = ((0.7, 0.95, 0.6), (0.3, 0.95, 0.5), (0.3, 0.95, 0.8), (0.9, 0.95, 0.8), (0.5, 0.7, 0.3), (0.9, 1.0, 0.6))
REFLECTORS = ((1.0, 0.0), (0.5, 0.3), (0.4, 0.6), (0.2, 0.3))
WORLDS = [World(*rates, *reflector) for rates, reflector in itertools.product(RATES, REFLECTORS)]


class NoMemory:
    def at_start(self, run: str, task: str) -> list[Lesson]:
        return []

    def after(self, failure: Failure, task: str, shown: list[Lesson]) -> list[Lesson]:
        return []

    def learn(self, lesson: Lesson, task: str) -> None:
        """Keep nothing."""

    def finish(self, episode: Episode) -> None:
        """Count nothing."""


class Newest(NoMemory):
    """The newest lesson of the same kind of task, whatever came of it."""

    def __init__(self) -> None:
        self.lessons: dict[str, Lesson] = {}

    def at_start(self, run: str, task: str) -> list[Lesson]:
        return [lesson for when, lesson in self.lessons.items() if when == kind_of(task)]

    def learn(self, lesson: Lesson, task: str) -> None:
        self.lessons[lesson.when] = lesson


class Ours(NoMemory):
    """The lesson book, used as the agent uses it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.book = LessonBook(InMemoryStore(), ("recovery",), MemoryPolicy(), lambda: self.now)

    def at_start(self, run: str, task: str) -> list[Lesson]:
        self.now += timedelta(minutes=10)
        found = self.book.recall(task, ("work",))
        hidden = [lesson.id for lesson in found if withheld(lesson, run, self.book.policy.control_share)]
        self.hidden = hidden
        self.without = [*hidden, *([found.held.id] if found.held is not None else [])]
        return [lesson for lesson in found if lesson.id not in hidden]

    def after(self, failure: Failure, task: str, shown: list[Lesson]) -> list[Lesson]:
        seen = [*(lesson.id for lesson in shown), *self.hidden]
        return [*filter(replaces_reflection, self.book.recall(task, ("work",), failure=failure, exclude=seen))]

    def learn(self, lesson: Lesson, task: str) -> None:
        self.book.add(lesson, task=task)

    def finish(self, episode: Episode) -> None:
        self.book.credit(episode.model_copy(update={"withheld": self.without}))


def kind_of(task: str) -> str:
    return next(when for request, when in KINDS if task.startswith(request.partition("{}")[0]))


def play(memory: NoMemory, world: World, seed: int, tasks: int) -> Result:
    dice, counts = random.Random(seed), Counter[str]()
    for number in range(tasks):
        request, when = dice.choice(KINDS)
        run, task = f"{seed}-{number}", request.format(dice.choice(NAMES))
        error, end, advice = dice.random(), dice.random(), dice.random()
        shown = memory.at_start(run, task)
        followed = next((sort for sort in map(sort_of, shown) if sort != "useless"), None)
        raised = error < (world.raises if followed is None else STILL_RAISES)
        success = end < (world.harmed if followed == "harmful" else world.succeeds) - COST * raised
        failures, known = list[Failure](), list[Lesson]()
        if raised:
            mark = f"tool_error|work|{when}"
            failures = [Failure(signal="tool_error", tool="work", evidence="not accepted", step=1, fingerprint=mark)]
            known = memory.after(failures[0], task, shown)
            if not known:
                counts["reflections"] += 1
                sort = (
                    "right"
                    if advice < world.right
                    else "useless"
                    if advice < world.right + world.useless
                    else "harmful"
                )
                trigger = Trigger(signal="tool_error", tool="work", fingerprint=mark)
                text = ADVICE[sort].format(when)
                memory.learn(Lesson(kind="rule", text=text, when=when, trigger=trigger, sources=[run]), task)
        memory.finish(
            Episode(
                id=run,
                task=task,
                success=success,
                status="success" if success else "failure",
                stop_reason="accepted" if success else "max_attempts",
                shown=[lesson.id for lesson in (*shown, *known)],
                recalled_at={lesson.id: 1 for lesson in known},
                failed=[lesson.id for lesson in shown] if raised else [],
                failures=failures,
            )
        )
        counts.update({"successes": success, "errors": raised})
    return Result(*(100 * counts[name] / tasks for name in ("successes", "errors", "reflections")))


def sort_of(lesson: Lesson) -> str:
    return next(sort for sort, text in ADVICE.items() if lesson.text.startswith(text[:9]))


def mean_of(make: type[NoMemory], world: World, seeds: Iterable[int], tasks: int) -> Result:
    return Result(*map(fmean, zip(*(play(make(), world, seed, tasks) for seed in seeds), strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--short", action="store_true", help="two worlds, one seed, 100 tasks")
    given = parser.parse_args()
    worlds, seeds, tasks = WORLDS, range(given.seeds), given.tasks
    if given.short:
        worlds, seeds, tasks = WORLDS[:2], range(1), 100
    print(f"A simulation without a model: {tasks} tasks, {len(seeds)} seeds. Percent, and points above no memory.\n")
    print(f"{'world':17}right/useless/harmful  no memory, errors   newest, errors   ours, errors, reflections")
    for world in worlds:
        alone, newest, ours = (mean_of(memory, world, seeds, tasks) for memory in (NoMemory, Newest, Ours))
        rates = f"{world.raises:.0%} {world.succeeds:.0%} {world.harmed:.0%}"
        mix = f"{world.right:.0%}/{world.useless:.0%}/{1 - world.right - world.useless:.0%}"
        print(
            f"{rates:17}{mix:21}{alone.successes:11.1f}{alone.errors:7.0f}%"
            f"{newest.successes - alone.successes:+10.1f}{newest.errors:6.0f}%"
            f"{ours.successes - alone.successes:+8.1f}{ours.errors:6.0f}%{ours.reflections:9.0f}%",
            flush=True,
        )
        if given.short and world.right == 1 and ours.errors > alone.errors / 2:
            print("Right lessons must prevent half of the errors.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
