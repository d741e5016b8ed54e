"""Threads: one of its own for each call of a caller's sync function, so that it waits for no pool's place."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def begun(function: Callable[[], T]) -> Future[T]:
    """What a function will have given when its thread is done. The process may end while one still hangs."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function)
        except BaseException as fault:  # noqa: BLE001 — carried to whoever waits for it
            future.set_exception(fault)
        else:
            future.set_result(result)

    threading.Thread(target=work, daemon=True).start()
    return future
