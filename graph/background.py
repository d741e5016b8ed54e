"""Background audits: started without waiting, awaited on request, and finished before the process exits."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import inf

from langgraph_reflexion.driver import Wait
from langgraph_reflexion.nodes.host import context_without_run

logger = logging.getLogger(__name__)

START_DELAY = 0.1
"""Seconds that an audit waits before it starts, so that it does not slow down the answer."""
POLL_SECONDS = 1.0
"""Seconds between two checks that the event loops still run."""
WORKERS = 4
"""Threads per owner. Audits mostly wait for a model, and nobody waits for them."""


class Background:
    """The background work of one owner: tasks on a running event loop, else a thread pool.

    If a task's event loop ends or is abandoned, the task continues in the pool. The work is finished before the process
    exits.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(WORKERS, "after-run")
        self._pending: dict[Future[None], asyncio.AbstractEventLoop | None] = {}
        self._lock = threading.Lock()
        self._waits_at_exit = False

    def begin(self, work: Wait) -> Wait:
        """Start work in the pool or, under `ainvoke`, as a task on the running loop. Nothing waits for it."""
        return Wait(lambda: self._begin_in_pool(work), lambda: self._begin_on_loop(work))

    def _begin_in_pool(self, work: Wait) -> None:
        self._submit(work, self._register(None), context_without_run())

    async def _begin_on_loop(self, work: Wait) -> None:
        loop, context = asyncio.get_running_loop(), context_without_run()
        done = self._register(loop)

        async def run() -> None:
            try:
                await asyncio.sleep(START_DELAY)
                await work.acall()
            except Exception:
                logger.exception("Work in the background failed")

        def leave_loop() -> None:
            with suppress(RuntimeError):  # a closed loop
                task.cancel()
            with self._lock:
                if self._pending.get(done) is None:  # it is in the pool or finished
                    return
                self._pending[done] = None
            self._submit(work, done, context.copy())

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # only the end of its loop can cancel it
                leave_loop()
            else:
                self._finish(done)

        task = loop.create_task(run(), context=context)
        task.add_done_callback(ended)
        done.leave_loop = leave_loop  # type: ignore[attr-defined] # it keeps the task alive, too

    def drain(self, seconds: float | None = None) -> bool:
        """Wait for started work. `False` if some of it is still running after `seconds`."""
        self._check_process()
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        with self._lock:
            blocked = here is not None and here in self._pending.values()
        if blocked:
            raise RuntimeError("`drain` would block the event loop whose tasks it waits for: use `await adrain()`")
        begun, end = self._unfinished(), time.monotonic() + (inf if seconds is None else seconds)
        while left := begun & self._unfinished():
            if (seconds_left := end - time.monotonic()) <= 0:
                return False
            wait(left, min(seconds_left, POLL_SECONDS))
        return True

    async def adrain(self, seconds: float | None = None) -> bool:
        """Like `drain`, without blocking the event loop."""
        self._check_process()
        begun, end = self._unfinished(), time.monotonic() + (inf if seconds is None else seconds)
        while left := begun & self._unfinished():
            if (seconds_left := end - time.monotonic()) <= 0:
                return False
            await asyncio.wait(map(asyncio.wrap_future, left), timeout=min(seconds_left, POLL_SECONDS))
        return True

    def _register(self, loop: asyncio.AbstractEventLoop | None) -> Future[None]:
        """The future of new work."""
        self._check_process()
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # a caller that stops waiting cannot cancel it
        with self._lock:
            self._pending[done] = loop
            self._wait_at_exit()
        return done

    def _check_process(self) -> None:
        """After a fork, the child starts anew: it has neither the threads of its parent nor their work."""
        if os.getpid() != self._process:
            self._start()

    def _submit(self, work: Wait, done: Future[None], context: Context) -> None:
        def run() -> None:
            try:
                time.sleep(START_DELAY)
                context.run(work.call)
            except Exception:
                logger.exception("Work in the background failed")
            finally:
                self._finish(done)

        self._pool.submit(run)

    def _wait_at_exit(self) -> None:
        """Finish the work when the process ends: Python closes all pools before it waits for threads, and an audit's
        graph needs a pool of its own."""
        if not self._waits_at_exit:
            self._waits_at_exit = True
            with suppress(AttributeError, RuntimeError):  # a private function, which fails while Python exits
                threading._register_atexit(partial(_wait_for_work, weakref.ref(self), self._process))  # type: ignore[attr-defined]

    def _unfinished(self) -> set[Future[None]]:
        """All unfinished work. A task whose loop does not run moves to the pool, or it might never end."""
        with self._lock:
            begun = dict(self._pending)
        for done, loop in begun.items():
            if loop is not None and not loop.is_running():
                done.leave_loop()  # type: ignore[attr-defined]
        return set(begun)

    def _finish(self, done: Future[None]) -> None:
        with self._lock:
            if done not in self._pending:  # it was moved to the pool, and has ended in both places
                return
            del self._pending[done]
        done.set_result(None)


def _wait_for_work(owner: weakref.ref[Background], process: int) -> None:
    """Wait for the work of an owner, if the owner still exists. A forked process has none."""
    if (background := owner()) is not None and os.getpid() == process:
        background.drain()
