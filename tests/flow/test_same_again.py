"""S15: a model that reflects the same twice is asked once for the strategy itself, and then stopped."""

from __future__ import annotations

import pytest

from langgraph_reflexion.testing import RoleModel, call, reflection, say

SAME = reflection("Give the calendar a plain weekday name.")
OTHER = reflection("Ask the people themselves and leave the calendar alone.")


def refuse(*_):
    return "That hour is taken."


@pytest.mark.req("S15", "C10", "F6", "B11")
def test_the_same_reflection_again_is_replaced_by_meta_and_alike_once_more_ends_the_run(run, protocol, reflected):
    model = RoleModel([say("10:00")], [SAME, SAME, OTHER, SAME])
    limits = {"max_reflections": 6, "max_attempts": 9, "stalled_attempts": 9}
    seen = run(model, checks=[refuse], protocol=protocol, limits=limits)
    assert seen.ending == ("failure", "reflections_alike")
    assert [one.depth for one in seen.outcome.reflections[:2]] == ["quick", "meta"]
    assert "judge the strategy itself" in reflected(model)[2].text
    assert SAME["patch_prompt"] in reflected(model)[2].text, "meta sees what was advised before"
    assert len(reflected(model)) == 4
    assert len(seen.outcome.attempts) == 3


@pytest.mark.req("S15", "F1")
def test_the_alike_one_was_paid_for_and_counts_and_so_does_meta(run, desk, reflected):
    desk.answers = lambda query: LookupError(f"{query} is closed")
    turns = [call("search", query=day) for day in ("rooms", "hours", "people")]
    model = RoleModel([*turns, say("11:00")], [SAME, SAME, OTHER])
    seen = run(model, [desk.search], limits={"max_reflections": 3})
    assert len(reflected(model)) == 3
    assert seen.outcome.usage.reflection.calls == 3
    assert seen.answer == "11:00"
    assert [event["dropped"] for event in seen.told("reflection")] == [None, "said before", None]


@pytest.mark.req("S15", "F6")
def test_a_meta_reflection_that_says_the_same_ends_the_run(run, reflected):
    model = RoleModel([say("10:00")], SAME)
    seen = run(model, checks=[refuse], limits={"max_reflections": 6, "max_attempts": 9})
    assert seen.ending == ("failure", "reflections_alike")
    assert len(reflected(model)) == 3
    assert seen.last_events == ["reflection", "outcome"]
