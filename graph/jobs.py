"""A job: one audit of a finished run, done in the background, on checkpoints of its own where the run had some."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START

from langgraph_reflexion.graph.auditors import Audited, Graph
from langgraph_reflexion.nodes.acting.faults import told
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
        """By the sync door. What a crash must not lose is written before the pause."""
        if self.kept is not None and self.saver is not None and self.thread is not None:
            try:
                before = self.kept.get_state(self.config)
                if not before.next:
                    self.kept.update_state(self.config, self.given, as_node=START)
                pause()
                self.kept.invoke(None, self.config, context=self.context)
                if before.next and before.values.get("session") != self.given["session"]:
                    self.kept.invoke(self.given, self.config, context=self.context)
                self.saver.delete_thread(self.thread)
                return
            except Exception as fault:  # noqa: BLE001 — anybody's checkpointer; the audit goes on without it
                logger.warning("An audit in the background goes on without checkpoints: %s", told(fault))
        pause()
        self.plain.invoke(self.given, context=self.context)

    async def later(self, pause: Callable[[], Awaitable[Any]]) -> None:
        """By the async door."""
        if self.kept is not None and self.saver is not None and self.thread is not None:
            try:
                before = await self.kept.aget_state(self.config)
                if not before.next:
                    await self.kept.aupdate_state(self.config, self.given, as_node=START)
                await pause()
                await self.kept.ainvoke(None, self.config, context=self.context)
                if before.next and before.values.get("session") != self.given["session"]:
                    await self.kept.ainvoke(self.given, self.config, context=self.context)
                await self.saver.adelete_thread(self.thread)
                return
            except Exception as fault:  # noqa: BLE001 — anybody's checkpointer; the audit goes on without it
                logger.warning("An audit in the background goes on without checkpoints: %s", told(fault))
        await pause()
        await self.plain.ainvoke(self.given, context=self.context)

    def after_the_loop(self, pause: Callable[[], Any]) -> None:
        """By the sync door, when the loop has ended: with it, a checkpointer that lives in it."""
        if "async" in type(self.saver).__name__.lower():
            self.plain.invoke(self.given, context=self.context)
        else:
            self.work(pause)
