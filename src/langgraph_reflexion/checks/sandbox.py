"""Run the code of an answer in a separate process, isolated from the machine as far as the system allows.

Every case has a new process with an empty environment, its own session and limits on time, memory, files and processes.
If `bwrap` or `unshare` works, it also has its own user, mount, process and network namespaces, in which only Python's
own folders can be read. The process gets the expression, never the expected value.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

from langgraph_reflexion.driver import Waits, either, run_sync, start_thread

logger = logging.getLogger(__name__)

MAX_REPLY = 1_000_000
"""Characters of a value. A longer one fails the test case."""
GRACE = 5.0
"""Seconds for a process to start and end, besides those of the code; on a busy machine Python alone can take two."""
MAX_PROCESSES = 256
"""Processes and threads of the code: more than an answer needs, and few enough to kill at once."""
NOBODY = 65534
"""The user id that has no files and no rights on Linux."""
RUNNER = files("langgraph_reflexion.checks").joinpath("runner.py").read_text(encoding="utf-8")
PYTHON = (sys.executable, "-I", "-B", "-X", "utf8", "-c")

NEW_ROOT = """
set -e
root=$1; shift
mount -t tmpfs -o mode=755,size=64k none "$root"
while [ "$1" != -- ]; do
  mkdir -p "$root$1"
  mount --rbind "$1" "$root$1"
  mount -o remount,bind,ro "$root$1"
  shift
done
shift
mkdir "$root/old"
mount -o remount,ro "$root"
cd "$root"
pivot_root . old
unset PATH PWD OLDPWD
"$@"
exit $?
"""
"""Makes a root folder that has only the given folders, read-only. The runner then detaches the old one."""


@dataclass(frozen=True)
class Isolation:
    """How to start a process on this machine, and what it does not isolate."""

    prefix: tuple[str, ...] = ()
    in_namespaces: bool = False
    """Whether the runner has to detach the old root and drop its rights."""
    options: dict[str, Any] = field(default_factory=dict)
    missing: str = ""


class CaseResult(NamedTuple):
    """The result of one expression: its value, or what went wrong."""

    value: Any = None
    """The value in the encoding of `runner.make_encoder`, parsed."""
    shown: str = ""
    fault: str = ""
    loaded: bool = True
    """Whether the code itself ran to its end, so that another expression may fare better."""


class _ProcessEnd(NamedTuple):
    """How a process ended: its output, its status, and whether it timed out."""

    output: bytes
    status: int | None
    late: bool


def run_code(code: str, expression: str, timeout: float, memory_mb: int, isolation: Isolation) -> Waits[CaseResult]:
    """Return the value of an expression on this code."""
    token = secrets.token_hex(16)
    job = {
        "code": code,
        "expression": expression,
        "timeout": timeout,
        "memory_mb": memory_mb,
        "longest": MAX_REPLY,
        "token": token,
        "in_namespaces": isolation.in_namespaces,
        # In namespaces of its own, its processes are counted apart from the user's.
        "processes": MAX_PROCESSES if isolation.prefix else None,
    }
    end = yield either(_run, _arun, isolation, json.dumps(job).encode("ascii"), timeout + GRACE)
    return _read(end, token.encode("ascii"), timeout)


def _read(end: _ProcessEnd, token: bytes, timeout: float) -> CaseResult:
    """Read the reply: "loaded" if the code ran, then one line that begins with this run's token."""
    loaded = end.output.startswith(b"loaded\n")
    line = end.output.removeprefix(b"loaded\n")
    if not line:
        return CaseResult(fault=_why_no_reply(end, timeout), loaded=loaded)
    if not line.startswith(token) or line.count(b"\n") != 1 or not line.endswith(b"\n"):
        return CaseResult(fault="it wrote to the pipe of the reply", loaded=loaded)
    try:
        kind, first, second = json.loads(line[len(token) :])
    except (ValueError, RecursionError):
        return CaseResult(fault="its reply cannot be read", loaded=loaded)
    if kind == "value" and loaded:
        return CaseResult(value=first, shown=str(second))
    return CaseResult(fault=str(second), loaded=first == "case")


def _why_no_reply(end: _ProcessEnd, timeout: float) -> str:
    status = end.status or 0
    number = -status if status < 0 else status - 128 if status > 128 else 0  # a shell adds 128 to a signal
    ended_by = signal.Signals(number).name if number in set(signal.Signals) else ""
    if end.late or ended_by in ("SIGALRM", "SIGXCPU"):
        return f"it took longer than the time limit of {timeout:g} seconds"
    if ended_by:
        return f"the process was ended by {ended_by} before it gave a value"
    return f"the process ended itself (status {end.status}) before it gave a value"


