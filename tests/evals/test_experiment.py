"""An experiment comes out as the rates of a simulated student predict, whatever happens on the way."""

from __future__ import annotations

import ast
import asyncio
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ModelAuthenticationError, ModelPermissionDeniedError
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook, ModelError, Run
from langgraph_reflexion.evals.experiment import Experiment, run_experiment
from langgraph_reflexion.evals.grading import check_for
from langgraph_reflexion.evals.ledger import LedgerError, Result
from langgraph_reflexion.evals.setups import SETUPS, Setup, find_setups
from langgraph_reflexion.evals.student import Student, make_student
from langgraph_reflexion.evals.tasks import SHIPPED, Task, load_tasks
from langgraph_reflexion.testing import RoleModel, call, reflection, say
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
    return Student(answers, known=known, **rates)


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
        experiment = Experiment(tasks, find_setups(names), model, trials=TRIALS, **settings)
        found = asyncio.run(run_experiment(experiment, tmp_path / folder, concurrency=concurrency))
        return {name: {result.task: result for result in results} for name, results in found.items()}

    return tried


def solved_at(results: Results, setup: str) -> dict[str, int | None]:
    """By task, the trial that solved it."""
    return {task: one.solved_at for task, one in results[setup].items()}


@pytest.mark.slow
@pytest.mark.req("G6", "L1")
@pytest.mark.parametrize("name", SETUPS)
def test_each_set_up_comes_out_task_by_task_as_the_students_luck_says(tried: Tried, name: str):
    tasks = towns(4)
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
@pytest.mark.slow
def test_switching_the_memory_of_a_run_off_removes_exactly_its_share(tried: Tried):
    tasks = towns(6)
    model = taught(tasks)
    on = solved_at(tried(tasks, model, "cot+reflexion", folder="on"), "cot+reflexion")
    off = solved_at(tried(tasks, model, "cot+reflexion", folder="off", run_memory=False), "cot+reflexion")
    plain = solved_at(tried(tasks, model, "cot", folder="plain"), "cot")
    assert off == plain
    assert {task for task in on if on[task] is not None} > {task for task in off if off[task] is not None}


@pytest.mark.req("L1", "F9")
@pytest.mark.slow
def test_no_task_gets_more_trials_or_reflections_than_asked_for(tried: Tried):
    tasks = towns(4)
    hopeless = taught(tasks, skill=0.0, hears_plan=0.0, reading=0.0)
    for one in tried(tasks, hopeless, "cot+reflexion", reflections=2)["cot+reflexion"].values():
        assert (len(one.trials), one.reflections, one.stop_reason) == (TRIALS, 2, "max_attempts")


@pytest.mark.req("L1")
def test_finished_tasks_are_not_run_again(tried: Tried):
    tasks = towns(6)
    tried(tasks[:4], taught(tasks), "cot")
    rest = taught(tasks)
    tried(tasks, rest, "cot")
    asked = "\n".join(question.text for question in rest.asked)
    assert [task.id for task in tasks if task.task in asked] == ["t4", "t5"]


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
        results = tried(tasks, server.chat(max_retries=50), "cot+reflexion")
    assert solved_at(results, "cot+reflexion") == {
        task.id: foreseen(model, SETUPS["cot+reflexion"], task.task) for task in tasks
    }
    lines = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(tasks)


@pytest.mark.slow
def test_a_task_that_breaks_costs_the_others_nothing_and_is_reported(tried: Tried):
    tasks = towns(3)
    model = taught(tasks)
    with ModelServer(model, lambda question, _: "error" if "Harrow 1," in question.text else None) as server:
        found = tried(tasks, server.chat(max_retries=0), "cot")["cot"]
    assert found["t1"].error is not None
    assert "server had an error" in found["t1"].error
    assert [found[name].error for name in ("t0", "t2")] == [None, None]


class Refused(Exception):  # noqa: N818 — as a provider's client might name it
    status_code = 403


@pytest.mark.req("L1")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("setup", ["cot", "react"])
@pytest.mark.parametrize("error", [Refused("moderated"), ModelPermissionDeniedError("moderated"), PermissionError(13)])
def test_one_task_that_is_not_permitted_breaks_alone(tried: Tried, setup: str, error: Exception):
    found = tried(towns(4), refusing(error), setup, concurrency=1)[setup]
    assert [name for name, result in found.items() if result.error is not None] == ["t1"]


