"""The file store: LangGraph items in one SQLite file, found by vectors, by words, or by both.

The classes are imported on first use, so that a program without such a store does not load them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph_reflexion.memory.store.copying import Copied, copy_store
    from langgraph_reflexion.memory.store.faiss_store import FaissStore
    from langgraph_reflexion.memory.store.ngrams import NgramEmbeddings

__all__ = ["Copied", "FaissStore", "NgramEmbeddings", "copy_store"]

_MODULES = {"Copied": "copying", "FaissStore": "faiss_store", "NgramEmbeddings": "ngrams", "copy_store": "copying"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
