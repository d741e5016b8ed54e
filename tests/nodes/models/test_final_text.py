"""The answer's text comes while the decision is being written, and no other field's text ever does."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_reflexion.nodes.models.decision_json import read_object
from langgraph_reflexion.nodes.models.streaming import FinalText
from langgraph_reflexion.schemas import Decision

END: dict[str, Any] = {"thought": "So.", "action": "finish", "tool": None, "tool_input": None, "final": "11:00 sharp"}
CALL: dict[str, Any] = {**END, "action": "tool_call", "tool": "search", "tool_input": {"final": "x"}, "final": None}


def heard(reply: str, size: int = 1) -> list[str]:
    """What comes for each piece."""
    final = FinalText()
    return [final.feed(reply[at : at + size]) for at in range(0, len(reply), size)]


@pytest.mark.req("I6")
def test_the_answer_comes_as_it_is_written() -> None:
    reply = json.dumps(END)
    pieces = heard(reply)
    assert "".join(pieces) == "11:00 sharp"
    assert max(map(len, pieces)) == 1
    assert pieces[reply.index("11:00")] == "1"


def test_an_answer_before_its_action_is_held_back_until_the_action_is_known() -> None:
    reply = '{"final": "11:00", "thought": "", "action": "finish", "tool": null, "tool_input": null}'
    final = FinalText()
    at = reply.index("finish") + len("finish")
    assert final.feed(reply[:at]) == ""
    assert final.feed(reply[at:]) == "11:00"


SILENT = {
    "a call": json.dumps(CALL),
    "a question": json.dumps({**END, "action": "ask_user"}),
    "a nested final": json.dumps({**END, "final": None, "tool_input": {"action": "finish", "final": "no"}}),
    "a nested object": json.dumps({"decision": END}),
    "an object in a list": json.dumps([END]),
    "an object in a string": json.dumps({**CALL, "thought": json.dumps(END)}),
    "an object in a comment": '{/* "action": "finish", "final": "no" */ "thought": ""}',
    "a draft": f"<think>{json.dumps(END)}",
    "an object inside a torn one": '{"note": oops {"action": "finish", "final": "no"}}',
    "prose": 'The "final" word on {it}: "final": "no"',
    "deep objects": '{"action": "finish", "a":' + '{"final": "no", "a":' * 5_000,
}


@pytest.mark.parametrize("reply", SILENT.values(), ids=SILENT.keys())
def test_text_that_is_not_an_answer_is_never_streamed(reply: str) -> None:
    assert "".join(heard(reply, 7)) == ""


WRITTEN = {
    "in a fence": f"```json\n{json.dumps(END)}\n```",
    "in prose": f"Well {{now}}, [1] it's: {json.dumps(END)} Bye.",
    "as Python": repr(END),
    "after reasoning": f" <think>or {json.dumps({**END, 'final': 'no'})}</think>{json.dumps(END)}",
    "after an example": f'{{"thought": "...", "action": "...", "final": "..."}} {json.dumps(END)}',
    "twice": json.dumps(END) * 2,
    "with comments": json.dumps(END).replace('"final"', '/* "final": "no" */ // {\n "final"'),
    "with bare keys": "{" + ", ".join(f"{name}: {json.dumps(one)}" for name, one in END.items()) + ",}",
    "with an input": json.dumps({**END, "tool_input": {"a": ["]", {"b": '"}'}], "c": {}}}),
}


@pytest.mark.parametrize("reply", WRITTEN.values(), ids=WRITTEN.keys())
def test_the_answer_is_found_in_what_models_really_write(reply: str) -> None:
    assert "".join(heard(reply)) == "11:00 sharp"


@pytest.mark.req("I6", "K5")
def test_endless_halves_of_characters_are_not_read_again_with_each_piece() -> None:
    final, began = FinalText(), time.process_time()
    final.feed(json.dumps(END).replace('11:00 sharp"}', ""))
    assert "".join(final.feed(r"\ud83d") for _ in range(5_000)) == "\N{REPLACEMENT CHARACTER}" * 4_999
    assert time.process_time() - began < 2


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.text(st.one_of(st.characters(), st.sampled_from("\"'\\{}[]/ud8🗓\n")), min_size=1),
    st.booleans(),
    st.permutations(list(END)),
    st.integers(1, 9),
)
def test_however_a_reply_is_cut_the_pieces_are_what_the_reader_reads(
    words: str, ascii_only: bool, order: list[str], size: int
) -> None:
    value = {**END, "thought": words, "final": words}
    reply = json.dumps({name: value[name] for name in order}, ensure_ascii=ascii_only)
    read = read_object(reply)
    if isinstance(read, Decision):
        assert "".join(heard(reply, size)) == read.final


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.text(st.sampled_from("\"'\\{}[]:,/*#\n ud8action final finish"), max_size=80), st.integers(1, 5))
def test_no_text_is_too_strange_to_be_fed(text: str, size: int) -> None:
    assert all(isinstance(piece, str) for piece in heard(text, size))
    reply = json.dumps(END).replace("So.", text)
    read = read_object(reply)
    if isinstance(read, Decision):
        assert "".join(heard(reply, size)) == read.final
