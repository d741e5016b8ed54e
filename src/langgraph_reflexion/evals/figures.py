"""Figures of an experiment: accuracy by trial, intervals, gains, and two runs told apart task by task."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.setups import SETUPS, baseline_of

Z = 1.959963984540054
"""For 95 of 100 intervals."""
ROUNDS = 4_000
Interval = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """What came of one set-up."""

    setup: str
    tasks: int
    errors: int
    """Tasks that broke, and are counted as not solved."""
    by_trial: tuple[float, ...]
    """The per cent of tasks solved within so many trials."""
    interval: Interval
    reflections: float | None
    """Reflections for each task solved."""
    tokens: float | None
    """Tokens for each task solved, those of tasks not solved included."""
    seconds: float
    """What the tasks took, one after another."""
    lessons: int
    """Tasks that were shown a lesson of an earlier one."""

    @property
    def accuracy(self) -> float:
        """The per cent of tasks solved."""
        return self.by_trial[-1]


@dataclass(frozen=True)
class Difference:
    """One run beside another, on the tasks they share."""

    tasks: int
    first: float
    second: float
    interval: Interval
    """Of the difference in points: 95 % of the resamples of tasks lie within."""
    won: int
    """Tasks that only the second solved."""
    lost: int
    """Tasks that only the first solved."""
    chance: float
    """How likely so uneven a split is where the two are alike (McNemar, exact)."""

    @property
    def points(self) -> float:
        """By how many points the second is better."""
        return self.second - self.first


def row_of(setup: str, results: Sequence[Result], trials: int) -> Row:
    """The figures of one set-up's results."""
    solved = [one.solved_at for one in results if one.solved_at is not None]
    count = len(results)
    by_trial = tuple(100 * sum(at <= trial for at in solved) / max(count, 1) for trial in range(1, trials + 1))
    return Row(
        setup=setup,
        tasks=count,
        errors=sum(one.error is not None for one in results),
        by_trial=by_trial,
        interval=wilson(len(solved), count),
        reflections=sum(one.reflections for one in results) / len(solved) if solved else None,
        tokens=sum(one.tokens for one in results) / len(solved) if solved else None,
        seconds=sum(one.seconds for one in results),
        lessons=sum(bool(one.lessons_used) for one in results),
    )


def wilson(hits: int, count: int) -> Interval:
    """The 95 % interval of a share, in per cent."""
    if not count:
        return 0.0, 100.0
    share, square = hits / count, Z * Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return max(0.0, 100 * (middle - half)), min(100.0, 100 * (middle + half))


def difference(first: Sequence[Result], second: Sequence[Result]) -> Difference:
    """How two runs differ on the tasks that both finished. The resamples are the same each time."""
    ours = {one.task: one.solved_at is not None for one in first}
    theirs = {one.task: one.solved_at is not None for one in second}
    pairs = [(ours[task], theirs[task]) for task in sorted(ours.keys() & theirs.keys())]
    if not pairs:
        raise ValueError("the two runs share no task")
    steps = [int(b) - int(a) for a, b in pairs]
    count, chosen = len(pairs), random.Random(0)
    means = sorted(sum(chosen.choices(steps, k=count)) / count for _ in range(ROUNDS))
    won, lost = steps.count(1), steps.count(-1)
    return Difference(
        tasks=count,
        first=100 * sum(a for a, _ in pairs) / count,
        second=100 * sum(b for _, b in pairs) / count,
        interval=(100 * means[int(0.025 * ROUNDS)], 100 * means[int(0.975 * ROUNDS) - 1]),
        won=won,
        lost=lost,
        chance=_mcnemar(won, lost),
    )


def gains(results: Mapping[str, Sequence[Result]]) -> dict[str, Difference]:
    """Each set-up beside its baseline, where both were run."""
    found: dict[str, Difference] = {}
    for setup, ours in results.items():
        baseline = baseline_of(SETUPS[setup])
        if baseline is not None and baseline in results:
            found[setup] = difference(results[baseline], ours)
    return found


def relative(found: Difference) -> float | None:
    """The gain in per cent of what the first solved; None where it solved nothing."""
    return 100 * found.points / found.first if found.first else None


def _mcnemar(won: int, lost: int) -> float:
    count, few = won + lost, min(won, lost)
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(few + 1)) / float(2**count))
