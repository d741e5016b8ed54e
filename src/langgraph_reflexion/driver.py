"""Write waiting code once, and run it sync or async.

Code that waits for a model, a tool, a store or a caller's function is a generator. It yields a `Wait`, which holds a
sync and an async function for one result, and receives that result from the `yield`. `run_sync` and `run_async` drive
it. An exception is raised at the `yield`, where the generator can handle it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True)
class Wait:
    """One result to wait for, with a sync and an async function to get it."""

    sync: Callable[[], Any]
    later: Callable[[], Awaitable[Any]]


Waits = Generator[Wait, Any, T]
"""A generator that yields what it waits for and returns a result."""


def either(sync: Callable[P, Any], later: Callable[P, Awaitable[Any]], *args: P.args, **kwargs: P.kwargs) -> Wait:
    """Wait for one call of a function or of its async twin."""
    return Wait(lambda: sync(*args, **kwargs), lambda: later(*args, **kwargs))


def run_sync(steps: Generator[Y, Any, T], wait: Callable[[Y], Any] = methodcaller("sync")) -> T:
    """Run a generator to its end in sync code. For each value it yields, send it what `wait` returns or raises."""
    try:
        wanted = next(steps)
        while True:
            try:
                result = wait(wanted)
            except Exception as error:  # noqa: BLE001 - handed to the generator, which decides
                wanted = steps.throw(error)
            else:
                wanted = steps.send(result)
    except StopIteration as done:
        value: T = done.value
        return value


async def run_async(steps: Generator[Y, Any, T], wait: Callable[[Y], Awaitable[Any]] = methodcaller("later")) -> T:
    """The same in async code."""
    try:
        wanted = next(steps)
        while True:
            try:
                result = await wait(wanted)
            except Exception as error:  # noqa: BLE001 - handed to the generator, which decides
                wanted = steps.throw(error)
            else:
                wanted = steps.send(result)
    except StopIteration as done:
        value: T = done.value
        return value
