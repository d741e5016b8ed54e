"""LangGraph agents that learn from their own failures."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph_reflexion.context import Context, Limits, MemoryPolicy
    from langgraph_reflexion.errors import LessonError, ModelError, PromptError, ReflexionError, StoreError
    from langgraph_reflexion.graph import after_run, create_reflexion_agent, create_trial_graph
    from langgraph_reflexion.memory import ErrorNotebook, LessonBook
    from langgraph_reflexion.memory.store import FaissStore, NgramEmbeddings
    from langgraph_reflexion.middleware import ReflexionMiddleware
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
    "LessonError",
    "Limits",
    "MemoryPolicy",
    "ModelError",
    "NgramEmbeddings",
    "Outcome",
    "PromptError",
    "Reflection",
    "ReflexionError",
    "ReflexionMiddleware",
    "Run",
    "StoreError",
    "Verdict",
    "after_run",
    "create_reflexion_agent",
    "create_trial_graph",
]

# Without LangChain `import *` would fail. Type checkers ignore `find_spec`, and would always remove the name.
if not TYPE_CHECKING and find_spec("langchain") is None:
    __all__.remove("ReflexionMiddleware")

_MODULES = {
    "context": ("Context", "Limits", "MemoryPolicy"),
    "errors": ("LessonError", "ModelError", "PromptError", "ReflexionError", "StoreError"),
    "graph": ("after_run", "create_reflexion_agent", "create_trial_graph"),
    "memory": ("ErrorNotebook", "LessonBook"),
    "memory.store": ("FaissStore", "NgramEmbeddings"),
    "middleware": ("ReflexionMiddleware",),
}
"""Where each public name is defined; the others are in `schemas`."""


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, so that a script pays only for what it uses."""
        module = next((module for module, names in _MODULES.items() if name in names), "schemas")
        if module == "schemas" and name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(import_module(f"langgraph_reflexion.{module}"), name))


def __dir__() -> list[str]:
    return __all__
