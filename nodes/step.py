"""The one small `Runnable` behind every node and route: a sync and an async door to the same thinking.

LangGraph would send a plain `def` through a thread pool under `ainvoke`. A node here is written once, as a
function, or, where it has to wait for a model, a tool, a store or a caller's own function, as a generator that
yields each `Wait` and is given its result; the doors differ only in how they wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_reflexion.driver import run_async, run_sync
from langgraph_reflexion.nodes.host import is_running
from langgraph_reflexion.state import laid_open, put_back

STEPS_OF_A_RUN = 25
"""What is left of LangGraph's limit, where nothing runs yet: more than any route asks for."""


class Step(Runnable[Any, Any]):
    """A node that never waits: called in place by both doors."""

    def __init__(self, name: str, think: Callable[[Any, RunnableConfig], Any]) -> None:
        self.name = name
        self.think = think

    @property
    def func(self) -> Callable[..., Any]:
        """The sync door, under the name it has on LangGraph's own nodes."""
        return self.invoke

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return written(self.think(laid_open(input), config or {}))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return written(self.think(laid_open(input), config or {}))


class WaitingStep(Step):
    """A node that waits."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return written(run_sync(self.think(laid_open(input), config or {})))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return written(await run_async(self.think(laid_open(input), config or {})))


def written(update: Any) -> Any:
    """What a node returned, as the channels take it."""
    if isinstance(update, dict):
        return put_back(update)
    if isinstance(update, list):
        return [put_back(one) if isinstance(one, dict) else one for one in update]
    return update


class Route(Runnable[Any, Any]):
    """A conditional edge: a pure function of the few fields that `reads` names."""

    def __init__(self, name: str, choose: Callable[[Any], Any], reads: type) -> None:
        self.name = name
        self.choose = choose
        # LangGraph reads here which fields to give; without it every route would be given the whole state.
        self.__annotations__ = {"state": reads}

    def __call__(self, state: Any) -> Any:
        return self.choose(laid_open(state))

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self.choose(_at_crossing(input, config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self.choose(_at_crossing(input, config))


def _at_crossing(values: Any, config: RunnableConfig | None) -> dict[str, Any]:
    """What a route reads. Where nothing runs, the steps left are those of the run to come."""
    read = laid_open(values)
    if "tally" not in read:
        raise ValueError("No run has begun on this thread, so there is no decision to edit: invoke the agent first")
    return read if is_running(config or {}) else {**read, "remaining_steps": STEPS_OF_A_RUN}
