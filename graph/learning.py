"""What a finished run is given to: the auditors, waited for or in the background, on a transcript or in a graph."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined] # re-exported from there

from langgraph_reflexion.driver import Wait, Waits, run_async, run_sync
from langgraph_reflexion.graph.auditors import DEADLINE, Audited, AuditKit, audit_graph
from langgraph_reflexion.graph.background import Background
from langgraph_reflexion.graph.jobs import Job
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.memory import ErrorNotebook
from langgraph_reflexion.nodes.agent_memory import AgentMemory
from langgraph_reflexion.nodes.auditing.keeping import Papers
from langgraph_reflexion.nodes.auditing.questions import as_messages, plain_failures, since_the_task
from langgraph_reflexion.nodes.begin import run_id
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.state import laid_open

MOST_NOTEBOOKS = 64
"""Notebooks that are kept open at once, one for each namespace."""


class Audits:
    """The audits of one `after_run`: their graph, where what they find is kept, and what still runs."""

    def __init__(self, settings: AuditKit, jobs: Background) -> None:
        self.settings, self.jobs = settings, jobs
        self._notebooks: dict[tuple[int, tuple[str, ...]], ErrorNotebook] = {}
        self.graph = audit_graph(settings, self.papers)

    def papers(self, state: Any, config: RunnableConfig) -> Papers:
        """Where the findings and memories of this run are kept."""
        notebook, book, home = self.settings.notebook, self.settings.book, self.settings.home
        namespace = state.get("namespace")
        if home is None or namespace is None or not home.policy.write:
            return Papers(notebook, book)
        if notebook is None and self.settings.in_agent:
            notebook = self._notebook(home, tuple(namespace), config)
        return Papers(notebook, book or home.book_at(namespace, config))

    def _notebook(self, home: AgentMemory, namespace: tuple[str, ...], config: RunnableConfig) -> ErrorNotebook:
        store = home.store(config)
        key = (id(store), namespace)
        if key not in self._notebooks:
            if len(self._notebooks) >= MOST_NOTEBOOKS:
                self._notebooks.clear()
            self._notebooks[key] = ErrorNotebook(store, namespace, home.clock)
        return self._notebooks[key]

    # ------------------------------------------------------------ what is audited

    def given(self, state: Any, config: RunnableConfig) -> Audited | None:
        """A graph's state as the auditors take it; `None` where the run is not over, but waits for a person."""
        values = laid_open(dict(state) if isinstance(state, Mapping) else vars(state))
        outcome, about = values.get("outcome"), values.get("about")
        if getattr(outcome, "status", None) == "needs_input":
            return None
        messages = as_messages(values.get("messages"))
        ids = [message.id for message in messages]
        home = self.settings.home
        task = about["task_id"] if about is not None else None
        if about is not None and self.settings.in_agent:
            place = about["namespace"]
        else:
            place = home.namespace_for(config) if home is not None else None
        return Audited(
            messages=messages,
            start=ids.index(task) if task is not None and task in ids else since_the_task(messages),
            session=getattr(outcome, "run_id", None) or run_id(config),
            failures=plain_failures(outcome),
            namespace=place,
        )

    def alone(self, messages: Any, session: str) -> Audited:
        """A transcript by itself: all of it is the run."""
        home = self.settings.home
        namespace = home.namespace_for({}) if home is not None else None
        return Audited(messages=as_messages(messages), start=0, session=session, failures=[], namespace=namespace)

    # ------------------------------------------------------------ in the background

    def begin(self, state: Any, config: RunnableConfig) -> Waits[None]:
        """Begin, and do not wait. The next run of a thread goes on with what the death of a process cut off."""
        given = self.given(state, config)
        if given is not None:
            job, jobs = Job(self.graph, given, config), self.jobs
            yield Wait(
                lambda: jobs.begin(job.work, job.thread),
                lambda: jobs.begin_here(job.later, job.after_the_loop, job.thread),
            )


class AfterRun(RunnableCallable):
    """A node for any graph, which looks at the run that ends there; and the same alone, on a transcript."""

    def __init__(self, settings: AuditKit, jobs: Background | None = None) -> None:
        audits = Audits(settings, jobs or Background(2 * ((settings.limits.deadline or DEADLINE) + 10)))
        self.audits = audits
        graph = audits.graph

        def run(state: Any, config: RunnableConfig) -> Any:
            given = audits.given(state, config)
            return _told(config, graph.invoke(given, config)) if given is not None else None

        async def arun(state: Any, config: RunnableConfig) -> Any:
            given = audits.given(state, config)
            return _told(config, await graph.ainvoke(given, config)) if given is not None else None

        def begin(state: Any, config: RunnableConfig) -> None:
            run_sync(audits.begin(state, config))

        async def abegin(state: Any, config: RunnableConfig) -> None:
            await run_async(audits.begin(state, config))

        doors = (begin, abegin) if settings.background else (run, arun)
        super().__init__(*doors, name="after_run")

    @property
    def waits(self) -> bool:
        """Whether a graph waits for its auditors."""
        return not self.audits.settings.background

    def audit(self, messages: Any, session: str = "") -> dict[str, Any]:
        """Look at a transcript by itself, and wait: what was found, kept and refused, and which auditor failed."""
        given, graph = self.audits.alone(messages, session), self.audits.graph
        # Apart from whatever graph this may be called in: it would be taken for a part of it.
        result: dict[str, Any] = contextvars.Context().run(graph.invoke, given)["learned"]
        return result

    async def aaudit(self, messages: Any, session: str = "") -> dict[str, Any]:
        """The same, awaited."""
        given, graph = self.audits.alone(messages, session), self.audits.graph
        work = asyncio.get_running_loop().create_task(graph.ainvoke(given), context=contextvars.Context())
        result: dict[str, Any] = (await work)["learned"]
        return result

    def drain(self, seconds: float | None = None) -> bool:
        """Wait for the audits in the background; `False` where some still run after so many seconds."""
        return self.audits.jobs.drain(seconds)

    async def adrain(self, seconds: float | None = None) -> bool:
        """The same, awaited."""
        return await self.audits.jobs.adrain(seconds)

    def around(self, graph: Graph) -> Graph:
        """A graph that runs this one, and then looks at what came of it."""
        if not isinstance(graph, CompiledStateGraph):
            raise ValueError(f"`around` takes a compiled graph, such as `graph.compile()` gives, got {graph!r}")
        theirs = graph.builder
        whole = StateGraph(
            theirs.state_schema,
            context_schema=theirs.context_schema,
            input_schema=theirs.input_schema,
            output_schema=theirs.output_schema,
        )
        whole.add_node("run", graph)
        whole.add_node("after_run", self)
        whole.add_edge(START, "run")
        whole.add_edge("run", "after_run")
        whole.add_edge("after_run", END)
        return whole.compile(name=graph.name)

    def in_agent(self, home: AgentMemory) -> AfterRun:
        """The same as the end of an agent of ours; what was given no place of its own is kept in the agent's memory."""
        mine = self.audits.settings
        if mine.notebook is not None or mine.book is not None or mine.home is not None:
            return self
        return AfterRun(replace(mine, home=home, in_agent=True), self.audits.jobs)


def _told(config: RunnableConfig, result: Any) -> dict[str, Any]:
    """What was found, as the node's update and as an event."""
    emit(config, "learned", **result["learned"])
    return {"learned": result["learned"]}
