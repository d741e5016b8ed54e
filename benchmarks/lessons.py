"""What the lesson book is worth on simulated streams of tasks, compared with simple memories and a perfect one.

`python benchmarks/lessons.py [--seeds 4] [--tasks 1000] [--worlds usual;…] [--short]`

No model takes part: kinds of task have hidden rules, a student follows advice at set rates, and the reflector and the
check make mistakes (`stream/world.py`). So this measures how a memory works, not how good a model is. Each figure is
the mean difference from no memory on the same tasks, in percentage points of tasks solved at the first attempt, with
its 95 % interval over the seeds. `difference` is the difference between this memory and the best simple one. The
constants of `memory/estimate.py` were set on the worlds marked `set`. The others were not used for that.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import FunctionType
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from natural import difference
from stream.memories import SIMPLE, Memory, Ours, knowing_all
from stream.world import Odds, World

USUAL = Odds("usual")
HARMFUL = replace(USUAL, right=0.15, harmful=0.6, broad=0.05)
WORLDS = {
    world.name: world
    for world in (
        USUAL,
        replace(USUAL, name="usual, weighs", student="weigh"),
        replace(USUAL, name="usual, votes", student="vote"),
        replace(USUAL, name="usual, telling check", telling=True),
        replace(USUAL, name="mixed ease", easy=(0.1, 0.97)),
        replace(USUAL, name="mixed ease, weighs", easy=(0.1, 0.97), student="weigh"),
        replace(HARMFUL, name="easy, harmful", easy=(0.85, 0.97)),
        replace(HARMFUL, name="easy, harmful, weighs", easy=(0.85, 0.97), student="weigh"),
        replace(HARMFUL, name="harmful"),
        replace(HARMFUL, name="harmful, votes", student="vote"),
        replace(USUAL, name="rules change often", changes=5),
        replace(USUAL, name="change often, weighs", changes=5, student="weigh"),
        replace(USUAL, name="student gets worse", fades=0.4, changes=0),
        replace(USUAL, name="good reflector", right=0.8, harmful=0.05, useless=0.1, broad=0.05, changes=0),
        replace(USUAL, name="hard", easy=(0.05, 0.3)),
        replace(USUAL, name="noisy check", errors=0.15),
        replace(USUAL, name="few kinds", kinds=4, changes=2),
        replace(USUAL, name="many kinds", kinds=30),
        replace(USUAL, name="hardly follows", follow=0.5, gain=0.6),
        replace(USUAL, name="mostly useless", right=0.2, useless=0.6, harmful=0.1, broad=0.05),
        replace(USUAL, name="harms much", harm=0.1, right=0.4, harmful=0.35),
        replace(HARMFUL, name="harmful, mixed ease", easy=(0.1, 0.97)),
        replace(USUAL, name="very easy", easy=(0.9, 0.99)),
        replace(USUAL, name="seldom right, weighs", right=0.35, harmful=0.35, student="weigh"),
    )
}
SHOWN = frozenset(list(WORLDS)[-8:]) | {"mixed ease, weighs"}
"""The worlds that had no part in setting a constant."""

READERS = frozenset(
    ("tokens", "characters", "words_of", "same", "opposed", "likeness", "suspicion", "mask_secrets", "topic_of")
)
"""Functions of texts alone. The same few texts come thousands of times here, so what is read in them is kept."""


def keep_what_is_read() -> None:
    """Read each text once, wherever it comes: half of the time, and the same figures."""
    kept: dict[Callable[..., object], object] = {}
    for name, module in list(sys.modules.items()):
        for reader in READERS & vars(module).keys() if name.startswith("langgraph_reflexion.") else ():
            function = vars(module)[reader]
            if isinstance(function, FunctionType):
                setattr(module, reader, kept.setdefault(function, functools.cache(function)))


def play(make: Callable[[World], Memory], odds: Odds, seed: int, tasks: int) -> float:
    """The share of a stream's tasks that are solved, in points."""
    world = World(odds, seed, tasks)
    memory = make(world)
    total = 0.0
    for task in world.tasks:
        world.begin(task)
        share, accepted = world.run(task, memory.shown(task))
        total += share
        memory.finish(task, accepted)
        advice = None if accepted else world.reflect(task)
        if advice is not None:
            memory.learn(task, advice)
    return 100 * total / tasks


class Wanted(NamedTuple):
    """What is to be played."""

    worlds: list[str]
    seeds: range
    tasks: int
    short: bool


def read_options(about: str | None, worlds: Iterable[str], seeds: int, tasks: int) -> Wanted:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--tasks", type=int, default=tasks)
    parser.add_argument("--worlds", default=";".join(worlds), help="names, with semicolons between")
    parser.add_argument("--short", action="store_true", help="one world, one seed, 150 tasks")
    given = parser.parse_args()
    names = [name for name in WORLDS if name in given.worlds.split(";")]
    return (
        Wanted(names[:1], range(1), 150, True) if given.short else Wanted(names, range(given.seeds), given.tasks, False)
    )


def main() -> int:
    names, seeds, tasks, _ = read_options(__doc__, WORLDS, seeds=4, tasks=1000)
    print(f"A simulation without a model: {tasks} tasks, {len(seeds)} seeds. Points above no memory.\n")
    print(f"{'':24}alone   ours          best simple memory               difference   perfect    closed")
    keep_what_is_read()
    worst = math.inf
    for world in names:
        began, odds = time.perf_counter(), WORLDS[world]
        alone = [play(Memory, odds, seed, tasks) for seed in seeds]
        found = {name: [play(make, odds, seed, tasks) for seed in seeds] for name, make in SIMPLE.items()}
        ours = [play(Ours, odds, seed, tasks) for seed in seeds]
        most = fmean(play(knowing_all, odds, seed, tasks) for seed in seeds) - fmean(alone)
        best = max(found, key=lambda memory: fmean(found[memory]))
        gain, half = difference(ours, alone)
        theirs, other = difference(found[best], alone)
        apart, between = difference(ours, found[best])
        worst = min(worst, gain)
        mark = "" if world in SHOWN else "set"
        print(
            f"{world:24}{fmean(alone):5.1f}  {gain:+5.1f} ± {half:3.1f}   {theirs:+5.1f} ± {other:3.1f} {best:20} "
            f"{apart:+5.1f} ± {between:3.1f}  {most:+7.1f}  {100 * gain / most:5.0f}%  {mark:4}"
            f"{time.perf_counter() - began:5.0f} s",
            flush=True,
        )
    print(f"\nWorst: {worst:+.1f} points relative to no memory (never below -2).")
    return 0 if worst >= -2 else 1


if __name__ == "__main__":
    sys.exit(main())
