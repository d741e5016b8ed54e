"""Audits in the background: begun without waiting, awaited on request, and finished before the process ends."""

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
"""Seconds that an audit leaves the processor to the answer before it begins."""
WORKERS = 4
"""Threads of one owner: audits wait for a model most of the time, and nobody waits for them."""


class Background:
    """Work of one owner: tasks of a running event loop, else one pool of threads.

    Work with the same key runs one after another. When its event loop ends, a task begins again in the pool. The pool
    finishes what it has before the process ends.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, "after-run")
        self._pending: dict[Future[None], asyncio.AbstractEventLoop | None] = {}
        self._last: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    def begin(self, work: Callable[[], Any], key: str | None) -> None:
        """Begin in the pool."""
        done, before = self._register(key, None)
        self._submit(work, done, before)

    async def begin_here(self, later: Callable[[], Awaitable[Any]], work: Callable[[], Any], key: str | None) -> None:
        """Begin as a task of the running loop; `work` is the same for the pool, if the loop ends first."""
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
        """Wait for what has begun; `False` if some of it still runs after so many seconds."""
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
        """The future of new work, and that of the work it has to wait for."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # whoever stops waiting for it cannot cancel it
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
    """One audit in the background, on a checkpointed thread of its own if the run had a checkpointer."""

    def __init__(self, graph: Graph, given: Any, config: RunnableConfig) -> None:
        runtime, thread = runtime_of(config), thread_of(config)
        self._graph, self._given = graph, given
        self._context, self._store, self._saver = runtime.context, runtime.store, saver_of(config)
        self.thread = str(uuid5(NAMESPACE_OID, f"after_run/{thread}")) if thread and self._saver else None

    @cached_property
    def _plain(self) -> Graph:
        """The auditors' graph with the store of the run; copied when the answer is on its way."""
        return self._graph.copy({"store": self._store}) if self._store is not None else self._graph

    def work(self) -> None:
        """Run in a thread."""
        run_sync(self._audit())

    async def later(self) -> None:
        """Run as a task."""
        await run_async(self._audit())

    def work_after_the_loop(self) -> None:
        """Run in a thread when the event loop has ended: an async checkpointer has ended with it."""
        if "async" in type(self._saver).__name__.lower():
            self._plain.invoke(self._given, context=self._context)
        else:
            self.work()

    def _audit(self) -> Waits[None]:
        """Run the audit. With a checkpointer, first write down what a crash must not lose, and finish what one left."""
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
            except Exception as fault:  # noqa: BLE001 - anybody's checkpointer; the audit goes on without it
                logger.warning("An audit in the background goes on without checkpoints: %s", describe(fault))
        else:
            yield pause
        yield self._run(self._plain, self._given, {})

    def _run(self, graph: Graph, given: Any, config: RunnableConfig) -> Wait:
        return either(graph.invoke, graph.ainvoke, given, config, context=self._context)
