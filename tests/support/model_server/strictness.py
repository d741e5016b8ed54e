"""What a provider refuses: requests that break the rules of the chat completions interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from model_server.schemas import fault_in_schema

FIELDS = (
    "frequency_penalty logit_bias logprobs max_completion_tokens max_tokens messages metadata modalities model n "
    "parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort "
    "response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice "
    "tools top_logprobs top_p user verbosity"
)
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}
PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Body = Mapping[str, Any]


def fault_in_request(body: Any, *, late_system: bool = False, text_only: bool = False) -> str | None:
    """Say what a provider would refuse in this request; `None` where it would answer.

    `late_system` allows system messages after the first other message; `text_only` stands for a
    provider that knows neither tools nor schemas.
    """
    if not isinstance(body, dict):
        return "The request is no JSON object"
    return next(_faults(body, late_system, text_only), None)


def _faults(body: Body, late_system: bool, text_only: bool) -> Iterator[str]:
    for key in body.keys() - FIELDS.split():
        yield f"Unknown field of the request: {key!r}"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "The request names no model"
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "`stream_options` is for streamed requests only"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "`messages` must be a list with at least one message"
        return
    for index, message in enumerate(messages):
        fault = next(_faults_in_message(message, f"messages[{index}]"), None)
        if fault:
            # What follows reads the messages, and may rely on their shape.
            yield fault
            return
    yield from _faults_in_order(messages, late_system)
    yield from _faults_in_tools(body)
    yield from _faults_in_form(body)
    if text_only:
        yield from _faults_of_text_only(body, messages)


def _faults_in_message(message: Any, at: str) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in MESSAGE_FIELDS:
        yield f"{at} has no known role: {str(message)[:80]}"
        return
    for key in message.keys() - MESSAGE_FIELDS[role]:
        yield f"{at} has an unknown field for the role {role!r}: {key!r}"
    name = message.get("name")
    if name is not None and (not isinstance(name, str) or not re.fullmatch(r"[^\s<|\\/>]{1,64}", name)):
        yield f"{at}.name must be up to 64 letters without white space or <|\\/>, got {name!r}"
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"{at} does not say which call it answers"
    if "tool_calls" in message:
        yield from _faults_in_calls(message["tool_calls"], at)
    content = message.get("content")
    if content is None:
        if not message.get("tool_calls") and not message.get("refusal"):
            yield f"{at} has no content"
    elif not isinstance(content, (str, list)):
        yield f"{at}.content is neither text nor a list of parts"
    elif not content and isinstance(content, list):
        yield f"{at}.content is an empty list"
    elif isinstance(content, list):
        known = PARTS.get(role, {"text"})
        for part in content:
            if not isinstance(part, dict) or part.get("type") not in known or part["type"] not in part:
                yield f"{at}.content has a part that the role {role!r} does not know: {str(part)[:80]}"


def _faults_in_calls(calls: Any, at: str) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield f"{at}.tool_calls must be a list with at least one call"
        return
    seen = set()
    for one in calls:
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict) or one.get("type") != "function":
            yield f"{at}.tool_calls has something that is no call: {str(one)[:80]}"
            return
        if not isinstance(one.get("id"), str) or not one["id"] or one["id"] in seen:
            yield f"{at}.tool_calls must have ids of their own, got {one.get('id')!r}"
        if not _is_name(function.get("name")):
            yield f"{at}.tool_calls has a bad name: {function.get('name')!r}"
        if not _is_object(function.get("arguments")):
            yield f"{at}.tool_calls has arguments that are no JSON object: {str(function.get('arguments'))[:80]}"
        seen.add(one["id"])


def _faults_in_order(messages: list[dict[str, Any]], late_system: bool) -> Iterator[str]:
    """Each call is answered once and right after; a system message comes before all others."""
    waiting: set[str] = set()
    begun = False
    for index, message in enumerate(messages):
        system = message["role"] in ("system", "developer")
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"messages[{index}] answers no open call: {message['tool_call_id']!r}"
            waiting.discard(message["tool_call_id"])
        elif waiting:
            yield f"messages[{index}] comes before the answers to {sorted(waiting)}"
        if system and begun and not late_system:
            yield f"messages[{index}] is a system message after the conversation began"
        begun = begun or not system
        waiting |= {one["id"] for one in message.get("tool_calls") or []}
    if waiting:
        yield f"The calls {sorted(waiting)} are not answered"


def _faults_in_tools(body: Body) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        for key in ("tool_choice", "parallel_tool_calls"):
            if body.get(key) is not None:
                yield f"`{key}` is for requests with tools only"
        return
    if not isinstance(tools, list) or not tools:
        yield "`tools` must be a list with at least one tool"
        return
    names: list[str] = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict) or function.keys() - {"name", "description", "parameters", "strict"}:
            yield f"`tools` has something that is no function: {str(tool)[:80]}"
            return
        name = function.get("name")
        if not _is_name(name) or name in names:
            yield f"`tools` must have names of their own, of up to 64 letters, digits, _ and -, got {name!r}"
        names.append(str(name))
        if "parameters" in function:
            fault = fault_in_schema(function["parameters"], strict=bool(function.get("strict")))
            if fault:
                yield f"The parameters of {name!r} are no good: {fault}"
    yield from _faults_in_choice(body.get("tool_choice"), names)


def _faults_in_choice(choice: Any, names: list[str]) -> Iterator[str]:
    if isinstance(choice, dict):
        wanted = choice.get("function", {}).get("name")
        if wanted not in names:
            yield f"`tool_choice` names a tool that is not there: {wanted!r}"
    elif choice not in (None, "auto", "none", "required"):
        yield f"`tool_choice` is auto, none, required or a function, got {choice!r}"


def _faults_in_form(body: Body) -> Iterator[str]:
    form = body.get("response_format")
    kind = form.get("type") if isinstance(form, dict) else None
    if form is None or kind == "text":
        return
    if kind == "json_object":
        if "json" not in str(body["messages"]).lower():
            yield "`response_format` json_object needs the word JSON in the messages"
    elif kind == "json_schema" and isinstance(form.get("json_schema"), dict):
        wanted = form["json_schema"]
        if not _is_name(wanted.get("name")):
            yield f"The schema of `response_format` has a bad name: {wanted.get('name')!r}"
        fault = fault_in_schema(wanted.get("schema"), strict=bool(wanted.get("strict")))
        if fault:
            yield f"Invalid schema for response_format: {fault}"
    else:
        yield f"`response_format` is text, json_object or json_schema, got {str(form)[:80]}"


def _faults_of_text_only(body: Body, messages: list[dict[str, Any]]) -> Iterator[str]:
    if body.get("tools") or any(one["role"] == "tool" or one.get("tool_calls") for one in messages):
        yield "This model does not support tools"
    if (body.get("response_format") or {}).get("type") == "json_schema":
        yield "'response_format' of type 'json_schema' is not supported with this model"


def _is_object(text: Any) -> bool:
    """Whether a server that reads the arguments of earlier calls can read these."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None