@pytest.mark.req("L1")
@pytest.mark.parametrize("setup", ["cot", "react"])
def test_a_model_that_refuses_the_key_ends_the_experiment(tried: Tried, setup: str):
    with pytest.raises(ModelError, match="set the right key"):
        tried(towns(4), refusing(ModelAuthenticationError("wrong key")), setup, concurrency=1)


def refusing(error: Exception) -> RoleModel:
    """A model that raises at one task."""

    def decide(question: Any) -> Any:
        if "Harrow 1," in question.text:
            raise error
        return "Answer: x"

    return RoleModel(decide=decide)


def test_the_check_never_reveals_the_right_answer():
    for task in load_tasks(SHIPPED):
        if task.check is None or "test_cases" not in str(task.check):
            verdict = check_for(task)("something else entirely", Run(task=task.task))
            assert (verdict.passed, verdict.feedback, verdict.issues) == (False, "", [])


@pytest.mark.parametrize(
    "task", [one for one in load_tasks(SHIPPED) if one.topic != "coding"], ids=lambda task: task.id
)
def test_each_shipped_task_accepts_its_answer(task: Task):
    assert check_for(task)(task.answer, Run(task=task.task)).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [one for one in load_tasks(SHIPPED) if one.topic == "coding"], ids=lambda task: task.id
)
def test_each_shipped_program_passes_its_cases_and_an_empty_one_none(task: Task):
    assert check_for(task)(f"```python\n{task.answer}```", Run(task=task.task)).passed
    assert not check_for(task)("pass", Run(task=task.task)).passed


@pytest.mark.slow
def test_the_shipped_tasks_can_be_tried_without_a_key(tried: Tried):
    tasks = [task for task in load_tasks(SHIPPED) if task.topic != "coding"]
    results = tried(tasks, make_student(tasks), "cot", "cot+context+both")
    plain, both = (sum(one.solved_at is not None for one in found.values()) for found in results.values())
    assert plain < both


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"steps": "5"}, {"reflections": -1}, {"concurrency": 0}])
def test_a_wrong_setting_is_refused_before_the_first_task(tried: Tried, wrong: dict[str, Any]):
    with pytest.raises(ValueError, match=re.escape(repr(*wrong.values()))):
        tried(towns(1), RoleModel("Answer: Danube"), "cot", **wrong)


@pytest.mark.req("L4")
def test_lessons_survive_a_task_only_where_they_are_asked_for(tried: Tried):
    store = InMemoryStore()
    tasks = towns(2)
    tried(tasks, taught(tasks, skill=0.0), "cot+reflexion", folder="without")
    assert not store.search(())
    tried(tasks, taught(tasks, skill=0.0), "cot+reflexion", folder="with", lessons=store)
    assert {item.namespace[:2] for item in store.search((), limit=1000)} == {("evals", "cot+reflexion")}


@pytest.mark.req("L1", "E7")
def test_one_judge_may_judge_all_and_the_worker_is_never_shown_the_right_answer(tried: Tried):
    tasks = towns(3)
    judge = RoleModel(
        decide=lambda question: {
            "passed": "guess" not in question.text,
            "score": 90,
            "issues": ["The right answer is another one."],
        }
    )
    model = taught(tasks, skill=0.2)
    name = "cot+context+both"
    found = solved_at(tried(tasks, model, name, judge=judge), name)
    assert found == {task.id: foreseen(model, SETUPS[name], task.task) for task in tasks}
    assert any(at != 1 for at in found.values())
    assert all("The right answer is: River" in question.text for question in judge.asked)
    assert not any("The right answer is" in question.text for question in model.asked)


# ---------------------------------------------------------------- what is measured


@pytest.mark.req("L5")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["cot+context+reflexion", "cot+context+both", "cot+context+last_trial"])
def test_an_attempt_of_a_chain_of_thought_is_its_reasoning_with_its_passages(tried: Tried, name: str):
    [task] = towns(1)
    model = taught([task], skill=0.0, reading=0.0, hears_plan=0.0)
    found = tried([task], model, name)[name][task.id]
    assert found.trials[0]["answer"] == "guess 0"
    second = model.asked[1]  # to the reflector, or, without one, the second trial
    assert "I think it over." in second.text, "the reasoning, not the answer alone"
    assert task.context[0].text in second.text


@pytest.mark.req("L6")
@pytest.mark.parametrize(("choice", "shown"), [("supporting", False), ("all", True)])
def test_a_set_up_with_context_is_shown_the_supporting_passages_or_all(tried: Tried, choice: str, shown: bool):
    passages = [
        {"title": "Town", "text": "It lies on the Wend.", "supporting": True},
        {"title": "Hill", "text": "High."},
    ]
    task = Task(id="t", task="Which river?", answer="Wend", context=passages)
    model = RoleModel(decide="Answer: Wend")
    tried([task], model, "cot+context", context=choice)
    assert "It lies on the Wend." in model.asked[0].text
    assert ("High." in model.asked[0].text) == shown


