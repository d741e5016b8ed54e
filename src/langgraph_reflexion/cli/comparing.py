"""Compare: two runs of eval told apart, task by task."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.wrong_use import WrongUse, sentence
from langgraph_reflexion.errors import ReflexionError
from langgraph_reflexion.evals.figures import difference
from langgraph_reflexion.evals.ledger import plan_in, results_in
from langgraph_reflexion.evals.table import comparison


def compare(first: Path, second: Path, setups: Sequence[str] | None, as_json: bool, page: Page) -> int:
    """Two runs, set-up by set-up: the two that are named, else those they share, else the one that each has."""
    try:
        one_file = plan_in(first).get("digest") == plan_in(second).get("digest")
        ours, theirs = results_in(first), results_in(second)
        pairs = _named(setups, first, ours, second, theirs) if setups is not None else _shared(ours, theirs)
        if not pairs:
            have = f"{first} ({_names(ours)}) and {second} ({_names(theirs)})"
            raise WrongUse(f"{have} share no set-up: name one of each by --setups A,B")
        found = {
            a if a == b else f"{a} and {b}": difference(list(ours[a].values()), list(theirs[b].values()))
            for a, b in pairs
        }
    except ReflexionError as fault:
        raise WrongUse(str(fault)) from fault
    except ValueError as fault:
        raise WrongUse(sentence(fault)) from fault
    if not one_file:
        note = "the two runs were given different tasks: those of the same id are taken for the same"
        Page(sys.stderr).line(note, "yellow")
    if as_json:
        told = {name: {**asdict(one), "points": one.points} for name, one in found.items()}
        sys.stdout.write(json.dumps(told, ensure_ascii=False, indent=2) + "\n")
        return 0
    page.line(f"{first} → {second}", "bold")
    for name, one in found.items():
        for line in comparison(name, one):
            page.line(line, fold=False)
    return 0


def _shared(ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, str]]:
    if len(ours) == len(theirs) == 1:
        return [(next(iter(ours)), next(iter(theirs)))]
    return [(name, name) for name in ours if name in theirs]


def _named(
    setups: Sequence[str], first: Path, ours: dict[str, Any], second: Path, theirs: dict[str, Any]
) -> list[tuple[str, str]]:
    if len(setups) != 2:
        raise WrongUse(f"--setups names one set-up of each run, got {', '.join(setups) or 'none'}")
    for name, folder, found in ((setups[0], first, ours), (setups[1], second, theirs)):
        if name not in found:
            raise WrongUse(f"{folder} has no set-up {name!r}; it has {_names(found)}")
    return [(setups[0], setups[1])]


def _names(results: dict[str, Any]) -> str:
    return ", ".join(results) or "nothing done"
