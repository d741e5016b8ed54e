"""Figures of an experiment: accuracy by trial, intervals and gains, and two experiments compared task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, mean
from typing import Any

from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.setups import SETUPS

Z = NormalDist().inv_cdf(0.975)
"""Standard deviations that hold 95 of 100 values of a normal distribution."""
Interval = tuple[float, float]
REFERENCE = (
    "Published for HotpotQA with other models, not comparable with these tasks (set-ups of Shinn et al. 2023, "
    "arXiv:2303.11366; the first source of these figures is not known): "
    + ", ".join(f"{setup.name} {setup.published:.0f} %" for setup in SETUPS.values() if setup.published is not None)
    + "; relative gains +24 % by the last trial, +28 % by both, 15 to 45 % over all set-ups."
)

COLUMNS = {
    "repeats": "repeats: the lowest and the highest of the repeats.",
    "gain": "gain: points over blind retry by the same worker.",
    "refl.": "refl.: reflections for each solved task.",
    "tokens": "tokens: those of all tasks, for each solved one.",
}
"""What the columns of the table mean; a column is shown only if something is in it."""


@dataclass(frozen=True)
class Row:
    """The figures of one set-up."""

    setup: str
    tasks: int
    errors: int
    """Tasks that broke, and count as not solved."""
    by_trial: tuple[float, ...]
    """The percentage of tasks solved within each number of trials. With repeats, the mean."""
    interval: Interval
    spread: Interval | None
    """The lowest and the highest percentage of the repeats, if any."""
    reflections: float | None
    """Reflections per solved task, counting only solved tasks."""
    tokens: float | None
    """Tokens per solved task, including those of unsolved tasks. `None` if the model reports none."""
    lessons: int
    """Tasks that were shown a lesson of an earlier one."""

    @property
    def accuracy(self) -> float:
        """The percentage of tasks solved."""
        return self.by_trial[-1]


def make_row(setup: str, results: Sequence[Result], trials: int) -> Row:
    """The figures of one set-up."""
    solved = [result for result in results if result.solved_at is not None]
    rates = _solve_rates(results)
    by_trial = tuple(_share(results, trial) for trial in range(1, trials + 1))
    repeats = {result.repeat for result in results}
    shares = [_share([result for result in results if result.repeat == number], trials) for number in repeats]
    tokens = sum(result.tokens for result in results)
    return Row(
        setup=setup,
        tasks=len(rates),
        errors=sum(result.error is not None for result in results),
        by_trial=by_trial,
        # A task's repeats are not independent, so the interval is over tasks.
        interval=wilson(sum(rates.values()), len(rates)),
        spread=(min(shares), max(shares)) if len(shares) > 1 else None,
        reflections=sum(result.reflections for result in solved) / len(solved) if solved else None,
        tokens=tokens / len(solved) if solved and tokens else None,
        lessons=sum(bool(result.lessons_used) for result in results),
    )


def make_rows(results: Mapping[str, Sequence[Result]], trials: int) -> list[Row]:
    """A row for each set-up: ours in the order of `SETUPS`, then the caller's own."""
    names = dict.fromkeys((*SETUPS, *results))
    return [make_row(name, results[name], trials) for name in names if results.get(name)]


def _share(results: Sequence[Result], trials: int) -> float:
    solved = sum(result.solved_at is not None and result.solved_at <= trials for result in results)
    return 100 * solved / max(len(results), 1)


def _solve_rates(results: Sequence[Result]) -> dict[str, float]:
    """How often each task was solved, over its repeats."""
    found: dict[str, list[bool]] = {}
    for result in results:
        found.setdefault(result.task, []).append(result.solved_at is not None)
    return {task: mean(solved) for task, solved in found.items()}


def wilson(hits: float, count: int) -> Interval:
    """The 95 % interval of a share, in per cent."""
    if not count:
        return 0.0, 100.0
    share, square = hits / count, Z * Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return max(0.0, 100 * (middle - half)), min(100.0, 100 * (middle + half))


def _paired(steps: Sequence[float]) -> Interval:
    """The 95 % interval of a mean difference in per cent, of one difference per task.

    It is Agresti and Min's for paired shares: as if there were two more tasks, one of them half won and half lost.
    """
    count = len(steps) + 2
    middle, square = sum(steps) / count, (sum(step * step for step in steps) + 1) / count
    half = Z * math.sqrt((square - middle * middle) / count)
    return max(-100.0, 100 * (middle - half)), min(100.0, 100 * (middle + half))


# ------------------------------------------------------------ two side by side


