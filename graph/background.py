"""Background work: begun without waiting, awaited when asked for, and finished before the process ends."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Any

Work = Callable[[Callable[[], Any]], Any]
"""A job by the sync door. It is given a pause to make, in which the answer is on its way."""
Later = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""The same by the async door."""

PAUSE = 0.1
"""Seconds in which a job leaves the processor to the answer; nobody who waits for it waits for them."""
ALERT = 60.0
"""Seconds after the last job in which another is looked for."""

IDLE = 5.0
"""Seconds between two looks at whether there is still somebody who could have work."""

logger = logging.getLogger(__name__)


class Background:
    """Jobs of one owner. Under a running event loop a job is a task of it, else a thread of its own.

    Jobs with the same key run one after another. A loop that ends takes its tasks with it; such a job begins anew in
    a thread. When the process ends on its own, what is left is finished first.
    """

    def __init__(self, patience: float) -> None:
        """`patience` is how many seconds the end of the process is held up at most."""
        self._pending: dict[Future[None], asyncio.AbstractEventLoop | None] = {}
        self._last: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        self._starter = _Starter(weakref.ref(self))
        self._patience: float | None = patience

    def begin(self, work: Work, key: str | None = None) -> None:
        """Begin in a thread; at once where there is a key, else as soon as it takes nothing from the answer."""
        done, before = self._entered(key, None)
        self._in_thread(work, done, before, at_once=key is not None)

    async def begin_here(self, later: Later, work: Work, key: str | None = None) -> None:
        """Begin as a task of the running loop; `work` is the same for a thread."""
        done, before = self._entered(key, asyncio.get_running_loop())

        async def run() -> None:
            try:
                if before is not None:
                    await asyncio.wrap_future(before)
                await later(_a_moment)
            except asyncio.CancelledError:
                # Nobody else knows this task: its loop is ending.
                self._in_thread(work, done, before, at_once=True)
                raise
            except Exception:
                logger.exception("Background work failed")
            self._left(done)

        task = asyncio.get_running_loop().create_task(run(), context=contextvars.Context())
        done.task = task  # type: ignore[attr-defined] # a loop holds its tasks weakly

    def drain(self, seconds: float | None = None) -> bool:
        """Wait for what has begun; `False` where some of it still runs after so many seconds."""
        pending = dict(self._pending)
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not None and here in pending.values():
            raise RuntimeError("`drain` would wait for tasks of the very loop it blocks: use `await adrain()`")
        self._hurry.set()
        self._starter.wake()
        try:
            return not wait(pending, seconds).not_done
        finally:
            self._hurry.clear()

    async def adrain(self, seconds: float | None = None) -> bool:
        """The same, awaited."""
        self._starter.wake()
        waiting = [asyncio.wrap_future(one) for one in dict(self._pending)]
        return not waiting or not (await asyncio.wait(waiting, timeout=seconds))[1]

    def _entered(
        self, key: str | None, loop: asyncio.AbstractEventLoop | None
    ) -> tuple[Future[None], Future[None] | None]:
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # from here on nobody who stops waiting for it can cancel it
        with self._lock:
            patience, self._patience = self._patience, None
            self._pending[done] = loop
            before = self._last.get(key) if key is not None else None
            if key is not None:
                self._last[key] = done
        if patience is not None:  # the first job
            _before_exit(self, patience)
        return done, before

    def _in_thread(self, work: Work, done: Future[None], before: Future[None] | None, *, at_once: bool) -> None:
        def run() -> None:
            try:
                if before is not None:
                    wait([before])
                contextvars.Context().run(work, lambda: self._hurry.wait(PAUSE))
            except Exception:
                logger.exception("Background work failed")
            finally:
                self._left(done)

        with self._lock:
            self._pending[done] = None
        self._starter.start(run, at_once)

    def _left(self, done: Future[None]) -> None:
        with self._lock:
            self._pending.pop(done, None)
            for key in [key for key, last in self._last.items() if last is done]:
                del self._last[key]
        done.set_result(None)


class _Starter:
    """Starts threads for others.

    To start or wake a thread is to give it the interpreter, and on a busy machine that holds the answer up for some
    milliseconds. So while there is work now and then, somebody looks for it ten times a second, and is not woken.
    """

    def __init__(self, owner: weakref.ref[Background]) -> None:
        self._owner = owner
        self._wanted: deque[Callable[[], None]] = deque()
        self._bell = threading.Event()
        self._asleep = True
        self._thread: threading.Thread | None = None

    def start(self, run: Callable[[], None], at_once: bool) -> None:
        """Have this run in a thread of its own."""
        self._wanted.append(run)
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        elif at_once or self._asleep:
            self.wake()

    def wake(self) -> None:
        """Look now."""
        self._bell.set()

    def _look(self) -> None:
        last = time.monotonic()
        while True:
            while self._wanted:
                run = self._wanted.popleft()
                threading.Thread(target=run, name="after-run", daemon=True).start()
                last = time.monotonic()
            self._asleep = time.monotonic() - last > ALERT
            if not self._wanted:
                self._bell.wait(IDLE if self._asleep else PAUSE)
            self._bell.clear()
            if self._owner() is None and not self._wanted:
                return  # nothing will come


async def _a_moment() -> None:
    await asyncio.sleep(PAUSE)


def _before_exit(jobs: Background, patience: float) -> None:
    """Have the jobs finished at a clean exit, while threads can still be started."""
    last_call = weakref.WeakMethod(jobs.drain)

    def finish() -> None:
        drain = last_call()
        if drain is not None:
            drain(patience)

    register: Callable[[Callable[[], None]], Any] = getattr(threading, "_register_atexit", atexit.register)
    register(finish)
