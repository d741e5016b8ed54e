"""Threads for what does not wait by itself: as many as are needed, and the process may end while one still hangs."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

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
