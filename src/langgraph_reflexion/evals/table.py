"""The table: what came of each set-up, beside what was published for it, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph_reflexion.evals.figures import Difference, Interval, Row, gains, relative, row_of
from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.setups import PUBLISHED_GAINS, SETUPS

Results = Mapping[str, Sequence[Result]]
NOTE = (
    f"published: per cent solved, as published for HotpotQA questions with another model. Its gains: {PUBLISHED_GAINS}."
)


def rows_of(results: Results, trials: int) -> list[Row]:
    """A row for each set-up, in the order of the ten."""
    return [row_of(setup, results[setup], trials) for setup in SETUPS if results.get(setup)]


def table(results: Results, trials: int) -> list[str]:
    """Accuracy by trial with its interval, the gain over the baseline, and what a task solved cost."""
    found = gains(results)
    head = [
        "set-up",
        "tasks",
        *(f"trial {n}" for n in range(1, trials + 1)),
        "95 %",
        "gain",
        "refl.",
        "tokens",
        "published",
    ]
    body = [_cells(row, found.get(row.setup)) for row in rows_of(results, trials)]
    faults = [one.error for row in rows_of(results, trials) for one in results[row.setup] if one.error]
    lines = aligned([head, *body])
    notes = ["refl., tokens: for each task solved. gain: points over the same worker without a word on failures."]
    if faults:
        told = "1 task broke, and counts" if len(faults) == 1 else f"{len(faults)} tasks broke, and count"
        notes.append(f"{told} as not solved; the last with: {' '.join(faults[-1].split())[:200]}")
    return [*lines, "", *notes, NOTE]


def _cells(row: Row, gain: Difference | None) -> list[str]:
    published = SETUPS[row.setup].published
    return [
        row.setup,
        str(row.tasks),
        *(f"{share:.0f} %" for share in row.by_trial),
        between(row.interval),
        "" if gain is None else told_gain(gain),
        "" if row.reflections is None else f"{row.reflections:.1f}",
        "" if row.tokens is None else f"{row.tokens:,.0f}",
        "" if published is None else f"{published:.0f} %",
    ]


def between(interval: Interval) -> str:
    """An interval, as one writes it."""
    return f"{interval[0]:.0f}–{interval[1]:.0f}"


def told_gain(found: Difference) -> str:
    """Points with their interval, and the gain in per cent of the baseline."""
    low, high = found.interval
    share = relative(found)
    return f"{found.points:+.0f} ({low:+.0f} to {high:+.0f})" + ("" if share is None else f", {share:+.0f} %")


def comparison(name: str, found: Difference) -> list[str]:
    """One set-up of two runs, told apart."""
    low, high = found.interval
    sure = "more than chance" if low > 0 or high < 0 else "may be chance"
    return [
        f"{name}: {found.first:.0f} % → {found.second:.0f} %, {found.points:+.1f} points "
        f"(95 %: {low:+.1f} to {high:+.1f}), {sure}",
        f"  {found.tasks} tasks in both; only the second solved {found.won}, only the first {found.lost} "
        f"(McNemar p = {found.chance:.3f})",
    ]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
