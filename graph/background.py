"""Background work: begun without waiting, awaited when asked for, and finished before the process ends."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Any

log = logging.getLogger("langgraph_reflexion")


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
        _before_exit(self, patience)

    def begin(self, work: Callable[[], Any], key: str | None = None) -> None:
        """Begin in a thread."""
        done, before = self._entered(key, None)
        self._in_thread(work, done, before)

    def begin_here(self, later: Callable[[], Awaitable[Any]], work: Callable[[], Any], key: str | None = None) -> None:
        """Begin as a task of the running loop; `work` is the same for a thread."""
        done, before = self._entered(key, asyncio.get_running_loop())

        async def run() -> None:
            try:
                if before is not None:
                    await asyncio.wrap_future(before)
                await later()
            except asyncio.CancelledError:
                # Nobody else knows this task: its loop is ending.
                self._in_thread(work, done, before)
                raise
            except Exception:
                log.exception("Background work failed")
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
        return not wait(pending, seconds).not_done

    async def adrain(self, seconds: float | None = None) -> bool:
        """The same, awaited."""
        waiting = [asyncio.wrap_future(one) for one in dict(self._pending)]
        return not waiting or not (await asyncio.wait(waiting, timeout=seconds))[1]

    def _entered(
        self, key: str | None, loop: asyncio.AbstractEventLoop | None
    ) -> tuple[Future[None], Future[None] | None]:
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # from here on nobody who stops waiting for it can cancel it
        with self._lock:
            self._pending[done] = loop
            before = self._last.get(key) if key is not None else None
            if key is not None:
                self._last[key] = done
        return done, before

    def _in_thread(self, work: Callable[[], Any], done: Future[None], before: Future[None] | None) -> None:
        def run() -> None:
            try:
                if before is not None:
                    wait([before])
                contextvars.Context().run(work)
            except Exception:
                log.exception("Background work failed")
            finally:
                self._left(done)

        with self._lock:
            self._pending[done] = None
        threading.Thread(target=run, name="after-run", daemon=True).start()

    def _left(self, done: Future[None]) -> None:
        with self._lock:
            self._pending.pop(done, None)
            for key in [key for key, last in self._last.items() if last is done]:
                del self._last[key]
        done.set_result(None)


def _before_exit(jobs: Background, patience: float) -> None:
    """Have the jobs finished at a clean exit, while threads can still be started."""
    last_call = weakref.WeakMethod(jobs.drain)

    def finish() -> None:
        drain = last_call()
        if drain is not None:
            drain(patience)

    register: Callable[[Callable[[], None]], Any] = getattr(threading, "_register_atexit", atexit.register)
    register(finish)
