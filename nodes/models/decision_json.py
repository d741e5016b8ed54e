"""Read what a model wrote under the JSON protocol: one decision, or the reason why it cannot stand."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from langchain_core.messages.tool import tool_call

from langgraph_reflexion.nodes.tools.arguments import told
from langgraph_reflexion.schemas import Action, Decision, Signal
from langgraph_reflexion.text.json_text import (
    TangledError,
    Torn,
    Whole,
    only_value,
    place,
    values_in,
    whole,
)

NOTHING = "The reply cannot be read: there is no JSON object in it."

_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_THINKING, _THOUGHT = "<think>", "</think>"


@dataclass(frozen=True)
class Invalid:
    """Why a reply cannot stand, in words the model can mend it by."""

    signal: Signal
    message: str
    tool: str | None = None


def read_json(text: str) -> Any | Invalid:
    """Return the JSON value in a reply, read as leniently as a decision, or why there is none; never raises.

    A reply that is nothing but one value gives that value, of any shape. Otherwise the largest object in a fence
    counts, else the largest object side by side with prose, else the largest list. A key given twice is refused.
    """
    text = whole(text)
    try:
        text = after_thinking(text)
        found = _whole_value(text) or _largest(_fenced(text))
        if found is None:
            spread = list(values_in(text))
            torn = [one for one in spread if isinstance(one, Torn) and one.certain]
            if torn:
                return unreadable(text, torn[0])
            found = _largest(one for one in spread if isinstance(one, Whole))
    except TangledError as error:
        return Invalid("parse_error", f"The reply cannot be read: {error}.")
    if found is None:
        return Invalid("parse_error", NOTHING)
    return found.value if found.twice is None else twice(found.twice)


def after_thinking(text: str) -> str:
    """Drop the block of reasoning some models write first: a decision drafted in it is not one."""
    if not text.lstrip().startswith(_THINKING):
        return text
    _, end, rest = text.partition(_THOUGHT)
    if not end:
        raise TangledError(f"it ends inside {_THINKING}")
    return rest


def twice(key: str) -> Invalid:
    """That one object gives a key twice."""
    return Invalid("rule_violation", f"The reply is ambiguous: the key `{key}` is given twice in one object.")


def unreadable(text: str, torn: Torn) -> Invalid:
    """That something cannot be read on, why, and where."""
    return Invalid("parse_error", f"The reply cannot be read: {torn.why} ({place(text, torn.at)}).")


def _whole_value(text: str) -> Whole | None:
    found = only_value(text)
    return found if isinstance(found, Whole) else None


def _fenced(text: str) -> Iterator[Whole]:
    """Yield the values that fill a code fence."""
    for fence in _FENCE.finditer(text):
        if found := _whole_value(fence[1]):
            yield found


def _largest(found: Iterator[Whole]) -> Whole | None:
    """Return the longest object, or where there is none the longest list."""
    return max(
        (one for one in found if isinstance(one.value, dict | list)),
        key=lambda one: (isinstance(one.value, dict), one.end - one.start),
        default=None,
    )


FIELDS = ("thought", "action", "tool", "tool_input", "final")

_PLACEHOLDER = re.compile(r"\s*(?:\.{2,}|…)\s*")
_ACTION = re.compile(r"\baction\b[\"']?\s*:")
_PIECE = re.compile(rf"[\"'](?:{'|'.join(FIELDS)})[\"']\s*:")


def read_object(text: str, *, controls: Collection[str] = ("replan", "ask_user")) -> Decision | Invalid:
    """Return the one decision in a reply, or what is wrong with it; never raises.

    Prose, fences, comments, trailing commas and Python's spelling are read past. A reply that could be meant in two
    ways is refused: two different decisions, a key given twice, a decision in or after an object that cannot be read.
    The call of a decision has no id yet.
    """
    text = whole(text)
    try:
        candidates = _candidates(after_thinking(text))
        if isinstance(candidates, Invalid):
            return candidates
        chosen = _the_one(candidates)
        return chosen if isinstance(chosen, Invalid) else _decision(chosen, controls)
    except TangledError as error:
        return Invalid("parse_error", f"The reply cannot be read: {error}.")


def names_a_field(text: str) -> bool:
    """Say whether something in a reply is written as a decision's field."""
    return _PIECE.search(text) is not None or _ACTION.search(text) is not None


