"""The one small `Runnable` behind every node and route: a sync and an async door to the same thinking.

LangGraph would send a plain `def` through a thread pool under `ainvoke`. A node here is written once, as a
function, or, where it has to wait for a model, a tool, a store or a caller's own function, as a generator that
yields each `Wait` and is given its result; the doors differ only in how they wait.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_reflexion.driver import Wait, run_async, run_sync
from langgraph_reflexion.nodes.host import is_running
from langgraph_reflexion.nodes.threads import Threads
from langgraph_reflexion.state import laid_open, put_back

STEPS_OF_A_RUN = 25
"""What is left of LangGraph's limit, where nothing runs yet: more than any route asks for."""


def in_thread(function: Callable[[], Any], threads: Threads | None = None) -> Wait:
    """Wait for somebody's sync function: in place, or under `ainvoke` in one of these threads, else of the loop's."""

    def carried() -> Any:
        try:
            return function()
        except StopIteration as fault:  # no future can carry it, and whoever waits for one would wait for ever
            raise RuntimeError(f"StopIteration: {fault}") from fault

    if threads is not None:
        return Wait(function, lambda: asyncio.wrap_future(threads.begun(carried)))
    return Wait(function, lambda: asyncio.to_thread(carried))


class NeedsAsyncError(RuntimeError):
    """A caller's async function was asked through a sync door: only the caller can mend it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is async: use `ainvoke` or `astream`")


def is_async(function: Any) -> bool:
    """Whether calling it gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


INJECTED = frozenset({"config", "runtime", "store", "writer", "previous"})
"""What LangGraph gives to a function that asks for it by name."""


def takes(function: Callable[..., Any], *given: Any, besides: Collection[str] = ()) -> bool:
    """Whether it can be called with these, and by name with what it asks for of `besides`.

    A builtin that tells no signature is tried when its turn comes.
    """
    try:
        signature = inspect.signature(function)
        signature.bind(*given, **{name: None for name in besides if name in signature.parameters})
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def calling(what: str, function: Callable[..., Any], *args: Any) -> Wait:
    """Wait for a caller's own function, sync or async, or one that gives something to await.

    `what` names an async one to the sync door.
    """

    def refused() -> Any:
        raise NeedsAsyncError(what)

    if is_async(function):
        return Wait(refused, lambda: function(*args))
    called = in_thread(lambda: function(*args))
    return Wait(lambda: at_hand(what, called.sync()), lambda: awaited(called.later()))


def at_hand(what: str, said: Any) -> Any:
    """What a function gave to the sync door; something to await is for the other."""
    if not inspect.isawaitable(said):
        return said
    if hasattr(said, "close"):  # a coroutine that nobody awaits would warn
        said.close()
    raise NeedsAsyncError(what)


async def awaited(called: Awaitable[Any]) -> Any:
    """What a function gave to the async door, a lambda around an async one too."""
    said = await called
    return await said if inspect.isawaitable(said) else said


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
