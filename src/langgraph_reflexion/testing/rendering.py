"""A reply in the form it was asked for: native tool calls, a JSON object, or plain text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, ToolCall
from pydantic import BaseModel

from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.testing.questions import Question, text_of
from langgraph_reflexion.testing.replies import Reply


def rendered(reply: Reply, question: Question, number: int) -> AIMessage:
    """The message a model gives; `number` tells its calls from those of the same question asked again."""
    if isinstance(reply, AIMessage):
        # A copy, since LangChain writes its run's id into what it is given.
        message = reply.model_copy(deep=True)
    elif isinstance(reply, str):
        message = AIMessage(content=reply)
    elif isinstance(reply, Decision):
        message = _decided(reply, question)
    elif isinstance(reply, Mapping):
        message = _data(dict(reply), question)
    elif isinstance(reply, BaseModel):
        message = _data(reply.model_dump(mode="json", exclude_unset=True), question)
    else:
        raise TypeError(f"A model says text, a message, a decision, data or an exception, got {reply!r}")
    for index, one in enumerate(message.tool_calls):
        one["id"] = one["id"] or _call_id(question, number, index)
    return message


def _decided(decision: Decision, question: Question) -> AIMessage:
    if question.in_json:
        return AIMessage(content=_as_json(_one_object(decision)))
    if decision.action == "finish":
        return AIMessage(content=decision.final or "")
    made = decision.calls or [_control(decision, question)]
    return AIMessage(content=decision.thought, tool_calls=[ToolCall(**one) for one in made])


def _one_object(decision: Decision) -> dict[str, Any]:
    if len(decision.calls) > 1:
        raise ValueError(f"One JSON object calls one tool, got {len(decision.calls)} calls")
    wanted = decision.calls[0] if decision.calls else None
    return {
        "thought": decision.thought,
        "action": decision.action,
        "tool": wanted["name"] if wanted else None,
        "tool_input": wanted["args"] if wanted else None,
        "final": decision.final,
    }


def _control(decision: Decision, question: Question) -> ToolCall:
    """A call of the control tool named like the action, which takes one text."""
    parameters = question.parameters(decision.action)
    if parameters is None:
        raise ValueError(f"`{decision.action}` needs a control tool of that name, got {question.tools}")
    names = parameters.get("required") or list(parameters.get("properties", {}))
    return ToolCall(name=decision.action, args=dict.fromkeys(names[:1], decision.final), id="")


def _data(data: dict[str, Any], question: Question) -> AIMessage:
    if question.forced:
        return AIMessage(content="", tool_calls=[ToolCall(name=question.forced, args=data, id="")])
    return AIMessage(content=_as_json(data))


def _as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _call_id(question: Question, number: int, index: int) -> str:
    """An id that the same story gives again, and no other question does."""
    story = "\n".join([str(number), str(index), *(text_of(message) for message in question.messages)])
    return f"call_{hashlib.sha256(story.encode(errors='replace')).hexdigest()[:16]}"
