"""Set-ups: the ten ways to work on a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["none", "last_trial", "reflexion", "both"]


@dataclass(frozen=True)
class Setup:
    """One way to work on every task."""

    name: str
    worker: Literal["cot", "react"]
    context: bool
    """Whether the worker is shown what is known about a task; `react` looks it up instead."""
    strategy: Strategy
    published: float | None = None
    """The published percentage of tasks solved."""

    @property
    def baseline(self) -> str | None:
        """The set-up that it is compared with: the same worker and context, with blind retries."""
        if self.strategy == "none":
            return None
        return "cot+context" if self.context else self.worker


SETUPS = {
    setup.name: setup
    for setup in (
        Setup("cot", "cot", False, "none", 29),
        Setup("cot+context", "cot", True, "none", 75),
        Setup("cot+reflexion", "cot", False, "reflexion"),
        Setup("cot+context+reflexion", "cot", True, "reflexion", 88),
        Setup("cot+context+last_trial", "cot", True, "last_trial", 93),
        Setup("cot+context+both", "cot", True, "both", 96),
        Setup("react", "react", False, "none", 35),
        Setup("react+reflexion", "react", False, "reflexion"),
        Setup("react+last_trial", "react", False, "last_trial"),
        Setup("react+both", "react", False, "both"),
    )
}


def find_setups(names: Sequence[str]) -> list[Setup]:
    """The set-ups with these names, each once. `all` means all ten."""
    names = [names] if isinstance(names, str) else names
    wanted = list(dict.fromkeys(SETUPS if "all" in names else names))
    if not wanted:
        raise ValueError(f"no set-up is named; the set-ups are {', '.join(SETUPS)}, or all")
    if unknown := [name for name in wanted if name not in SETUPS]:
        raise ValueError(f"there is no set-up {unknown[0]!r}; the set-ups are {', '.join(SETUPS)}, or all")
    return [SETUPS[name] for name in wanted]
