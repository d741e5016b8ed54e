"""An experiment comes out as the rates of a simulated student predict, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.evals import SETUPS, SHIPPED, Experiment, Ledger, Result, Task, run, setups_named, tasks_in
from langgraph_reflexion.evals.grading import WRONG, check_for
from langgraph_reflexion.evals.pacing import Pace, PacedModel
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.evals.simulated import student
from langgraph_reflexion.evals.transcripts import calls_in, transcript_of
from langgraph_reflexion.schemas import Run
from langgraph_reflexion.testing import RoleModel, Student
from model_server import ModelServer

Results = dict[str, dict[str, Result]]
TRIALS = 5


def towns(count: int) -> list[Task]:
    """Questions that nobody can answer who was not taught: only the student's luck tells them apart."""
    return [
        Task(
            id=f"t{number}",
            task=f"Which river crosses the town of Old Harrow {number}, by the name that its own people use?",
            answer=f"River {number}",
            context=(f"The town of Old Harrow {number} lies on water.",),
        )
        for number in range(count)
    ]


def taught(tasks: Sequence[Task], **rates: Any) -> Student:
    """A student who knows these answers, and errs by these rates."""
    answers = {task.task: str(task.answer) for task in tasks}
    known = {task.task: task.context[0].text for task in tasks if task.context}
    return Student(answers=answers, known=known, **rates)


def foreseen(student: Student, setup: Setup, task: str, trials: int = TRIALS, memory: bool = True) -> int | None:
    """The trial in which the student will be right, reckoned from its luck alone."""
    shown = setup.context or setup.worker == "react"
    plans = guesses = 0
    for trial in range(1, trials + 1):
        if student.solves(task, shown=shown, plans=plans, trials=guesses):
            return trial
        said = plans + guesses
        if memory and setup.strategy in ("reflexion", "both"):
            plans += 1
        if memory and setup.strategy in ("last_trial", "both"):
            guesses = said + 1
    return None


Tried = Callable[..., Results]


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    """The results of an experiment, kept in a folder of this test."""

    def tried(
        tasks: Sequence[Task], model: Any, *names: str, concurrency: int = 20, folder: str = "run", **settings: Any
    ) -> Results:
        async def work() -> Results:
            pace = Pace(concurrency)
            experiment = Experiment(tasks, setups_named(names), PacedModel(model, pace), trials=TRIALS, **settings)
            ledger = Ledger(tmp_path / folder, {})
            await run(experiment, ledger, pace)
            return ledger.results

        return asyncio.run(work())

    return tried


def solved_at(results: Results, setup: str) -> dict[str, int | None]:
    """By task, the trial that solved it."""
    return {task: one.solved_at for task, one in results[setup].items()}


@pytest.mark.req("G6", "L1")
@pytest.mark.parametrize("name", SETUPS)
def test_each_set_up_comes_out_task_by_task_as_the_students_luck_says(tried: Tried, name: str):
    tasks = towns(8)
    model = taught(tasks)
    found = solved_at(tried(tasks, model, name), name)
    assert found == {task.id: foreseen(model, SETUPS[name], task.task) for task in tasks}


@pytest.mark.slow
@pytest.mark.req("G6", "L1")
def test_the_ten_set_ups_over_http_come_out_as_the_rates_predict(tried: Tried):
    tasks = towns(60)
    model = taught(tasks)
    with ModelServer(model) as server:
        results = tried(tasks, server.chat(max_retries=0), "all")
        assert not server.refused
    for name, setup in SETUPS.items():
        assert solved_at(results, name) == {task.id: foreseen(model, setup, task.task) for task in tasks}
    shares = {"cot": 0.3, "cot+context": 0.7, "cot+reflexion": 1 - 0.7 * 0.5**4, "react": 0.7}
    for name, share in shares.items():
        solved = sum(at is not None for at in solved_at(results, name).values())
        spread = math.sqrt(share * (1 - share) / 60)
        assert abs(solved / 60 - share) < 3.5 * spread, f"{name}: {solved} of 60, {share:.0%} expected"


