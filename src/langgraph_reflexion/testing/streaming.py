"""A message in pieces, as a provider streams it: words, calls in halves, the count of tokens last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk


def pieces(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Chunks that add up to the message. The first one comes before any text, as from a provider."""
    # Content of one message is either text or blocks in every chunk: mixed, they would not add up.
    nothing: str | list[str | dict[str, object]] = "" if isinstance(message.content, str) else []
    yield AIMessageChunk(content=nothing, additional_kwargs=message.additional_kwargs)
    if isinstance(message.content, str):
        for word in re.findall(r"\s*\S+|\s+$", message.content):
            yield AIMessageChunk(content=word)
    else:
        for block in message.content:
            yield AIMessageChunk(content=[block])
    for part in _calls(message):
        yield AIMessageChunk(content=nothing, tool_call_chunks=[part])
    yield AIMessageChunk(
        content=nothing,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


def _calls(message: AIMessage) -> Iterator[ToolCallChunk]:
    written = [(one["name"], one["id"], json.dumps(one["args"], ensure_ascii=False)) for one in message.tool_calls]
    written += [(one["name"] or "", one["id"], one["args"] or "") for one in message.invalid_tool_calls]
    for index, (name, call_id, args) in enumerate(written):
        half = len(args) // 2
        yield tool_call_chunk(name=name, id=call_id, args="", index=index)
        for part in (args[:half], args[half:]):
            yield tool_call_chunk(args=part, index=index)
