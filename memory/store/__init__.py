"""The file store: LangGraph items in one SQLite file, found by vectors, by words, or by both."""

from langgraph_reflexion.memory.store.faiss_store import FaissStore
from langgraph_reflexion.memory.store.ngrams import NgramEmbeddings

__all__ = ["FaissStore", "NgramEmbeddings"]
