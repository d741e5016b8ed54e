"""The figures of an experiment: by hand where that is possible."""

from __future__ import annotations

import pytest

from langgraph_reflexion.evals.figures import difference, gains, relative, row_of, wilson
from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.setups import SETUPS
from langgraph_reflexion.evals.table import table


def results(setup: str, *solved_at: int | None, **fields: int) -> list[Result]:
    return [Result(setup=setup, task=f"t{at}", solved_at=one, **fields) for at, one in enumerate(solved_at)]


@pytest.mark.req("L1")
def test_accuracy_is_told_by_trial():
    row = row_of("cot", results("cot", 1, 2, 2, None, input=90, output=10, reflections=1), trials=3)
    assert row.by_trial == (25, 75, 75)
    assert (row.tokens, row.reflections) == (pytest.approx(400 / 3), pytest.approx(4 / 3))


def test_a_task_that_broke_counts_as_not_solved():
    broken = Result(setup="cot", task="b", error="ConnectError: gone")
    row = row_of("cot", [*results("cot", 1), broken], trials=2)
    assert (row.accuracy, row.errors) == (50, 1)
    said = "1 task broke, and counts as not solved; the last with: ConnectError: gone"
    assert said in table({"cot": [*results("cot", 1), broken]}, trials=2)


def test_nothing_solved_has_no_price():
    row = row_of("cot", results("cot", None, None), trials=2)
    assert (row.tokens, row.reflections, row.accuracy) == (None, None, 0)


def test_the_interval_of_a_share_is_wilsons():
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(49.02, abs=0.01), pytest.approx(94.33, abs=0.01))
    assert wilson(0, 0) == (0, 100)


def test_two_runs_are_paired_by_task():
    first, second = results("cot", 1, None, None, None, 1), results("react", 1, 1, 2, 1, None, 1)
    found = difference(first, second)
    assert (found.tasks, found.won, found.lost) == (5, 3, 1)
    assert found.points == pytest.approx(40)
    assert found.interval[0] < found.points < found.interval[1]
    assert found.chance == pytest.approx(0.625)  # 2 * (1 + 4) / 16
    assert found == difference(first, second)  # repeatable


def test_two_runs_without_a_common_task_cannot_be_told_apart():
    with pytest.raises(ValueError, match="share no task"):
        difference(results("cot", 1), [Result(setup="cot", task="other", solved_at=1)])


@pytest.mark.req("L2")
def test_gains_are_points_and_relative_over_the_same_worker_without_a_word_on_failures():
    found = gains({"cot+context": results("cot+context", 1, 1, 1, None), "cot+context+both": results("x", 1, 1, 2, 3)})
    assert list(found) == ["cot+context+both"]
    assert found["cot+context+both"].points == 25
    assert relative(found["cot+context+both"]) == pytest.approx(100 / 3)


@pytest.mark.req("L2")
def test_the_published_figures_stand_beside_ours():
    published = {name: setup.published for name, setup in SETUPS.items() if setup.published is not None}
    assert published == {
        "cot": 29, "react": 35, "cot+context": 75, "cot+context+reflexion": 88, "cot+context+last_trial": 93,
        "cot+context+both": 96,
    }  # fmt: skip
    said = "\n".join(table({"cot": results("cot", 1, None)}, trials=2))
    for part in ("29 %", "+24 %", "+28 %", "15 to 45 %", "50 %"):
        assert part in said
