"""Replies of a scripted model: what a script may say, and the message it becomes, whole or streamed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from pydantic import BaseModel

from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.testing.questions import Question, text_of

Reply: TypeAlias = str | AIMessage | Decision | Mapping[str, Any] | BaseModel | BaseException | type[BaseException]
"""Text and messages are returned as they are, data as JSON, decisions in the protocol in use; exceptions are raised."""


class ScriptExhausted(AssertionError):  # noqa: N818 — it describes the script
    """A model was asked for something its script does not hold."""


# ------------------------------------------------------------ what a script says


def call(tool: str, /, **args: Any) -> Decision:
    """Call one tool."""
    return calls((tool, args))


def calls(*wanted: tuple[str, Mapping[str, Any]], thought: str = "") -> Decision:
    """Call several tools in one turn, each given as its name and its arguments."""
    made = [ToolCall(name=tool, args=dict(args), id="") for tool, args in wanted]
    return Decision(action="tool_call", calls=made, thought=thought)


def say(answer: str, *, thought: str = "") -> Decision:
    """Give the answer."""
    return Decision(action="finish", final=answer, thought=thought)


def replan(note: str, *, thought: str = "") -> Decision:
    """Change the plan, and leave a note about it."""
    return Decision(action="replan", final=note, thought=thought)


def ask(question: str, *, thought: str = "") -> Decision:
    """Ask the user a question."""
    return Decision(action="ask_user", final=question, thought=thought)


def reflection(patch: str = "Read the error before the next call.", **fields: Any) -> dict[str, Any]:
    """A complete reflection as a model writes it; `fields` replace the defaults.

    `reflection("Give the weekday.", memory_to_write=[{"kind": "rule", "text": "…"}])`
    """
    defaults = {
        "failure_signal": "tool_error",
        "root_cause": "tool_misuse",
        "explanation": "The call did not fit the tool.",
        "fix_strategy": [{"kind": "change_prompt", "text": "Say what the tool expects."}],
        "patch_prompt": patch,
        "memory_to_write": [],
        "confidence": 90,
    }
    return {**defaults, **fields}


# ------------------------------------------------------------ the message it becomes


def render(reply: Reply, question: Question, number: int) -> AIMessage:
    """The message for a reply; `number` gives the calls of a repeated question ids of their own."""
    if isinstance(reply, AIMessage):
        # A copy, because LangChain writes the run's id into the message.
        message = reply.model_copy(deep=True)
    elif isinstance(reply, str):
        message = AIMessage(content=reply)
    elif isinstance(reply, Decision):
        message = _decision_message(reply, question)
    elif isinstance(reply, Mapping):
        message = _data_message(dict(reply), question)
    elif isinstance(reply, BaseModel):
        message = _data_message(reply.model_dump(mode="json", exclude_unset=True), question)
    else:
        raise TypeError(f"A reply is text, a message, a decision, data or an exception, got {reply!r}")
    for index, tool_call in enumerate(message.tool_calls):
        tool_call["id"] = tool_call["id"] or _call_id(question, number, index)
    return message


def _decision_message(decision: Decision, question: Question) -> AIMessage:
    if question.in_json:
        return AIMessage(content=_to_json(_json_decision(decision)))
    if decision.action == "finish":
        return AIMessage(content=decision.final or "")
    made = decision.calls or [_control_call(decision, question)]
    return AIMessage(content=decision.thought, tool_calls=[ToolCall(**tool_call) for tool_call in made])


def _json_decision(decision: Decision) -> dict[str, Any]:
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


def _control_call(decision: Decision, question: Question) -> ToolCall:
    """A call of the control tool named like the action, which takes one text."""
    parameters = question.parameters(decision.action)
    if parameters is None:
        raise ValueError(f"`{decision.action}` needs a control tool of that name, got {question.tools}")
    names = parameters.get("required") or list(parameters.get("properties", {}))
    return ToolCall(name=decision.action, args=dict.fromkeys(names[:1], decision.final), id="")


def _data_message(data: dict[str, Any], question: Question) -> AIMessage:
    if question.forced:
        return AIMessage(content="", tool_calls=[ToolCall(name=question.forced, args=data, id="")])
    return AIMessage(content=_to_json(data))


def _to_json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _call_id(question: Question, number: int, index: int) -> str:
    """An id that the same conversation gives again, and no other question does."""
    story = "\n".join([str(number), str(index), *(text_of(message) for message in question.messages)])
    return f"call_{hashlib.sha256(story.encode(errors='replace')).hexdigest()[:16]}"


# ------------------------------------------------------------ the message streamed


def chunks_of(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Chunks that add up to the message: words, calls in halves, token counts last, as a provider streams them."""
    # Content of one message is either text or blocks in every chunk: mixed, they would not add up.
    empty: str | list[str | dict[str, object]] = "" if isinstance(message.content, str) else []
    yield AIMessageChunk(content=empty, additional_kwargs=message.additional_kwargs)
    if isinstance(message.content, str):
        for word in re.findall(r"\s*\S+|\s+$", message.content):
            yield AIMessageChunk(content=word)
    else:
        for block in message.content:
            yield AIMessageChunk(content=[block])
    for part in _call_chunks(message):
        yield AIMessageChunk(content=empty, tool_call_chunks=[part])
    yield AIMessageChunk(
        content=empty,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


def _call_chunks(message: AIMessage) -> Iterator[ToolCallChunk]:
    written = [(made["name"], made["id"], _to_json(made["args"])) for made in message.tool_calls]
    written += [(bad["name"] or "", bad["id"], bad["args"] or "") for bad in message.invalid_tool_calls]
    for index, (name, call_id, args) in enumerate(written):
        half = len(args) // 2
        yield tool_call_chunk(name=name, id=call_id, args="", index=index)
        for part in (args[:half], args[half:]):
            yield tool_call_chunk(args=part, index=index)
