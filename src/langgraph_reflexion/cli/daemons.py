"""Threads that nobody waits for, so that a tool that hangs does not hold up Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Daemons(ThreadPoolExecutor):
    """An executor for an event loop, with a thread for each call. It is shut down at once, whatever still runs."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as fault:  # noqa: BLE001 — carried to whoever waits for it
                future.set_exception(fault)
            else:
                future.set_result(result)

        threading.Thread(target=work, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to wait for."""
