"""Whether answers and reflections get anywhere: where scores stall, or a reflection says the same again, a run ends."""

from __future__ import annotations

import pytest

from langgraph_reflexion.testing import RoleModel, call, reflection, say
from langgraph_reflexion.text.likeness import likeness


@pytest.mark.req("F4", "F5", "F11", "B11")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("scores", "stalled", "after"),
    [
        ([40, 60, 62, 63, 64], 2, 4),
        ([0, 0, 0, 0], 2, 3),
        ([79, 60, 79, 60], 2, 3),
        ([40, 60, 65, 66, 67], 1, 4),
        ([40, 65, 68, 70], 1, 3),
        ([40, 41, 41, 42], 1, 3),
        ([40, 40, 60, 60, 61], 2, 5),
    ],
)
def test_too_little_improvement_as_often_as_set_ends_the_run(run, protocol, advice, scores, stalled, after):
    given = iter(scores)
    seen = run(
        RoleModel([say("x")], advice),
        checks=[lambda *_: next(given)],
        protocol=protocol,
        limits={"max_attempts": 9, "stalled_attempts": stalled, "max_reflections": 9},
    )
    assert seen.ending == ("failure", "improvement_stalled")
    assert [attempt.score for attempt in seen.outcome.attempts] == scores[:after]
    assert seen.last_events == ["attempt", "outcome"], "no reflection after the last attempt"


@pytest.mark.req("F4")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("scores", [[40, 60, 62, 66, 67], [40, 43, 46, 49, 52], [0, 1, 2, 3, 4]])
def test_enough_improvement_in_time_runs_on(run, advice, scores):
    given = iter(scores)
    seen = run(
        RoleModel([say("x")], advice),
        checks=[lambda *_: next(given)],
        limits={"max_attempts": 5, "max_reflections": 9},
    )
    assert seen.ending == ("failure", "max_attempts")
    assert len(seen.outcome.attempts) == 5


@pytest.mark.req("F4")
def test_the_least_improvement_can_be_set(run, advice):
    given = iter([40, 50, 60, 70])
    limits = {"max_attempts": 9, "min_improvement": 0.5, "max_reflections": 9}
    seen = run(RoleModel([say("x")], advice), checks=[lambda *_: next(given)], limits=limits)
    assert seen.ending == ("failure", "improvement_stalled")
    assert len(seen.outcome.attempts) == 3


@pytest.mark.req("F4", "F12")
def test_an_accepted_answer_ends_the_run_before_anything_else_is_asked(run, advice):
    given = iter([79, 79, 80])
    seen = run(RoleModel([say("x")], advice), checks=[lambda *_: next(given)])
    assert seen.ending == ("success", "accepted")
    assert seen.outcome.score == 80


@pytest.mark.req("F6", "B11")
def test_two_reflections_alike_with_no_room_for_meta_end_the_run(run, protocol):
    plans = [reflection("Take the weekday for the calendar."), reflection("For the calendar, take the weekday!")]
    limits = {"max_reflections": 2, "max_attempts": 5}
    seen = run(RoleModel([say("10:00")], plans), checks=[lambda *_: "Taken."], protocol=protocol, limits=limits)
    assert seen.ending == ("failure", "reflections_alike")
    assert len(seen.outcome.attempts) == 2


@pytest.mark.req("F6")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("先读日历，再选时间。", "把时区换算成办公室所在地的时间。"),
        ("检查房间的大小。", "不要相信第一个搜索结果。"),
        ("Read the calendar first.", "Translate times into the office zone."),
        ("Use the weekday.", "Never use the weekday."),
    ],
)
def test_unrelated_and_opposite_reflections_are_not_alike(run, one, other):
    assert likeness(one, other) < 0.6
    limits = {"max_reflections": 2, "max_attempts": 3}
    plans = [reflection(one), reflection(other)]
    seen = run(RoleModel([say("10:00")], plans), checks=[lambda *_: "Taken."], limits=limits)
    assert seen.ending == ("failure", "max_attempts")
    assert len(seen.outcome.reflections) == 2


@pytest.mark.req("F6")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("先读日历，再选时间。", "先读日历，再选时间"),
        ("Read the calendar, then choose.", "read the calendar then choose!"),
    ],
)
def test_the_same_reflection_in_another_spelling_is_alike(one, other):
    assert likeness(one, other) > 0.8


# ---------------------------------------------------------------- the same reflection again


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
