"""OpenAI's form of chat completions: a request read as a question, an answer written as JSON or events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langgraph_reflexion.testing.script import Question, chunks_of, read_question
from model_server.moods import Choice


def read(body: Mapping[str, Any]) -> Question:
    """The question that a request asks."""
    return read_question([_message(one) for one in body["messages"]], body, time.monotonic())


def choice_of(message: AIMessage) -> Choice:
    """The one choice of a completion."""
    said: dict[str, Any] = {"role": "assistant", "content": str(message.text) or None}
    made = [_written(one["id"], one["name"], _args(one["args"])) for one in message.tool_calls]
    made += [_written(one["id"], one["name"], one["args"] or "") for one in message.invalid_tool_calls]
    if made:
        said["tool_calls"] = made
    return {"message": said, "finish_reason": "tool_calls" if made else "stop"}


def usage_of(message: AIMessage) -> dict[str, int]:
    """The tokens of an answer, in OpenAI's names."""
    counted = message.usage_metadata or {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    return {
        "prompt_tokens": counted["input_tokens"],
        "completion_tokens": counted["output_tokens"],
        "total_tokens": counted["total_tokens"],
    }


def completion(body: Mapping[str, Any], choice: Choice, usage: dict[str, int], number: int) -> bytes:
    """The whole answer as one JSON object."""
    head = _head(body, number, "chat.completion")
    return json.dumps({**head, "choices": [{"index": 0, "logprobs": None, **choice}], "usage": usage}).encode()


def events(body: Mapping[str, Any], choice: Choice, usage: dict[str, int], number: int) -> list[bytes]:
    """The answer as server-sent events: by words, calls in halves, tokens last where they are asked for."""
    head = _head(body, number, "chat.completion.chunk")
    parts = [(delta, None) for delta in _deltas(choice["message"])]
    parts.append(({}, choice["finish_reason"]))
    found = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in parts]
    if (body.get("stream_options") or {}).get("include_usage"):
        found.append({**head, "choices": [], "usage": usage})
    return [f"data: {json.dumps(one)}\n\n".encode() for one in found] + [b"data: [DONE]\n\n"]


def _head(body: Mapping[str, Any], number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time()), "model": body["model"]}


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The message in pieces. Words are parted as the doubles do in process."""
    yield {"role": "assistant", "content": ""}
    if message.get("refusal"):
        yield {"refusal": message["refusal"]}
    for piece in chunks_of(AIMessage(content=message["content"] or "")):
        if piece.content:
            yield {"content": piece.content}
    for index, one in enumerate(message.get("tool_calls", [])):
        args = one["function"]["arguments"]
        start = {"name": one["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": one["id"], "type": "function", "function": start}]}
        for part in (args[: len(args) // 2], args[len(args) // 2 :]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _message(one: Mapping[str, Any]) -> BaseMessage:
    content = one.get("content") or ""
    if one["role"] == "assistant":
        return _answer(content, one.get("tool_calls") or [])
    if one["role"] == "tool":
        return ToolMessage(content=content, tool_call_id=one["tool_call_id"])
    return HumanMessage(content=content) if one["role"] == "user" else SystemMessage(content=content)


def _answer(content: Any, written: list[dict[str, Any]]) -> AIMessage:
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for one in written:
        name, text = one["function"]["name"], one["function"]["arguments"]
        args = _object(text)
        if args is None:
            invalid.append(
                InvalidToolCall(type="invalid_tool_call", name=name, args=text, id=one["id"], error="is no JSON object")
            )
        else:
            valid.append(ToolCall(name=name, args=args, id=one["id"]))
    return AIMessage(content=content, tool_calls=valid, invalid_tool_calls=invalid)


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _written(call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _args(args: dict[str, Any]) -> str:
    return json.dumps(args, ensure_ascii=False)
