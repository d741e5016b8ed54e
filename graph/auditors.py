"""The auditors of finished runs: a graph of two parallel agents, and the node that passes a run to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from langgraph_reflexion.context import Limits, MemoryPolicy, field_of
from langgraph_reflexion.driver import Wait, Waits, either, run_async, run_sync
from langgraph_reflexion.graph.background import Background
from langgraph_reflexion.graph.layout import Graph, allow_our_types
from langgraph_reflexion.memory import ErrorNotebook, LessonBook, check_instance
from langgraph_reflexion.nodes.auditing.auditors import Auditor, Books, audit_errors, audit_memories, conclude
from langgraph_reflexion.nodes.auditing.prompt_and_reply import AuditedRun, fault_in, transcript_in
from langgraph_reflexion.nodes.auditing.reading_tools import ReadingTools
from langgraph_reflexion.nodes.host import Node, context_without_run, emit, run_id, runtime_of
from langgraph_reflexion.nodes.parts import AgentMemory
from langgraph_reflexion.nodes.tool import details_of, map_messages
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Category, Outcome
from langgraph_reflexion.state import Update, start_of_run

TURNS = {"errors": 4, "memories": 5}
"""Default number of turns of each auditor."""
DEADLINE = 120.0
"""Default seconds of an auditor: enough for five turns of a slow model."""


@dataclass(frozen=True)
class AuditSettings:
    """The caller's settings of `after_run`."""

    create_agent: Callable[..., Graph]
    """`create_reflexion_agent`, passed in because its module imports this one."""
    model: Any
    notebook: ErrorNotebook | None = None
    book: LessonBook | None = None
    memory: AgentMemory | None = None
    """An agent's memory or the caller's policy, whose namespace is filled in for each run."""
    limits: Limits | Mapping[str, Limits] = Limits()  # noqa: RUF009 - frozen
    root: Any = None
    background: bool = False
    on_done: Callable[[dict[str, Any]], Any] | None = None
    prompts: Prompts = field(default_factory=Prompts)
    protocol: Any = "auto"
    in_agent: bool = False

    @property
    def kinds(self) -> list[str]:
        """The auditors in use: both, unless only the notebook or only the memory was passed."""
        has_memory = self.book is not None or self.memory is not None
        errors = self.notebook is not None or not has_memory or self.in_agent
        memories = has_memory or self.notebook is None
        return [name for name, wanted in (("errors", errors), ("memories", memories)) if wanted]

    def limits_of(self, kind: str) -> Limits:
        """The limits of one auditor. The default `Limits(max_steps=5)` gives the error auditor four turns."""
        given = self.limits
        limits = given.get(kind, Limits()) if isinstance(given, Mapping) else given
        is_default = "max_steps" not in limits.model_fields_set or given == Limits(max_steps=TURNS["memories"])
        turns = TURNS[kind] if is_default else limits.max_steps
        changes = {"max_steps": turns, "max_attempts": 2, "max_reflections": 0}
        return limits.model_copy(update={**changes, "deadline": limits.deadline or DEADLINE})


