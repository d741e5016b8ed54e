"""What every test stands on: no key and no tracing from outside, no network, the same examples each time."""

from __future__ import annotations

import gc
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

OUTSIDE = re.compile(r"(?i:.*_api_key|(openai|langchain|langsmith)_.*|(http|https|all)_proxy)$")

settings.register_profile("quick", derandomize=True, deadline=None, database=None, max_examples=25)
settings.register_profile("thorough", derandomize=True, deadline=None, database=None)


def pytest_configure(config: pytest.Config) -> None:
    """Generated examples are fewer where the slow tests are left out, and no constants of our modules are tried then.

    To parse every module for its constants takes Hypothesis about 3 s.
    """
    if "not slow" not in config.option.markexpr:
        settings.load_profile("thorough")
        return
    settings.load_profile("quick")
    providers._get_local_constants = lambda: providers._local_constants


# Before FAISS is imported: its threads wait for each other in a busy loop, and where the cores have other things to do
# a test takes ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

gc.disable()  # until the modules are loaded, of which all stays


@pytest.fixture(autouse=True, scope="session")
def nothing_from_outside() -> Iterator[None]:
    """No variable of the machine helps or hinders: no key, no endpoint, no proxy, no tracing."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if OUTSIDE.match(name):
                patch.delenv(name)
        patch.setenv("LANGSMITH_TRACING", "false")
        patch.setenv("LANGUAGE", "C")  # the command line's own words; argparse looks for a translation of each
        yield


@pytest.fixture(autouse=True, scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A client reads one certificate and not 150, which take 50 ms: nothing here is asked over TLS."""
    bundle = Path(certifi.where()).read_text(encoding="utf-8")
    first, end, _ = bundle.partition("-----END CERTIFICATE-----\n")
    file = tmp_path_factory.mktemp("tls") / "one.pem"
    file.write_text(first + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture(scope="module")
def asked_again_at_once() -> Iterator[None]:
    """OpenAI's client asks again at once: of its own it waits half a second, then one, where no time is named."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def what_is_imported_stays() -> None:
    """The garbage collector need not look at the packages again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the options of the command line choose by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test marked `fast_cases(n)`, those after the first n are slow."""
    seen = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("fast_cases")
        if mark and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker("slow")


network_for: list[pytest.Item] = []
"""The test that may reach other machines, while it runs: one marked `external`."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    network_for[:] = [item] if item.get_closest_marker("external") else []


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """A test reaches this machine alone, unless it is marked `external`."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple):
            _must_be_here(address[0])
        connect(self, address)

    def look_up_here(host: Any, *args: Any, **named: Any) -> Any:
        _must_be_here(host)
        return look_up(host, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_here)
        patch.setattr(socket, "getaddrinfo", look_up_here)
        yield


def _must_be_here(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    if not network_for and not name.startswith("127.") and name not in {"localhost", "::1"}:
        pytest.fail(f"a test wanted to reach {name}; tests run without a network")
