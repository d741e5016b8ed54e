"""The memory command as a process: closed pipes, Ctrl-C, and a terminal that asks."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from langgraph_reflexion import FaissStore, LessonBook

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).parent / "langgraph-reflexion"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A file with a thousand lessons."""
    file = tmp_path / "lessons.db"
    lines = [json.dumps({"kind": "rule", "text": f"Read part {i} first. {'x' * 90}"}) for i in range(1000)]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    with FaissStore(file) as store:
        LessonBook(store).load(tmp_path / "all.jsonl")
    return file


@pytest.mark.parametrize("verb", ["list", "export"])
def test_a_reader_that_closes_the_pipe_early_is_not_an_error(filled, verb):
    command = [COMMAND, "memory", verb, "--store", filled]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert not process.stderr.read()
    assert process.returncode in (0, 1)


def test_ctrl_c_at_the_question_leaves_the_lesson_and_status_130(filled):
    with FaissStore(filled) as store:
        first = LessonBook(store).lessons()[0].id
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "memory", "forget", first, "--store", filled], stdin=theirs, stdout=theirs, stderr=theirs
    )
    printed = b""
    while b"[y/N]" not in printed:
        printed += os.read(ours, 1000)
    for _ in range(20):  # Python does not notice a signal between its prompt and its reading: press again
        time.sleep(0.5)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert b"interrupted" in os.read(ours, 1000)
    with FaissStore(filled) as store:
        assert LessonBook(store).has(first)
