"""S1: one free hour on a full morning; clean, and in the five ways in which it goes wrong."""

from __future__ import annotations

import re

import pytest
from langchain_core.messages import ToolMessage

from langgraph_reflexion.testing import RoleModel, call, reflection, say

TASK = (
    "Find one hour for a meeting. It starts on the hour, strictly after 09:00, and ends by 14:00. "
    "The calendar holds what is busy."
)
BUSY = "09:00-09:30, 10:00-11:00, 12:00-12:30, 13:00-14:00"
SPANS = [tuple(int(h) * 60 + int(m) for h, m in re.findall(r"(\d\d):(\d\d)", span)) for span in BUSY.split(", ")]
HABIT = "Ask the calendar for what is busy and leave out the date."
NEXT = "Take an hour that meets none of the busy times."


@pytest.fixture(params=["tools", "json"])
def protocol(request):
    """Both protocols, also in the fast suite."""
    return request.param


def is_free(answer, _run):
    """Refuse what the calendar does not allow, and say why."""
    found = re.search(r"(\d\d):(\d\d)", answer)
    if not found:
        return "There is no time in the answer."
    start = int(found[1]) * 60 + int(found[2])
    if start % 60 or not 540 < start <= 780:
        return f"{found[0]} does not start on the hour, after 09:00 with an end by 14:00."
    clash = [span for span in SPANS if start < span[1] and span[0] < start + 60]
    return f"{found[0]} meets something busy." if clash else None


@pytest.fixture
def calendar(desk):
    desk.answers = lambda query: ValueError("the calendar knows no dates") if "2026" in query else f"Busy: {BUSY}."
    return desk


def test_only_eleven_is_possible():
    hours = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in (0, 30)]
    assert [hour for hour in hours if is_free(hour, None) is None] == ["11:00"]


@pytest.mark.req("S1", "A1", "B11")
def test_clean(run, calendar, protocol):
    model = RoleModel([call("search", query="busy times"), say("11:00")])
    seen = run(model, [calendar.search], task=TASK, checks=[is_free], protocol=protocol)
    assert seen.ending == ("success", "accepted")
    assert seen.answer == "11:00"
    assert not seen.signals
    assert len(model.asked) == 2


@pytest.mark.req("S1", "A5", "C4", "B11")
def test_a_failing_search_tool_is_reflected_on_and_asked_otherwise(run, calendar, protocol, decided):
    def plan(question):
        if BUSY in question.text:
            return say("11:00")
        return call("search", query="busy times" if HABIT in question.text else "busy on 2026-03-03")

    model = RoleModel(plan, reflection(HABIT))
    seen = run(model, [calendar.search], task=TASK, checks=[is_free], protocol=protocol)
    assert seen.ending == ("success", "accepted")
    assert seen.signals == ["tool_error"]
    assert HABIT in decided(model)[1].text
    assert calendar.ran == ["busy on 2026-03-03", "busy times"]


@pytest.mark.req("S1", "B3", "B11")
def test_a_decision_that_breaks_a_rule_is_repaired_and_then_reflected_on(run, calendar, protocol, reflected):
    both = {"thought": "", "action": "tool_call", "tool": "search", "tool_input": {"query": "x"}, "final": "11:00"}
    broken = both if protocol == "json" else call("search", when="now")
    model = RoleModel([broken, broken, call("search", query="busy times"), say("11:00")], reflection(HABIT))
    seen = run(model, [calendar.search], task=TASK, checks=[is_free], protocol=protocol)
    word = "rule_violation" if protocol == "json" else "schema_error"
    assert seen.ending == ("success", "accepted")
    assert seen.signals == [word, word]
    assert len(reflected(model)) == 1
    assert calendar.ran == ["busy times"]


@pytest.mark.req("S1", "A6", "B11")
def test_the_same_search_again_and_again_is_a_loop(run, calendar, protocol, reflected):
    model = RoleModel(
        [call("search", query="busy times"), call("search", query="busy times"), say("11:00")], reflection(NEXT)
    )
    seen = run(model, [calendar.search], task=TASK, checks=[is_free], protocol=protocol)
    assert seen.ending == ("success", "accepted")
    assert seen.signals == ["loop"]
    assert BUSY in reflected(model)[0].text, "what the search brought is in the evidence"


@pytest.mark.req("S1", "A7", "B11")
def test_an_answer_of_ten_is_refused_and_becomes_eleven(run, calendar, protocol, decided):
    model = RoleModel([call("search", query="busy times"), say("10:00"), say("11:00")], reflection(NEXT))
    seen = run(model, [calendar.search], task=TASK, checks=[is_free], protocol=protocol)
    assert seen.ending == ("success", "accepted")
    assert seen.answer == "11:00"
    assert seen.signals == ["check_failed"]
    last = decided(model)[-1].last.text
    assert "10:00 meets something busy." in last
    assert NEXT in last
    assert "10:00" not in "".join(m.text for m in seen.messages if not isinstance(m, ToolMessage)), (
        "told in the attempts only"
    )


@pytest.mark.req("S1", "F2", "F11", "B11")
def test_failures_beyond_the_budget_end_with_the_best_that_was_done_and_no_success(run, calendar, protocol, reflected):
    plans = [reflection(HABIT), reflection(NEXT), reflection("Count the minutes between two meetings.")]
    model = RoleModel([call("search", query="2026"), say("09:00"), say("10:00"), say("13:00"), say("11:00")], plans)
    limits = {"max_attempts": 3, "max_reflections": 2}
    seen = run(model, [calendar.search], task=TASK, checks=[is_free], protocol=protocol, limits=limits)
    assert seen.ending == ("failure", "max_attempts")
    assert [attempt.answer for attempt in seen.outcome.attempts] == ["09:00", "10:00", "13:00"]
    assert seen.signals == ["tool_error", "check_failed", "check_failed", "check_failed"]
    assert len(reflected(model)) == 2
    assert "which was not accepted" in seen.answer
