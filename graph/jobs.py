"""A job: one audit of a finished run, done in the background, on checkpoints of its own where the run had some."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START

from langgraph_reflexion.driver import Wait, Waits, either, run_async, run_sync
from langgraph_reflexion.graph.auditors import Audited
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.host import runtime_of, saver_of, thread_of

logger = logging.getLogger(__name__)


class Job:
    """One audit in the background, in a checkpointed thread of its own where the run had one."""

    def __init__(self, graph: Graph, given: Audited, config: RunnableConfig) -> None:
        self.given = given
        runtime = runtime_of(config)
        self.context = runtime.context
        self.saver = saver_of(config)
        thread = thread_of(config)
        self.thread = str(uuid5(NAMESPACE_OID, f"after_run/{thread}")) if thread and self.saver else None
        self._graph, self._store = graph, runtime.store
        self.config: RunnableConfig = {"configurable": {"thread_id": self.thread}} if self.thread else {}

    @cached_property
    def plain(self) -> Graph:
        """The auditors, with the store of the run; copied when the answer is on its way."""
        return self._graph.copy({"store": self._store}) if self._store is not None else self._graph

    @cached_property
    def kept(self) -> Graph | None:
        """The same with the run's checkpointer."""
        return self.plain.copy({"checkpointer": self.saver}) if self.thread else None

    def work(self, pause: Callable[[], Any]) -> None:
        """By the sync door."""
        run_sync(self._audit(pause))

    async def later(self, pause: Callable[[], Awaitable[Any]]) -> None:
        """By the async door."""
        await run_async(self._audit(pause))

    def _audit(self, pause: Callable[[], Any]) -> Waits[None]:
        """What a crash must not lose is written before the pause."""
        rest, kept, saver, thread = Wait(pause, pause), self.kept, self.saver, self.thread
        if kept is not None and saver is not None and thread is not None:
            try:
                before = yield either(kept.get_state, kept.aget_state, self.config)
                if not before.next:
                    yield either(kept.update_state, kept.aupdate_state, self.config, self.given, as_node=START)
                yield rest
                yield self._run(kept, None)
                if before.next and before.values.get("session") != self.given["session"]:
                    yield self._run(kept, self.given)
                yield either(saver.delete_thread, saver.adelete_thread, thread)
                return
            except Exception as fault:  # noqa: BLE001 — anybody's checkpointer; the audit goes on without it
                logger.warning("An audit in the background goes on without checkpoints: %s", describe(fault))
        yield rest
        yield self._run(self.plain, self.given)

    def _run(self, graph: Graph, given: Audited | None) -> Wait:
        return Wait(
            lambda: graph.invoke(given, self.config, context=self.context),
            lambda: graph.ainvoke(given, self.config, context=self.context),
        )

    def after_the_loop(self, pause: Callable[[], Any]) -> None:
        """By the sync door, when the loop has ended: with it, a checkpointer that lives in it."""
        if "async" in type(self.saver).__name__.lower():
            self.plain.invoke(self.given, context=self.context)
        else:
            self.work(pause)
