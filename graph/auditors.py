"""The two auditors as a graph: side by side, each a ReAct agent of ours with eyes and no hands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined] # re-exported from there
from typing_extensions import TypedDict

from langgraph_reflexion.context import Limits, MemoryPolicy
from langgraph_reflexion.driver import Waits, run_async, run_sync
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.memory import ErrorNotebook, LessonBook
from langgraph_reflexion.nodes.agent_memory import AgentMemory
from langgraph_reflexion.nodes.auditing.auditor import Auditor, audit_errors, audit_memories, conclude
from langgraph_reflexion.nodes.auditing.keeping import Papers
from langgraph_reflexion.nodes.auditing.replies import fault_in
from langgraph_reflexion.nodes.auditing.yard import Yard
from langgraph_reflexion.nodes.step import WaitingStep
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Category

TURNS = 5
"""Turns of the memory extractor, where the limits name none; the error auditor has one less."""
DEADLINE = 120.0
"""Seconds of an auditor, where the limits name none."""

Build = Callable[..., Graph]


class Audited(TypedDict, total=False):
    """What a finished run leaves to its auditors, as plain data and messages."""

    messages: list[AnyMessage]
    start: int
    """Where the run begins in them."""
    session: str
    failures: list[str]
    namespace: list[str] | None
    """Where its agent's memory lives; None where the notebook and the book were given."""
    errors: dict[str, Any]
    memories: dict[str, Any]
    learned: dict[str, Any]


@dataclass(frozen=True)
class AuditKit:
    """What the caller of `after_run` chose."""

    build: Build
    model: Any
    notebook: ErrorNotebook | None = None
    book: LessonBook | None = None
    home: AgentMemory | None = None
    """Whose namespaces are filled for each run: an agent's memory, or a policy of the caller's."""
    limits: Limits = Limits()  # noqa: RUF009 — frozen
    root: Any = None
    background: bool = False
    on_done: Callable[[dict[str, Any]], Any] | None = None
    words: Prompts = field(default_factory=Prompts)
    protocol: Any = "auto"
    in_agent: bool = False

    @property
    def errors(self) -> bool:
        """Whether errors are looked for: unless memory alone was asked for."""
        return self.notebook is not None or (self.book is None and (self.home is None or self.in_agent))

    @property
    def memories(self) -> bool:
        """Whether memories are looked for: unless the notebook alone was asked for."""
        return self.book is not None or self.home is not None or self.notebook is None


def audit_graph(kit: AuditKit, papers: Callable[[Any, RunnableConfig], Papers]) -> Graph:
    """The auditors side by side, then one word on what both found; `papers` is where a run's findings are kept."""
    limits, words, yard = kit.limits, kit.words, Yard(kit.root) if kit.root is not None else None
    turns = limits.max_steps if "max_steps" in limits.model_fields_set else TURNS
    deadline = limits.deadline or DEADLINE
    graph = StateGraph(Audited)
    for wanted, name, think, key, most in (
        (kit.errors, "error_auditor", audit_errors, "findings", max(1, turns - 1)),
        (kit.memories, "memory_auditor", audit_memories, "memories", turns),
    ):
        if wanted:
            prompt = words.render(f"audit_{key if key == 'memories' else 'errors'}", **_values(key, most))
            agent = kit.build(
                kit.model,
                yard.tools() if yard is not None else [],
                prompt=prompt,
                checks=[_readable(key)],
                limits=limits.model_copy(
                    update={"max_steps": most, "max_attempts": 2, "max_reflections": 0, "deadline": deadline}
                ),
                memory=MemoryPolicy(read=False, write=False),
                protocol=kit.protocol,
                name=name,
            )
            chosen = isinstance(kit.model, Mapping) or not isinstance(kit.model, (str, Runnable))
            auditor = Auditor(agent, words, most, deadline, papers, chosen)
            graph.add_node(name, _with_agent(name, agent, partial(think, auditor)))
            graph.add_edge(START, name)
            graph.add_edge(name, "conclude")
    graph.add_node("conclude", WaitingStep("conclude", partial(conclude, kit.on_done)))
    graph.add_edge("conclude", END)
    return graph.compile(name="after_run")


def _values(key: str, turns: int) -> dict[str, Any]:
    return {"turns": turns} if key == "memories" else {"turns": turns, "categories": ", ".join(get_args(Category))}


def _readable(key: str) -> Callable[[str, Any], str | None]:
    def readable(answer: str, _run: Any) -> str | None:
        """A reply that nobody can read is asked for once more."""
        return fault_in(answer, key)

    return readable


def _with_agent(name: str, agent: Graph, think: Callable[[Any, RunnableConfig], Waits[Any]]) -> RunnableCallable:
    """A node in which LangGraph finds the agent, so that Studio shows it and a checkpointer keeps its steps."""

    def run(state: Any, config: RunnableConfig) -> Any:
        return run_sync(think(state, config)) if agent else None

    async def arun(state: Any, config: RunnableConfig) -> Any:
        return await run_async(think(state, config)) if agent else None

    return RunnableCallable(run, arun, name=name)