def _candidates(text: str) -> list[Whole] | Invalid:
    """Return the objects that hold at least one of a decision's fields.

    What is torn hides no decision, neither around one nor, cut or misspelt, as a second one beside it.
    """
    found: list[Whole] = []
    at, beside = 0, ""
    for one in values_in(text):
        if isinstance(one, Whole):
            beside += text[at : one.start] + " "
            at = one.end
            found.append(one)
        elif (
            (one.certain and not _with_fields(found))
            or one.keys & set(FIELDS)
            or _ACTION.search(text, one.start, one.end)
        ):
            return unreadable(text, one)
    candidates = _with_fields(found)
    if candidates and (piece := _PIECE.search(beside + text[at:])):
        return Invalid("parse_error", f"The reply cannot be read: {piece[0]} stands outside of any object.")
    if candidates:
        return candidates
    if found:
        return Invalid(
            "parse_error", f"The reply cannot be read: it holds no object with the fields {', '.join(FIELDS)}."
        )
    return Invalid("parse_error", NOTHING)


def _with_fields(found: list[Whole]) -> list[Whole]:
    return [one for one in found if isinstance(one.value, dict) and not one.value.keys().isdisjoint(FIELDS)]


def _the_one(candidates: list[Whole]) -> dict[str, Any] | Invalid:
    """Return the only decision among the candidates: repeated ones count once, examples of the form not at all."""
    # A lone object is judged for what it is; beside others, data and examples are told from decisions.
    meant = [one for one in candidates if _means_a_decision(one.value)] or candidates
    meant = [one for one in meant if not _is_example(one.value)] or meant
    if given_twice := next((one.twice for one in meant if one.twice is not None), None):
        return twice(given_twice)
    different = {json.dumps(one.value, sort_keys=True) for one in meant}
    if len(different) > 1:
        return Invalid(
            "rule_violation", "The reply is ambiguous: it holds several different objects; write exactly one."
        )
    return dict(meant[0].value)


def _means_a_decision(value: dict[str, Any]) -> bool:
    fields = sum(name in value for name in FIELDS)
    return fields >= 3 or ("action" in value and fields >= 2)


def _is_example(value: dict[str, Any]) -> bool:
    """Say whether the object shows the form only, its values being placeholders."""
    action = value.get("action")
    if isinstance(action, str) and "|" in action:
        return True
    if any(_is_placeholder(value.get(name)) for name in ("action", "tool", "final")):
        return True
    return _is_placeholder(value.get("thought")) and any(map(_is_placeholder, _leaves(value.get("tool_input"))))


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def _leaves(value: Any) -> Iterator[Any]:
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if below is None:
        yield value
    else:
        for one in below:
            yield from _leaves(one)


def _decision(value: dict[str, Any], controls: Collection[str]) -> Decision | Invalid:
    faults = list(_faults(value, controls))
    if faults:
        return Invalid("rule_violation", "; ".join(faults) + ".")
    action: Action = value["action"]
    thought = value["thought"] or ""
    if action == "tool_call":
        one = tool_call(name=value["tool"], args=value["tool_input"], id="")
        return Decision(thought=thought, action=action, calls=[one])
    return Decision(thought=thought, action=action, final=value["final"])


def _faults(value: dict[str, Any], controls: Collection[str]) -> Iterator[str]:
    missing = [name for name in FIELDS if name not in value]
    if missing:
        yield "missing: " + ", ".join(f"`{name}`" for name in missing) + "; all five fields are required"
    if not isinstance(value.get("thought", ""), str | None):
        yield f"`thought` must be a string, got {told(value['thought'])}"
    if "action" not in value:
        return
    action = value["action"]
    allowed = [one for one in get_args(Action) if one in ("tool_call", "finish") or one in controls]
    if action not in allowed:
        yield f"`action` must be one of {', '.join(allowed)}, got {told(action)}"
    elif action == "tool_call":
        yield from _call_faults(value)
    else:
        yield from _said_faults(value, action)
    if not missing and _is_example(value):
        yield "the object shows only the form: put real values in place of the placeholders"


def _call_faults(value: dict[str, Any]) -> Iterator[str]:
    tool = value.get("tool", "-")
    if not isinstance(tool, str) or not tool.strip():
        yield f"with `action` tool_call, `tool` must be the name of a tool, got {told(tool)}"
    if not isinstance(value.get("tool_input", {}), dict):
        yield f"with `action` tool_call, `tool_input` must be an object, got {told(value['tool_input'])}"
    if value.get("final") is not None:
        said = told(value["final"])
        yield f"with `action` tool_call, `final` must be null, got {said}: first see what the tool returns"


def _said_faults(value: dict[str, Any], action: str) -> Iterator[str]:
    for name in ("tool", "tool_input"):
        if value.get(name) is not None:
            yield f"with `action` {action}, `{name}` must be null, got {told(value[name])}"
    final = value.get("final", "-")
    if not isinstance(final, str):
        yield f"with `action` {action}, `final` must be a string, got {told(final)}"
    elif not final.strip():
        yield f"with `action` {action}, `final` must say something, got an empty string"
