"""Parse a reply under the JSON protocol: one decision, or the reason why it is invalid."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from langchain_core.messages.tool import tool_call

from langgraph_reflexion.nodes.tools.arguments import short_json
from langgraph_reflexion.schemas import Action, Decision, Signal
from langgraph_reflexion.text.json_text import Parsed, UnreadableError, after_thinking, place, valid_text, values_in

FIELDS = ("thought", "action", "tool", "tool_input", "final")

_ACTION = re.compile(r"\baction\b[\"']?\s*:")
_FIELD = re.compile(rf"[\"'](?:{'|'.join(FIELDS)})[\"']\s*:")


@dataclass(frozen=True)
class Invalid:
    """Why a reply is invalid, in words that help the model correct it."""

    signal: Signal
    message: str
    tool: str | None = None


class _InvalidReplyError(Exception):
    """A reply that cannot be parsed, with the reason."""

    def __init__(self, message: str, signal: Signal = "parse_error") -> None:
        self.invalid = Invalid(signal, message)


def read_object(text: str, *, controls: Collection[str] = ("replan", "ask_user")) -> Decision | Invalid:
    """Return the only decision in a reply, or what is wrong with it. Never raises.

    Prose, fences, comments, trailing commas and Python's spelling are ignored. An ambiguous reply is refused: two
    different decisions, a key given twice, a decision in or after an object that cannot be read. The call of a decision
    has no id yet.
    """
    try:
        return _decision(_only_decision(after_thinking(valid_text(text))), controls)
    except _InvalidReplyError as error:
        return error.invalid
    except UnreadableError as error:
        return Invalid("parse_error", f"The reply cannot be read: {error}.")


def names_a_field(text: str) -> bool:
    """Return whether something in a reply is written as a field of a decision. Without braces, `action:` is prose."""
    return _FIELD.search(text) is not None or ("{" in text and _ACTION.search(text) is not None)


# ---------------------------------------------------------------- finding the decision


def _only_decision(text: str) -> dict[str, Any]:
    """Return the only decision in a reply. Repeated ones count once, and examples of the format do not count."""
    candidates = _candidates(text)
    # A single object is checked as it is. Among several, data and examples are separated from decisions.
    meant = [value for value in candidates if _looks_like_a_decision(value.value)] or candidates
    meant = [value for value in meant if not _is_example(value.value)] or meant
    for value in meant:
        if value.duplicate_key is not None:
            message = f"The reply is ambiguous: the key `{value.duplicate_key}` is given twice in one object."
            raise _InvalidReplyError(message, "rule_violation")
    if len({json.dumps(value.value, sort_keys=True) for value in meant}) > 1:
        message = "The reply is ambiguous: it contains several different objects; write exactly one."
        raise _InvalidReplyError(message, "rule_violation")
    return dict(meant[0].value)


def _candidates(text: str) -> list[Parsed]:
    """Return the objects that have at least one of a decision's fields.

    A reply with a truncated decision, or with a field outside any object, is refused, because the decision is unclear.
    """
    found: list[Parsed] = []
    at, outside = 0, ""
    for value in values_in(text):
        if isinstance(value, Parsed):
            outside += text[at : value.start] + " "
            at = value.end
            found.append(value)
        elif (
            (value.certain and not _with_fields(found))
            or value.keys & set(FIELDS)
            or _ACTION.search(text, value.start, value.end)
        ):
            raise _InvalidReplyError(f"The reply cannot be read: {value.why} ({place(text, value.at)}).")
    candidates = _with_fields(found)
    if candidates and (piece := _FIELD.search(outside + text[at:])):
        raise _InvalidReplyError(f"The reply cannot be read: {piece[0]} is outside any object.")
    if not candidates:
        no_fields = f"no object in it has the fields {', '.join(FIELDS)} at its top level"
        missing = no_fields if found else "there is no JSON object in it"
        raise _InvalidReplyError(f"The reply cannot be read: {missing}.")
    return candidates


def _with_fields(found: list[Parsed]) -> list[Parsed]:
    return [value for value in found if isinstance(value.value, dict) and not value.value.keys().isdisjoint(FIELDS)]


def _looks_like_a_decision(value: dict[str, Any]) -> bool:
    fields = sum(name in value for name in FIELDS)
    return fields >= 3 or ("action" in value and fields >= 2)


def _is_example(value: dict[str, Any]) -> bool:
    """Return whether the object is only an example, with placeholders as values."""
    action = value.get("action")
    if isinstance(action, str) and "|" in action:
        return True
    if any(_is_placeholder(value.get(name)) for name in ("action", "tool", "final")):
        return True
    arguments = json.dumps(value.get("tool_input"), ensure_ascii=False)
    return _is_placeholder(value.get("thought")) and ('"..."' in arguments or '"…"' in arguments)


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.strip() in ("..", "...", "....", "…")


# ---------------------------------------------------------------- its rules


def _decision(value: dict[str, Any], controls: Collection[str]) -> Decision:
    if faults := list(_faults(value, controls)):
        raise _InvalidReplyError("; ".join(faults) + ".", "rule_violation")
    action: Action = value["action"]
    thought = value["thought"] or ""
    if action == "tool_call":
        call = tool_call(name=value["tool"], args=value["tool_input"], id="")
        return Decision(thought=thought, action=action, calls=[call])
    return Decision(thought=thought, action=action, final=value["final"])


def _faults(value: dict[str, Any], controls: Collection[str]) -> Iterator[str]:
    missing = [name for name in FIELDS if name not in value]
    if missing:
        yield "missing: " + ", ".join(f"`{name}`" for name in missing) + "; all five fields are required"
    if not isinstance(value.get("thought", ""), str | None):
        yield f"`thought` must be a string, got {short_json(value['thought'])}"
    if "action" not in value:
        return
    action = value["action"]
    allowed = ["tool_call", "finish", *controls]
    if action not in allowed:
        yield f"`action` must be one of {', '.join(allowed)}, got {short_json(action)}"
    elif action == "tool_call":
        yield from _call_faults(value)
    else:
        yield from _final_faults(value, action)
    if not missing and _is_example(value):
        yield "the object only shows the format: replace the placeholders with real values"


def _call_faults(value: dict[str, Any]) -> Iterator[str]:
    tool = value.get("tool", "-")
    if not isinstance(tool, str) or not tool.strip():
        yield f"with `action` tool_call, `tool` must be the name of a tool, got {short_json(tool)}"
    if not isinstance(value.get("tool_input", {}), dict):
        yield f"with `action` tool_call, `tool_input` must be an object, got {short_json(value['tool_input'])}"
    if value.get("final") is not None:
        got = short_json(value["final"])
        yield f"with `action` tool_call, `final` must be null, got {got}: first see what the tool returns"


def _final_faults(value: dict[str, Any], action: str) -> Iterator[str]:
    for name in ("tool", "tool_input"):
        if value.get(name) is not None:
            yield f"with `action` {action}, `{name}` must be null, got {short_json(value[name])}"
    final = value.get("final", "-")
    if not isinstance(final, str):
        yield f"with `action` {action}, `final` must be a string, got {short_json(final)}"
    elif not final.strip():
        yield f"with `action` {action}, `final` must say something, got an empty string"
