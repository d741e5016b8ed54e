"""Ctrl-C ends a run at once, and says what was done and kept."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest

from langgraph_reflexion.cli.loading import DaemonThreads as Daemons
from langgraph_reflexion.testing import call, reflection, say
from model_server import ModelServer
from strict_python import STRICT_PYTHON

# A shell may have told its background jobs to ignore the signal, and a child inherits that.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", file=sys.stderr, flush=True)
from langgraph_reflexion.cli import main
sys.exit(main(sys.argv[1:]))
"""
TOOLS = '''
import time

def add(a: int, b: int) -> int:
    """Add two numbers."""
    if a < 0:
        raise ValueError("a number is below zero")
    return a + b

def hang() -> str:
    """Never come back."""
    print("hanging", flush=True)
    time.sleep(600)

TOOLS = [add, hang]
'''
RULE = {"kind": "rule", "text": "Give the sum tool positive numbers alone.", "when": "adding numbers"}
LEARNED = reflection("Call the sum tool with positive numbers.", memory_to_write=[RULE])

STOPPED = [call("add", a=-1, b=2), LEARNED, say("Too late.")]
"""The last of it is asked for, and never comes."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with the user's own tools, in which the command is given."""
    (tmp_path / "cli_interrupt_tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "cli_interrupt_tools", raising=False)


LOADING = """
import sys

class Pressed:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Pressed())
from langgraph_reflexion.cli import main
sys.exit(main(["demo"]))
"""


LATE = pytest.param("langgraph_reflexion.cli.demo", marks=pytest.mark.slow)  # all of the packages are read first


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("module", ["argparse", "pydantic", "langgraph", LATE])
def test_ctrl_c_while_the_command_is_still_loading_is_quiet(module):
    ended = subprocess.run([sys.executable, "-c", LOADING, module], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.req("N2")
@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.0, 1.5])
def test_ctrl_c_in_the_first_two_seconds_is_quiet(seconds):
    words = ["eval", "shipped", "--setups", "cot", "--model", "simulated"]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"  # an interpreter that has not begun cannot be quiet
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=100)[1]
    assert process.returncode in (130, 0)


def started(server, *argv):
    """The command as a process of its own."""
    options = ("--model", "openai:any", "--base-url", server.url, "--tools", "cli_interrupt_tools:TOOLS")
    return subprocess.Popen(
        [*STRICT_PYTHON, "-c", COMMAND, "run", *argv, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupted(process):
    """What it said after Ctrl-C, which it obeyed at once."""
    since = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert time.monotonic() - since < 30  # what hangs, does so for a minute or more
    assert (process.returncode, err) == (130, "begun\n")
    return out


def waited_for(server, questions, process):
    until = time.monotonic() + 60
    while len(server.asked) < questions:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.req("I6")
def test_a_stopped_run_says_what_was_done_and_kept():
    for store, kept in (((), "gone with this command"), (("--store", "lessons.db"), "kept in lessons.db")):
        with ModelServer(STOPPED, ["normal", "normal", "slow"], slow=60) as server:
            process = started(server, "Add.", *store)
            waited_for(server, 3, process)
            out = interrupted(process)
        assert "✗ interrupted after 1 step" in out
        assert f"1 lesson written, {kept}" in out


@pytest.mark.slow
def test_a_tool_that_hangs_does_not_hold_up_ctrl_c():
    with ModelServer([call("hang")]) as server:
        process = started(server, "Wait.")
        assert process.stdout is not None
        assert "hang()" in process.stdout.readline()
        assert process.stdout.readline() == "hanging\n"
        assert "interrupted after 1 step" in interrupted(process)


def test_daemons_run_calls_at_once_and_carry_what_they_raise():
    async def both():
        asyncio.get_running_loop().set_default_executor(Daemons())
        met = threading.Barrier(2, timeout=60)
        assert await asyncio.gather(asyncio.to_thread(met.wait), asyncio.to_thread(met.wait)) in ([0, 1], [1, 0])
        with pytest.raises(KeyError, match="gone"):
            await asyncio.to_thread({}.__getitem__, "gone")

    asyncio.run(both())


def test_nothing_waits_for_a_daemon():
    ended = threading.Event()

    async def leave():
        asyncio.get_running_loop().set_default_executor(Daemons())
        asyncio.get_running_loop().run_in_executor(None, ended.wait, 60)
        await asyncio.sleep(0)

    since = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - since < 30
    ended.set()
