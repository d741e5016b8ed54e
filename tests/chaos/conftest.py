"""What must hold after any chaos, and the seeds that tell which chaos it was."""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import AnyMessage

from langgraph_reflexion import LessonBook
from langgraph_reflexion.nodes.models.transcript import is_paired

WORKLOAD = Path(__file__).with_name("workload.py")


@pytest.fixture(scope="session")
def workload() -> ModuleType:
    spec = importlib.util.spec_from_file_location("chaos_workload", WORKLOAD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Chance by a seed that is printed where a test fails; CHAOS_SEED sets another."""
    seed = int(os.environ.get("CHAOS_SEED", "16"))
    print(f"{request.node.name}: CHAOS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def sure() -> Callable[..., None]:
    """Nothing is lost, nothing is doubled, each conversation is valid."""

    def sure_of(book: LessonBook, messages: list[list[AnyMessage]]) -> None:
        lessons = book.lessons()
        texts = [lesson.text for lesson in lessons]
        assert len(texts) == len(set(texts)), "no lesson is doubled"
        for lesson in lessons:
            assert book.get(lesson.id) == lesson, "each lesson is whole"
            assert lesson.shown >= lesson.wins + lesson.losses
        episodes = [item.key for item in every(book.store, (*book.namespace, "episodes"))]
        assert len(episodes) == len(set(episodes))
        for conversation in messages:
            assert is_paired(conversation), conversation

    return sure_of


def every(store: Any, place: tuple[str, ...]) -> list[Any]:
    return list(store.search(place, limit=100_000))
