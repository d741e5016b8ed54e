"""An experiment: every task under every set-up, many at once, each result kept when it is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore

from langgraph_reflexion.context import Limits, MemoryPolicy
from langgraph_reflexion.evals.grading import grader, kind_of
from langgraph_reflexion.evals.ledger import Ledger, Result, Trial
from langgraph_reflexion.evals.pacing import Pace
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.evals.tasks import Task, TaskContext
from langgraph_reflexion.evals.transcripts import Transcript
from langgraph_reflexion.evals.workers import worker_for
from langgraph_reflexion.graph import create_trial_graph
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Attempt, Outcome

NO_STALL = 1_000
RETRIES = 2
"""Calls of a worker again in one trial: a server that fails for a moment is no wrong answer."""
APART = 0.0025
"""Seconds between the first tasks: those that begin together think side by side, and then all wait at once."""
Told = Callable[[Result], None]


@dataclass(frozen=True)
class Experiment:
    """What is tried, and with what."""

    tasks: Sequence[Task]
    setups: Sequence[Setup]
    model: BaseChatModel | None = None
    judge: BaseChatModel | None = None
    judged: bool = False
    """Whether a judge is asked; there may be none yet."""
    check: Callable[..., Any] | None = None
    """A check of (answer, run) in place of each task's own; `run.context.task` is the task."""
    reflector: BaseChatModel | None = None
    trials: int = 5
    steps: int = 5
    reflections: int = 4
    run_memory: bool = True
    """Whether a trial is told of those before it."""
    lessons: BaseStore | None = None
    """Where lessons of a set-up outlive a task; without it none do."""

    def jobs(self) -> list[tuple[Setup, Task]]:
        """Every task under every set-up."""
        return [(setup, task) for setup in self.setups for task in self.tasks]


async def run(
    experiment: Experiment, ledger: Ledger, pace: Pace, saver: Any = None, told: Told = lambda _: None
) -> None:
    """Do what the ledger does not hold yet. Cancelled, it leaves each finished task in the ledger.

    A wrong key or setting of a model is raised: no other task would fare better.
    """
    left = [job for job in experiment.jobs() if not ledger.has(job[0].name, job[1].id)]
    waiting = iter(left)
    graphs = _graphs(experiment, saver)

    async def hand() -> None:
        for setup, task in waiting:  # shared by all hands: each takes the next
            broke = task.id in ledger.results.get(setup.name, {})
            result = await _worked(experiment, graphs[setup.name], setup, task, ledger.folder, saver, broke=broke)
            if pace.fault is not None:
                raise pace.fault
            ledger.add(result)
            if saver is not None:
                await saver.adelete_thread(_thread(setup, task))
            told(result)

    hands: list[asyncio.Task[None]] = []
    try:
        for _ in range(min(pace.most, len(left))):
            hands.append(asyncio.create_task(hand()))
            await asyncio.sleep(APART)
        await asyncio.gather(*hands)
    finally:
        for one in hands:
            one.cancel()
        await asyncio.gather(*hands, return_exceptions=True)


async def _worked(
    experiment: Experiment, graph: Graph, setup: Setup, task: Task, folder: Path, saver: Any, *, broke: bool
) -> Result:
    """One task, from where a stopped experiment left it; one that broke begins anew."""
    began = time.perf_counter()
    transcript = Transcript(folder, setup.name, task.id)
    config: RunnableConfig = {
        "callbacks": [transcript],
        "configurable": {"thread_id": _thread(setup, task)},
        "recursion_limit": 50 * experiment.trials + 50,
    }
    how: dict[str, Any] = {} if saver is None else {"durability": "sync"}
    start: Any = {"messages": [("user", task.task)]}
    kept = None if saver is None else await graph.aget_state(config)
    ended = None if kept is None or broke or kept.tasks else kept.values.get("outcome")
    if kept is not None and kept.tasks:
        start = None
    elif ended is None:
        transcript.clear()
        if saver is not None:
            await saver.adelete_thread(_thread(setup, task))
    try:
        # What came to its end just before a crash is neither paid for nor learned from a second time.
        outcome: Outcome = (
            ended or (await graph.ainvoke(start, config, context=TaskContext(task=task), **how))["outcome"]
        )
    except Exception as fault:  # noqa: BLE001 — one task that breaks costs the others nothing
        seconds = time.perf_counter() - began
        return Result(setup=setup.name, task=task.id, error=f"{type(fault).__name__}: {fault}", seconds=seconds)
    finally:
        transcript.close()
    return _result(setup, task, outcome, await _texts(experiment, setup, outcome.lessons_used))


