"""The trace tells each part of a run where it happens, once."""

from __future__ import annotations

import io
import sys

import pytest
from langchain_core.messages import AIMessage

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.cli.console import Page
from langgraph_reflexion.cli.console import count_of as count_text
from langgraph_reflexion.cli.trace import STREAM, Trace
from langgraph_reflexion.cli.trace import format_call as called
from langgraph_reflexion.cli.trace import show_outcome as ending
from langgraph_reflexion.testing import ScriptedModel, call, calls, reflection, say
from text_only import TextOnlyScriptedModel


def look(where: str) -> str:
    """Look somewhere."""
    if where == "nowhere":
        raise ValueError("there is no such place")
    return f"{where} is empty"


def lines_of(model, checks=(), **limits):
    """What is told of a run, without the moment it took."""
    agent = create_reflexion_agent(model, [look], checks=checks, limits=Limits(**limits))
    file = io.StringIO()
    trace = Trace(page := Page(file))
    for mode, part in agent.stream({"messages": [("user", "Find it.")]}, stream_mode=STREAM):
        trace.show(mode, part)
    ending(page, trace.outcome)
    assert trace.steps
    assert trace.lessons == trace.outcome.lessons_written
    return [line.rpartition(" · ")[0] if line.endswith(" s") else line for line in file.getvalue().splitlines()]


def is_late(answer, _run):
    return None if "11" in answer else "That is too early."


def test_a_refused_answer_is_reported_with_its_complaint():
    plan = "Take the first hour after ten o'clock."
    assert lines_of(ScriptedModel([say("At 10."), reflection(plan), say("At 11.")]), [is_late]) == [
        "   1  At 10.",
        "      ✗ check failed: is_late: That is too early.",
        "      ↻ reflects: The call did not fit the tool.",
        f"      · plan: {plan}",
        "   2  At 11.",
        f"      + lesson added: {plan}",
        "      ✓ accepted by is_late · 2 model calls · 1 more to reflect · 45 tokens · 1 failure",
    ]


def test_results_of_several_calls_say_whose_they_are():
    model = ScriptedModel([calls(("look", {"where": "here"}), ("look", {"where": "there"})), say("Nothing.")])
    lines = lines_of(model)
    assert lines[:2] == ['   1  → look(where="here")', '      → look(where="there")']
    assert sorted(lines[2:4]) == ["      ← look: here is empty", "      ← look: there is empty"]


def test_a_thought_is_shown_before_its_call():
    model = TextOnlyScriptedModel([calls(("look", {"where": "here"}), thought="Near first."), say("Nothing.")])
    assert lines_of(model)[:3] == ["   1  Near first.", '      → look(where="here")', "      ← here is empty"]


def test_a_reflection_that_cannot_be_read_is_reported():
    model = ScriptedModel([call("look", where="nowhere"), "no form", "again none", say("Nothing.")])
    lines = lines_of(model)
    at = lines.index("      ↻ reflects, but the reflection cannot be parsed")
    assert "no JSON object" in lines[at + 1]


def test_a_reflection_without_a_plan_is_reported_as_not_followed():
    lines = lines_of(ScriptedModel([say("At 10."), reflection("")]), [is_late])
    assert "      · not followed: no plan" in lines
    assert lines[-2].startswith("      ✗ failed: no plan")


def test_a_lesson_that_is_not_kept_says_why():
    memo = {"kind": "rule", "text": "Be careful."}
    plan = reflection("Look in the kitchen.", memory_to_write=[memo])
    lines = lines_of(ScriptedModel([call("look", where="nowhere"), plan, say("Nothing.")]))
    assert any(line.startswith("      + lesson refused: Be careful. (") for line in lines)


def test_lessons_that_were_held_back_say_why(capsys):
    lesson = {"text": "Look in the kitchen.", "when": "looking"}
    Trace(Page(sys.stdout)).show("custom", {"type": "recalled", "lessons": [lesson], "why": "too little evidence"})
    assert capsys.readouterr().out.splitlines() == [
        "      ● recalls: Look in the kitchen.",
        "      ● too little evidence",
    ]


def test_a_refusal_is_reported_as_one():
    model = ScriptedModel([AIMessage("", additional_kwargs={"refusal": "I will not."})])
    lines = lines_of(model)
    assert "   1  I will not." in lines
    assert "      ✗ the model refuses" in lines


def test_a_call_is_written_as_one_would_write_it():
    assert called({"name": "find", "args": {"text": "十一", "at": [1, None]}}) == 'find(text="十一", at=[1, null])'
    assert called({"name": "find", "args": {}}) == "find()"


@pytest.mark.parametrize(("count", "expected"), [(0, "0 steps"), (1, "1 step"), (1234, "1,234 steps")])
def test_a_count_agrees_with_its_word(count, expected):
    assert count_text(count, "step") == expected
