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

import httpx
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


@pytest.mark.req("N1")
def test_the_page_is_served_to_whoever_has_its_link_until_ctrl_c(filled):
    command = [COMMAND, "memory", "page", "--store", filled]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "Lessons of reflexion/reflexion_agent, until you press Ctrl-C:\n"
        link = httpx.URL(process.stdout.readline().strip())
        assert link.host == "127.0.0.1"
        assert "<title>" in httpx.get(link).text
        assert httpx.get(link.copy_with(query=None)).status_code == 403
        lessons = httpx.get(link.join("lessons"), headers={"authorization": f"Bearer {link.params['token']}"})
        assert len(lessons.json()) == 100
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has this file")
def test_a_page_whose_link_cannot_be_written_is_not_served(filled):
    with open("/dev/full", "w") as full:
        command = [COMMAND, "memory", "page", "--store", filled]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, "the output cannot be written: No space left" in done.stderr) == (1, True)