def _graphs(experiment: Experiment, saver: Any) -> dict[str, Graph]:
    """The graph of each set-up. A run's context holds its task."""
    lasting, words = experiment.lessons is not None, Prompts()
    model = cast("BaseChatModel", experiment.model)
    grade = experiment.check or grader(experiment.tasks, experiment.judge)
    return {
        setup.name: create_trial_graph(
            **worker_for(setup, model, experiment.steps, words),
            checks=[grade],
            strategy=setup.strategy if experiment.run_memory else "none",
            retries=RETRIES,
            reflector=experiment.reflector or model,
            limits=Limits(
                max_attempts=experiment.trials,
                max_reflections=experiment.reflections,
                stalled_attempts=NO_STALL,  # right or wrong is no slope
            ),
            memory=MemoryPolicy(namespace=_place(setup), read=lasting, write=lasting),
            context_schema=TaskContext,
            store=experiment.lessons,
            checkpointer=saver,
        )
        for setup in experiment.setups
    }


def _thread(setup: Setup, task: Task) -> str:
    """Where a task that is not finished is kept."""
    return f"{setup.name}/{task.id}"


def _place(setup: Setup) -> tuple[str, ...]:
    return ("evals", setup.name)


async def _texts(experiment: Experiment, setup: Setup, ids: Sequence[str]) -> list[str]:
    if experiment.lessons is None:
        return []
    book = LessonBook(experiment.lessons, _place(setup))
    found = [await book.aget(one) for one in ids]
    return [lesson.text for lesson in found if lesson is not None]


def _result(setup: Setup, task: Task, outcome: Outcome, lessons: list[str]) -> Result:
    spent = outcome.usage
    return Result(
        setup=setup.name,
        task=task.id,
        solved_at=len(outcome.attempts) if outcome.status == "success" else None,
        stop_reason=outcome.stop_reason,
        trials=[_trial(one) for one in outcome.attempts],
        plans=[one.as_text() for one in outcome.reflections],
        reflections=spent.reflection.calls,
        lessons_used=lessons,
        input=spent.input + spent.reflection.input,
        output=spent.output + spent.reflection.output,
        calls=spent.calls + spent.reflection.calls,
        seconds=outcome.seconds,
        error=outcome.reason if outcome.stop_reason == "model_error" else None,
    )


def _trial(attempt: Attempt) -> Trial:
    said = [part for verdict in attempt.verdicts for part in (verdict.feedback, *verdict.issues) if part]
    return Trial(
        answer=attempt.answer,
        score=attempt.score,
        said=said + [failure.evidence for failure in attempt.failures if not said],
        seconds=attempt.seconds,
        tokens=attempt.usage.total,
    )


def planned_calls(experiment: Experiment) -> tuple[int, int]:
    """The fewest and the most model calls that the whole may take, where every reply can be read at once."""
    least = most = 0
    for setup, task in experiment.jobs():
        work = experiment.steps if setup.worker == "react" else 1
        judged = int(_asks_a_judge(experiment, task))
        tells = experiment.run_memory and setup.strategy in ("reflexion", "both")
        least += 1 + judged
        most += experiment.trials * (work + judged) + min(experiment.reflections, experiment.trials - 1) * tells
    return least, most


def _asks_a_judge(experiment: Experiment, task: Task) -> bool:
    if experiment.check is not None:
        return bool(getattr(experiment.check, "asks_model", False))
    return kind_of(task, judged=experiment.judged)[0] == "judge"
