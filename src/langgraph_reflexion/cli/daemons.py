"""Threads that nobody waits for, so that a tool that hangs does not hold up Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from langgraph_reflexion.nodes.calling import start_thread

T = TypeVar("T")


class Daemons(ThreadPoolExecutor):
    """An executor for an event loop. It is shut down at once, whatever still runs."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return start_thread(partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to wait for."""
