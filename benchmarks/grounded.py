"""How many wrong answers `grounded` catches, at how many false alarms: `python benchmarks/grounded.py`.

The cases are of our own writing (`benchmarks/grounded_cases.py`). Those at even places were used to tune the check, the
others were not. A wrong answer that names another thing which was observed cannot be seen without understanding it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from grounded_cases import Case, halves

from langgraph_reflexion import Run
from langgraph_reflexion.checks import grounded


def refused(case: Case, answers: Sequence[str], share: float) -> list[str]:
    """The answers that the check refuses."""
    check = grounded(share=share)
    return [one for one in answers if check(one, Run(task=case.question, observations=case.seen)).passed is False]


def counts(cases: Sequence[Case], share: float) -> tuple[int, int, int, int]:
    """False alarms of how many right answers, and wrong answers caught of how many."""
    alarms = sum(len(refused(case, case.right, share)) for case in cases)
    caught = sum(len(refused(case, case.wrong, share)) for case in cases)
    return alarms, sum(len(case.right) for case in cases), caught, sum(len(case.wrong) for case in cases)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure `grounded` on labelled answers.")
    parser.add_argument("--errors", action="store_true", help="list the answers it is wrong about in the tuned half")
    told = parser.parse_args()
    tuned, held_out = halves()
    print("share   tuned: false alarms     caught          held out: false alarms     caught")
    for share in (0.34, 0.5, 0.67, 1.0):
        row = []
        for cases in (tuned, held_out):
            alarms, right, caught, wrong = counts(cases, share)
            row.append(f"{alarms:3}/{right} ({alarms / right:5.1%})   {caught:3}/{wrong} ({caught / wrong:5.1%})")
        print(f"{share:4.2f}    {row[0]}          {row[1]}")
    if told.errors:
        for case in tuned:
            for one in refused(case, case.right, 0.67):
                print(f"false alarm: {case.question} -> {one}")
            for one in set(case.wrong) - set(refused(case, case.wrong, 0.67)):
                print(f"missed:      {case.question} -> {one}")


if __name__ == "__main__":
    main()
