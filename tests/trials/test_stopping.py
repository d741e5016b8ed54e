"""A trial ends at its attempt, with its word."""

from __future__ import annotations

import pytest


@pytest.mark.req("F4", "F5", "S6", "G2")
@pytest.mark.parametrize(
    ("given", "stalled", "attempts", "reason"),
    [
        ((40, 60, 62, 63), 2, 4, "improvement_stalled"),
        ((40, 60, 62, 66, 67, 100), 2, 6, "accepted"),
        ((0, 0, 0), 2, 3, "improvement_stalled"),
        ((40, 60, 65, 66), 1, 4, "improvement_stalled"),
        ((40, 65, 68), 1, 3, "improvement_stalled"),
        ((79, 60, 79), 2, 3, "improvement_stalled"),
    ],
)
def test_too_little_gain_over_the_best_so_far_ends_a_trial(tried, scores, given, stalled, attempts, reason):
    check = scores(*given)
    seen = tried(checks=[check], limits={"stalled_attempts": stalled})
    assert seen.outcome.stop_reason == reason
    assert len(check.answers) == len(seen.prompts) == len(seen.outcome.attempts) == attempts
    assert [one.score for one in seen.outcome.attempts] == list(given)