@pytest.mark.req("L9", "L4")
def test_long_term_memory_is_written_and_used_where_run_memory_is_off(tried: Tried):
    store = InMemoryStore()
    task = towns(1)[0].model_copy(update={"topic": "rivers"})
    memo = {"kind": "rule", "text": "Look for the name that the people of the town use.", "when": "naming a river"}

    def reflect(_question: Any) -> Any:
        return reflection("Ask the people of the town first.", memory_to_write=[memo])

    model = RoleModel(decide="Answer: Danube", reflect=reflect)
    tried([task], model, "cot+reflexion", folder="a", lessons=store, run_memory=False)
    prompts = [question.text for question in model.asked if question.role == "decide"]
    assert len(set(prompts)) == 1, "no trial is shown those before it"
    assert [lesson.topic for lesson in LessonBook(store, ("evals", "cot+reflexion")).lessons()] == ["rivers"]
    again = RoleModel(decide="Answer: Danube", reflect=reflect)
    tried([task], again, "cot+reflexion", folder="b", lessons=store, run_memory=False)
    assert memo["text"] in again.asked[0].text


@pytest.mark.req("L8")
def test_tools_of_your_own_take_the_place_of_the_search_and_a_server_without_tools_works(tried: Tried):
    [task] = towns(1)
    looked: list[str] = []

    def ask_the_mayor(question: str) -> str:
        """Ask the mayor."""
        looked.append(question)
        return "It is River 0."

    model = RoleModel(decide=[call("ask_the_mayor", question="Which?"), say("Answer: River 0")])
    with ModelServer(model, text_only=True) as server:
        found = tried([task], server.chat(), "react", tools=[ask_the_mayor], protocol="json")
    assert found["react"][task.id].solved_at == 1
    assert looked == ["Which?"]


@pytest.mark.req("L1")
@pytest.mark.slow
def test_repeats_have_luck_of_their_own_and_are_done_once(tmp_path: Path):
    tasks = towns(6)
    experiment = Experiment(tasks, find_setups("cot"), taught(tasks, skill=0.5), trials=1, repeats=3)
    found = asyncio.run(run_experiment(experiment, tmp_path))["cot"]
    assert len({(one.task, one.repeat) for one in found}) == len(found) == 18
    assert len({tuple(one.solved_at for one in found if one.repeat == repeat) for repeat in (1, 2, 3)}) > 1


@pytest.mark.req("L1")
def test_two_calls_in_one_folder_do_not_do_the_same_tasks_twice(tmp_path: Path):
    experiment = Experiment(towns(2), find_setups("cot"), taught(towns(2), skill=1.0), trials=1)

    async def twice() -> list[Any]:
        return await asyncio.gather(*(run_experiment(experiment, tmp_path) for _ in "ab"), return_exceptions=True)

    first, second = asyncio.run(twice())
    assert len(first["cot"]) == 2
    assert isinstance(second, LedgerError)
    assert "another eval is running there" in str(second)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


@pytest.mark.req("L10")
@pytest.mark.slow
def test_a_simulated_student_may_win_by_asking_again_and_counts_no_tokens(tried: Tried):
    tasks = towns(6)
    found = tried(tasks, taught(tasks, skill=0.0, again=0.5), "cot")["cot"]
    assert any(one.solved_at and one.solved_at > 1 for one in found.values())
    assert not any(one.tokens for one in found.values())


def test_another_task_under_the_same_id_is_refused(tried: Tried):
    tasks = towns(1)
    tried(tasks, taught(tasks), "cot")
    other = [tasks[0].model_copy(update={"task": "Which hill?"})]
    with pytest.raises(ValueError, match="its task 't0' is different"):
        tried(other, taught(other), "cot")


@pytest.mark.req("L1")
def test_evals_stand_on_the_public_names_alone():
    import langgraph_reflexion as package
    from langgraph_reflexion import checks, testing

    public = {module.__name__: set(module.__all__) for module in (package, checks, testing)}
    public["langgraph_reflexion"] |= {"checks"}
    for file in Path(package.__file__).with_name("evals").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            module = str(node.module) if isinstance(node, ast.ImportFrom) else ""
            if module.startswith(package.__name__) and not module.startswith(f"{package.__name__}.evals"):
                assert {name.name for name in node.names} <= public[module], file.name
