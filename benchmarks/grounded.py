"""How many wrong answers `grounded` catches, at how many false alarms: `python benchmarks/grounded.py`.

`data/grounded.jsonl` holds runs that we wrote ourselves: a question, what was observed, right answers and wrong ones.
People, works and places are invented or plain geography. A wrong answer is what a model plausibly says:
another entity that was never observed, another one that was, a wrong date or count, a mere guess, giving up. The cases
with even numbers were used to tune the check, the others were not. A wrong answer that names something else from the
observations cannot be recognized without understanding it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from langgraph_reflexion import Run
from langgraph_reflexion.checks import grounded

DATA = Path(__file__).parent / "data" / "grounded.jsonl"


class Case(NamedTuple):
    """One run's question and observations, with answers that are right and answers that are wrong."""

    question: str
    seen: list[str]
    right: list[str]
    wrong: list[str]


def halves() -> tuple[list[Case], list[Case]]:
    """The cases that the check was tuned on, and those held out from it."""
    cases = [Case(**json.loads(line)) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return cases[::2], cases[1::2]


def refused(case: Case, answers: Sequence[str]) -> list[str]:
    """The answers that the check refuses."""
    check, run = grounded(), Run(task=case.question, observations=case.seen)
    return [answer for answer in answers if check(answer, run).passed is False]


def counts(cases: Sequence[Case]) -> tuple[int, int, int, int]:
    """False alarms of how many right answers, and wrong answers caught of how many."""
    alarms = sum(len(refused(case, case.right)) for case in cases)
    caught = sum(len(refused(case, case.wrong)) for case in cases)
    return alarms, sum(len(case.right) for case in cases), caught, sum(len(case.wrong) for case in cases)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure `grounded` on labeled answers.")
    parser.add_argument("--errors", action="store_true", help="list the answers it is wrong about in the tuned half")
    given = parser.parse_args()
    tuned, held_out = halves()
    for name, cases in (("tuned", tuned), ("held out", held_out)):
        alarms, right, caught, wrong = counts(cases)
        print(f"{name:9} false alarms {alarms}/{right} ({alarms / right:.1%})", end=", ")
        print(f"caught {caught}/{wrong} ({caught / wrong:.1%})")
    for case in tuned if given.errors else ():
        for answer in refused(case, case.right):
            print(f"false alarm: {case.question} -> {answer}")
        for answer in sorted(set(case.wrong) - set(refused(case, case.wrong))):
            print(f"missed:      {case.question} -> {answer}")


if __name__ == "__main__":
    main()
