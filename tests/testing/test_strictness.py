"""Each rule of a provider refuses a request that breaks it, and no other."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from model_server.schemas import fault_in_schema
from model_server.strictness import fault_in_request

Body = dict[str, Any]
SCHEMA: Body = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
CALL: Body = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
GOOD: Body = {
    "model": "local-model",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "When?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "2"}]},
        {"role": "tool", "tool_call_id": "2", "content": "twelve"},
        {"role": "tool", "tool_call_id": "1", "content": "eleven"},
        {"role": "assistant", "content": "11:00"},
        {"role": "user", "content": "Thanks.", "name": "Ada"},
    ],
    "tools": [{"type": "function", "function": {"name": "search", "description": "Find.", "parameters": SCHEMA}}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_schema", "json_schema": {"name": "Slot", "schema": SCHEMA}},
}


def broken(path: str, value: Any) -> Body:
    """The good request with one place changed; `…` removes it."""
    body = deepcopy(GOOD)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = body
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return body


def test_a_good_request_is_answered() -> None:
    assert fault_in_request(GOOD) is None


STRICT = {**SCHEMA, "additionalProperties": False}
FUNCTION = "tools.0.function"
WRONG: list[tuple[str, Any, str]] = [
    ("top_k", 3, "Unknown field of the request: 'top_k'"),
    ("model", ..., "names no model"),
    ("messages", [], "at least one message"),
    ("messages", "When?", "at least one message"),
    ("stream", False, "for streamed requests only"),
    ("messages.1", "When?", "no known role"),
    ("messages.1.role", "human", "no known role"),
    ("messages.1.role", ["user"], "no known role"),
    ("messages.1.id", "7", "unknown field for the role 'user': 'id'"),
    ("messages.1.name", "Ada L.", "without white space"),
    ("messages.1.content", None, r"messages\[1\] has no content"),
    ("messages.5.content", ..., r"messages\[5\] has no content"),
    ("messages.1.content", 7, "neither text nor a list"),
    ("messages.1.content", [], "empty list"),
    ("messages.1.content", [{"type": "thinking", "thinking": "Hm."}], "part that the role 'user' does not know"),
    ("messages.3.content", [{"type": "image_url", "image_url": {}}], "part that the role 'tool' does not know"),
    ("messages.1.content", [{"type": "text"}], "does not know"),
    ("messages.3.tool_call_id", ..., "which call it answers"),
    ("messages.2.tool_calls", [], "at least one call"),
    ("messages.2.tool_calls.0", "search", "no call"),
    ("messages.2.tool_calls.0.type", "tool_call", "no call"),
    ("messages.2.tool_calls.0.id", "", "ids of their own"),
    ("messages.2.tool_calls.0.id", "2", "ids of their own, got '2'"),
    ("messages.2.tool_calls.0.function.name", "find it", "bad name"),
    ("messages.2.tool_calls.0.function.arguments", {}, "no JSON object"),
    ("messages.3", ..., "comes before the answers to"),
    ("messages.4.tool_call_id", "2", r"messages\[4\] answers no open call: '2'"),
    ("messages.4.tool_call_id", "9", "answers no open call"),
    ("messages.2", {"role": "assistant", "content": "Hm."}, "answers no open call"),
    ("messages.6", {"role": "assistant", "tool_calls": [CALL]}, "are not answered"),
    ("messages.6", {"role": "system", "content": "Be brief."}, "system message after"),
    ("messages.6", {"role": "developer", "content": "Be brief."}, "system message after"),
    ("tools", ..., "for requests with tools only"),
    ("tools", [], "at least one tool"),
    ("tools.0", {"type": "web_search"}, "no function"),
    (f"{FUNCTION}.args", {}, "no function"),
    (f"{FUNCTION}.name", "find it", "names of their own"),
    ("tools", [GOOD["tools"][0]] * 2, "names of their own.*'search'"),
    (f"{FUNCTION}.parameters", {"type": "string"}, "The parameters of 'search' are no good"),
    (f"{FUNCTION}.strict", True, "additionalProperties must be false"),
    ("tool_choice", "any", "auto, none, required or a function"),
    ("tool_choice", {"type": "function", "function": {"name": "rooms"}}, "not there: 'rooms'"),
    ("response_format", {"type": "xml"}, "text, json_object or json_schema"),
    ("response_format", {"type": "json_object"}, "needs the word JSON"),
    ("response_format.json_schema.name", "A slot", "bad name"),
    ("response_format.json_schema.schema", {"type": "array", "items": {}}, "Invalid schema for response_format"),
    ("response_format.json_schema.strict", True, "additionalProperties must be false"),
]


@pytest.mark.parametrize(("path", "value", "reason"), WRONG)
def test_a_broken_rule_is_refused_with_its_reason(path: str, value: Any, reason: str) -> None:
    fault = fault_in_request(broken(path, value))
    assert fault is not None
    assert re.search(reason, fault)


@pytest.mark.parametrize("body", [None, [], "x", 7])
def test_a_body_that_is_not_an_object_is_refused(body: Any) -> None:
    assert fault_in_request(body) == "The request is no JSON object"


def test_rules_that_some_providers_relax_can_be_relaxed() -> None:
    late = broken("messages.6", {"role": "system", "content": "Be brief."})
    assert fault_in_request(late, late_system=True) is None
    text = {"model": "m", "messages": [{"role": "user", "content": "When?"}]}
    assert fault_in_request(text, text_only=True) is None
    assert fault_in_request(GOOD, text_only=True) == "This model does not support tools"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"type": "text"}, "not one of JSON's types: 'text'"),
        ({"type": "array"}, "array without items"),
        ({"type": ["array", "null"]}, "array without items"),
        ({"type": "array", "items": {"type": "date"}}, "items.type"),
        ({"enum": []}, "no list of values"),
        ({"$ref": "#/$defs/Nowhere"}, "leads nowhere"),
        ({"$ref": "https://example.com/schema"}, "leads nowhere"),
        ({"anyOf": []}, "no list of schemas"),
        ({"anyOf": [{"type": "string"}, 7]}, "no schema: 7"),
        ({"type": "object", "properties": []}, "properties is no object"),
        ({"type": "object", "required": "query"}, "no list of names"),
        ("string", "no schema"),
    ],
)
def test_a_fault_deep_in_a_schema_is_found_and_named(part: Any, reason: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": part}}}}
    found = fault_in_schema(schema)
    assert found is not None
    assert "schema.properties.a.properties.b" in found
    assert reason in found


def test_a_schema_that_refers_to_itself_is_fine() -> None:
    tree = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}}}
    assert fault_in_schema({**tree, "$defs": {"Tree": tree}}) is None
    assert fault_in_schema(STRICT, strict=True) is None
    assert "name every property" in str(fault_in_schema({**STRICT, "required": []}, strict=True))
