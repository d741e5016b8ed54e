"""The figures of an experiment: by hand where that is possible."""

from __future__ import annotations

import pytest

from langgraph_reflexion.evals.curves import draw_curves
from langgraph_reflexion.evals.figures import (
    compare_results,
    compare_with_baselines,
    format_difference,
    format_table,
    make_row,
    wilson,
)
from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.setups import SETUPS


def results(setup: str, *solved_at: int | None, **fields: int) -> list[Result]:
    return [Result(setup=setup, task=f"t{at}", solved_at=one, **fields) for at, one in enumerate(solved_at)]


@pytest.mark.req("L1")
def test_accuracy_is_reported_by_trial():
    row = make_row("cot", results("cot", 1, 2, 2, None, input=90, output=10, reflections=1), trials=3)
    assert row.by_trial == (25, 75, 75)
    assert (row.tokens, row.reflections) == (pytest.approx(400 / 3), 1)


def test_a_task_that_broke_counts_as_not_solved():
    broken = Result(setup="cot", task="b", error="ConnectError: gone")
    row = make_row("cot", [*results("cot", 1), broken], trials=2)
    assert (row.accuracy, row.errors) == (50, 1)
    text = "1 task broke, and counts as not solved; the last with: ConnectError: gone"
    assert text in format_table({"cot": [*results("cot", 1), broken]}, 2, "scripted model")


def test_nothing_solved_has_no_price():
    row = make_row("cot", results("cot", None, None), trials=2)
    assert (row.tokens, row.reflections, row.accuracy) == (None, None, 0)


def test_the_interval_of_a_share_is_wilsons():
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(49.02, abs=0.01), pytest.approx(94.33, abs=0.01))
    assert wilson(0, 0) == (0, 100)


def test_repeated_tasks_that_all_went_alike_still_have_an_interval():
    repeats = [Result(setup="cot", task=f"t{task}", repeat=repeat) for repeat in (1, 2, 3) for task in range(10)]
    assert make_row("cot", repeats, trials=2).interval == wilson(0, 10)


def test_two_runs_are_paired_by_task():
    first, second = results("cot", 1, None, None, None, 1), results("react", 1, 1, 2, 1, None, 1)
    found = compare_results(first, second)
    assert (found.tasks, found.won, found.lost) == (5, 3, 1)
    assert found.points == pytest.approx(40)
    assert found.interval[0] < found.points < found.interval[1]
    assert found.chance == pytest.approx(0.625)  # 2 * (1 + 4) / 16


@pytest.mark.req("L1")
def test_thousands_of_tasks_that_only_one_run_solved_are_compared():
    found = compare_results(results("cot", *[None] * 4_000, *[1] * 900), results("react", *[1] * 4_000, *[None] * 900))
    assert (found.won, found.lost) == (4_000, 900)
    assert found.chance == pytest.approx(0, abs=1e-9)


@pytest.mark.req("L1")
def test_a_set_up_of_ones_own_has_a_row_and_no_gain():
    found = {"mine": results("mine", 1, None), "cot": results("cot", 1, 1)}
    table = format_table(found, 2, "scripted model")
    assert [line.split()[0] for line in table[2:4]] == ["cot", "mine"]
    assert compare_with_baselines(found) == {}


@pytest.mark.req("L10")
def test_a_gain_on_a_handful_of_tasks_may_be_chance():
    for tasks, verdict in ((1, "may be chance"), (4, "may be chance"), (8, "more than chance")):
        found = compare_results(results("cot", *[None] * tasks), results("react", *[1] * tasks))
        assert format_difference("react", found)[0].endswith(verdict)


@pytest.mark.parametrize(("solved", "low", "high"), [(None, -19.6, 19.6), (1, 48.4, 100.0)])
def test_tasks_that_all_went_alike_leave_a_difference_uncertain(solved, low, high):
    found = compare_results(results("cot", *[None] * 8), results("react", *[solved] * 8))
    assert found.interval == (pytest.approx(low, abs=0.1), pytest.approx(high, abs=0.1))


