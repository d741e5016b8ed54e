"""An experiment: run every task under every set-up, concurrently, and save each result at once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore
from pydantic import ConfigDict
from typing_extensions import override

from langgraph_reflexion import Attempt, LessonBook, Limits, MemoryPolicy, Outcome, create_trial_graph
from langgraph_reflexion.evals.grading import check_for, kind_of
from langgraph_reflexion.evals.ledger import (
    Ledger,
    LedgerError,
    Result,
    Results,
    Timing,
    Trial,
    transcript_file,
)
from langgraph_reflexion.evals.setups import Setup
from langgraph_reflexion.evals.student import SIMULATED, Student
from langgraph_reflexion.evals.tasks import ContextChoice, Task, TaskContext
from langgraph_reflexion.evals.workers import Protocol, cot_worker, react_worker, search_tools
from langgraph_reflexion.testing import RoleModel, ScriptedModel

NO_STALL = 1_000
"""Attempts without improvement. Answers are right or wrong, so a lack of improvement never ends a task."""
RETRIES = 2
"""Retries of a worker in one trial, because a short server failure is not a wrong answer."""
CHARACTERS = 4
"""Characters per token in English, by OpenAI's rule of thumb."""
PROMPT_TOKENS, REFLECTION_TOKENS = 100, 1_100
"""The instructions of a worker, and the question of a reflection with its schema, by that rule."""
REPLY_TOKENS = 250
"""Assumed of each reply and each search result; a model that reasons at length writes more."""
Job = tuple[Setup, Task, int]
"""Set-up, task and repeat."""


class Cost(NamedTuple):
    """The calls and tokens of an experiment."""

    calls: int
    input: int
    output: int

    def plus(self, calls: int, read: int) -> Cost:
        """This cost plus some calls that read a number of tokens."""
        return Cost(self.calls + calls, self.input + read, self.output + calls * REPLY_TOKENS)


