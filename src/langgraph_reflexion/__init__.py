"""LangGraph agents that learn from their own failures."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph_reflexion.context import Context, Limits, MemoryPolicy
    from langgraph_reflexion.graph import after_run, create_reflexion_agent, create_trial_graph
    from langgraph_reflexion.memory import ErrorNotebook, LessonBook
    from langgraph_reflexion.memory.store import FaissStore, NgramEmbeddings
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

ROOMS = ("context", "schemas", "memory", "graph", "memory.store")


def __getattr__(name: str) -> Any:
    """Each name is loaded when it is asked for: an agent without a store of ours needs no FAISS."""
    if name in __all__:
        for room in ROOMS:
            module = import_module(f"langgraph_reflexion.{room}")
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
