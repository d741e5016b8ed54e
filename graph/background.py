"""Background audits: started without waiting, awaited on request, and finished before the process exits."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START

from langgraph_reflexion.driver import Wait, Waits, either, run_async, run_sync
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.host import runtime_of, saver_of, thread_of

logger = logging.getLogger(__name__)

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

    def begin(self, work: Callable[[], Any], key: str | None) -> None:
        """Start in the pool."""
        done, before = self._register(key, None)
        self._submit(work, done, before)

    async def begin_here(self, later: Callable[[], Awaitable[Any]], work: Callable[[], Any], key: str | None) -> None:
        """Start as a task on the running loop. `work` does the same in the pool, if the loop ends first."""
        loop = asyncio.get_running_loop()
        done, before = self._register(key, loop)

        async def run() -> None:
            try:
                if before is not None:
                    await asyncio.wrap_future(before)
                await later()
            except asyncio.CancelledError:  # nobody else knows this task: its loop is ending
                self._submit(work, done, before)
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

    def _submit(self, work: Callable[[], Any], done: Future[None], before: Future[None] | None) -> None:
        def run() -> None:
            try:
                if before is not None:
                    wait([before])
                contextvars.Context().run(work)
            except Exception:
                logger.exception("Work in the background failed")
            finally:
                self._finish(done)

        with self._lock:
            self._pending[done] = None
        self._pool.submit(run)

    def _finish(self, done: Future[None]) -> None:
        with self._lock:
            self._pending.pop(done, None)
            for key in [key for key, last in self._last.items() if last is done]:
                del self._last[key]
        done.set_result(None)


class Audit:
    """One background audit, on its own checkpointed thread if the run had a checkpointer."""

    def __init__(self, graph: Graph, given: Any, config: RunnableConfig) -> None:
        runtime, thread = runtime_of(config), thread_of(config)
        self._graph, self._given = graph, given
        self._context, self._store, self._saver = runtime.context, runtime.store, saver_of(config)
        self.thread = str(uuid5(NAMESPACE_OID, f"after_run/{thread}")) if thread and self._saver else None

    @cached_property
    def _plain(self) -> Graph:
        """The auditors' graph with the store of the run. It is copied after the answer was returned."""
        return self._graph.copy({"store": self._store}) if self._store is not None else self._graph

    def work(self) -> None:
        """Run in a thread."""
        run_sync(self._audit())

    async def later(self) -> None:
        """Run as a task."""
        await run_async(self._audit())

    def work_after_the_loop(self) -> None:
        """Run in a thread after the event loop has ended, without its async checkpointer."""
        if "async" in type(self._saver).__name__.lower():
            self._plain.invoke(self._given, context=self._context)
        else:
            self.work()

    def _audit(self) -> Waits[None]:
        """Run the audit. With a checkpointer, first save what a crash must not lose, and finish an interrupted
        audit."""
        pause = Wait(lambda: time.sleep(PAUSE), lambda: asyncio.sleep(PAUSE))
        if self._saver is not None and self.thread is not None:
            config: RunnableConfig = {"configurable": {"thread_id": self.thread}}
            graph = self._plain.copy({"checkpointer": self._saver})
            try:
                left = yield either(graph.get_state, graph.aget_state, config)
                if not left.next:
                    yield either(graph.update_state, graph.aupdate_state, config, self._given, as_node=START)
                yield pause
                yield self._run(graph, None, config)
                if left.next and left.values.get("session") != self._given["session"]:
                    yield self._run(graph, self._given, config)
                yield either(self._saver.delete_thread, self._saver.adelete_thread, self.thread)
                return
            except Exception as fault:  # noqa: BLE001 - the caller's checkpointer; the audit continues without it
                logger.warning("A background audit continues without checkpoints: %s", describe(fault))
        else:
            yield pause
        yield self._run(self._plain, self._given, {})

    def _run(self, graph: Graph, given: Any, config: RunnableConfig) -> Wait:
        return either(graph.invoke, graph.ainvoke, given, config, context=self._context)
