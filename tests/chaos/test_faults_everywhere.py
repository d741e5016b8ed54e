"""One fault at each call of each part: a run of each graph ends with an outcome or that fault, and goes on after it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import Op
from langgraph.store.memory import InMemoryStore
from pydantic import PrivateAttr

from langgraph_reflexion import LessonBook
from langgraph_reflexion.testing import Question, RoleModel

FAULTS = (ConnectionError, TimeoutError, OSError, RuntimeError, ValueError, KeyError, ZeroDivisionError)


class ChaosError(Exception):
    """Marks the fault, whatever its class is."""


class Gremlin:
    """Raises once, at the n-th call of its part."""

    def __init__(self) -> None:
        self.at, self.count, self.kind = 0, 0, FAULTS[0]

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise type("Chaos" + self.kind.__name__, (ChaosError, self.kind), {})("chaos")


class Model(RoleModel):
    _gremlin: Any = PrivateAttr(default=None)

    def _reply(self, question: Question) -> Any:
        self._gremlin()
        return super()._reply(question)


class Store(InMemoryStore):
    gremlin: Gremlin

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        self.gremlin()
        return super().batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        self.gremlin()
        return await super().abatch(ops)


class Saver(InMemorySaver):
    gremlin: Gremlin

    def put(self, *given: Any) -> Any:
        self.gremlin()
        return super().put(*given)

    def put_writes(self, *given: Any) -> None:
        self.gremlin()
        super().put_writes(*given)

    def get_tuple(self, *given: Any) -> Any:
        self.gremlin()
        return super().get_tuple(*given)


class Callbacks(BaseCallbackHandler):
    raise_error = True

    def __init__(self, gremlin: Gremlin) -> None:
        def heard(*_: Any, **__: Any) -> None:
            gremlin()

        for event in (
            "chain_start",
            "chain_end",
            "chat_model_start",
            "llm_new_token",
            "llm_end",
            "tool_start",
            "tool_end",
        ):
            setattr(self, f"on_{event}", heard)


def graphs(workload: ModuleType, part: str, gremlin: Gremlin) -> tuple[list[Any], Store, dict[str, Any]]:
    """The three graphs with a gremlin in one of their parts."""
    quiet = Gremlin()
    model = Model(decide=workload.decide, reflect=workload.reflect, other=workload.decide)
    store, saver = Store(), Saver()
    model._gremlin = gremlin if part == "model" else quiet
    store.gremlin = gremlin if part == "store" else quiet
    saver.gremlin = gremlin if part == "saver" else quiet
    made = workload.graphs(saver, store, model)
    return made, store, {"callbacks": [Callbacks(gremlin)]} if part == "callbacks" else {}


def ran(graph: Any, given: Any, config: Any, method: str) -> dict[str, Any]:
    if method == "ainvoke":
        result: dict[str, Any] = asyncio.run(graph.ainvoke(given, config))
        return result
    done: dict[str, Any] = graph.invoke(given, config)
    return done


def places(total: int, dice: random.Random) -> Iterator[int]:
    """Each call of a part that is called seldom, else fifteen of them."""
    yield from sorted(dice.sample(range(1, total + 1), min(total, 15)))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("method", ["invoke", "ainvoke"])
@pytest.mark.parametrize("part", ["model", "store", "saver", "callbacks"])
@pytest.mark.req("I7", "I11")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_fault_at_each_call_ends_in_an_outcome_or_itself_and_nothing_is_lost(
    part: str, method: str, dice: random.Random, workload: ModuleType, sure: Callable[..., None]
) -> None:
    tried = 0
    for which in range(3):
        gremlin = Gremlin()
        made, store, more = graphs(workload, part, gremlin)
        ran(made[which], workload.asked(0), {**workload.config(0), **more}, method)
        for at in places(gremlin.count, dice):
            gremlin = Gremlin()
            gremlin.at, gremlin.kind = at, dice.choice(FAULTS)
            made, store, more = graphs(workload, part, gremlin)
            graph, config = made[which], workload.config(0)
            where = f"{part}, call {at}, graph {which}, {gremlin.kind.__name__}"
            try:
                result = ran(graph, workload.asked(0), {**config, **more}, method)
            except ChaosError:
                result = None
            if result is not None:
                assert result["outcome"].status in ("success", "unverified", "failure"), where
            # The fault is over: the run goes on where it stands, or the next one on this thread starts.
            state = graph.get_state(config)
            result = ran(graph, None if state.next else workload.asked(1), config, method)
            assert result["outcome"].status in ("success", "unverified"), (where, result["outcome"])
            sure(LessonBook(store, workload.NAMESPACE, workload.POLICY), [result["messages"]])
            tried += 1
    assert tried > 10


@pytest.mark.slow
@pytest.mark.req("I7")
@pytest.mark.parametrize("kind", [*FAULTS, SystemExit, MemoryError, RecursionError, UnicodeError])
def test_whatever_a_tool_raises_the_run_ends_with_an_outcome(kind: type[BaseException], workload: ModuleType) -> None:
    def search(query: str) -> str:
        """Look up free hours in the calendar."""
        raise kind(f"chaos about {query}")

    model = RoleModel(
        decide=[workload.call("search", query="Tuesday"), workload.say("11:00")], reflect=workload.reflect
    )
    agent = workload.create_reflexion_agent(model, [search], store=InMemoryStore())
    outcome = agent.invoke(workload.asked(0))["outcome"]
    assert outcome.failures[0].signal == "tool_error"
    assert outcome.answer == "11:00"
