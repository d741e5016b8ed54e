"""Where code of an answer runs: a process of its own with limits on time, memory, files, network and what it may say.

Each case has a fresh process, so that what one leaves behind (threads, patches, a dead interpreter) meets no other.
The process is told the expression and never the value that is expected; what it replies is read as data, and
compared here. How strong the walls are depends on the system: on Linux (x86-64, ARM) the kernel refuses what is
listed in `kernel.py`; elsewhere Python's own audit hooks do, which stop mistakes and known tricks, not an expert.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib.resources import files
from typing import IO, Any, NamedTuple

from langgraph_reflexion.checks.code.kernel import refused_here
from langgraph_reflexion.checks.code.plain_data import Unreadable, from_plain
from langgraph_reflexion.driver import Waits, either

LONGEST_REPLY = 1_000_000
GRACE = 5.0
"""Seconds for a process to start and end beside those of the code."""


class Ran(NamedTuple):
    """What came of one expression: its value, or what went wrong."""

    value: Any = None
    fault: str = ""
    loaded: bool = True
    """Whether the code itself was read to its end, so that another expression may fare better."""
    output: int = 0
    """Bytes that it printed, by its own count; nobody reads them."""


class End(NamedTuple):
    """How a process ended: what it had said, its status, and whether it was ended for being late."""

    said: bytes
    status: int | None
    late: bool


@dataclass(frozen=True)
class Sandbox:
    """How long the code may take, and how much memory."""

    timeout: float
    memory_mb: int

    def run(self, code: str, expression: str) -> Waits[Ran]:
        """The value of an expression on this code."""
        secret = secrets.token_hex(16)
        job = {
            "code": code,
            "expression": expression,
            "timeout": self.timeout,
            "memory_mb": self.memory_mb,
            "longest": LONGEST_REPLY,
            "secret": secret,
            "kernel": refused_here(),
        }
        given = json.dumps(job).encode("ascii")
        end = yield either(self._sync, self._later, given)
        return self._read(end, secret.encode("ascii"))

    def _sync(self, job: bytes) -> End:
        with subprocess.Popen(
            _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **_apart()
        ) as process:
            late = threading.Event()
            clock = threading.Timer(self.timeout + GRACE, _end_late, [process, late])
            clock.daemon = True
            clock.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                _give(process.stdin, job)
                said = process.stdout.read(LONGEST_REPLY * 2)
                _linger(process)
            finally:
                clock.cancel()
                _end(process)
        return End(said, process.returncode, late.is_set())

    async def _later(self, job: bytes) -> End:
        process = await asyncio.create_subprocess_exec(
            *_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **_apart()
        )
        assert process.stdin is not None
        assert process.stdout is not None
        said, late = b"", False
        try:
            async with asyncio.timeout(self.timeout + GRACE):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended before it listened
                    process.stdin.write(job)
                    await process.stdin.drain()
                process.stdin.close()
                while len(said) < LONGEST_REPLY * 2 and (more := await process.stdout.read(65536)):
                    said += more
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 1.0)
        except TimeoutError:
            late = True
        finally:
            _end(process)
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]
        return End(said, process.returncode, late)

    def _read(self, end: End, secret: bytes) -> Ran:
        """The reply, if it is one: two lines that this very run was asked for, and nothing beside them."""
        said = end.said
        loaded = said.startswith(b"loaded\n")
        line = said.removeprefix(b"loaded\n")
        if not line:
            return Ran(fault=self._ending(end), loaded=loaded)
        if not line.startswith(secret) or line.count(b"\n") != 1 or not line.endswith(b"\n"):
            return Ran(fault="it wrote where only the verdict's own reply is written", loaded=loaded)
        try:
            (kind, *rest), printed = json.loads(line[len(secret) :])
            output = int(printed, 16)
            if kind == "value" and loaded:
                return Ran(value=from_plain(rest[0]), output=output)
            step, fault = rest
            return Ran(fault=str(fault), loaded=step == "case", output=output)
        except (ValueError, TypeError, IndexError, Unreadable, RecursionError):
            return Ran(fault="its reply cannot be read", loaded=loaded)

    def _ending(self, end: End) -> str:
        """Why a process ended without a reply."""
        ended = -(end.status or 0)
        if end.late or (ended > 0 and signal.Signals(ended).name in ("SIGALRM", "SIGXCPU")):
            return f"it took longer than the time limit of {self.timeout:g} seconds"
        if ended > 0:
            return f"the process was ended by {signal.Signals(ended).name} before it gave a value"
        return f"the process ended itself (status {end.status}) before it gave a value"


def _command() -> list[str]:
    return [sys.executable, "-I", "-B", "-X", "utf8", "-c", _RUNNER]


_RUNNER = files("langgraph_reflexion.checks.code").joinpath("runner.py").read_text(encoding="utf-8")


def _apart() -> dict[str, Any]:
    """No variable of ours, no folder of ours, no signal meant for us."""
    if os.name == "nt":
        return {"creationflags": 0x08000000}
    return {"env": {}, "cwd": "/", "start_new_session": True}


def _give(pipe: IO[bytes], job: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # it ended before it listened, and its status tells why
        pipe.write(job)
        pipe.flush()
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def _linger(process: subprocess.Popen[bytes]) -> None:
    """Let a process that has closed its end die of itself, so that its status tells why."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)


def _end_late(process: Any, late: threading.Event) -> None:
    late.set()
    _end(process)


def _end(process: Any) -> None:
    """Kill it and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
