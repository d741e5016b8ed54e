"""Any sequence of operations leaves what a plain dictionary would hold, closing and opening included."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from langgraph.store.base import PutOp

from langgraph_reflexion import FaissStore

SPACES = st.sampled_from([("a",), ("a", "b"), ("ab",), ("a!",)])
KEYS = st.sampled_from(["k", "l", "m", "n"])
ANGLES = st.integers(0, 30).map(lambda step: step / 10)


def embed(texts: list[str]) -> list[list[float]]:
    return [[math.cos(float(text)), math.sin(float(text))] for text in texts]


class Model(RuleBasedStateMachine):
    """A store, and the dictionary it is held against: value and whether it is indexed, by namespace and key."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.items: dict[tuple[tuple[str, ...], str], tuple[dict[str, Any], bool]] = {}
        self.open()

    def open(self) -> None:
        index = {"dims": 2, "embed": embed, "fields": ["at"]}
        self.store = FaissStore(Path(self.folder.name) / "model.db", index=index)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(space=SPACES, key=KEYS, at=ANGLES, indexed=st.booleans())
    def put(self, space: tuple[str, ...], key: str, at: float, indexed: bool) -> None:
        self.store.put(space, key, {"at": str(at), "n": int(at)}, index=None if indexed else False)
        self.items[space, key] = ({"at": str(at), "n": int(at)}, indexed)

    @rule(space=SPACES, key=KEYS)
    def delete(self, space: tuple[str, ...], key: str) -> None:
        self.store.delete(space, key)
        self.items.pop((space, key), None)

    @rule(ops=st.lists(st.tuples(SPACES, KEYS, st.none() | ANGLES), max_size=6))
    def batch(self, ops: list[tuple[tuple[str, ...], str, float | None]]) -> None:
        values = [None if at is None else {"at": str(at), "n": int(at)} for *_, at in ops]
        self.store.batch([PutOp(space, key, value) for (space, key, _), value in zip(ops, values, strict=True)])
        for (space, key, _), value in zip(ops, values, strict=True):
            self.items.pop((space, key), None)
            if value is not None:
                self.items[space, key] = (value, True)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule(prefix=SPACES | st.just(()), at=ANGLES, least=st.integers(0, 3))
    def search(self, prefix: tuple[str, ...], at: float, least: int) -> None:
        asked = self.store.search(prefix, query=str(at), filter={"n": {"$gte": least}}, limit=4)
        found = [item for item in asked if item.score is not None]
        true = sorted(
            (
                math.cos(float(value["at"]) - at)
                for (space, _), (value, indexed) in self.items.items()
                if indexed and space[: len(prefix)] == prefix and value["n"] >= least
            ),
            reverse=True,
        )
        assert len(found) == len(true[:4])
        assert all(abs((item.score or 0) - score) < 1e-5 for item, score in zip(found, true, strict=False))

    @invariant()
    def the_same_items(self) -> None:
        found = {(item.namespace, item.key): item.value for item in self.store.search((), limit=100)}
        assert found == {place: value for place, (value, _) in self.items.items()}
        assert self.store.list_namespaces() == sorted({space for space, _ in self.items})


Model.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestAnyOperationsLeaveWhatADictionaryWouldHold = pytest.mark.slow(Model.TestCase)
