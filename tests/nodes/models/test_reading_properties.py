"""Over thousands of damaged replies the reader never raises, and never makes a call that does not stand there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langgraph_reflexion.nodes.models.decision_json import Invalid, read_object
from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.text.json_text import JsonError, read_json

CALL: dict[str, Any] = {
    "thought": "Look it up.",
    "action": "tool_call",
    "tool": "search",
    "tool_input": {"query": "Tuesday", "rooms": [1, {"floor": 2}], "near": None},
    "final": None,
}
OTHER: dict[str, Any] = {**CALL, "tool": "book", "tool_input": {"hour": 11}}
END: dict[str, Any] = {"thought": "So.", "action": "finish", "tool": None, "tool_input": None, "final": "11:00"}
QUOTED = {**END, "thought": f"I could say {CALL!r}"}
REPLIES = [
    json.dumps(CALL),
    json.dumps(CALL, indent=2),
    repr(CALL),
    f"```json\n{json.dumps(CALL)}\n```",
    f"Let's see: {json.dumps(CALL)} That's [all] {{now}}.",
    f"{json.dumps(CALL)}\n{json.dumps(OTHER)}",
    f"{json.dumps(CALL)}\nObservation: {{'free': [11]}}\n{json.dumps(END)}",
    f"{json.dumps(OTHER)}\n{json.dumps(OTHER)}",
    json.dumps(END),
    json.dumps(QUOTED),
    json.dumps({"plan": CALL, "note": "x"}),
    'The form is {"thought": "...", "action": "...", "tool": "...", "tool_input": {}, "final": null}: '
    + json.dumps(OTHER),
    json.dumps(CALL).replace('"action"', '/* {"tool": 1} */ "action"').replace("}}", "}, # so\n}"),
]
TORN = [*"{}[]:,\"'/*#\n `x1-.", "{{", "}}", "null", "None", "```", "...", '"tool": "book", ', "'tool': 'book', "]
TORN += ['"tool_input": {}', '"action": "tool_call", ', "<think>", "</think>", "\x00", "周二", "\ud800"]
PIECES = [*TORN, json.dumps(OTHER), repr(CALL)]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A reply with some of it cut, doubled, moved or put in."""
    text = draw(st.sampled_from(REPLIES))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.sampled_from([1, 1, 1, 2, 5, 20, 80])))
        text = draw(
            st.sampled_from(
                [
                    text[:at] + text[end:],
                    text[:end] + text[at:],
                    text[end:] + text[:end],
                    text[:at] + draw(st.sampled_from(PIECES)) + text[at:],
                    text[:at] + text[at:end].replace('"', "'") + text[end:],
                    text[:at],
                ]
            )
        )
    return text


TOKEN = re.compile(
    r"\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<blank>\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)|(?P<name>[A-Za-z_]\w*)|.",
    re.DOTALL,
)
WORDS = {"None": "null", "True": "true", "False": "false"}


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Every object of the text however deep or quoted, read in another way: spelt anew as JSON, and read as that."""
    for start in (at for at, char in enumerate(text) if char == "{"):
        spelt = ""
        for token in TOKEN.finditer(text, start):
            if token["double"] is not None or token["single"] is not None:
                spelt += json.dumps(token["double"] if token["double"] is not None else token["single"])
            elif token["name"]:
                bare_key = spelt[-1:] in "{," and token["name"] not in ("null", "true", "false")
                spelt += json.dumps(token["name"]) if bare_key else WORDS.get(token["name"], token["name"])
            elif not token["blank"]:
                spelt = spelt.removesuffix(",") + token[0] if token[0] in "}]" else spelt + token[0]
            if token[0] == "}":
                try:
                    yield json.loads(spelt)
                except ValueError:
                    continue


def undamaged(value: Any) -> Any:
    """A value as the reader gives it, so that both can be compared."""
    return json.loads(json.dumps(value).replace("\\ud800", "\\ufffd"))


@pytest.mark.slow
@pytest.mark.req("B9", "A3")
@settings(derandomize=True, deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_a_damaged_reply_is_refused_or_read_as_it_stands(text: str) -> None:
    read = read_object(text)
    with suppress(JsonError):
        read_json(text)
    assert isinstance(read, Decision | Invalid)
    if isinstance(read, Invalid):
        assert read.signal in ("parse_error", "rule_violation")
        assert 0 < len(read.message) < 1_000
    elif read.calls:
        wanted = {
            "action": "tool_call",
            "tool": read.calls[0]["name"],
            "tool_input": read.calls[0]["args"],
            "final": None,
        }
        assert any({**one, **wanted} == one for one in map(undamaged, objects_in(text))), read.calls


@pytest.mark.slow
@pytest.mark.req("B9")
@settings(derandomize=True, deadline=None, max_examples=700)
@given(
    st.integers(0, 2_000),
    st.sampled_from(["", *TORN]),
    st.integers(0, 3),
    st.sampled_from(["thought", "final"]),
    st.booleans(),
)
def test_a_quoted_call_stays_quoted_whatever_is_damaged_around_it(
    place: int, piece: str, gone: int, field: str, in_python: bool
) -> None:
    quoted = repr(CALL) if in_python else json.dumps(json.dumps(CALL))[1:-1]
    reply = json.dumps({**END, field: "I could say QUOTED but will not"})
    at = place % len(reply)
    text = (reply[:at] + piece + reply[at + gone :]).replace("QUOTED", quoted)
    read = read_object(text)
    assert isinstance(read, Invalid) or not read.calls


@pytest.mark.slow
@pytest.mark.req("B9", "A3")
@settings(derandomize=True, deadline=None, max_examples=700)
@given(st.one_of(st.text(), st.text(st.sampled_from("{}[]:,\"'\\/*# \nuNone1e.-x\ud800"), max_size=200)))
def test_no_text_is_too_strange_to_be_answered(text: str) -> None:
    assert isinstance(read_object(text), Invalid)
    with suppress(JsonError):
        read_json(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("B9", "B3")
@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(), PLAIN, max_size=4), st.text(), st.booleans())
def test_every_input_survives_the_way_from_json(args: dict[str, Any], thought: str, ascii_only: bool) -> None:
    reply = json.dumps({**CALL, "thought": thought, "tool_input": args}, ensure_ascii=ascii_only)
    read = read_object(f"So:\n```json\n{reply}\n```")
    if isinstance(read, Invalid):
        assert "..." in thought or "…" in thought
    else:
        assert read.calls[0]["args"] == args
        assert read.thought == thought
