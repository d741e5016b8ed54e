"""The small `Runnable` behind every node and route, with a sync and an async method for the same function.

LangGraph would send a plain `def` through a thread pool under `ainvoke`. A node here is written once: as a function,
or, if it waits for a model, a tool, a store or a caller's function, as a generator that yields each `Wait` and receives
its result. `invoke` and `ainvoke` differ only in how they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from langgraph_reflexion.driver import run_async, run_sync
from langgraph_reflexion.nodes.host import is_running
from langgraph_reflexion.state import read_channels, write_channels

STEPS_OF_A_RUN = 25
"""Remaining steps if nothing is running yet: more than any route needs."""


class Step(Runnable[Any, Any]):
    """A node: a function of state and config that returns an update, or a generator that yields what it waits for."""

    on_error: Callable[[RunnableConfig, Exception], None] | None = None
    """Called with an exception that ends the run, before it is raised."""

    def __init__(self, name: str, function: Callable[[Any, RunnableConfig], Any]) -> None:
        self.name = name
        self.function = function

    @property
    def func(self) -> Callable[..., Any]:
        """The sync function, under the same name as on LangGraph's own nodes."""
        return self.invoke

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        config = config or {}
        try:
            update = self.function(read_channels(input), config)
            return write_channels(run_sync(update) if isinstance(update, Generator) else update)
        except Exception as error:
            self._report(config, error)
            raise

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        config = config or {}
        try:
            update = self.function(read_channels(input), config)
            return write_channels(await run_async(update) if isinstance(update, Generator) else update)
        except Exception as error:
            self._report(config, error)
            raise

    def _report(self, config: RunnableConfig, error: Exception) -> None:
        if self.on_error is not None and not isinstance(error, GraphBubbleUp):
            self.on_error(config, error)


class Route(Runnable[Any, Any]):
    """A conditional edge: a pure function of the few fields that `reads` names.

    It returns the label of the next node, because LangGraph draws what a route returns.
    """

    def __init__(self, name: str, choose: Callable[[Any], Any], labels: Mapping[str, str], reads: type) -> None:
        self.name = name
        self.choose = choose
        self.labels = labels
        # LangGraph reads here which fields a route needs. Without it, every route would get the whole state.
        self.__annotations__ = {"state": reads}

    def __call__(self, state: Any) -> Any:
        return self.invoke(state)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        state = read_channels(input)
        if "tally" not in state:
            raise ValueError("No run has begun on this thread, so there is no decision to edit: invoke the agent first")
        if not is_running(config or {}):  # as in `update_state`: the remaining steps are those of the next run
            state["remaining_steps"] = STEPS_OF_A_RUN
        chosen = self.choose(state)
        return self.labels[chosen] if isinstance(chosen, str) else chosen

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self.invoke(input, config)
