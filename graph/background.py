"""Background audits: started without waiting, awaited on request, and finished before the process exits."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.store.base import BaseStore

from langgraph_reflexion.driver import Wait, Waits, either, pause, run_async, run_sync
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.nodes.exceptions import describe

logger = logging.getLogger(__name__)

Work = Callable[[bool], Waits[None]]
"""Work as a generator. It is told whether the event loop on which it began has ended."""

PAUSE = 0.1
"""Seconds that an audit waits before it starts, so that it does not slow down the answer."""
WORKERS = 4
"""Threads per owner. Audits mostly wait for a model, and nobody waits for them."""


class Background:
    """The background work of one owner: tasks on a running event loop, else a thread pool.

    Work with the same key runs one at a time. If its event loop ends, a task starts again in the pool. The pool
    finishes its work before the process exits.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, "after-run")
        self._pending: dict[Future[None], asyncio.AbstractEventLoop | None] = {}
        self._last: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._waits_at_exit = False

    def begin(self, work: Work, key: str | None) -> Wait:
        """Start in the pool or, under `ainvoke`, as a task on the running loop. Nothing waits for its end."""
        return Wait(lambda: self._begin_in_pool(work, key), lambda: self._begin_on_loop(work, key))

    def _begin_in_pool(self, work: Work, key: str | None) -> None:
        self._submit(work, *self._register(key, None), loop_ended=False)

    async def _begin_on_loop(self, work: Work, key: str | None) -> None:
        loop = asyncio.get_running_loop()
        done, before = self._register(key, loop)

        async def run() -> None:
            try:
                if before is not None:
                    await asyncio.wrap_future(before)
                await run_async(work(False))
            except asyncio.CancelledError:  # nobody else knows this task: its loop is ending
                self._submit(work, done, before, loop_ended=True)
                raise
            except Exception:
                logger.exception("Work in the background failed")
            self._finish(done)

        done.task = loop.create_task(run(), context=contextvars.Context())  # type: ignore[attr-defined] # keeps it alive

    def drain(self, seconds: float | None = None) -> bool:
        """Wait for started work. `False` if some of it is still running after `seconds`."""
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
        with self._lock:
            waiting = [asyncio.wrap_future(done) for done in self._pending]
        return not waiting or not (await asyncio.wait(waiting, timeout=seconds))[1]

    def _register(
        self, key: str | None, loop: asyncio.AbstractEventLoop | None
    ) -> tuple[Future[None], Future[None] | None]:
        """The future of new work, and the future that it has to wait for."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # a caller that stops waiting cannot cancel it
        with self._lock:
            self._pending[done] = loop
            before = self._last.get(key) if key is not None else None
            if key is not None:
                self._last[key] = done
        return done, before

    def _submit(self, work: Work, done: Future[None], before: Future[None] | None, *, loop_ended: bool) -> None:
        def run() -> None:
            try:
                if before is not None:
                    wait([before])
                contextvars.Context().run(lambda: run_sync(work(loop_ended)))
            except Exception:
                logger.exception("Work in the background failed")
            finally:
                self._finish(done)

        with self._lock:
            self._pending[done] = None
            self._wait_at_exit()
        self._pool.submit(run)

    def _wait_at_exit(self) -> None:
        """Finish the work when the process ends: Python closes all pools before it waits for threads, and an audit's
        graph needs a pool of its own."""
        if not self._waits_at_exit:
            self._waits_at_exit = True
            with suppress(AttributeError, RuntimeError):  # no public function of Python, and none while it ends
                threading._register_atexit(partial(_finish, weakref.ref(self), os.getpid()))  # type: ignore[attr-defined]

    def _finish(self, done: Future[None]) -> None:
        with self._lock:
            self._pending.pop(done, None)
            for key in [key for key, last in self._last.items() if last is done]:
                del self._last[key]
        done.set_result(None)


def _finish(owner: weakref.ref[Background], process: int) -> None:
    """Wait for the work in the pool of an owner that is still there. A forked process has no such work."""
    if (background := owner()) is not None and os.getpid() == process:
        with background._lock:
            in_pool = [done for done, loop in background._pending.items() if loop is None]
        wait(in_pool)


def run_audit(
    graph: Graph,
    given: Any,
    context: Any,
    store: BaseStore | None,
    saver: BaseCheckpointSaver[Any] | None,
    thread: str | None,
    loop_ended: bool,
) -> Waits[None]:
    """Run the auditors' graph on a finished run, with the context and the store of that run.

    With a checkpointer it first saves what a crash must not lose, on a thread of its own, and finishes an audit that a
    crash interrupted there. An async checkpointer is not used after its event loop has ended.
    """
    of_run = {"store": store} if store is not None else {}
    is_lost = loop_ended and "async" in type(saver).__name__.lower()

    def run(graph: Graph, given: Any, config: RunnableConfig) -> Wait:
        return either(graph.invoke, graph.ainvoke, given, config, context=context)

    if saver is not None and thread is not None and not is_lost:
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        resumable = graph.copy({**of_run, "checkpointer": saver})
        try:
            left = yield either(resumable.get_state, resumable.aget_state, config)
            if not left.next:
                yield either(resumable.update_state, resumable.aupdate_state, config, given, as_node=START)
            yield pause(PAUSE)
            yield run(resumable, None, config)
            if left.next and left.values.get("session") != given["session"]:
                yield run(resumable, given, config)
            yield either(saver.delete_thread, saver.adelete_thread, thread)
            return
        except Exception as fault:  # noqa: BLE001 - the caller's checkpointer; the audit continues without it
            logger.warning("A background audit continues without checkpoints: %s", describe(fault))
    else:
        yield pause(PAUSE)
    yield run(graph.copy(of_run), given, {})
