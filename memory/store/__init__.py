"""The file store: LangGraph items in one SQLite file, found by vectors, by words, or by both."""

from langgraph_reflexion.memory.store.copying import Copied, copy_store
from langgraph_reflexion.memory.store.faiss_store import FaissStore
from langgraph_reflexion.memory.store.ngrams import NgramEmbeddings

__all__ = ["Copied", "FaissStore", "NgramEmbeddings", "copy_store"]
