"""Stores to test on, and embeddings whose directions are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from langgraph_reflexion import FaissStore

STORES = ("FaissStore", "InMemoryStore", "SqliteStore", "PostgresStore")


class Angles(Embeddings):
    """`@0.5` points to the angle 0.5; a text without an angle points away from all of them."""

    def __init__(self, dims: int = 4) -> None:
        self.dims = dims
        self.seen: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        self.seen.append(text)
        if "boom" in text:
            raise RuntimeError("the embedder is down")
        if "@" not in text:
            return [0.0] * (self.dims - 1) + [1.0]
        angle = float(text.split("@")[1].split()[0].rstrip('"}'))
        return [math.cos(angle), math.sin(angle), *[0.0] * (self.dims - 2)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def angles() -> Angles:
    return Angles()


@pytest.fixture
def index(angles: Angles) -> dict[str, Any]:
    return {"dims": angles.dims, "embed": angles, "fields": ["text"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lessons.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., FaissStore]]:
    """Open the store of this test, again if asked again; all are closed at the end."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(FaissStore(settings.pop("path", path), **settings))


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, opened: Callable[..., FaissStore]) -> FaissStore:
    return opened() if request.param == "file" else opened(path=":memory:")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Who fails what, of the suite that every store goes through."""
    table: dict[str, dict[str, str]] = {}
    for outcome, mark in (
        ("passed", "·"),
        ("xpassed", "·"),
        ("xfailed", "fails"),
        ("failed", "FAILS"),
        ("skipped", "–"),
    ):
        for report in terminalreporter.stats.get(outcome, []):
            file, _, name = report.nodeid.rpartition("::")
            kinds = [kind for kind in STORES if f"{kind}" in name]
            if file.endswith("test_conformance.py") and kinds:
                row = name.partition("[")[0].removeprefix("test_").replace("_", " ")
                cells = table.setdefault(row, {})
                if cells.get(kinds[0]) not in ("fails", "FAILS"):
                    cells[kinds[0]] = mark
    shown = [store for store in STORES if any(store in cells for cells in table.values())]
    if len(shown) < 2:
        return
    terminalreporter.section("stores: · holds, – not run here")
    terminalreporter.line(f"{'':<72}" + "".join(f"{store:<15}" for store in shown))
    for row, cells in sorted(table.items()):
        terminalreporter.line(f"{row[:70]:<72}" + "".join(f"{cells.get(store, '–'):<15}" for store in shown))