@pytest.mark.req("L4")
def test_switching_the_memory_of_a_run_off_removes_exactly_its_share(tried: Tried):
    tasks = towns(12)
    model = taught(tasks)
    on = solved_at(tried(tasks, model, "cot+reflexion", folder="on"), "cot+reflexion")
    off = solved_at(tried(tasks, model, "cot+reflexion", folder="off", run_memory=False), "cot+reflexion")
    plain = solved_at(tried(tasks, model, "cot", folder="plain"), "cot")
    assert off == plain
    assert {task for task in on if on[task] is not None} > {task for task in off if off[task] is not None}


@pytest.mark.req("L1", "F9")
def test_no_task_gets_more_trials_or_reflections_than_asked_for(tried: Tried):
    tasks = towns(4)
    hopeless = taught(tasks, skill=0.0, hears_plan=0.0, reading=0.0)
    for one in tried(tasks, hopeless, "cot+reflexion", reflections=2)["cot+reflexion"].values():
        assert (len(one.trials), one.reflections, one.stop_reason) == (TRIALS, 2, "max_attempts")


@pytest.mark.req("L1")
def test_what_is_done_is_not_asked_again(tried: Tried):
    tasks = towns(6)
    tried(tasks[:4], taught(tasks), "cot")
    rest = taught(tasks)
    tried(tasks, rest, "cot")
    asked = "\n".join(question.text for question in rest.asked)
    assert [task.id for task in tasks if task.task in asked] == ["t4", "t5"]


@pytest.mark.req("L1")
def test_a_task_that_ended_just_before_a_crash_is_neither_paid_for_nor_credited_again(tmp_path: Path):
    class Full(Ledger):
        def add(self, result: Result) -> None:
            raise OSError("no space left")

    [task] = towns(1)
    model = taught([task], skill=0.0, hears_plan=1.0)
    store, saver = InMemoryStore(), InMemorySaver()

    def work(ledger: Ledger) -> None:
        pace = Pace(1)
        asked = Experiment([task], setups_named(["cot+reflexion"]), PacedModel(model, pace), lessons=store)
        asyncio.run(run(asked, ledger, pace, saver))

    def kept() -> list[tuple[Any, Any]]:
        return sorted((one.namespace, one.key) for one in store.search((), limit=1000))

    with pytest.raises(OSError, match="no space left"):
        work(Full(tmp_path, {}))
    asked, before = len(model.asked), kept()
    assert before
    ledger = Ledger(tmp_path, {})
    work(ledger)
    assert (len(model.asked), kept()) == (asked, before)
    assert ledger.results["cot+reflexion"][task.id].solved_at == 2


def test_a_server_that_fails_for_a_moment_costs_no_trial(tried: Tried):
    tasks = towns(2)
    model = taught(tasks, skill=1.0)
    with ModelServer(model, ["error", "error"]) as server:
        found = tried(tasks, server.chat(max_retries=0), "cot", concurrency=1)["cot"]
    assert [one.solved_at for one in found.values()] == [1, 1]


@pytest.mark.slow
@pytest.mark.req("I9")
def test_a_storm_of_429_loses_and_doubles_no_task(tried: Tried, tmp_path: Path):
    tasks = towns(20)
    model = taught(tasks)
    storm = [None if number % 4 == 3 else "rate_limited" for number in range(400)]
    with ModelServer(model, storm, retry_after=0.01) as server:
        results = tried(tasks, server.chat(max_retries=0), "cot+reflexion")
    assert solved_at(results, "cot+reflexion") == {
        task.id: foreseen(model, SETUPS["cot+reflexion"], task.task) for task in tasks
    }
    lines = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(tasks)


def test_a_task_that_breaks_costs_the_others_nothing_and_is_told(tried: Tried):
    tasks = towns(3)
    model = taught(tasks)
    with ModelServer(model, lambda question, _: "error" if "Harrow 1," in question.text else None) as server:
        found = tried(tasks, server.chat(max_retries=0), "cot")["cot"]
    assert found["t1"].error is not None
    assert "server had an error" in found["t1"].error
    assert [found[name].error for name in ("t0", "t2")] == [None, None]


