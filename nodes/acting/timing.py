"""Waiting no longer than allowed: one limit for tools and models, by either door."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph_reflexion.nodes.acting.faults import OutOfTimeError
from langgraph_reflexion.nodes.step import Wait

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
    context = contextvars.copy_context()
    result: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        try:
            result.put((True, context.run(sync)))
        except BaseException as fault:  # noqa: BLE001 — carried to the thread that waits for it
            result.put((False, fault))

    # A daemon, and not a pool: the process may end while a call that was given up still hangs.
    threading.Thread(target=work, daemon=True).start()
    try:
        fine, value = result.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise OutOfTimeError(f"no result after {round(seconds, 3):g} s; it may still be running") from None
    if fine:
        return value
    raise value


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
