"""What the runs of a lesson say about it."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_reflexion.memory import withheld
from langgraph_reflexion.memory.credit import hurts, interval, result_of, spares_a_reflection, usefulness
from langgraph_reflexion.schemas import Episode, Failure, Lesson, Trigger


def a_rule(**fields: Any) -> Lesson:
    return Lesson(kind="rule", text="Check the slot.", **{"id": "a1", **fields})


def test_the_lower_bound_grows_with_wins_and_falls_with_losses() -> None:
    bounds = [usefulness(a_rule(wins=wins, losses=losses)) for wins, losses in ((0, 4), (0, 1), (0, 0), (1, 0), (8, 0))]
    assert bounds == sorted(bounds)
    assert usefulness(a_rule(wins=80, losses=20)) > usefulness(a_rule(wins=8, losses=2))
    assert all(0 <= bound <= 1 for bound in interval(a_rule(wins=3, losses=2)))


def test_one_lost_run_is_no_proof_and_two_of_two_are() -> None:
    assert not hurts(a_rule())
    assert not hurts(a_rule(losses=1))
    assert hurts(a_rule(losses=2))
    assert not hurts(a_rule(losses=3, wins=3))


@pytest.mark.req("C14")
def test_a_lesson_that_failed_as_often_as_it_helped_is_no_substitute_for_a_reflection() -> None:
    assert spares_a_reflection(a_rule())
    assert spares_a_reflection(a_rule(wins=2, losses=1))
    assert not spares_a_reflection(a_rule(losses=1))
    assert not spares_a_reflection(a_rule(wins=2, losses=2))


def test_a_candidate_is_withheld_from_a_share_of_runs_and_always_the_same_ones() -> None:
    tried = a_rule(shown=3)
    drawn = [withheld(tried, f"run-{i}", 0.2) for i in range(1000)]
    assert 150 <= sum(drawn) <= 250
    assert drawn == [withheld(tried, f"run-{i}", 0.2) for i in range(1000)]
    other = a_rule(shown=3, id="b2")
    assert drawn != [withheld(other, f"run-{i}", 0.2) for i in range(1000)], "lessons are drawn apart"


def test_it_is_never_withheld_from_its_first_three_runs_nor_once_it_has_proved_itself() -> None:
    for lesson in (a_rule(shown=2), a_rule(shown=9, status="active"), a_rule(shown=9, status="probation")):
        assert not any(withheld(lesson, f"run-{i}", 1.0) for i in range(50))
    assert all(withheld(a_rule(shown=3), f"run-{i}", 1.0) for i in range(50))
    assert not any(withheld(a_rule(shown=3), f"run-{i}", 0.0) for i in range(50))


@pytest.mark.parametrize(
    ("end", "result"),
    [
        ({"success": True, "status": "success", "stop_reason": "accepted"}, "win"),
        ({"success": False, "status": "failure", "stop_reason": "max_attempts"}, "loss"),
        ({"success": None, "status": "failure", "stop_reason": "max_steps"}, "loss"),
        ({"success": True}, "win"),
        ({"success": None}, None),
        *(
            ({"success": False, "status": "failure", "stop_reason": reason}, None)
            for reason in ("model_error", "deadline", "token_budget", "handed_off")
        ),
        ({"success": None, "status": "needs_input", "stop_reason": "asked_user"}, None),
    ],
    ids=str,
)
def test_what_an_end_counts_for(end: dict[str, Any], result: str | None) -> None:
    assert result_of(Episode(id="r", task="t", **end), a_rule()) == result


def test_a_run_nobody_judged_counts_for_a_lesson_bound_to_a_failure() -> None:
    bound = a_rule(trigger=Trigger(signal="tool_error", tool="f", fingerprint="f|x"))
    again = [Failure(signal="tool_error", evidence="x", fingerprint="f|x")]
    other = [Failure(signal="tool_error", evidence="y", fingerprint="f|y")]
    assert result_of(Episode(id="r", task="t", failures=again), bound) == "loss"
    assert result_of(Episode(id="r", task="t", failures=other), bound) == "win"


@pytest.mark.parametrize(("steps", "result"), [([2], "win"), ([2, 3], "loss"), ([3], "loss")])
def test_the_failure_that_a_lesson_was_recalled_for_is_none_that_came_back(steps: list[int], result: str) -> None:
    bound = a_rule(trigger=Trigger(signal="tool_error", tool="f", fingerprint="f|x"))
    failed = [Failure(signal="tool_error", evidence="x", fingerprint="f|x", step=step) for step in steps]
    assert result_of(Episode(id="r", task="t", failures=failed, recalled_at={"a1": 2}), bound) == result
