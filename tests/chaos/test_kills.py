"""Processes that are killed at random leave files that another one goes on with."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from langgraph_reflexion import ErrorNotebook, LessonBook

WORKLOAD = Path(__file__).with_name("workload.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
THREADS = 60
AT_LEAST, AT_MOST = 3, 12
SECONDS = 40.0
"""After so long the rest is finished in one go: a process takes a second or more to start."""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.req("I7", "H6")
def test_processes_killed_at_random_lose_and_double_nothing(
    tmp_path: Path, dice: random.Random, workload: ModuleType, sure: Callable[..., None]
) -> None:
    command = [sys.executable, str(WORKLOAD), str(tmp_path), str(THREADS)]
    killed, until = 0, time.monotonic() + SECONDS
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1][-2000:]
        lives = dice.uniform(0.02, 1.0)
        most = AT_MOST if time.monotonic() < until else AT_LEAST
        try:
            output, errors = process.communicate(timeout=lives if killed < most else 300)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            killed += 1
            continue
        assert process.returncode == 0, errors[-3000:]
        assert output == "done\n"
        break
    assert killed >= AT_LEAST
    with workload.opened(tmp_path) as (saver, store):
        graphs = workload.graphs(saver, store)
        states = [graphs[number % 3].get_state(workload.config(number)) for number in range(THREADS)]
        assert {state.values["outcome"].status for state in states} <= {"success", "unverified"}
        assert not any(state.next for state in states)
        runs = [state.values["outcome"].run_id for state in states]
        assert len(set(runs)) == THREADS
        book = LessonBook(store, workload.NAMESPACE, workload.POLICY)
        sure(book, [state.values["messages"] for state in states])
        assert {lesson.text for lesson in book.lessons(kind="rule")} >= {
            workload.RULE["text"],
            workload.TRIAL_RULE["text"],
        }
        kept = {item.key for item in store.search((*workload.NAMESPACE, "episodes"), limit=1000)}
        assert kept == set(runs), "each run left its episode, and none left two"
        shown: dict[str, int] = {}
        for state in states:
            for lesson in state.values["outcome"].lessons_used:
                shown[lesson] = shown.get(lesson, 0) + 1
        assert {lesson.id: lesson.shown for lesson in book.lessons() if lesson.shown} == shown, "each counts once"
        findings = _findings(ErrorNotebook(store, workload.NAMESPACE))
        assert len(findings) == len({finding["session"] for finding in findings}), "no finding is kept twice for a run"


def _findings(notebook: ErrorNotebook) -> list[dict[str, Any]]:
    return list(notebook.recent(10_000))
