"""A conversation as text, for a model that knows no calls: turns as the objects it writes, results as the user's."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage

from langgraph_reflexion.nodes.speaking.controls import CONTROLS


def object_of(message: AIMessage) -> str:
    """A turn as the JSON object its model wrote, or would have written."""
    if not message.tool_calls:
        return _object("", "finish", final=message.text)
    return "\n".join(_call_object(message.text, call) for call in message.tool_calls)


def _call_object(thought: str, call: ToolCall) -> str:
    control = CONTROLS.get(call["name"])
    if control is not None and control[1] in call["args"]:
        return _object(thought, call["name"], final=call["args"][control[1]])
    return _object(thought, "tool_call", call["name"], call["args"])


def _object(
    thought: str, action: str, tool: str | None = None, tool_input: Any = None, final: str | None = None
) -> str:
    fields = {"thought": thought, "action": action, "tool": tool, "tool_input": tool_input, "final": final}
    return json.dumps(fields, ensure_ascii=False, default=str)


def as_text(messages: Sequence[AnyMessage], said: Callable[[AIMessage], str]) -> list[AnyMessage]:
    """The conversation without calls: turns as text, results as the user's turn, neighbours of the user joined.

    A turn without an id is a reply that could not stand, shown as it came.
    """
    out: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            word = "Error of" if message.status == "error" else "Observation of"
            _join(out, HumanMessage(f"{word} {message.name or 'the call'}:\n{message.text}"))
        elif isinstance(message, AIMessage) and (message.tool_calls or message.id is not None):
            out.append(AIMessage(said(message)))
        elif isinstance(message, HumanMessage):
            _join(out, message)
        else:
            out.append(message)
    return out


def _join(out: list[AnyMessage], message: HumanMessage) -> None:
    before = out[-1] if out else None
    if isinstance(before, HumanMessage) and isinstance(before.content, str) and isinstance(message.content, str):
        out[-1] = HumanMessage(f"{before.content}\n\n{message.content}")
    else:
        out.append(message)
