"""The parts of an agent, which its nodes share: its model, tools, checks, reflector, memory and budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.driver import Waits, default_config, either, silent_config
from langgraph_reflexion.memory import Indexes, LessonBook, resolve_namespace
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.host import configurable_of, runtime_of, user_of
from langgraph_reflexion.nodes.models.choice import Model, ModelChoice
from langgraph_reflexion.nodes.models.prompt import Instructions
from langgraph_reflexion.nodes.models.protocols import ModelProtocol
from langgraph_reflexion.nodes.models.response_format import ResponseFormat
from langgraph_reflexion.nodes.models.transcript import as_messages
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.nodes.verdicts import NamedCheck
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.state import State, View

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """What the nodes of one graph share. Every node gets them all, and they never change."""

    actor: Actor
    tools: Toolbox
    checks: tuple[NamedCheck, ...]
    """What judges an answer, after the response format."""
    reflector: Reflector
    fallback: Model | None
    memory: AgentMemory
    budget: Budget
    response_format: ResponseFormat | None = None
    tool_checks: Mapping[str, NamedCheck] = field(default_factory=dict)
    """Checks of tool results, by tool name."""


@dataclass(frozen=True)
class Actor:
    """The model that decides, and everything that shapes its prompt."""

    choice: ModelChoice
    protocol: ModelProtocol
    prompts: Prompts
    instructions: Instructions = None
    view: View = field(default_factory=lambda: View(None))
    name: str | None = None
    """The caller's name for the agent, which its messages carry."""
    hold_answers: bool = False
    """Whether an answer is streamed only after it is accepted."""
    raises_faults: bool = False
    """Whether a model error is raised to the caller of the model, instead of ending the run with an outcome."""

    def plain_model(self, state: Any, config: RunnableConfig) -> Waits[Model]:
        """The agent's model without tools, for everything except decisions."""
        return (yield from self.choice.select(lambda: self.view.select(state), config)).plain

    def prompt_for(
        self, state: Any, conversation: list[AnyMessage], config: RunnableConfig, *, seconds: float | None = None
    ) -> Waits[list[AnyMessage]]:
        """The conversation with the caller's instructions, which a function of the caller may take time to write."""
        prompt = self.instructions
        if not isinstance(prompt, Runnable):
            return conversation if prompt is None else [prompt, *conversation]
        seen = self.view.select({**state, "messages": conversation})
        silent = silent_config(config)
        wait = either(prompt.invoke, prompt.ainvoke, seen, silent).inside(partial(default_config, silent))
        given = yield wait.within(seconds)
        if not (messages := as_messages(given)):
            raise ValueError(f"`prompt` must return messages or text, got {given!r}")
        return messages


@dataclass(frozen=True)
class Reflector:
    """The model that reflects, and how."""

    model: Model | None = None
    """None means the agent's own model."""
    mode: Literal["run", "trial", "free"] = "run"
    """Where it reflects: within a run or between trials, or between trials in its own words (`free`)."""
    may_stop: bool = True
    """Whether a reflection without a new plan ends the run. Not if it only names mistakes."""
    retries: int = 0
    """How often a reflection is asked for again after a lost connection."""

    def model_for(self, actor: Actor, state: State, config: RunnableConfig) -> Waits[Model]:
        """The model to ask."""
        return self.model if self.model is not None else (yield from actor.plain_model(state, config))


@dataclass(frozen=True)
class AgentMemory:
    """The memory of one agent: its policy, its stores and its clock."""

    policy: MemoryPolicy
    agent: str
    store: BaseStore | None
    """The store given to the factory, if any."""
    clock: Callable[[], datetime]
    fallback: BaseStore = field(default_factory=InMemoryStore)
    """Used if neither the factory nor the running graph has a store."""
    indexes: Indexes = field(default_factory=Indexes)
    prompts: Prompts = field(default_factory=Prompts)

    def namespace_for(self, config: RunnableConfig) -> list[str] | None:
        """The namespace of a run. None, with a warning, if one of its fields has no value."""
        if not (self.policy.read or self.policy.write):
            return None
        user, context, configurable = user_of(config), runtime_of(config).context, configurable_of(config)
        namespace = resolve_namespace(self.policy, self.agent, context, user, configurable)
        if namespace is None:
            logger.warning(
                "No memory for this run: neither context nor `configurable` fills every field of the namespace %s",
                self.policy.namespace,
            )
        return None if namespace is None else [*namespace]

    def book(self, state: Any, config: RunnableConfig, *, writing: bool = False) -> LessonBook | None:
        """The book of this run. None if it has no memory, or if the policy forbids reading (or `writing`)."""
        namespace = state["about"]["namespace"]
        allowed = self.policy.write if writing else self.policy.read
        return self.book_at(namespace, config) if allowed and namespace is not None else None

    def book_at(self, namespace: Sequence[str], config: RunnableConfig) -> LessonBook:
        """The book of a namespace: in the agent's store, else in that of the running graph, else in the fallback."""
        stores = (self.store, runtime_of(config).store, self.fallback)
        store = next(store for store in stores if store is not None)  # an empty store may be falsy
        return LessonBook(store, tuple(namespace), self.policy, self.clock, self.indexes, prompts=self.prompts)
