"""A graph on a LangGraph server, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.schema import StreamPart


class ServerDouble:
    """A client of a server whose graph always gives the same reply. It records the thread of each run."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.threads: list[str | None] = []
        self.runs = self

    def graph(self) -> RemoteGraph:
        """The graph on the server."""
        return RemoteGraph("remote", sync_client=self)  # type: ignore[arg-type]

    def stream(self, *, thread_id: str | None, **_: Any) -> Iterator[StreamPart]:
        self.threads.append(thread_id)
        yield StreamPart("values", {"messages": [{"type": "ai", "content": self.reply, "id": "1"}]})
