"""`after_run`: an error notebook and a memory of the user, filled when a run is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langgraph_reflexion.context import UTC_NOW, Limits, MemoryPolicy
from langgraph_reflexion.graph.agent import create_reflexion_agent
from langgraph_reflexion.graph.auditors import TURNS, AfterRun, AuditSettings
from langgraph_reflexion.graph.parts import must_be
from langgraph_reflexion.memory import ErrorNotebook, LessonBook
from langgraph_reflexion.nodes.agent_memory import AgentMemory
from langgraph_reflexion.nodes.calling import accepts
from langgraph_reflexion.prompts import Prompts


def after_run(
    model: Any,
    *,
    notebook: ErrorNotebook | None = None,
    memory: LessonBook | MemoryPolicy | None = None,
    limits: Limits | Mapping[str, Limits] = Limits(max_steps=5),  # noqa: B008 - frozen
    root: str | Path | None = None,
    background: bool = False,
    on_done: Callable[[dict[str, Any]], Any] | None = None,
    prompts: str | Path | None = None,
) -> AfterRun:
    """Two auditors for finished runs: one for errors and missed chances, one for what is worth remembering.

    A node for any graph; `.around(graph)` makes a graph that ends with it; `.audit(messages)` looks at a transcript
    alone; `create_reflexion_agent(self_reflection=...)` takes it. The result has `score`, `findings`, `memories`,
    `forgotten`, and in `failed` why an auditor has nothing to say.

    Args:
        model: What the auditors ask: a chat model, a name, or whatever the agent takes.
        notebook: Where findings are kept. With neither this nor `memory`, an agent of ours uses its own memory.
        memory: Where memories are kept: a book, or a policy whose namespace is filled for each run.
        limits: Turns and deadline of an auditor, the error auditor having one turn less; or limits for each, as
            `{"errors": Limits(...), "memories": Limits(...)}`.
        root: A folder that the auditors may read in; without one they have no tools.
        background: Do not wait: the audit begins when the answer is there. `.drain()` waits for what is left.
        on_done: Called with the result when both are done; may be async.
        prompts: A folder whose files replace the shipped prompts of the same name.
    """
    if memory is not None and not isinstance(memory, (LessonBook, MemoryPolicy)):
        raise ValueError(f"`memory` must be a LessonBook or a MemoryPolicy, got {memory!r}")
    if notebook is not None:
        must_be(notebook, ErrorNotebook, "notebook")
    given = dict(limits) if isinstance(limits, Mapping) else {"errors": limits}
    if not given or set(given) - set(TURNS) or not all(isinstance(value, Limits) for value in given.values()):
        raise ValueError(f"`limits` must be a Limits, or a mapping of 'errors' and 'memories' to one, got {limits!r}")
    must_be(background, bool, "background")
    if on_done is not None and (not callable(on_done) or not accepts(on_done, {})):
        raise ValueError(f"`on_done` must be a function of the result, got {on_done!r}")
    own = None
    if isinstance(memory, MemoryPolicy):
        own = AgentMemory(memory, "after_run", None, UTC_NOW)
    settings = AuditSettings(
        create_agent=create_reflexion_agent,
        model=model,
        notebook=notebook,
        book=memory if isinstance(memory, LessonBook) else None,
        memory=own,
        limits=limits,
        root=root,
        background=background,
        on_done=on_done,
        prompts=Prompts(prompts),
    )
    return AfterRun(settings)