def test_two_runs_without_a_common_task_cannot_be_distinguished():
    with pytest.raises(ValueError, match="share no task"):
        compare_results(results("cot", 1), [Result(setup="cot", task="other", solved_at=1)])


@pytest.mark.req("L2")
def test_gains_are_points_and_relative_over_the_same_worker_without_a_word_on_failures():
    found = compare_with_baselines(
        {"cot+context": results("cot+context", 1, 1, 1, None), "cot+context+both": results("x", 1, 1, 2, 3)}
    )
    assert list(found) == ["cot+context+both"]
    assert found["cot+context+both"].points == 25
    assert found["cot+context+both"].relative == pytest.approx(100 / 3)


@pytest.mark.req("L2")
def test_the_published_figures_stand_apart_from_ours_and_say_what_they_are():
    published = {name: setup.published for name, setup in SETUPS.items() if setup.published is not None}
    assert published == {
        "cot": 29, "react": 35, "cot+context": 75, "cot+context+reflexion": 88, "cot+context+last_trial": 93,
        "cot+context+both": 96,
    }  # fmt: skip
    text = "\n".join(format_table({"cot": results("cot", 1, None)}, 2, "scripted model"))
    for part in ("29 %", "+24 %", "+28 %", "15 to 45 %", "50 %"):
        assert part in text
    ours, _, notes = text.partition("\n\n")
    assert "29 %" not in ours
    assert "with other models, not comparable" in notes


@pytest.mark.req("L9")
def test_reflections_needed_are_those_of_solved_tasks():
    solved = Result(setup="cot", task="a", solved_at=2, reflections=1)
    unsolved = Result(setup="cot", task="b", reflections=4)
    assert make_row("cot", [solved, unsolved], 5).reflections == 1


def test_repeats_are_averaged_with_their_spread_and_count_as_one_task():
    def row_of(*solved: tuple[str, int, int | None]) -> list[Result]:
        return [Result(setup="cot", task=task, repeat=repeat, solved_at=at) for task, repeat, at in solved]

    found = row_of(("a", 1, 1), ("b", 1, None), ("a", 2, 1), ("b", 2, 1))
    row = make_row("cot", found, 1)
    assert (row.tasks, row.by_trial, row.spread) == (2, (75,), (50, 100))
    assert row.interval == wilson(1.5, 2), "a task's repeats are no independent tasks"
    assert compare_results(row_of(("a", 1, 1), ("b", 1, None)), found).points == 25
    assert "50–100" in "\n".join(format_table({"cot": found}, 1, "x"))


@pytest.mark.req("L10")
def test_a_table_and_a_picture_say_whose_figures_they_are():
    assert format_table({"cot": results("cot", 1)}, 2, "simulated student")[0] == "Figures of: simulated student"
    picture = draw_curves({"cot <50 %>": (25.0, 50.0)}, "simulated student")
    for part in ("<svg", "% of tasks solved (simulated student)", ">trial<", "cot &lt;50 %&gt;"):
        assert part in picture


@pytest.mark.req("L1")
def test_a_task_that_both_solved_in_some_repeats_is_not_said_to_be_solved_by_one_alone():
    first, second = (results("cot", 1, repeat=1) + results("cot", solved, repeat=2) for solved in (None, 1))
    assert "the second is better on 1, the first on 0" in format_difference("cot", compare_results(first, second))[1]


def test_reflections_that_all_failed_are_not_counted_in_silence():
    found = results("cot+reflexion", 2, None, None, reflections=1)
    assert "On 3 tasks every reflection" in "\n".join(format_table({"cot+reflexion": found}, 2, "a model"))
    found = [result.model_copy(update={"plans": ["Look it up."]}) for result in found]
    assert "every reflection" not in "\n".join(format_table({"cot+reflexion": found}, 2, "a model"))
