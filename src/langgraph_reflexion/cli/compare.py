"""The compare command: two experiments, set-up by set-up."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph_reflexion.cli.console import Page, WrongUse, count_of, note, wrong_values
from langgraph_reflexion.evals.figures import compare_results, format_difference
from langgraph_reflexion.evals.ledger import Result, Timing, figures_of, load_plan, load_results, load_times


def compare(args: argparse.Namespace, page: Page) -> int:
    """Compare two runs by set-up: the two set-ups that are named, else those both runs have, else the only ones."""
    first, second = args.first, args.second
    with wrong_values():
        plans = [load_plan(folder) for folder in (first, second)]
        ours, theirs = load_results(first), load_results(second)
        pairs = _find_pairs(args, ours, theirs)
        found = {a if a == b else f"{a} and {b}": compare_results(ours[a], theirs[b]) for a, b in pairs}
        speed = _measured_speedup(load_times(first), load_times(second))
    figures = [figures_of(plan) for plan in plans]
    for name in sorted(plans[0].keys() & plans[1].keys() - {"model", "reflector", "judge", "lessons"}):
        if plans[0][name] != plans[1][name]:
            note(f"the two runs differ in {name}: {plans[0][name]} and {plans[1][name]}")
    digests = [{result.task: result.digest for result in flatten(results)} for results in (ours, theirs)]
    if any(digests[1].get(task, digest) != digest for task, digest in digests[0].items()):
        note("the two runs were given different tasks under the same ids, and are compared anyway")
    for folder, results in ((first, ours), (second, theirs)):
        if broken := sum(result.error is not None for result in flatten(results)):
            count = count_of(broken, "broken task")
            note(f"counted as not solved: {count} of {folder}; the same eval command runs them again")
    if args.json:
        page.data({name: gain.as_data() | {"figures": figures} for name, gain in found.items()})
        return 0
    page.line(f"{first} ({figures[0]}) → {second} ({figures[1]})", "bold")
    for name, gain in found.items():
        for line in format_difference(name, gain):
            page.line(line, wrap=True)
    if speed:
        page.line(speed)
    return 0


def _measured_speedup(first: Sequence[Timing], second: Sequence[Timing]) -> str:
    """How much faster one run was, if the other did the same number of tasks one at a time."""
    if len(first) != 1 or len(second) != 1 or first[0].tasks != second[0].tasks:
        return ""  # a run in several calls was not timed as a whole
    serial, parallel = sorted((first[0], second[0]), key=lambda timing: timing.concurrency)
    if serial.concurrency != 1 or parallel.concurrency == 1:
        return ""
    seconds = f"{serial.seconds:,.1f} s one at a time, {parallel.seconds:,.1f} s with {parallel.concurrency} at once"
    return f"Measured speed-up: {seconds}, {serial.seconds / parallel.seconds:.1f} × as fast."


def _find_pairs(args: argparse.Namespace, ours: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, str]]:
    """The set-ups to compare: one of each run."""
    if args.setups is None:
        only = list(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) == 1 else []
        pairs = only or [(name, name) for name in ours if name in theirs]
        if not pairs:
            have = f"{args.first} ({_names(ours)}) and {args.second} ({_names(theirs)})"
            raise WrongUse(f"{have} share no set-up: choose one of each with --setups A,B")
        return pairs
    if len(args.setups) != 2:
        raise WrongUse(f"--setups names one set-up of each run, got {', '.join(args.setups) or 'none'}")
    for name, folder, found in ((args.setups[0], args.first, ours), (args.setups[1], args.second, theirs)):
        if name not in found:
            raise WrongUse(f"{folder} has no set-up {name!r}; it has {_names(found)}")
    return [(args.setups[0], args.setups[1])]


def _names(results: dict[str, Any]) -> str:
    return ", ".join(results) or "nothing done"


def flatten(results: Mapping[str, Sequence[Result]]) -> list[Result]:
    return [result for found in results.values() for result in found]
