"""A development server on a copy of the checkout, without a key, an account or a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

CHECKOUT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "venv", "*.egg-info", "__pycache__", "tests")
STUDIO = "langgraph_reflexion.graph.studio"
SECONDS_TO_START = 90
STARTS = 3
"""Between the choice of a free port and the server's own start another process may take it."""

ASKING = '''
from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, ask, call, say


def book(hour: int) -> str:
    """Book an hour."""
    return f"booked {hour}"


def decide(question):
    if "booked" in question.text:
        return say("Done.")
    return call("book", hour=11) if "Tuesday" in question.text else ask("Which day?")


asking = create_reflexion_agent(RoleModel(decide), [book], controls=["ask_user"], approve=["book"])
'''

PLANNING = '''
from langchain.agents import create_agent

from langgraph_reflexion import MemoryPolicy, ReflexionMiddleware
from langgraph_reflexion.testing import RoleModel, call, reflection, say


def search(query: str) -> str:
    """Look up free hours."""
    if query[0].isdigit():
        raise ValueError(f"{query} is not a weekday")
    return "eleven is free"


def decide(question):
    if "eleven is free" in question.text:
        return say("11:00")
    return call("search", query="Tuesday" if "weekday" in question.text else "2026")


memo = {"kind": "rule", "text": "Search by weekday, never by date.", "when": "planning an hour"}
model = RoleModel(decide, reflection("Search by weekday.", memory_to_write=[memo]))
policy = MemoryPolicy(namespace=("reflexion", "planning", "{user_id}"), control_share=0)
planning = create_agent(model, [search], middleware=[ReflexionMiddleware(memory=policy)])
'''

SIGNING_IN = """
from langgraph_sdk import Auth

from langgraph_reflexion.server import own_memory

auth = Auth()
auth.on.store(own_memory())


@auth.authenticate
async def who(headers: dict) -> str:
    name = headers.get(b"x-user")
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Who are you?")
    return name.decode()
"""


def environment() -> dict[str, str]:
    """What the server is given: no key, no tracing, no proxy."""
    outside = ("KEY", "LANGSMITH", "LANGCHAIN", "OPENAI", "PROXY", "proxy")
    mine = {name: value for name, value in os.environ.items() if not any(part in name for part in outside)}
    here = str(Path(sys.executable).parent)
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_NO_VERSION_CHECK": "1", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    return mine | quiet | {"PATH": f"{here}{os.pathsep}{mine.get('PATH', '')}"}


@contextmanager
def serving(place: Path) -> Iterator[str]:
    """The address of a server on this project; it is stopped at the end."""
    pytest.importorskip("langgraph_api", reason="needs `langgraph-cli[inmem]`")
    log = place.parent / "log"
    for _ in range(STARTS):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [Path(sys.executable).parent / "langgraph", "dev", "--no-browser", "--no-reload", "--port", str(port)]
        with log.open("w") as output:
            server = subprocess.Popen(
                command, cwd=place, env=environment(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            if url := find_address(server, log):
                yield url
                return
        finally:
            stop(server)
    pytest.fail(f"`langgraph dev` does not answer:\n{log.read_text()[-3000:]}")


def find_address(server: subprocess.Popen[bytes], log: Path) -> str | None:
    """The address that the server answers at, as it prints it; `None` if it ended, or takes too long."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and server.poll() is None:
        found = re.search(r"API: \S*?(http://127\.0\.0\.1:\d+)", log.read_text())
        with suppress(httpx.HTTPError):
            if found is not None and httpx.get(f"{found[1]}/ok", timeout=10).is_success and server.poll() is None:
                return found[1]
        time.sleep(0.3)
    return None


def stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGINT)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(5)


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on the checkout as it is."""
    place = tmp_path_factory.mktemp("shipped") / "project"
    shutil.copytree(CHECKOUT, place, symlinks=True, ignore=LEFT_OUT)
    with serving(place) as url:
        yield url


@pytest.fixture(scope="session")
def looked_into(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another one, whose lessons are approved, retired and forgotten."""
    place = tmp_path_factory.mktemp("looked-into") / "project"
    shutil.copytree(CHECKOUT, place, symlinks=True, ignore=LEFT_OUT)
    with serving(place) as url:
        yield url


@pytest.fixture(scope="session")
def signed_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that asks who one is, with a graph of the user's own beside the demo."""
    place = tmp_path_factory.mktemp("signed-in") / "project"
    place.mkdir()
    (place / "asking.py").write_text(ASKING)
    (place / "planning.py").write_text(PLANNING)
    (place / "signing_in.py").write_text(SIGNING_IN)
    graphs = {
        "asking": "./asking.py:asking",
        "planning": "./planning.py:planning",
        "demo": f"{STUDIO}:demo",
    }
    http = {"app": "langgraph_reflexion.server:app", "enable_custom_route_auth": True}
    settings = {"dependencies": ["."], "graphs": graphs, "auth": {"path": "./signing_in.py:auth"}, "http": http}
    (place / "langgraph.json").write_text(json.dumps(settings))
    with serving(place) as url:
        yield url


@pytest.fixture
def client() -> Iterator[Callable[..., Any]]:
    """Makes a client of a server, signed in where a name is given."""
    from langgraph_sdk import get_sync_client

    with ExitStack() as opened:
        yield lambda url, user=None: opened.enter_context(
            get_sync_client(url=url, headers={"x-user": user} if user else None)
        )
