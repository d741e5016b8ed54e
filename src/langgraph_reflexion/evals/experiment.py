"""An experiment: run every task under every set-up, concurrently, and save each result at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.exceptions import ModelAuthenticationError
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore
from pydantic import ConfigDict, Field, SkipValidation
from pydantic.dataclasses import dataclass

from langgraph_reflexion import LessonBook, Limits, MemoryPolicy, ModelError, Outcome, create_trial_graph
from langgraph_reflexion.evals.grading import check_for
from langgraph_reflexion.evals.ledger import Ledger, LedgerError, Result, Results, Timing, load_results, lock_folder
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.evals.student import Student
from langgraph_reflexion.evals.tasks import ContextChoice, Task, TaskContext
from langgraph_reflexion.evals.workers import Protocol, cot_worker, react_worker, search_tools

NO_STALL = 1_000
"""Attempts without improvement. Answers are right or wrong, so a lack of improvement never ends a task."""
RETRIES = 2
"""Retries of a worker in one trial, because a short server failure is not a wrong answer."""
NO_ACCESS = "The model refuses the key. Finished tasks are saved: set the right key and run this again. "
Job = tuple[Setup, Task, int]
"""Set-up, task and repeat."""


@dataclass(frozen=True, config=ConfigDict(arbitrary_types_allowed=True, strict=True))
class Experiment:
    """The tasks, set-ups and models of an experiment. A model may be wrapped, as `with_retry` does."""

    tasks: Sequence[Task]
    setups: Sequence[Setup]
    model: SkipValidation[BaseChatModel]
    """The actor."""
    judge: SkipValidation[BaseChatModel | None] = None
    """Judges the answers. Without it they are compared with the right ones."""
    reflector: SkipValidation[BaseChatModel | None] = None
    check: SkipValidation[Callable[..., Any] | None] = None
    """A check of (answer, run) instead of each task's own. `run.context.task` is the task."""
    tools: Any = None
    """Tools of the ReAct set-ups. By default, a search over each task's passages."""
    protocol: Protocol = "auto"
    context: ContextChoice = "supporting"
    """The passages that a chain of thought is shown: the supporting ones, if a task marks them, or all."""
    reflection: Literal["structured", "free"] = "structured"
    trials: int = Field(default=5, ge=1)
    steps: int = Field(default=5, ge=1)
    reflections: int = Field(default=4, ge=0)
    repeats: int = Field(default=1, ge=1)
    run_memory: bool = True
    """Whether a trial is shown earlier trials."""
    lessons: BaseStore | None = None
    """Where lessons of a set-up are saved for later tasks. Without it, none are."""

    def __post_init__(self) -> None:
        """Refuse what is not a tool or a check."""
        if self.tools is not None:
            react_worker(self.model, self.tools, self.steps, self.protocol)
        checks = [self.check] if self.check is not None else [check_for(task, self.judge) for task in self.tasks]
        create_trial_graph(lambda _: "", checks)

    def jobs(self) -> list[Job]:
        """Every task under every set-up, as often as it is repeated."""
        repeats = range(1, self.repeats + 1)
        return [(setup, task, repeat) for repeat in repeats for setup in self.setups for task in self.tasks]

    def plan(self) -> dict[str, Any]:
        """The settings that must stay the same to resume in a folder. Tasks, set-ups and repeats may be added."""
        names = ("protocol", "context", "reflection", "trials", "steps", "reflections", "run_memory")
        return {
            "model": describe_model(self.model),
            "temperature": getattr(self.model, "temperature", None),
            "judge": describe_model(self.judge),
            "reflector": describe_model(self.reflector),
            "check": getattr(self.check, "__name__", None),
            "tools": self.tools is not None,
            "lessons": self.lessons is not None,
            **{name: getattr(self, name) for name in names},
        }


def describe_model(model: BaseChatModel | None) -> str | None:
    """The name of a model for its figures. A simulated or scripted one is named as what it is."""
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return None if model is None else str(name or type(model).__name__)