# ---------------------------------------------------------------- isolation


@cache  # tried once in a process, when code is first run
def find_isolation() -> Isolation:
    """Find the best isolation that works here, in some tenths of a second, and warn about what is missing."""
    found = next(filter(_works, _candidates()), None)
    if found is None:
        found = Isolation(missing="code under test can read this user's files and use the network")
        _hide_memory()
    if found.missing:
        logger.warning("Code under test is limited, not isolated: %s. Run it in a container.", found.missing)
    return found


def _candidates() -> Iterator[Isolation]:
    folders = _folders() if sys.platform == "linux" else []
    if folders and (bwrap := shutil.which("bwrap")):
        binds = [part for folder in folders for part in ("--ro-bind", folder, folder)]
        user = ("--uid", str(NOBODY), "--gid", str(NOBODY))
        yield Isolation(
            (bwrap, "--unshare-all", "--die-with-parent", "--clearenv", *user, *binds, "--chdir", "/", "--")
        )
    root = next((folder for folder in ("/mnt", "/srv", "/media") if os.path.isdir(folder)), None)
    if folders and root and (unshare := shutil.which("unshare")):
        own = ("--user", "--map-root-user", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child")
        yield Isolation((unshare, *own, "--", "/bin/sh", "-c", NEW_ROOT, "root", root, *folders, "--"), True)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        other_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        missing = "code under test runs as another user, but can read public files and use the network"
        yield Isolation(options=other_user, missing=missing)


def _folders() -> list[str]:
    """The folders that Python and its packages need. Empty if that is the whole disk."""
    system = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo")
    wanted = {os.path.abspath(path) for path in (sys.prefix, sys.base_prefix, *system) if os.path.isdir(path)}
    outer = [path for path in sorted(wanted) if not any(path.startswith(other.rstrip("/") + "/") for other in wanted)]
    return [] if "/" in wanted else outer


def _works(isolation: Isolation) -> bool:
    """Whether it runs code, and hides this machine's files where it has namespaces."""
    sees_files = "os.path.exists('/etc/passwd')" if isolation.prefix else "False"
    try:
        return bool(run_sync(run_code("import os", sees_files, GRACE, 512, isolation)).value == ["bool", 0])
    except OSError:
        return False


def _hide_memory() -> None:
    """Keep other processes of this user, such as the code under test, from reading this one's memory."""
    if sys.platform == "linux":
        set_dumpable = 4
        ctypes.CDLL(None).prctl(set_dumpable, 0, 0, 0, 0)


# ---------------------------------------------------------------- the process


def _options(isolation: Isolation) -> dict[str, Any]:
    """Process settings without our environment, folders and signals."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    if os.name == "nt":
        return {**pipes, "creationflags": 0x08000000}
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} if isolation.in_namespaces else {}
    return {**pipes, "env": env, "cwd": "/", "start_new_session": True, **isolation.options}


async def _arun(isolation: Isolation, job: bytes, seconds: float) -> _ProcessEnd:
    """Run it in its own thread, because even starting it blocks. Cancelling ends it, even before it has started."""
    started: Future[subprocess.Popen[bytes]] = Future()
    try:
        return await asyncio.wrap_future(start_thread(partial(_run, isolation, job, seconds, started.set_result)))
    except asyncio.CancelledError:
        started.add_done_callback(lambda process: _kill(process.result()))
        raise


def _run(
    isolation: Isolation,
    job: bytes,
    seconds: float,
    on_start: Callable[[subprocess.Popen[bytes]], None] = lambda _: None,
) -> _ProcessEnd:
    """Start the process, send it its job and wait for its end. It is killed after this many seconds."""
    process = subprocess.Popen((*isolation.prefix, *PYTHON, RUNNER), **_options(isolation))
    on_start(process)
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(process)

    with process:
        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # it ended before it read the job; its status tells why
                process.stdin.write(job)
                process.stdin.close()
            output = process.stdout.read(MAX_REPLY * 2)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)  # a process that closed the pipe may end by itself, with a status
        finally:
            timer.cancel()
            _kill(process)
    return _ProcessEnd(output, process.returncode, late.is_set())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and everything it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
