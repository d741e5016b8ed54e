"""Progress: how far an experiment is, what it has cost, and how long it may still take, in one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from langgraph_reflexion.evals.ledger import Result

BAR = 24
QUIET = 15.0
"""Seconds between two lines where there is no terminal."""
Price = tuple[float, float]


class Progress:
    """One line that is drawn anew where there is a terminal, and a line now and then where there is none.

    What an earlier call has done counts as done and solved; tokens, cost and time are those of this call.
    """

    def __init__(
        self, file: TextIO, total: int, before: Sequence[Result], price: Price | None, slowed: Callable[[], int]
    ) -> None:
        self._file, self._total, self._price, self._slowed = file, total, price, slowed
        self._before, self._finished, self._broken = len(before), 0, 0
        self._solved = sum(one.solved_at is not None for one in before)
        self._input = self._output = 0
        self._began = self._last = time.monotonic()
        self._live = file.isatty()

    def tell(self, result: Result) -> None:
        """One more task is done."""
        self._finished += 1
        self._solved += result.solved_at is not None
        self._broken += result.error is not None
        self._input += result.input
        self._output += result.output
        now = time.monotonic()
        if self._live:
            self._file.write(f"\r\x1b[2K{self.line()}")
            self._file.flush()
        elif now - self._last >= QUIET:
            self._last = now
            self._file.write(self.line() + "\n")
            self._file.flush()

    def end(self) -> None:
        """Leave the line as it stands."""
        if self._live and self._finished:
            self._file.write("\n")
            self._file.flush()

    def line(self) -> str:
        """How it stands now."""
        done = self._before + self._finished
        full = round(BAR * done / max(self._total, 1))
        took = time.monotonic() - self._began
        left = took / max(self._finished, 1) * (self._total - done)
        parts = [
            f"[{'#' * full}{'.' * (BAR - full)}] {done}/{self._total}",
            f"{100 * self._solved / max(done, 1):.0f} % solved",
            f"{self._input + self._output:,} tokens",
            cost(self._input, self._output, self._price),
            f"{self._broken} broken" if self._broken else "",
            f"slowed down {self._slowed()} times" if self._slowed() else "",
            f"{clock(left)} left" if done < self._total else "",
        ]
        return "  ".join(part for part in parts if part)


def cost(given: int, got: int, price: Price | None) -> str:
    """What the tokens cost, where a price for a million of them is known."""
    return "" if price is None else f"${(given * price[0] + got * price[1]) / 1e6:,.4f}"


def clock(seconds: float) -> str:
    """A duration, as one says it."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
