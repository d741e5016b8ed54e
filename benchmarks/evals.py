"""How near an experiment comes to its ideal time: 100 tasks of 5 calls of 50 ms, 20 at once. The model is a script.

    python benchmarks/evals.py [--short]

A task of the set-up `cot+reflexion` fails twice: three answers and two reflections are five calls. The ideal is what
the calls take where nothing else takes time. Fails only where a task is lost, doubled or not solved in its third trial.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from langgraph_reflexion.evals import Experiment, Ledger, Task, run, setups_named
from langgraph_reflexion.evals.pacing import Pace, PacedModel
from langgraph_reflexion.testing import Question, RoleModel, reflection, say
from langgraph_reflexion.testing.student import PLANS

DELAY, AT_ONCE, CALLS = 0.05, 20, 5


def model() -> RoleModel:
    """Right once it has been told two plans."""

    def decide(question: Question) -> object:
        return say(f"Answer: {'right' if PLANS[1] in question.text else 'wrong'}")

    def reflect(question: Question) -> object:
        return reflection(PLANS[1] if PLANS[0] in question.text else PLANS[0], failure_signal="check_failed")

    return RoleModel(decide=decide, reflect=reflect, delay=DELAY)


async def measured(count: int, folder: Path) -> float:
    """The seconds that so many tasks take."""
    tasks = [Task(id=f"t{number}", task=f"What is right in case {number}?", answer="right") for number in range(count)]
    pace = Pace(AT_ONCE)
    scripted = model()
    experiment = Experiment(tasks, setups_named(["cot+reflexion"]), PacedModel(scripted, pace))
    ledger = Ledger(folder, {})
    began = time.perf_counter()
    await run(experiment, ledger, pace)
    took = time.perf_counter() - began
    found = ledger.results["cot+reflexion"]
    assert {name: one.solved_at for name, one in found.items()} == {task.id: 3 for task in tasks}
    assert len(scripted.asked) == CALLS * count
    return took


def main() -> None:
    """Print the time, the ideal, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="20 tasks")
    count = 20 if parser.parse_args().short else 100
    ideal = count * CALLS * DELAY / AT_ONCE
    for _ in range(2):  # the first round imports and compiles
        with tempfile.TemporaryDirectory() as folder:
            took = asyncio.run(measured(count, Path(folder)))
    print(f"{count} tasks × {CALLS} calls × {DELAY * 1000:.0f} ms, {AT_ONCE} at once (scripted model)")
    print(f"ideal {ideal:.2f} s, measured {took:.2f} s: {took / ideal:.2f} ×")


if __name__ == "__main__":
    main()
