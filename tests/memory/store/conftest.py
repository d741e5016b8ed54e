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
