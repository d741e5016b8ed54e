"""`after_run`: audit finished runs, and save findings and facts about the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langgraph_reflexion.context import UTC_NOW, Limits, MemoryPolicy
from langgraph_reflexion.driver import accepts
from langgraph_reflexion.graph.agent import AnyModel, Protocol, create_reflexion_agent
from langgraph_reflexion.graph.auditors import TURNS, AfterRun, AuditSettings
from langgraph_reflexion.memory import ErrorNotebook, LessonBook, check_instance
from langgraph_reflexion.nodes.parts import AgentMemory
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.text.literals import hide_password


def after_run(
    model: AnyModel,
    *,
    notebook: ErrorNotebook | None = None,
    memory: LessonBook | MemoryPolicy | None = None,
    limits: Limits | Mapping[str, Limits] = Limits(max_steps=5),  # noqa: B008 - frozen
    root: str | Path | None = None,
    background: bool = False,
    on_done: Callable[[dict[str, Any]], Any] | None = None,
    prompts: str | Path | None = None,
    protocol: Protocol = "auto",
) -> AfterRun:
    """Two auditors for finished runs: one for errors and missed opportunities, one for facts worth remembering.

    Use the result as a node of any graph, or pass it as `create_reflexion_agent(self_reflection=...)`.
    `.audit(messages)` audits a transcript. An audit returns `score`, `findings`, `memories`, `forgotten` and
    `failed`, which says why an auditor gave no result.

    Args:
        model: The auditors' model: a chat model, its name, or any other `model` that `create_reflexion_agent` takes.
        notebook: Where findings are saved. With neither this nor `memory`, an agent of this package uses its own
            memory.
        memory: Where memories are saved: a book, or a policy whose namespace is filled in for each run.
        limits: Turns and deadline of both auditors, or of each: `{"errors": Limits(...), "memories": Limits(...)}`. By
            default, the error auditor has four turns and the memory auditor five.
        root: A folder that the auditors may read. Without one they have no tools.
        background: Return the answer first, and audit in the background. `.drain()` waits for unfinished audits.
        on_done: Called with the result when both auditors are done. An async function needs `ainvoke`.
        prompts: A folder whose files replace the shipped prompts of the same name.
        protocol: How the auditors call their tools, as in `create_reflexion_agent`.
    """
    if memory is not None and not isinstance(memory, (LessonBook, MemoryPolicy)):
        raise ValueError(f"`memory` must be a LessonBook or a MemoryPolicy, got {hide_password(repr(memory))}")
    if notebook is not None:
        check_instance(ErrorNotebook, notebook, "notebook")
    given = dict(limits) if isinstance(limits, Mapping) else {"errors": limits}
    if not given or set(given) - set(TURNS) or not all(isinstance(value, Limits) for value in given.values()):
        raise ValueError(
            f"`limits` must be a Limits, or a mapping of 'errors' and 'memories' to Limits, got {limits!r}"
        )
    check_instance(bool, background, "background")
    if on_done is not None and (not callable(on_done) or not accepts(on_done, {})):
        raise ValueError(f"`on_done` must be a function of the result, got {on_done!r}")
    prompt_files, own = Prompts(prompts), None
    if isinstance(memory, MemoryPolicy):
        own = AgentMemory(memory, "after_run", None, UTC_NOW, prompts=prompt_files)
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
        prompts=prompt_files,
        protocol=protocol,
    )
    return AfterRun(settings)