@dataclass(frozen=True)
class Difference:
    """Two sets of results compared on the tasks they share."""

    tasks: int
    first: float
    second: float
    interval: Interval
    """95 %, of the difference in points."""
    won: int
    """Tasks that the second solved more often."""
    lost: int
    """Tasks that the first solved more often."""
    chance: float
    """The probability of such an uneven split if both are equal (exact McNemar test)."""

    @property
    def points(self) -> float:
        """By how many points the second is better."""
        return self.second - self.first

    @property
    def relative(self) -> float | None:
        """The gain in per cent of what the first solved. `None` if it solved nothing."""
        return 100 * self.points / self.first if self.first else None

    def as_data(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {**asdict(self), "points": self.points, "relative": self.relative}


def compare_results(first: Sequence[Result], second: Sequence[Result]) -> Difference:
    """The difference of two sets of results on the tasks that both finished."""
    ours, theirs = _solve_rates(first), _solve_rates(second)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        raise ValueError("the two runs share no task")
    steps = [theirs[task] - ours[task] for task in shared]
    won, lost = sum(step > 0 for step in steps), sum(step < 0 for step in steps)
    uneven = sum(math.comb(won + lost, k) for k in range(min(won, lost) + 1))
    return Difference(
        tasks=len(shared),
        first=100 * mean(ours[task] for task in shared),
        second=100 * mean(theirs[task] for task in shared),
        interval=_paired(steps),
        won=won,
        lost=lost,
        chance=min(1.0, 2 * uneven / (1 << (won + lost))),  # whole numbers, because 2.0**1024 is too large
    )


def compare_with_baselines(results: Mapping[str, Sequence[Result]]) -> dict[str, Difference]:
    """Each set-up compared with its baseline, if both were run."""
    baselines = {name: SETUPS[name].baseline or "" for name in results if name in SETUPS}
    return {name: compare_results(results[of], results[name]) for name, of in baselines.items() if results.get(of)}


# ------------------------------------------------------------ as text


def format_table(results: Mapping[str, Sequence[Result]], trials: int, figures: str) -> list[str]:
    """Accuracy by trial with its interval, the gain over the baseline, and what a solved task cost.

    `figures` says what they are: a model's name, or that they are simulated.
    """
    gains, rows = compare_with_baselines(results), make_rows(results, trials)
    head = ["set-up", "tasks", *(f"trial {number}" for number in range(1, trials + 1))]
    head += ["95 %", "repeats", "gain", "refl.", "tokens"]
    body = []
    for row in rows:
        gain, cells = gains.get(row.setup), [row.setup, str(row.tasks), *(f"{share:.0f} %" for share in row.by_trial)]
        cells.append(_format_interval(row.interval))
        cells.append(_format_interval(row.spread) if row.spread else "")
        cells.append("" if gain is None else _format_gain(gain))
        cells.append("" if row.reflections is None else f"{row.reflections:.1f}")
        cells.append("" if row.tokens is None else f"{row.tokens:,.0f}")
        body.append(cells)
    filled = [any(column) for column in zip(*body, strict=True)]
    meanings = [COLUMNS[name] for name, keep in zip(head, filled, strict=False) if keep and name in COLUMNS]
    notes = [" ".join(meanings)] if meanings else []
    if faults := [result.error for row in rows for result in results[row.setup] if result.error]:
        count = "1 task broke, and counts" if len(faults) == 1 else f"{len(faults)} tasks broke, and count"
        notes.append(f"{count} as not solved; the last with: {' '.join(faults[-1].split())[:200]}")
    if silent := sum(bool(result.reflections and not result.plans) for row in rows for result in results[row.setup]):
        count = "1 task" if silent == 1 else f"{silent} tasks"
        notes.append(f"On {count} every reflection that was asked for failed or could not be read.")
    shown = [[cell for cell, keep in zip(cells, filled, strict=True) if keep] for cells in (head, *body) if body]
    return [f"Figures of: {figures}", *_align(shown), "", *notes, REFERENCE]


def format_difference(name: str, found: Difference) -> list[str]:
    """A comparison in two lines."""
    low, high = found.interval
    # The interval is an approximation, too narrow for a handful of tasks: the exact test must agree.
    certainty = "more than chance" if (low > 0 or high < 0) and found.chance < 0.05 else "may be chance"
    return [
        f"{name}: {found.first:.0f} % → {found.second:.0f} %, {found.points:+.1f} points "
        f"(95 %: {low:+.1f} to {high:+.1f}), {certainty}",
        f"  {found.tasks} tasks in both; the second is better on {found.won}, the first on {found.lost} "
        f"(McNemar p = {found.chance:.3f})",
    ]


def _format_interval(interval: Interval) -> str:
    return f"{interval[0]:.0f}–{interval[1]:.0f}"


def _format_gain(gain: Difference) -> str:
    low, high = gain.interval
    relative = "" if gain.relative is None else f", {gain.relative:+.0f} %"
    return f"{gain.points:+.0f} ({low:+.0f} to {high:+.0f}){relative}"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