async def run_experiment(
    experiment: Experiment,
    folder: Path | str,
    *,
    concurrency: int = 20,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Results:
    """Run everything that is not in the folder yet, and return all results, by set-up.

    If cancelled or without access to a model, it leaves each finished task in the folder. If another call is running
    there, it raises a `LedgerError`.
    """
    if concurrency < 1:
        raise ValueError(f"`concurrency` must be 1 or more, got {concurrency!r}")
    with lock_folder(folder):
        return await run_in_locked(folder, experiment, concurrency, on_result)


async def run_in_locked(
    folder: Path | str, experiment: Experiment, concurrency: int, on_result: Callable[[Result], None]
) -> Results:
    """Run an experiment in a folder that the caller has locked."""
    ledger = Ledger(Path(folder), experiment.plan())
    left = [job for job in experiment.jobs() if not _is_done(ledger, job)]
    waiting, began = iter(left), time.monotonic()

    async def work() -> None:
        for job in waiting:  # shared by all workers, each of which takes the next job
            result = await _result_of(experiment, job)
            ledger.add(result)
            on_result(result)

    workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(left)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    if left:
        ledger.add_time(Timing(seconds=time.monotonic() - began, concurrency=concurrency, tasks=len(left)))
    return load_results(folder)


def _is_done(ledger: Ledger, job: Job) -> bool:
    """Whether this task is done. A broken task is not. Another task with the same id is refused."""
    setup, task, repeat = job
    result = ledger.done.get((setup.name, task.id, repeat))
    if result is not None and result.digest not in ("", task.digest):
        raise LedgerError(
            f"{ledger.folder} contains another experiment: its task {task.id!r} is different; "
            "choose another folder with --out"
        )
    return result is not None and result.error is None


async def _result_of(experiment: Experiment, job: Job) -> Result:
    """The result of one task under one set-up. An exception breaks only this task, unless no other can work either."""
    began = time.perf_counter()
    setup, task, repeat = job
    about: Any = {"setup": setup.name, "task": task.id, "repeat": repeat, "digest": task.digest}
    config: RunnableConfig = {"recursion_limit": 50 * experiment.trials + 50}
    start = {"messages": [("user", task.task)]}
    try:
        final = await _graph_for(experiment, job).ainvoke(start, config, context=TaskContext(task=task))
    except ModelAuthenticationError as error:
        raise ModelError(f"{NO_ACCESS}{error}") from error
    except Exception as error:  # noqa: BLE001 — one task that breaks costs the others nothing
        return Result(**about, error=f"{type(error).__name__}: {error}", seconds=time.perf_counter() - began)
    outcome: Outcome = final["outcome"]
    usage = outcome.usage
    return Result(
        **about,
        solved_at=len(outcome.attempts) if outcome.status == "success" else None,
        stop_reason=outcome.stop_reason,
        trials=[attempt.model_dump() for attempt in outcome.attempts],
        plans=[reflection.as_text() for reflection in outcome.reflections],
        reflections=usage.reflection.calls,
        lessons_used=await _lesson_texts(experiment, setup, outcome.lessons_used),
        input=usage.input + usage.reflection.input,
        output=usage.output + usage.reflection.output,
        calls=usage.calls + usage.reflection.calls,
        seconds=outcome.seconds,
        error=_why_broken(outcome),
    )


def _graph_for(experiment: Experiment, job: Job) -> Any:
    setup, task, repeat = job
    model = _for_job(experiment.model, repeat)
    if setup.worker == "cot":
        worker = cot_worker(model, task.passages(experiment.context) if setup.context else ())
    else:
        tools = search_tools(task.context) if experiment.tools is None else experiment.tools
        worker = react_worker(model, tools, experiment.steps, experiment.protocol)
    if not experiment.run_memory:
        worker["input"] = _repeat_first_prompt()
    lasting, topic = experiment.lessons is not None, task.topic
    # Reflections are also made if only later tasks use their lessons.
    reflects = experiment.run_memory or (lasting and setup.strategy in ("reflexion", "both"))
    return create_trial_graph(
        **worker,
        checks=[experiment.check or check_for(task, experiment.judge and _for_job(experiment.judge, repeat))],
        strategy=setup.strategy if reflects else "none",
        reflection=experiment.reflection,
        retries=RETRIES,
        reflector=model if experiment.reflector is None else _for_job(experiment.reflector, repeat),
        limits=Limits(
            max_attempts=experiment.trials, max_reflections=experiment.reflections, stalled_attempts=NO_STALL
        ),
        memory=MemoryPolicy(
            namespace=_namespace(setup), read=lasting, write=lasting, topics=None if topic is None else lambda _: topic
        ),
        context_schema=TaskContext,
        store=experiment.lessons,
    )


def _for_job(model: BaseChatModel, repeat: int) -> BaseChatModel:
    return model.for_job(repeat) if isinstance(model, Student) else model


def _repeat_first_prompt() -> Callable[[str, Any], dict[str, Any]]:
    """An `input` that shows each trial what the first one saw: the task, and lessons of earlier tasks."""
    prompts: list[str] = []

    def show(prompt: str, _state: Any) -> dict[str, Any]:
        prompts.append(prompt)
        return {"messages": [("user", prompts[0])]}

    return show


def _namespace(setup: Setup) -> tuple[str, str]:
    return "evals", setup.name


async def _lesson_texts(experiment: Experiment, setup: Setup, ids: Sequence[str]) -> list[str]:
    if experiment.lessons is None:
        return []
    book = LessonBook(experiment.lessons, _namespace(setup))
    return [lesson.text for id in ids if (lesson := await book.aget(id)) is not None]


def _why_broken(outcome: Outcome) -> str | None:
    """Why a run says nothing about its set-up: the model could not be called, or the last answer could not be
    checked."""
    if outcome.stop_reason == "model_error":
        return outcome.reason
    if outcome.status == "success" or not outcome.failures:
        return None
    last = outcome.failures[-1]
    return last.evidence if last.is_broken_check else None
