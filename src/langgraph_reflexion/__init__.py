"""LangGraph agents that learn from their own failures."""

from typing import TYPE_CHECKING, Any

from langgraph_reflexion.context import Context, Limits, MemoryPolicy
from langgraph_reflexion.graph import after_run, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.memory import ErrorNotebook, LessonBook
from langgraph_reflexion.schemas import (
    Attempt,
    Decision,
    Episode,
    Failure,
    Lesson,
    Outcome,
    Reflection,
    Run,
    Verdict,
)

if TYPE_CHECKING:
    from langgraph_reflexion.memory.store import FaissStore, NgramEmbeddings

__all__ = [
    "Attempt",
    "Context",
    "Decision",
    "Episode",
    "ErrorNotebook",
    "Failure",
    "FaissStore",
    "Lesson",
    "LessonBook",
    "Limits",
    "MemoryPolicy",
    "NgramEmbeddings",
    "Outcome",
    "Reflection",
    "Run",
    "Verdict",
    "after_run",
    "create_reflexion_agent",
    "create_trial_graph",
]


def __getattr__(name: str) -> Any:
    """The store's names, loaded when they are asked for: an agent without them needs no numpy and no FAISS."""
    if name not in ("FaissStore", "NgramEmbeddings"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from langgraph_reflexion.memory import store

    return getattr(store, name)
