"""The JSON protocol: what models really write is read, what is wrong is named, what is ambiguous never runs."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest

from langgraph_reflexion.nodes.models.decision_json import FIELDS, Invalid, read_object
from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.text.json_text import JsonError, read_json


def made(
    action: str, tool: str | None = None, tool_input: Any = None, final: Any = None, thought: str = "So."
) -> dict[str, Any]:
    return {"thought": thought, "action": action, "tool": tool, "tool_input": tool_input, "final": final}


CALL = made("tool_call", "search", {"query": "Tuesday"})
OTHER = made("tool_call", "search", {"query": "Friday"})
END = made("finish", final="11:00")
RAW = json.dumps(CALL)
FORM = '{"thought": "...", "action": "...", "tool": "...", "tool_input": {}, "final": null}'


def called(reply: str) -> tuple[str, Any] | None:
    """The call that a reply asks for, if it is one."""
    read = read_object(reply)
    return (read.calls[0]["name"], read.calls[0]["args"]) if isinstance(read, Decision) and read.calls else None


def refused(reply: str, **controls: Any) -> Invalid:
    read = read_object(reply, **controls)
    assert isinstance(read, Invalid), read
    return read


# ---------------------------------------------------------------- what is read

WRITTEN = {
    "plain": RAW,
    "indented": json.dumps(CALL, indent=4),
    "in a fence": f"```json\n{RAW}\n```",
    "in a fence without a language": f"```\n{RAW}\n```",
    "in a fence that is not closed": f"```json\n{RAW}",
    "in prose": f"I will look it up.\n{RAW}\nThat should do.",
    "in prose with brackets": f"[1] says {{nothing}} of [it]; see (a) and {{x: y}}. {RAW}",
    "after an apostrophe": f"Let's see what's there: {RAW}",
    "after a list of notes": f"- [ ] ask\n- [x] look [#3]\n{RAW}",
    "with trailing commas": RAW.replace('"Tuesday"}', '"Tuesday",}').replace("null}", "null,}"),
    "as Python": repr(CALL),
    "with Python's words": RAW.replace("null", "None"),
    "with comments": RAW.replace('"action"', '/* now */ "action"').replace('"final"', '// nothing yet\n "final"'),
    "with bare keys": "{" + ", ".join(f"{name}: {json.dumps(one)}" for name, one in CALL.items()) + "}",
    "twice": f"{RAW}\n{RAW}",
    "twice, ordered otherwise": f"{RAW}\n{json.dumps(dict(reversed(CALL.items())))}",
    "in doubled braces": f"{{{RAW}}}",
    "after reasoning": f"<think>First I thought {json.dumps(OTHER)}, but no.</think>\n{RAW}",
    "after data": f'The calendar said {{"rooms": [1, 2]}}, so: {RAW}',
    "before what it imagines": f"{RAW}\nObservation: {{'rooms': [1, 2, ...",
    "beside an example of the form": f"The form is {FORM}. Mine:\n{RAW}",
    "before an example of the form": f"{RAW}\nas in {FORM}",
    "beside another example": FORM.replace('"...", "tool": "..."', '"tool_call|finish", "tool": null') + RAW,
    "with a field too many": RAW.replace("null}", 'null, "confidence": 80}'),
    "with a mark of the byte order": "\ufeff" + RAW,
}


@pytest.mark.req("B9", "B1", "B3")
@pytest.mark.parametrize("reply", WRITTEN.values(), ids=WRITTEN.keys())
def test_replies_that_models_really_write_are_parsed(reply: str) -> None:
    assert called(reply) == ("search", {"query": "Tuesday"})


@pytest.mark.req("B2", "B4")
@pytest.mark.parametrize("action", ["finish", "replan", "ask_user"])
def test_every_other_action_says_its_text(action: str) -> None:
    read = read_object(json.dumps(made(action, final="11:00?")))
    assert read == Decision(thought="So.", action=action, final="11:00?")  # type: ignore[arg-type]


@pytest.mark.req("B9")
@pytest.mark.parametrize("ascii_only", [True, False])
def test_text_of_any_language_and_escape_survives(ascii_only: bool) -> None:
    words = '周二 "quoted" \\ back\nnew\tline — ünïcode 🗓 \\d+ </p> ' + "'single'"
    reply = json.dumps(made("tool_call", "search", {"query": words, words: [words]}), ensure_ascii=ascii_only)
    assert called(reply) == ("search", {"query": words, words: [words]})


@pytest.mark.req("B9")
def test_escapes_that_json_does_not_know_stand_for_themselves() -> None:
    assert called(RAW.replace("Tuesday", r"\d+ it\'s \u00e9 \uZZ")) == ("search", {"query": r"\d+ it's é \uZZ"})


@pytest.mark.req("B9")
def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    for reply in (
        RAW.replace("Tuesday", r"a\ud800b\ud83d\uddd3\udc00"),
        RAW.replace("Tuesday", "a\ud800b\ud83d\uddd3\udc00"),
    ):
        assert called(reply) == ("search", {"query": "a\ufffdb🗓\ufffd"})


# ---------------------------------------------------------------- what is wrong, and named

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    **{f"no {name}": ({key: one for key, one in CALL.items() if key != name}, f"`{name}`") for name in FIELDS},
    "an unknown action": ({**CALL, "action": "dance"}, "dance"),
    "an action that is no word": ({**CALL, "action": {"tool": "search"}}, "`action`"),
    "an empty action": ({**CALL, "action": ""}, "`action`"),
    "no tool to call": ({**CALL, "tool": None}, "`tool`"),
    "a tool without a name": ({**CALL, "tool": " "}, "`tool`"),
    "a tool that is no name": ({**CALL, "tool": ["search"]}, "`tool`"),
    "an input that is a text": ({**CALL, "tool_input": "Tuesday"}, "`tool_input`"),
    "an input that is a list": ({**CALL, "tool_input": ["Tuesday"]}, "`tool_input`"),
    "no input": ({**CALL, "tool_input": None}, "`tool_input`"),
    "a call with a final": ({**CALL, "final": "11:00"}, "`final`"),
    "an answer with a tool": ({**END, "tool": "search"}, "`tool`"),
    "an answer with an input": ({**END, "tool_input": {"query": "x"}}, "`tool_input`"),
    "an answer with an empty input": ({**END, "tool_input": {}}, "`tool_input`"),
    "an answer without a text": ({**END, "final": None}, "`final`"),
    "an answer that says nothing": ({**END, "final": " "}, "`final`"),
    "an answer that is a number": ({**END, "final": 11}, "`final`"),
    "a thought that is a list": ({**END, "thought": ["so"]}, "`thought`"),
    "only the form": (json.loads(FORM), "placeholders"),
    "only an example of an answer": ({**END, "final": "..."}, "placeholders"),
    "only an example of a call": (made("tool_call", "search", {"query": "..."}, thought="…"), "placeholders"),
}


@pytest.mark.req("B1", "B2", "B3", "B4", "B9")
@pytest.mark.parametrize(("reply", "named"), WRONG.values(), ids=WRONG.keys())
def test_a_decision_that_breaks_a_rule_is_refused_by_the_name_of_its_fault(reply: dict[str, Any], named: str) -> None:
    read = refused(json.dumps(reply))
    assert read.signal == "rule_violation"
    assert named in read.message
    assert len(read.message) < 400


@pytest.mark.req("B2")
def test_every_fault_is_named_at_once() -> None:
    message = refused(json.dumps({**CALL, "tool": None, "tool_input": None, "final": "x"})).message
    assert all(f"`{name}` must" in message for name in ("tool", "tool_input", "final"))


@pytest.mark.req("B2")
def test_a_control_that_was_left_out_is_refused_and_the_others_are_not_mentioned() -> None:
    question = json.dumps(made("ask_user", final="Which room?"))
    message = refused(question, controls=()).message
    assert "ask_user" in message
    assert "replan" not in message
    assert isinstance(read_object(question, controls=["ask_user"]), Decision)


@pytest.mark.req("B3", "B4")
@pytest.mark.parametrize(
    "fields",
    [
        {"action": "tool_call"},
        {"action": "tool_call", "calls": [{"name": "search", "args": {}, "id": "1"}], "final": "11:00"},
        {"action": "finish", "calls": [{"name": "search", "args": {}, "id": "1"}], "final": "11:00"},
        {"action": "finish"},
    ],
)
def test_a_decision_of_a_callers_own_reader_does_one_thing(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tool|final"):
        Decision(**fields)


# ---------------------------------------------------------------- what cannot be read

UNREADABLE = {
    "prose": "I think eleven would be a good hour for everyone.",
    "nothing": "",
    "white space": " \n\t ",
    "cut in the middle": RAW[:60],
    "cut in the fence": "```json\n" + RAW[:70],
    "cut before its end": RAW[:-1],
    "a list of things": '["search", "Tuesday"]',
    "a decision in a list": f"[{RAW}]",
    "a decision in an object": f'{{"decision": {RAW}}}',
    "a number": "42",
    "null": "null",
    "a string": '"search"',
    "a decision in a string": json.dumps(RAW),
    "an empty object": "{}",
    "some other object": '{"answer": "11:00"}',
    "a python call": 'search(query="Tuesday")',
    "react text": "Thought: look it up\nAction: search[Tuesday]",
    "only braces": "}{}{}{",
    "a null byte": "\x00{",
    "a comment that is not closed": "{/* " + RAW,
    "a comment for an object": '{/* "action": "tool_call" */}',
    "infinity": '{"thought": Infinity, "action": NaN}',
    "a number too large": RAW.replace('"Tuesday"', "1e999"),
    "a number that may be a name": RAW.replace('"Tuesday"', "007"),
    "quotes within quotes": RAW.replace("So.", 'He said "no" to me.'),
    "a decision drafted in reasoning that never ends": f"<think>I could say {RAW}",
    "deeply nested lists": "[" * 5_000,
    "deeply nested objects": '{"a":' * 5_000,
    "an input that is nested too deep": RAW.replace('"Tuesday"', "[" * 200 + "]" * 200),
}


@pytest.mark.req("A3", "B9")
@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_reply_that_cannot_be_parsed_is_a_parse_error(reply: str) -> None:
    read = refused(reply)
    assert read.signal == "parse_error"
    assert len(read.message) < 400


@pytest.mark.req("A3")
def test_a_parse_error_names_the_place() -> None:
    assert "line 2, column 12" in refused('{"thought": "so",\n "action": oops}').message


# ---------------------------------------------------------------- what is ambiguous

AMBIGUOUS = {
    "two calls": f"{RAW}\n{json.dumps(OTHER)}",
    "a call and an answer": f"{RAW}\n{json.dumps(END)}",
    "a wrong decision and a right one": f"{json.dumps({**CALL, 'action': 'dance'})}\n{RAW}",
    "a tool given twice": RAW.replace('"tool":', '"tool": "delete", "tool":'),
    "an argument given twice": RAW.replace('"query":', '"query": "Friday", "query":'),
    "the same argument twice": RAW.replace('"query":', '"query": "Tuesday", "query":'),
    "a second one that is cut": f"{RAW}\n{json.dumps(OTHER)[:40]}",
    "a second one after something torn": f"{RAW}\nObservation: {{'rooms': [1, 2, ...]}}\n{json.dumps(OTHER)}",
    "one inside an object that is torn": f'{{"note": oops, "call": {RAW}}}',
    "one inside an object with bare keys that is torn": f"{{note: oops, call: {RAW}}}",
    "one inside a string that is torn": f'{{"note": "he said "stop }}" {RAW}"}}',
    "one quoted in a decision without its beginning": json.dumps({**END, "thought": f"or {CALL!r}"})[1:],
    "one quoted in a decision that is torn": '{"thought": "or ' + repr(CALL) + '", "action": oops}',
}


@pytest.mark.req("B9")
@pytest.mark.parametrize("reply", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_a_reply_that_could_be_meant_in_two_ways_is_refused(reply: str) -> None:
    refused(reply)


@pytest.mark.req("B9")
@pytest.mark.parametrize("field", ["final", "thought"])
def test_a_decision_that_is_only_quoted_is_not_one(field: str) -> None:
    read = read_object(json.dumps({**END, field: f"You could write {RAW} or {CALL!r}."}))
    assert isinstance(read, Decision)
    assert read.action == "finish"
    assert not read.calls


HEAVY = [
    "[",
    "{",
    "[1,",
    "[1 ",
    "[ ",
    '{"a":',
    "{a:",
    "{a:1,",
    '["',
    "[#",
    "{#",
    "{/*",
    "[/*",
    "'{",
    "{'a':1}",
    "{}",
    "[]",
]
HEAVY += ['{"a', "[[[1]],x", "[\n#", "```\n", "```json\n{", "\\", '{"thought":"', "x"]


@pytest.mark.slow
@pytest.mark.req("A3", "B9")
@pytest.mark.parametrize("piece", HEAVY)
def test_garbage_of_any_size_is_refused_soon(piece: str) -> None:
    reply = piece * (60_000 // len(piece))
    started = time.process_time()
    refused(reply)
    with suppress(JsonError):
        read_json(reply[:20_000])
    assert time.process_time() - started < 10


def test_a_long_answer_is_read() -> None:
    read = read_object(json.dumps(made("finish", final='Line "one".\n' * 30_000)))
    assert isinstance(read, Decision)
    assert read.final is not None
    assert len(read.final) == 360_000


# ---------------------------------------------------------------- any value

VALUES: dict[str, tuple[str, Any]] = {
    "an object": ('{"a": 1}', {"a": 1}),
    "an object in prose": ('Here: {"a": 1}. Done.', {"a": 1}),
    "an object in a fence": ('```json\n{"a": 1}\n```', {"a": 1}),
    "an object after prose in braces": ('Of {nothing}, or:\n```\nx = [1\n```\nit is {"a": 1}', {"a": 1}),
    "the fenced one of several": ('As {"b": 2, "c": 3} says:\n```\n{"a": 1}\n```', {"a": 1}),
    "the largest of several": ('{"b": 2} and {"a": 1, "c": [2]} and [1, 2, 3, 4, 5, 6, 7, 8]', {"a": 1, "c": [2]}),
    "a list": ("[12345678901234567, 2.5, -3e2, True, None,]", [12345678901234567, 2.5, -300.0, True, None]),
    "a list in prose": ("They are [1, 2].", [1, 2]),
    "a number": (" 42 ", 42),
    "null": ("null", None),
    "a string": ('"eleven"', "eleven"),
    "a long list of digits": ("[" + "1," * 20_000 + "]", [1] * 20_000),
    "code in an answer": ('{"code": "```json\\n{}\\n```"}', {"code": "```json\n{}\n```"}),
}


@pytest.mark.req("B9")
@pytest.mark.parametrize(("reply", "value"), VALUES.values(), ids=VALUES.keys())
def test_a_value_of_any_shape_is_read_with_the_same_leniency(reply: str, value: Any) -> None:
    assert read_json(reply) == value


@pytest.mark.req("B9")
@pytest.mark.parametrize(
    "reply",
    [
        "",
        "eleven",
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1}, "c": ',
        '{"a": Infinity}',
        "[1e999]",
        '{"a", "b"}',
        "[1 2]",
        '{"a": oops} {"b": 1}',
        '{"b": 1} {"a": oops',
        "[" * 5_000,
    ],
)
def test_if_there_is_no_value_the_reason_is_given(reply: str) -> None:
    with pytest.raises(JsonError, match=r"^The reply .+\.$"):
        read_json(reply)
