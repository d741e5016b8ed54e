"""A calendar for agents, and a checkpointer."""

from __future__ import annotations

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver


@tool
def search(query: str) -> str:
    """Look up free hours."""
    if query[0].isdigit():
        raise ValueError(f"{query} is not a weekday")
    return "eleven is free"


class Deaf(InMemorySaver):
    """A saver that is not to be told of more types."""

    def with_allowlist(self, extra_allowlist: object) -> Deaf:
        return self