class AfterRun(Runnable[Any, Any]):
    """A node for any graph that audits the run ending there. It can also audit a transcript."""

    name = "after_run"

    def __init__(self, settings: AuditSettings, background: Background | None = None) -> None:
        self.settings, self.background = settings, background or Background()
        self.graph = _audit_graph(settings, self._books)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return run_sync(self.node(input, ensure_config(config)))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await run_async(self.node(input, ensure_config(config)))

    def node(self, state: Any, config: RunnableConfig) -> Waits[Update | None]:
        """Audit the run, now or in the background."""
        given = self._run_of_state(state, config)
        if given is None:
            return None
        if self.settings.background:
            yield self.background.begin(self._audit_alone(given, runtime_of(config)))
            return None
        learned = (yield either(self.graph.invoke, self.graph.ainvoke, given, config))["learned"]
        emit(config, "learned", **learned)
        return {"learned": learned}

    def _audit_alone(self, given: AuditedRun, runtime: Runtime[Any]) -> Wait:
        """Audit a finished run. A second call continues an interrupted audit, so nothing is saved twice."""
        saver, config = allow_our_types(InMemorySaver()), RunnableConfig(configurable={"thread_id": "audit"})
        graph = self.graph.copy({"store": runtime.store, "checkpointer": saver})
        # A tool's artifact may be an object that no checkpoint can hold. The auditors do not read it.
        plain: AuditedRun = {**given, "messages": map_messages(given["messages"], _with_plain_artifact)}

        def left() -> AuditedRun | None:
            return plain if saver.get_tuple(config) is None else None

        return Wait(
            lambda: graph.invoke(left(), config, context=runtime.context),
            lambda: graph.ainvoke(left(), config, context=runtime.context),
        )

    def audit(self, messages: Any, session: str = "") -> dict[str, Any]:
        """Audit a transcript and wait. Returns what was found, saved and refused, and which auditor failed."""
        given = self._run_of_transcript(messages, session)
        # Inside another graph's run, it would count as a part of that run.
        result: dict[str, Any] = context_without_run().run(self.graph.invoke, given)["learned"]
        return result

    async def aaudit(self, messages: Any, session: str = "") -> dict[str, Any]:
        """Like `audit`, without blocking the event loop."""
        given = self._run_of_transcript(messages, session)
        work = asyncio.get_running_loop().create_task(self.graph.ainvoke(given), context=context_without_run())
        result: dict[str, Any] = (await work)["learned"]
        return result

    def drain(self, seconds: float | None = None) -> bool:
        """Wait for the audits in the background. `False` if some are still running after `seconds`."""
        return self.background.drain(seconds)

    async def adrain(self, seconds: float | None = None) -> bool:
        """Like `drain`, without blocking the event loop."""
        return await self.background.adrain(seconds)

    def in_agent(self, memory: AgentMemory) -> AfterRun:
        """A copy for an agent of this package. Without a notebook or memory, results are saved in the agent's memory.

        The caller's own policy applies to the agent's store and name.
        """
        settings = self.settings
        if settings.memory is not None:
            return AfterRun(replace(settings, memory=replace(memory, policy=settings.memory.policy)), self.background)
        if settings.notebook is not None or settings.book is not None:
            return self
        return AfterRun(replace(settings, memory=memory, in_agent=True), self.background)

    def _run_of_state(self, state: Any, config: RunnableConfig) -> AuditedRun | None:
        """A graph's state in the auditors' format. `None` if the run is not over but waits for a person."""
        memory, outcome = self.settings.memory, field_of(state, "outcome")
        outcome = outcome if isinstance(outcome, Outcome) else None
        about = field_of(field_of(state, "run") or state, "about") if self.settings.in_agent else None
        if outcome is not None and outcome.status == "needs_input":
            return None
        messages = transcript_in(field_of(state, "messages"))
        if about is not None:
            namespace = about["namespace"]
        else:
            namespace = memory.namespace_for(config) if memory is not None else None
        return AuditedRun(
            messages=messages,
            start=start_of_run(messages, about["task_id"] if about is not None else None),
            session=outcome.run_id if outcome is not None else run_id(config),
            failures=[f"{failure.signal}: {failure.evidence}" for failure in outcome.failures] if outcome else [],
            namespace=namespace,
        )

    def _run_of_transcript(self, messages: Any, session: str) -> AuditedRun:
        """A transcript without a graph: all of it is the run."""
        memory = self.settings.memory
        namespace = memory.namespace_for({}) if memory is not None else None
        check_instance(str, session, "session")
        return AuditedRun(messages=transcript_in(messages), start=0, session=session, failures=[], namespace=namespace)

    def _books(self, run: AuditedRun, config: RunnableConfig) -> Books:
        """Where the findings and memories of this run are saved."""
        notebook, given, memory = self.settings.notebook, self.settings.book, self.settings.memory
        namespace = run["namespace"]
        if memory is None or namespace is None or not memory.policy.write:
            return Books(notebook, given)
        book = memory.book_at(namespace, config)
        if notebook is None and self.settings.in_agent:
            notebook = ErrorNotebook(book.store, tuple(namespace), memory.clock)
        return Books(notebook, given or book)


def _with_plain_artifact(message: ToolMessage) -> ToolMessage:
    return message.model_copy(update={"artifact": details_of(message) or None})


def _audit_graph(settings: AuditSettings, books: Callable[[AuditedRun, RunnableConfig], Books]) -> Graph:
    """The auditors in parallel, then `conclude`. `books` says where a run's findings are saved."""
    tools = ReadingTools(settings.root).tools() if settings.root is not None else []
    uses_context = isinstance(settings.model, Mapping) or not isinstance(settings.model, (str, Runnable))
    graph = StateGraph(AuditedRun)
    for kind, name, audit, key in (
        ("errors", "error_auditor", audit_errors, "findings"),
        ("memories", "memory_auditor", audit_memories, "memories"),
    ):
        if kind not in settings.kinds:
            continue
        limits = settings.limits_of(kind)
        values = {"turns": limits.max_steps, "categories": ", ".join(get_args(Category))}
        agent = settings.create_agent(
            settings.model,
            tools,
            prompt=settings.prompts.render(f"audit_{kind}", **values),
            checks=[_is_readable(key)],
            limits=limits,
            memory=MemoryPolicy(read=False, write=False),
            protocol=settings.protocol,
            name=name,
        )
        deadline = limits.deadline or DEADLINE
        auditor = Auditor(agent, settings.prompts, limits.max_steps, deadline, books, uses_context)
        graph.add_node(name, Node(name, audit, auditor))
        graph.add_edge(START, name)
        graph.add_edge(name, "conclude")
    graph.add_node("conclude", Node("conclude", conclude, settings.on_done))
    graph.add_edge("conclude", END)
    return graph.compile(name="after_run")


def _is_readable(key: str) -> Callable[[str, Any], str | None]:
    def readable(answer: str, _run: Any) -> str | None:
        """If the reply cannot be parsed, ask once more."""
        return fault_in(answer, key)

    return readable
