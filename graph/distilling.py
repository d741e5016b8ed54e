"""A graph with one step that summarizes lessons, for a server to run on a schedule."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from langgraph_reflexion.context import Context, Limits, MemoryPolicy, aware
from langgraph_reflexion.driver import Waits, accepts, either, model_named
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.graph.parts import check_settings
from langgraph_reflexion.nodes.host import Step, runtime_of
from langgraph_reflexion.nodes.recall import AgentMemory


class DistillInput(TypedDict, total=False):
    """Which agent's lessons to summarize."""

    agent: str
    """The name of an agent that uses the default namespace. Not needed if the graph has a namespace."""


class Pattern(TypedDict):
    """A pattern that summarizes lessons."""

    id: str
    text: str
    speaks_for: list[str]


class DistillOutput(TypedDict):
    """The new patterns."""

    patterns: list[Pattern]


class _State(DistillInput, DistillOutput, total=False):
    """The input and the output."""


def create_distill_graph(
    model: Any = None,
    *,
    memory: MemoryPolicy = MemoryPolicy(),  # noqa: B008 — frozen
    context_schema: type | None = Context,
    store: BaseStore | None = None,
    name: str = "distill",
    clock: Callable[[], datetime] | None = None,
) -> Graph:
    """A graph that summarizes similar lessons in one pattern each, like `book.distill`.

    The input is `{"agent": NAME}` and the output has `patterns`. If there is nothing to do, it makes no model call, so
    you can run it on a schedule.

    Args:
        model: The model that writes the patterns: a chat model, its name, or a function of (state, runtime). With None
            the best existing wording is used.
        memory: Where the lessons are saved. Without a namespace, it is the default namespace of the given agent.
        context_schema: The class of the context that fills the fields of a namespace.
        store: Where the lessons are saved. Default: the running graph's store.
        name: The name of the graph.
        clock: A function that returns the current time as an aware datetime.
    """
    check_settings(Limits(), memory, store, clock, name, None, context_schema)
    if model is not None and not isinstance(model, (str, Runnable)) and not (callable(model) and accepts(model, 0, 0)):
        raise ValueError(f"`model` must be a chat model, a name or a function of (state, runtime), got {model!r}")
    fallback, ticking = InMemoryStore(), aware(clock)

    def distill(state: Any, config: RunnableConfig) -> Waits[DistillOutput]:
        agent = str(state.get("agent") or "")
        if memory.namespace is None and not agent.strip():
            raise ValueError('There is no agent name: pass {"agent": NAME}')
        home = AgentMemory(memory, agent, store, ticking, fallback)
        place = home.namespace_for(config)
        if place is None:
            raise ValueError(f"A field of the namespace {memory.namespace} has no value: set it in the context")
        book = home.book_at(place, config)
        made = yield either(book.distill, book.adistill, _writer(model, state, config))
        return {"patterns": [Pattern(id=lesson.id, text=lesson.text, speaks_for=lesson.supersedes) for lesson in made]}

    graph = StateGraph(
        _State, context_schema=cast("Any", context_schema), input_schema=DistillInput, output_schema=DistillOutput
    )
    graph.add_node("distill", Step("distill", distill))
    graph.add_edge(START, "distill")
    graph.add_edge("distill", END)
    return graph.compile(store=store, name=name)


def _writer(model: Any, state: Any, config: RunnableConfig) -> Any:
    """The model that writes the patterns, created when it is first needed."""
    if isinstance(model, str):
        return model_named(model)
    if model is None or isinstance(model, Runnable):
        return model
    return model(state, runtime_of(config))