@dataclass(frozen=True)
class Experiment:
    """The tasks, set-ups and models of an experiment."""

    tasks: Sequence[Task]
    setups: Sequence[Setup]
    model: BaseChatModel | str
    """The actor. A name instead of a model is allowed only for a plan."""
    judge: BaseChatModel | str | None = None
    """Judges the answers. Without it they are compared with the right ones."""
    reflector: BaseChatModel | str | None = None
    check: Callable[..., Any] | None = None
    """A check of (answer, run) instead of each task's own. `run.context.task` is the task."""
    tools: Any = None
    """Tools of the ReAct set-ups. By default, a search over each task's passages."""
    protocol: Protocol = "auto"
    context: ContextChoice = "supporting"
    """The passages that a chain of thought is shown: the supporting ones, if a task marks them, or all."""
    reflection: Literal["structured", "free"] = "structured"
    trials: int = 5
    steps: int = 5
    reflections: int = 4
    repeats: int = 1
    run_memory: bool = True
    """Whether a trial is shown earlier trials."""
    lessons: BaseStore | None = None
    """Where lessons of a set-up are saved for later tasks. Without it, none are."""

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        for name, least in (("trials", 1), ("steps", 1), ("reflections", 0), ("repeats", 1)):
            _check_whole(name, getattr(self, name), least)

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

    def planned(self) -> tuple[Cost, Cost]:
        """The minimum and maximum cost, if every reply can be parsed at once.

        Tokens are estimated from the texts that are known now.
        """
        least, most = Cost(0, 0, 0), Cost(0, 0, 0)
        for setup, task, _ in self.jobs():
            steps, strategy = self.steps if setup.worker == "react" else 1, self._strategy(setup)
            judged = int(self.check is None and kind_of(task, judged=self.judge is not None)[0] == "judge")
            shown = "".join(map(str, task.passages(self.context))) if setup.context else ""
            prompt = PROMPT_TOKENS + (len(task.task) + len(shown)) // CHARACTERS
            judging = judged * (prompt + REPLY_TOKENS)
            # Under `last_trial` the reflector names the mistakes.
            reflections = min(self.reflections, self.trials - 1) * (strategy != "none")
            read = self.trials * judging + reflections * (REFLECTION_TOKENS + prompt + 2 * steps * REPLY_TOKENS)
            for trial in range(self.trials):
                plans = trial * REPLY_TOKENS if strategy in ("reflexion", "both") else 0
                before = prompt + steps * REPLY_TOKENS if trial and strategy in ("last_trial", "both") else 0
                # Each step reads the replies and results of those before it.
                read += steps * (prompt + plans + before) + steps * (steps - 1) * REPLY_TOKENS
            least = least.plus(1 + judged, prompt + judging)
            most = most.plus(self.trials * (steps + judged) + reflections, read)
        return least, most

    def _strategy(self, setup: Setup) -> Any:
        """The strategy of a set-up. Reflections are also made if only later tasks use their lessons."""
        keep = self.run_memory or (self.lessons is not None and setup.strategy in ("reflexion", "both"))
        return setup.strategy if keep else "none"


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` must be a whole number of {least} or more, got {value!r}")


def describe_model(model: BaseChatModel | str | None) -> str | None:
    """The name of a model for its figures, or that it is simulated or scripted."""
    if isinstance(model, Student):
        return f"{SIMULATED}, seed {model.seed}"
    if isinstance(model, (RoleModel, ScriptedModel)):
        return "scripted model"
    if model is None or isinstance(model, str):
        return model
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return str(name or type(model).__name__)


async def run_experiment(
    experiment: Experiment,
    folder: Path | str,
    *,
    concurrency: int = 20,
    saver: Any = None,
    pace: Pace | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Results:
    """Run everything that is not in the folder yet, and return all results, by set-up.

    If cancelled, it leaves each finished task in the folder. With a checkpointer, an unfinished task can also continue.
    A wrong key or setting of a model is raised, because every other task would fail too.
    """
    _check_whole("concurrency", concurrency, 1)
    for model in (experiment.model, experiment.judge or experiment.model, experiment.reflector or experiment.model):
        if not isinstance(model, BaseChatModel):
            raise ValueError(f"an experiment that runs needs a chat model, not a name, got {model!r}")
    pace, ledger = pace or Pace(), Ledger(Path(folder), experiment.plan())
    left = [job for job in experiment.jobs() if not _is_done(ledger, job)]
    waiting, began = iter(left), time.monotonic()
    running: set[_Run] = set()

    async def work() -> None:
        for job in waiting:  # shared by all workers, each of which takes the next job
            run = _Run(experiment, job, ledger, pace, saver)
            running.add(run)
            result = await run.result()
            if pace.fault is not None:
                raise pace.fault
            ledger.add(result)
            await run.forget()
            running.remove(run)
            on_result(result)

    workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(left)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        if pace.fault is not None:  # what a wrong key used up were no attempts
            await asyncio.gather(*(run.forget() for run in running))
    if left:
        ledger.add_time(Timing(seconds=time.monotonic() - began, concurrency=concurrency, tasks=len(left)))
    return ledger.results


def _is_done(ledger: Ledger, job: Job) -> bool:
    """Whether this task is done. A broken task is not. Another task with the same id is refused."""
    setup, task, repeat = job
    result = ledger.get(setup.name, task.id, repeat)
    if result is not None and result.digest not in ("", task.digest):
        raise LedgerError(
            f"{ledger.folder} holds another experiment: its task {task.id!r} is not this one; "
            "choose another folder with --out"
        )
    return result is not None and result.error is None


class _Run:
    """Run one task under one set-up. It continues a stopped task, and a broken one starts over."""

    def __init__(self, experiment: Experiment, job: Job, ledger: Ledger, pace: Pace, saver: Any) -> None:
        self.experiment, self.pace, self.ledger = experiment, pace, ledger
        self.setup, self.task, self.repeat = job
        # Without run memory each trial is given the first prompt again, which a resumed one would not know.
        self.saver = saver if experiment.run_memory else None
        self.namespace = ("evals", self.setup.name)
        self.thread = f"{self.setup.name}/{self.task.id}/{self.repeat}"
        self.first_prompt: str | None = None

    async def result(self) -> Result:
        """Its result. An exception breaks only this task."""
        began = time.perf_counter()
        task = self.task
        about: Any = {"setup": self.setup.name, "task": task.id, "repeat": self.repeat, "digest": task.digest}
        try:
            outcome = await self._outcome()
        except Exception as error:  # noqa: BLE001 — one task that breaks costs the others nothing
            return Result(**about, error=f"{type(error).__name__}: {error}", seconds=time.perf_counter() - began)
        usage = outcome.usage
        return Result(
            **about,
            solved_at=len(outcome.attempts) if outcome.status == "success" else None,
            stop_reason=outcome.stop_reason,
            trials=[_trial_of(attempt) for attempt in outcome.attempts],
            plans=[reflection.as_text() for reflection in outcome.reflections],
            reflections=usage.reflection.calls,
            lessons_used=await self._lesson_texts(outcome.lessons_used),
            input=usage.input + usage.reflection.input,
            output=usage.output + usage.reflection.output,
            calls=usage.calls + usage.reflection.calls,
            seconds=outcome.seconds,
            error=outcome.reason if outcome.stop_reason == "model_error" else None,
        )

    async def _outcome(self) -> Outcome:
        graph = self._graph()
        file = transcript_file(self.ledger.folder, self.setup.name, self.task.id, self.repeat)
        config: RunnableConfig = {
            "callbacks": [Transcript(file)],
            "configurable": {"thread_id": self.thread},
            "recursion_limit": 50 * self.experiment.trials + 50,
        }
        broke = self.ledger.get(self.setup.name, self.task.id, self.repeat) is not None
        kept = None if self.saver is None else await graph.aget_state(config)
        if kept is not None and not broke and not kept.tasks and kept.values.get("outcome") is not None:
            # It ended just before a crash, so it must not be paid for or learned from again.
            return cast(Outcome, kept.values["outcome"])
        start: Any = {"messages": [("user", self.task.task)]}
        if kept is not None and kept.tasks and not broke:
            start = None
        else:
            file.unlink(missing_ok=True)
            await self.forget()
        options: dict[str, Any] = {} if self.saver is None else {"durability": "sync"}
        final = await graph.ainvoke(start, config, context=TaskContext(task=self.task), **options)
        return cast(Outcome, final["outcome"])

    async def forget(self) -> None:
        """Delete the data for resuming it."""
        if self.saver is not None:
            await self.saver.adelete_thread(self.thread)

    def _graph(self) -> Any:
        experiment, setup, task = self.experiment, self.setup, self.task
        model = self._paced(experiment.model)
        if setup.worker == "cot":
            worker = cot_worker(model, task.passages(experiment.context) if setup.context else ())
        else:
            tools = search_tools(task.context) if experiment.tools is None else experiment.tools
            worker = react_worker(model, tools, experiment.steps, experiment.protocol)
        if not experiment.run_memory:
            worker["input"] = self._repeat_first_prompt
        lasting, topic = experiment.lessons is not None, task.topic
        topics = None if topic is None else lambda _: topic
        return create_trial_graph(
            **worker,
            checks=[experiment.check or check_for(task, experiment.judge and self._paced(experiment.judge))],
            strategy=experiment._strategy(setup),
            reflection=experiment.reflection,
            retries=RETRIES,
            reflector=self._paced(experiment.reflector) if experiment.reflector is not None else model,
            limits=Limits(
                max_attempts=experiment.trials, max_reflections=experiment.reflections, stalled_attempts=NO_STALL
            ),
            memory=MemoryPolicy(namespace=self.namespace, read=lasting, write=lasting, topics=topics),
            context_schema=TaskContext,
            store=experiment.lessons,
            checkpointer=self.saver,
        )

    def _paced(self, model: BaseChatModel | str | None) -> BaseChatModel:
        assert isinstance(model, BaseChatModel)  # `run_experiment` refuses anything else
        return PacedModel(model.for_job(self.repeat) if isinstance(model, Student) else model, self.pace)

    def _repeat_first_prompt(self, prompt: str, state: Any) -> dict[str, Any]:
        """Show each trial what the first one saw: the task, and lessons of earlier tasks."""
        self.first_prompt = self.first_prompt or prompt
        return {"messages": [("user", self.first_prompt)]}

    async def _lesson_texts(self, ids: Sequence[str]) -> list[str]:
        if self.experiment.lessons is None:
            return []
        book = LessonBook(self.experiment.lessons, self.namespace)
        found = [await book.aget(id) for id in ids]
        return [lesson.text for lesson in found if lesson is not None]


def _trial_of(attempt: Attempt) -> Trial:
    complaints = [part for verdict in attempt.verdicts for part in (verdict.feedback, *verdict.issues) if part]
    return Trial(
        answer=attempt.answer,
        score=attempt.score,
        complaints=complaints or [failure.evidence for failure in attempt.failures],
        seconds=attempt.seconds,
        tokens=attempt.usage.total,
    )


# ------------------------------------------------------------ transcripts


class Transcript(BaseCallbackHandler):
    """Writes one line per model call: who asked, the question, the reply."""

    run_inline = True
    ignore_chain = True  # a transcript has model calls, not the many steps of a graph

    def __init__(self, file: Path) -> None:
        self._path = file
        self._open: dict[UUID, dict[str, Any]] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep the question until its answer is there."""
        metadata = kwargs.get("metadata") or {}
        who = str(metadata.get("langgraph_node") or kwargs.get("name") or "model")
        self._open[run_id] = {"who": who, "asked": [_message_data(message) for message in messages[0]]}

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Write question and answer."""
        found = response.generations[0][0]
        if isinstance(found, ChatGeneration):
            self._write(run_id, "answer", _message_data(found.message))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Write the question and what broke."""
        self._write(run_id, "error", f"{type(error).__name__}: {error}")

    def _write(self, run_id: UUID, name: str, value: Any) -> None:
        call = {**self._open.pop(run_id, {"who": "model", "asked": []}), name: value}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")


def _message_data(message: BaseMessage) -> dict[str, str]:
    calls = [
        f"→ {call['name']}({json.dumps(call['args'], ensure_ascii=False)})"
        for call in getattr(message, "tool_calls", [])
    ]
    return {"role": message.type, "text": "\n".join(part for part in (str(message.text), *calls) if part)}


# ------------------------------------------------------------ pace

LONGEST_WAIT = 60.0
"""Seconds: providers count requests by the minute."""
MAX_WAITS = 100
"""Refusals of one call before it fails: more than an hour."""
WRONG_SETTING = (401, 403, 404)
"""Status codes that no later call would change: a wrong key, no permission, no such model."""


class Pace:
    """Slows down all calls together when a provider's rate limit is reached, without failing any."""

    def __init__(self) -> None:
        self.refusals = 0
        """How often the provider said to slow down."""
        self.fault: BaseException | None = None
        """A wrong key or setting, which only a person can fix."""
        self._refused_in_a_row = 0
        self._resume_at = 0.0

    async def call(self, ask: Callable[[], Awaitable[ChatResult]]) -> ChatResult:
        """The reply to a call, after waiting as long as the provider asks for."""
        refused = 0
        while True:
            await self._wait()
            if self.fault is not None:
                raise self.fault
            try:
                reply = await ask()
            except Exception as error:  # each provider has an exception of its own
                status, refused = getattr(error, "status_code", None), refused + 1
                if status in WRONG_SETTING:
                    self.fault = error
                # Waiting does not help an account without money.
                if refused > MAX_WAITS or status != 429 or getattr(error, "code", None) == "insufficient_quota":
                    raise
                self._hold_back(error)
            else:
                self._refused_in_a_row = 0
                return reply

    async def _wait(self) -> None:
        wait = self._resume_at - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
            await self._wait()  # others may have been refused meanwhile

    def _hold_back(self, error: BaseException) -> None:
        now = time.monotonic()
        self.refusals += 1
        if now >= self._resume_at:  # calls that were refused together are one refusal
            self._refused_in_a_row += 1
        headers = getattr(getattr(error, "response", None), "headers", {})
        try:
            seconds = float(headers.get("retry-after") or "")
        except (TypeError, ValueError):
            seconds = 0.5 * 2**self._refused_in_a_row
        self._resume_at = max(self._resume_at, now + min(seconds, LONGEST_WAIT))


class PacedModel(BaseChatModel):
    """A chat model whose calls are paced. Everything else is the model's own."""

    inner: BaseChatModel
    pace: Any

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def __init__(self, inner: BaseChatModel, pace: Pace) -> None:
        super().__init__(inner=inner, pace=pace, profile=inner.profile)  # type: ignore[call-arg] # fields of pydantic's

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Tools in the form that the inner model wants."""
        bound = self.inner.bind_tools(tools, tool_choice=tool_choice, **kwargs)
        return self.bind(**bound.kwargs) if isinstance(bound, RunnableBinding) else bound

    @override
    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return self.inner._generate(messages, stop, run_manager, **kwargs)

    @override
    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        reply: ChatResult = await self.pace.call(lambda: self.inner._agenerate(messages, stop, run_manager, **kwargs))
        return reply
