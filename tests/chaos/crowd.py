"""Many processes, each with a store of its own on one file: `python crowd.py FOLDER PROCESSES RUNS`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import workload

from langgraph_reflexion import FaissStore


def live(folder: Path, number: int, runs: int) -> None:
    """Run agents and trials on the shared store, and write down what came of each."""
    with FaissStore(folder / "lessons.db") as store, (folder / f"{number}.jsonl").open("w") as lines:
        made = workload.graphs(None, store)
        for run in range(runs):
            outcome = made[2 * (run % 2)].invoke(workload.asked(number + run))["outcome"]
            lines.write(
                json.dumps(outcome.model_dump(mode="json", include={"status", "lessons_used", "run_id"})) + "\n"
            )


def main(folder: Path, processes: int, runs: int) -> int:
    children = []
    for number in range(processes):
        child = os.fork()
        if not child:
            try:
                live(folder, number, runs)
            except BaseException:  # noqa: BLE001 - a process of its own: nothing may leave it
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
