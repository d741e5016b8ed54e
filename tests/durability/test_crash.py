"""A run that died goes on where it was: nothing finished is paid for or run twice, nothing learned is doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STORY = Path(__file__).with_name("story.py")
SOME = [
    ("model", 1, "after"),
    ("tool", 3, "before"),
    ("check", 1, "before"),
    ("store", 4, "after"),
    ("store", 11, "after"),
]
OF_THE_MOMENT = {"run_id", "seconds", "created_at", "updated_at", "last_used_at", "expires_at", "sources"}


def told(folder: Path, moments: list[Any]) -> dict[str, Any]:
    """What came of the story, whole and with a process killed at each of these moments."""
    done = subprocess.run(
        [sys.executable, str(STORY), str(folder), json.dumps(moments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


def lasting(value: Any) -> Any:
    """The same without what belongs to one moment or one run."""
    if isinstance(value, dict):
        return {key: lasting(one) for key, one in value.items() if key not in OF_THE_MOMENT}
    return [lasting(one) for one in value] if isinstance(value, list) else value


def sure_of(killed: dict[str, Any], whole: dict[str, Any]) -> None:
    """Whatever the moment, the run ends as if nothing had happened, and only what was cut off is done again."""
    who, number, _ = moment = killed["moment"]
    assert killed["died"] == 9, f"{moment}: the process lives"
    assert killed["went_on"] == 0, f"{moment}: the other one failed"
    assert killed["end"]["next"], f"{moment}: there was nothing left to do"
    end, at_best = killed["end"], whole["end"]
    assert lasting(end["outcome"]) == lasting(at_best["outcome"]), moment
    assert lasting(end["lessons"]) == lasting(at_best["lessons"]), f"{moment}: no lesson is lost or doubled"
    assert [one["shown"] for one in end["lessons"]] == [one["shown"] for one in at_best["lessons"]], moment
    assert (end["episodes"], end["paired"]) == (1, True), moment
    assert [one[:2] for one in end["messages"]] == [one[:2] for one in at_best["messages"]], moment
    for kind in ("model", "tool", "check"):
        before = sorted(line for line in whole["ledger"] if line.startswith(kind))
        after = sorted(line for line in killed["ledger"] if line.startswith(kind))
        if kind == who:
            again = [line for line in killed["ledger"] if line.startswith(kind)][number - 1]
            assert len(after) == len(before) + 1, f"{moment}: only what was cut off is done again"
            assert sorted([*before, again]) == after, moment
        else:
            assert before == after, f"{moment}: what had finished is not done again"


@pytest.mark.slow
@pytest.mark.req("I7")
def test_a_killed_process_leaves_a_run_that_another_one_finishes_as_if_nothing_had_happened(tmp_path: Path) -> None:
    results = told(tmp_path, SOME)
    assert results["whole"]["end"]["outcome"]["status"] == "success"
    assert len(results["killed"]) == len(SOME)
    for killed in results["killed"]:
        sure_of(killed, results["whole"])


@pytest.mark.slow
@pytest.mark.timeout(320)
@pytest.mark.req("I7")
def test_whatever_the_moment_a_process_dies_another_one_continues(tmp_path: Path) -> None:
    results = told(tmp_path, [])
    assert len(results["killed"]) > 40
    for killed in results["killed"]:
        sure_of(killed, results["whole"])
