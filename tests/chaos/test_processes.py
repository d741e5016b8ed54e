"""Thirty-two processes that run agents on one store at once lose nothing and double nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from langgraph_reflexion import FaissStore, LessonBook

CROWD = Path(__file__).with_name("crowd.py")
PROCESSES = 32
RUNS = 4


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.req("I8", "O2")
def test_thirty_two_processes_share_one_store(tmp_path: Path, workload: ModuleType, sure: Callable[..., None]) -> None:
    done = subprocess.run(
        [sys.executable, str(CROWD), str(tmp_path), str(PROCESSES), str(RUNS)],
        capture_output=True,
        text=True,
        timeout=380,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(runs) == PROCESSES * RUNS
    assert {run["status"] for run in runs} <= {"success", "unverified"}
    with FaissStore(tmp_path / "lessons.db") as store:
        book = LessonBook(store, workload.NAMESPACE, workload.POLICY)
        sure(book, [])
        assert len(store.search((*workload.NAMESPACE, "episodes"), limit=1000)) == len(runs), "no run is lost"
        shown = Counter(lesson for run in runs for lesson in run["lessons_used"])
        assert {lesson.id: lesson.shown for lesson in book.lessons() if lesson.shown} == shown, "each run counts once"
        assert {lesson.text for lesson in book.lessons(kind="rule")} == {
            workload.RULE["text"],
            workload.TRIAL_RULE["text"],
        }
