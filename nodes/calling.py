"""Call what is not ours: sync or async, in a thread, within a time limit."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent import futures
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from langgraph_reflexion.driver import Wait

T = TypeVar("T")

IDLE = 5.0
"""Seconds for which a thread waits for more to do."""


def begun(function: Callable[[], T]) -> Future[T]:
    """What a function will have given when a thread of its own is done."""
    future, job = _job(function)
    threading.Thread(target=job, daemon=True).start()
    return future


class Threads:
    """Threads that are used again, one for each call at a time: none waits for a place as in a pool of so many."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._free = threading.Semaphore(0)

    def begun(self, function: Callable[[], T]) -> Future[T]:
        """What a function will have given when its thread is done."""
        future, job = _job(function)
        self._jobs.put(job)
        if not self._free.acquire(blocking=False):
            threading.Thread(target=self._serve, daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            try:
                self._jobs.get(timeout=IDLE)()
            except Empty:
                if self._free.acquire(blocking=False):
                    return
            else:
                self._free.release()


def _job(function: Callable[[], T]) -> tuple[Future[T], Callable[[], None]]:
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def job() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result: Any = context.run(function)
        except BaseException as fault:  # noqa: BLE001 — carried to whoever waits for it
            future.set_exception(fault)
        else:
            future.set_result(result)

    return future, job


class OutOfTimeError(TimeoutError):
    """Our own limit was reached; whatever was running may still be at work."""


LONGEST = 1e8
"""Seconds that every clock can count to: some years."""


def within(seconds: float | None, sync: Callable[[], Any], later: Callable[[], Awaitable[Any]]) -> Wait:
    """Wait at most so long; past it `OutOfTimeError` is raised and a sync call runs on unheard in its thread."""
    if seconds is None:
        return Wait(sync, later)
    seconds = min(seconds, LONGEST)
    return Wait(lambda: _in_time(seconds, sync), lambda: _later_in_time(seconds, later))


def pause(seconds: float) -> Wait:
    """Wait so long."""
    return Wait(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def _in_time(seconds: float, sync: Callable[[], Any]) -> Any:
    work = begun(sync)
    if not futures.wait([work], timeout=max(seconds, 0.0)).done:
        raise OutOfTimeError(f"no result after {round(seconds, 3):g} s; it may still be running")
    return work.result()


async def _later_in_time(seconds: float, later: Callable[[], Awaitable[Any]]) -> Any:
    work = asyncio.ensure_future(later())
    try:
        done, _ = await asyncio.wait({work}, timeout=max(seconds, 0.0))
    except asyncio.CancelledError:
        work.cancel()
        raise
    if not done:
        work.cancel()
        raise OutOfTimeError(f"no result after {round(seconds, 3):g} s; it may still be running")
    return work.result()


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
