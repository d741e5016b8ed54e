"""The agent's access to its lesson book: its store and namespace. A broken store never costs an answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import MemoryPolicy, field_of
from langgraph_reflexion.driver import Wait, Waits, within
from langgraph_reflexion.memory import Foreign, Indexes, LessonBook, label, resolve_namespace
from langgraph_reflexion.nodes.host import conf, runtime_of, user_of
from langgraph_reflexion.nodes.models.asking import raise_control_flow
from langgraph_reflexion.state import State, shown_in, task_in
from langgraph_reflexion.text.json_text import texts_in

logger = logging.getLogger(__name__)

LAST_WRITE = 3.0
"""Seconds that a write may take after the deadline, so that a late run is recorded."""


@dataclass(frozen=True)
class AgentMemory:
    """The memory of one agent: its policy, its stores and its clock."""

    policy: MemoryPolicy
    agent: str
    own: BaseStore | None
    """The store given to the factory."""
    clock: Callable[[], datetime]
    fallback: BaseStore = field(default_factory=InMemoryStore)
    """Used if neither the factory nor the running graph has a store."""
    indexes: Indexes = field(default_factory=Indexes)

    def namespace_for(self, config: RunnableConfig) -> list[str] | None:
        """The namespace of a run. None, with a warning, if one of its fields has no value."""
        if not (self.policy.read or self.policy.write):
            return None
        user, context, configurable = user_of(config), runtime_of(config).context, conf(config)
        namespace = resolve_namespace(self.policy, self.agent, context, user, configurable)
        if namespace is None:
            logger.warning(
                "No memory for this run: neither context nor `configurable` fills every field of the namespace %s",
                self.policy.namespace,
            )
            return None
        user = user or field_of(context, "user_id") or configurable.get("user_id")
        if self.policy.by_user and user:
            return [*namespace, label(str(user))]
        return [*namespace]

    def book(self, state: Any, config: RunnableConfig, *, writing: bool = False) -> LessonBook | None:
        """The book of this run. None if it has no memory, or if the policy forbids reading (or `writing`)."""
        namespace = state["about"]["namespace"]
        allowed = self.policy.write if writing else self.policy.read
        return self.book_at(namespace, config) if allowed and namespace is not None else None

    def book_at(self, namespace: Sequence[str], config: RunnableConfig) -> LessonBook:
        """The book of a namespace, in the agent's own store, else the running graph's, else the fallback store."""
        stores = (self.own, runtime_of(config).store, self.fallback)
        store = next(store for store in stores if store is not None)  # an empty one may be false
        return LessonBook(store, tuple(namespace), self.policy, self.clock, self.indexes)


def best_effort(what: str, wait: Wait, seconds: float | None, *, writing: bool = False) -> Waits[Any]:
    """The result, or None if the store fails or takes too long. That costs lessons, not the answer."""
    if writing and seconds is not None:
        seconds = max(seconds, LAST_WRITE)
    try:
        return (yield within(seconds, wait.sync, wait.later))
    except Exception as fault:  # noqa: BLE001 — any store's own exception
        raise_control_flow(fault)
        logger.warning("%s failed, and the run continues without it: %r", what, fault)
        return None


def foreign_in(state: State, trusted_tools: Collection[str]) -> Foreign:
    """The output of untrusted tools in this run. A lesson that repeats it is quarantined.

    The user's own messages are not foreign.
    """
    users = (message.text for message in reversed(state["messages"]) if isinstance(message, HumanMessage))
    return Foreign(foreign_texts(shown_in(state), trusted_tools), [task_in(state), *users])


def foreign_texts(messages: Sequence[AnyMessage], trusted_tools: Collection[str] = ()) -> list[str]:
    """The output of tools in a conversation, newest first."""
    texts: list[str] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            details = message.artifact if isinstance(message.artifact, dict) else {}
            # The agent wrote it (a denied call, a refused `Command`), or a person.
            ours = details.get("rejected") or ("error_class" in details and not details.get("exception"))
            if not ours and message.name not in trusted_tools:
                texts.append(message.text)
        elif isinstance(message, AIMessage) and isinstance(message.content, list):  # the provider's built-in tools
            blocks = (block for block in message.content if isinstance(block, dict))
            results = (block for block in blocks if str(block.get("type")).endswith("tool_result"))
            texts += [text for block in results for text in texts_in(block)]
    return texts
