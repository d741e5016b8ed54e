"""Each example runs as its first lines say, offline, and prints what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
LEARNS = (
    "11:00 is free. success failed: ['tool_error', 'check_failed'] lessons: 0\n"
    "11:00 is free. success failed: ['check_failed'] lessons: 2\n"
)
PRINTED = {
    "plain_agent": LEARNS,
    "middleware": LEARNS,
    "sub_graph": "['11:00 is free.', 'The planner ended with success.']\n",
    "trials": "attempt 1: 10:00 10:00 is taken.\nattempt 2: 11:00 \nsuccess after 1 reflection\n",
    "deep_agent": "The team meets at 11:00.\nthe planner learned: Give the calendar a weekday, never a date.\n",
    "mcp_tools": "['busy_times'] 11:00 is free. success\n",
}


@pytest.mark.external
@pytest.mark.req("J1", "J5", "M1", "M4")
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_shows(name: str):
    command = [sys.executable, "-W", "error::DeprecationWarning:langgraph_reflexion", FOLDER / f"{name}.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, PRINTED[name]), done.stderr


def test_every_example_is_run():
    # The client of a server is run where there is a server: `tests/studio/test_server.py`.
    assert {file.stem for file in FOLDER.glob("*.py")} == {*PRINTED, "story", "server_client"}