def test_a_wrong_key_stops_the_experiment_and_records_nothing(tried: Tried, tmp_path: Path):
    with (
        ModelServer(taught(towns(1)), lambda *_: "unauthorized") as server,
        pytest.raises(Exception, match="Incorrect API key"),
    ):
        tried(towns(30), server.chat(max_retries=0), "cot", concurrency=2)
    assert len(server.asked) <= 4
    assert not (tmp_path / "run" / "results.jsonl").exists()


def test_the_right_answer_is_never_told_by_the_check():
    for task in tasks_in(SHIPPED):
        if task.check is None or "test_cases" not in str(task.check):
            verdict = check_for(task)("something else entirely", Run(task=task.task))
            assert (verdict.passed, verdict.feedback, verdict.issues) == (False, WRONG, [])


@pytest.mark.parametrize("task", [one for one in tasks_in(SHIPPED) if one.topic != "coding"], ids=lambda task: task.id)
def test_each_shipped_task_accepts_its_answer(task: Task):
    assert check_for(task)(task.answer, Run(task=task.task)).passed


@pytest.mark.slow
@pytest.mark.parametrize("task", [one for one in tasks_in(SHIPPED) if one.topic == "coding"], ids=lambda task: task.id)
def test_each_shipped_program_passes_its_cases_and_an_empty_one_none(task: Task):
    assert check_for(task)(f"```python\n{task.answer}```", Run(task=task.task)).passed
    assert not check_for(task)("pass", Run(task=task.task)).passed


@pytest.mark.slow
def test_the_shipped_tasks_can_be_tried_without_a_key(tried: Tried):
    tasks = [task for task in tasks_in(SHIPPED) if task.topic != "coding"]
    results = tried(tasks, student(tasks), "cot", "cot+context+both")
    plain, both = (sum(one.solved_at is not None for one in found.values()) for found in results.values())
    assert plain < both


@pytest.mark.req("L4")
def test_lessons_outlive_a_task_only_where_they_are_asked_for(tried: Tried):
    store = InMemoryStore()
    tasks = towns(6)
    tried(tasks, taught(tasks, skill=0.0), "cot+reflexion", folder="without")
    assert not store.search(())
    tried(tasks, taught(tasks, skill=0.0), "cot+reflexion", folder="with", lessons=store)
    assert {item.namespace[:2] for item in store.search((), limit=1000)} == {("evals", "cot+reflexion")}


def test_the_transcript_tells_every_call_with_its_answer(tried: Tried, tmp_path: Path):
    [task] = towns(1)
    model = taught([task], skill=0.0, hears_plan=1.0)
    tried([task], model, "cot+reflexion")
    told = list(calls_in(transcript_of(tmp_path / "run", "cot+reflexion", task.id)))
    assert [call["who"] for call in told] == ["attempt", "reflect", "attempt"]
    assert told[0]["answer"]["text"].endswith("guess 0")
    assert task.task in json.dumps(told[0]["asked"])


@pytest.mark.req("L1", "E7")
def test_one_judge_may_judge_all_and_the_worker_is_never_shown_the_right_answer(tried: Tried):
    tasks = towns(3)
    judge = RoleModel(
        decide=lambda question: {"passed": "guess" not in question.text, "score": 90, "issues": [], "feedback": ""}
    )
    model = taught(tasks, skill=0.5)
    found = solved_at(tried(tasks, model, "cot", judge=judge, judged=True), "cot")
    assert found == {task.id: foreseen(model, SETUPS["cot"], task.task) for task in tasks}
    assert all("The right answer is: River" in question.text for question in judge.asked)
    assert not any("The right answer is" in question.text for question in model.asked)


@pytest.mark.req("L1")
def test_a_task_that_is_done_leaves_no_checkpoints(tmp_path: Path):
    async def work() -> int:
        pace, saver = Pace(4), InMemorySaver()
        tasks = towns(4)
        experiment = Experiment(tasks, setups_named(["cot+reflexion"]), PacedModel(taught(tasks), pace))
        await run(experiment, Ledger(tmp_path, {}), pace, saver)
        return len(list(saver.list(None)))

    assert asyncio.run(work()) == 0
