"""Waiting no longer than allowed: one limit for tools and models, by either door."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import Any

from langgraph_reflexion.driver import Wait
from langgraph_reflexion.nodes.acting.faults import OutOfTimeError
from langgraph_reflexion.nodes.threads import begun

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
