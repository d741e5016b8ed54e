"""The demo tells a story that is true."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from langgraph_reflexion.cli import main
from langgraph_reflexion.graph.demo import LESSON
from strict_python import STRICT_PYTHON

COMMAND = "import sys; from langgraph_reflexion.cli import main; sys.exit(main(sys.argv[1:]))"


def demo_parts(capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """The output of the first run, of the second, and after them."""
    assert main(["demo"]) == 0
    written, err = capsys.readouterr()
    assert not err
    first, _, rest = written.partition("Second run")
    second, _, after = rest.partition("What was learned")
    return first, second, after


@pytest.mark.req("S1")
def test_the_first_run_fails_learns_and_recovers(capsys):
    first, _, _ = demo_parts(capsys)
    story = ["✗ ValueError", "reflects:", "plan:", f"lesson added: {LESSON}", '(day="Tuesday")', "11:00", "accepted"]
    places = [first.index(part) for part in story]
    assert places == sorted(places)


@pytest.mark.req("S1")
def test_the_second_run_has_the_lesson_before_it_decides_and_makes_no_mistake(capsys):
    _, second, after = demo_parts(capsys)
    assert second.index(f"recalls: {LESSON}") < second.index("   1  ") < second.index("11:00 is free.")
    assert "✗" not in second
    assert "no failure" in second
    assert "no mistake" in after


def test_the_demo_says_that_its_model_is_a_script(capsys):
    first, _, _ = demo_parts(capsys)
    assert "the model is a script" in first
    assert "token" not in first


def test_the_lesson_is_shown_with_its_evidence_and_its_record(capsys):
    _, _, after = demo_parts(capsys)
    for part in (
        LESSON,
        "evidence:",
        "'2026-03-03' is not a",
        "verified, candidate",
        "shown in 1 run, won 1 of 1",
    ):
        assert part in after


@pytest.mark.slow
def test_the_demo_as_a_process_warns_of_nothing_and_colours_no_pipe():
    done = subprocess.run(
        [*STRICT_PYTHON, "-c", COMMAND, "demo"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_without_docstrings_the_demo_runs_and_auditors_have_their_tools():
    audit = "from langgraph_reflexion import after_run; after_run('openai:gpt-4o-mini', root='.'); "
    python = [sys.executable, "-OO", "-c", audit + COMMAND, "demo"]
    environment = {**os.environ, "OPENAI_API_KEY": "none"}
    done = subprocess.run(python, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_reader_that_leaves_early_sees_no_traceback():
    # A pipe that nobody reads any more, as `demo | head` leaves it.
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "demo"], stdout=pipe, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has this file")
@pytest.mark.parametrize(
    ("redirected", "status", "written"),
    [(">&-", 0, ""), (">/dev/full", 1, "langgraph-reflexion: the output cannot be written: No space left on device\n")],
)
def test_an_output_that_cannot_be_written_leaves_no_traceback(redirected, status, written):
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(COMMAND)} demo {redirected}"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (status, written)
