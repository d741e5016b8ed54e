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
from functools import partial

from langgraph_reflexion.driver import Wait
from langgraph_reflexion.nodes.host import context_without_run

logger = logging.getLogger(__name__)

PAUSE = 0.1
"""Seconds that an audit waits before it starts, so that it does not slow down the answer."""
WORKERS = 4
"""Threads per owner. Audits mostly wait for a model, and nobody waits for them."""


class Background:
    """The background work of one owner: tasks on a running event loop, else a thread pool.

    If its event loop ends, a task starts again in the pool. The pool finishes its work before the process exits.
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
        """Start work in the pool or, under `ainvoke`, as a task on the running loop. Nothing waits for its end."""
        return Wait(lambda: self._submit(work, self._register(None)), lambda: self._begin_on_loop(work))

    async def _begin_on_loop(self, work: Wait) -> None:
        loop = asyncio.get_running_loop()
        done = self._register(loop)

        async def run() -> None:
            try:
                await asyncio.sleep(PAUSE)
                await work.acall()
            except Exception:
                logger.exception("Work in the background failed")

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # nobody else knows this task: its loop is ending
                self._submit(work, done)
            else:
                self._finish(done)

        task = loop.create_task(run(), context=context_without_run())
        task.add_done_callback(ended)
        done.task = task  # type: ignore[attr-defined] # keeps it alive

    def drain(self, seconds: float | None = None) -> bool:
        """Wait for started work. `False` if some of it is still running after `seconds`."""
        self._check_process()
        with self._lock:
            pending = dict(self._pending)
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not None and here in pending.values():
            raise RuntimeError("`drain` would wait for tasks of the event loop that it blocks: use `await adrain()`")
        return not wait(pending, seconds).not_done

    async def adrain(self, seconds: float | None = None) -> bool:
        """Like `drain`, without blocking the event loop."""
        self._check_process()
        with self._lock:
            waiting = [asyncio.wrap_future(done) for done in self._pending]
        return not waiting or not (await asyncio.wait(waiting, timeout=seconds))[1]

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

    def _submit(self, work: Wait, done: Future[None]) -> None:
        context = context_without_run()

        def run() -> None:
            try:
                time.sleep(PAUSE)
                context.run(work.call)
            except Exception:
                logger.exception("Work in the background failed")
            finally:
                self._finish(done)

        with self._lock:
            self._pending[done] = None
        self._pool.submit(run)

    def _wait_at_exit(self) -> None:
        """Finish the work when the process ends: Python closes all pools before it waits for threads, and an audit's
        graph needs a pool of its own."""
        if not self._waits_at_exit:
            self._waits_at_exit = True
            with suppress(AttributeError, RuntimeError):  # no public function of Python, and none while it ends
                threading._register_atexit(partial(_wait_for_work, weakref.ref(self), self._process))  # type: ignore[attr-defined]

    def _running(self) -> set[Future[None]]:
        """The work that can end. A loop that was left in the middle never ends its tasks."""
        with self._lock:
            return {done for done, loop in self._pending.items() if loop is None or loop.is_running()}

    def _finish(self, done: Future[None]) -> None:
        with self._lock:
            self._pending.pop(done, None)
        done.set_result(None)


def _wait_for_work(owner: weakref.ref[Background], process: int) -> None:
    """Wait for the work in the pool of an owner that is still there, and on loops that run in other threads.

    A forked process has no such work.
    """
    if (background := owner()) is not None and os.getpid() == process:
        begun = background._running()
        while left := begun & background._running():
            wait(left, 1)
