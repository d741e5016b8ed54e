"""A trial's worker: how it is called, how its answer is read, and how many model calls it may make."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.errors import ParentCommand
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol
from pydantic import BaseModel
from pydantic_core import to_json

from langgraph_reflexion.context import field_of
from langgraph_reflexion.driver import (
    INJECTED,
    NeedsAsyncError,
    Wait,
    Waits,
    accepts,
    call_function,
    default_config,
    either,
    model_named,
    sync_result,
)
from langgraph_reflexion.nodes.host import as_runnable, checkpoints, remote_graph_config
from langgraph_reflexion.nodes.models.calling import Meter, cut_off_by_provider, refusal_in, with_handlers
from langgraph_reflexion.nodes.models.choice import Model, chat_models_in, plain
from langgraph_reflexion.nodes.models.transcript import answer_of
from langgraph_reflexion.schemas import Outcome

Mapper = Callable[..., Any] | None


class WorkerError(Exception):
    """The worker ended without an answer."""


class CallBudget(BaseCallbackHandler):
    """Counts the model calls of one attempt, as a callback, and refuses a call beyond the limit of calls or tokens."""

    raise_error = run_inline = ignore_chain = True

    def __init__(self, max_calls: int, tokens: int | None, meter: Meter) -> None:
        self.max_calls, self.taken = max_calls, 0
        self.meter, self._tokens = meter, tokens
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether a call beyond the limit was requested."""
        return self.taken > self.max_calls

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        """Count a model call before it is made, or refuse it."""
        if self._tokens is not None and self.meter.spent.total >= self._tokens:
            raise WorkerError("the token budget was spent before it had an answer")
        # An agent's calls for reflections or judges are not steps. Its decisions, and its fallback's answer, may be
        # tagged `nostream` too.
        if "nostream" in (kwargs.get("tags") or ()) and kwargs.get("name") not in ("decision", "fallback"):
            return
        with self._lock:  # a worker may make several calls at once
            self.taken += 1
            is_over = self.is_over
        if is_over:
            raise WorkerError(f"it gave no answer in {self.max_calls} model calls")

    on_llm_start = on_chat_model_start


class _AsyncCallCounter(AsyncCallbackHandler):
    """Counts in the callbacks of an async call. There, a handler that raises inline leaves coroutines unawaited."""

    raise_error = ignore_chain = True

    def __init__(self, limit: CallBudget) -> None:
        self.limit = limit

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.limit.on_chat_model_start(*args, **kwargs)

    on_llm_start = on_chat_model_start


class WorkerReply(NamedTuple):
    """The result of a worker."""

    answer: str
    message: AIMessage | None
    """The message that holds the answer, if there is one."""
    steps: list[AnyMessage]
    """Its messages before the answer."""
    outcome: Outcome | None
    """Its outcome, if it is an agent of this package."""


@dataclass(frozen=True)
class Worker:
    """A worker and its input format: messages, a state with messages, or the prompt as text."""

    name: str
    runnable: Runnable[Any, Any]
    takes: Literal["messages", "state", "text"]
    input: Mapper = None
    output: Mapper = None

    @property
    def graph(self) -> PregelProtocol[Any, Any, Any, Any] | None:
        """The worker as a graph, if it is one."""
        core = unwrapped(self.runnable)
        return core if isinstance(core, PregelProtocol) else None

    @property
    def model(self) -> Model | None:
        """The worker's chat model, which can also reflect. None if it has none."""
        try:
            model = plain(self.runnable)
        except ValueError:
            return None
        return model if all(isinstance(inner, BaseChatModel) for inner in chat_models_in(model)) else None

    def build_input(
        self, prompt: list[AnyMessage], text: str, view: Mapping[str, Any], seconds: float | None
    ) -> Waits[Any]:
        """Its input."""
        if self.input is not None:
            return (yield call_function(repr(self.input), self.input, text, view).within(seconds))
        if self.takes == "text":
            return text
        return {"messages": prompt} if self.takes == "state" else prompt

    def call(self, given: Any, config: RunnableConfig, limit: CallBudget, *seconds: float | None) -> Waits[Any]:
        """Its result, within a limit of model calls, and the shortest of these seconds."""
        runnable = self.runnable
        if self.graph is not None and not isinstance(self.graph, Pregel):
            config = remote_graph_config(config)

        def call() -> Any:
            inside = with_handlers(config, limit.meter, limit)
            try:
                with default_config(inside):
                    return sync_result(f"The worker {self.name!r}", runnable.invoke(given, inside))
            except TypeError as fault:  # what LangGraph raises for a node that is only async
                if str(fault).startswith("No synchronous function provided"):
                    raise NeedsAsyncError(f"The worker {self.name!r}") from fault
                raise

        async def acall() -> Any:
            inside = with_handlers(config, limit.meter, _AsyncCallCounter(limit))
            with default_config(inside):
                return await runnable.ainvoke(given, inside)

        try:
            return (yield Wait(call, acall).within(*seconds))
        except ParentCommand as handoff:
            target = handoff.args[0].goto
            raise WorkerError(f"it handed over to {target!r}, and a trial has no other node") from None

    def earlier_replies(self, config: RunnableConfig, known: Sequence[AnyMessage]) -> Waits[list[AIMessage]]:
        """The replies of a graph that resumes from its own checkpoint; `known` are the messages it was given."""
        graph = self.graph
        if not isinstance(graph, Pregel) or not checkpoints(config):
            return []
        kept = yield either(graph.get_state, graph.aget_state, config)
        messages = field_of(kept.values, "messages")
        return [message for message in _added_messages(messages or [], known) if isinstance(message, AIMessage)]

    def read(self, final: Any, known: Sequence[AnyMessage]) -> Waits[WorkerReply]:
        """Its answer and the messages before it. `known` are the messages of its input."""
        messages = _messages_in(final)
        new = _added_messages(messages or [], known)
        outcome = field_of(final, "outcome")
        outcome = outcome if isinstance(outcome, Outcome) else None
        last: Any = new[-1] if new else None
        if self.output is not None:
            given = yield call_function(repr(self.output), self.output, final)
        elif outcome is not None and outcome.status == "needs_input":
            given = outcome.answer
        elif (value := field_of(final, "structured_response")) is not None:
            given = to_json(value).decode()
        else:
            given = final if messages is None else last
        if self.output is None and outcome is None and isinstance(given, AIMessage) and not given.tool_calls:
            if refusal := refusal_in(given):
                given = last = given.model_copy(update={"content": refusal})
            elif cut := cut_off_by_provider(given, [*known, *new]):
                raise WorkerError(cut)
        answer = _text_of(given, self.name)
        message = given if isinstance(given, AIMessage) and not given.tool_calls else None
        if isinstance(last, AIMessage) and answer_of(last).strip() == answer.strip():
            message, new = last, new[:-1]
        return WorkerReply(answer, message, cast("list[AnyMessage]", new), outcome)


def _added_messages(messages: Sequence[Any], known: Sequence[AnyMessage]) -> list[Any]:
    """What a worker added to its input. One that keeps its thread has the messages of earlier turns before that."""
    known_ids = {message.id for message in known} - {None}
    last = max((i for i, message in enumerate(messages) if message.id in known_ids), default=-1)
    return [*messages[last + 1 :]]


def _messages_in(final: Any) -> list[BaseMessage] | None:
    """The conversation in a worker's result. None if its `messages` are something else."""
    found = field_of(final, "messages")
    if not isinstance(found, list) or any(isinstance(item, str) for item in found):
        return None
    try:
        return convert_to_messages(found)
    except (NotImplementedError, ValueError, TypeError, KeyError):  # a field of its own has that name
        return None


def worker_of(given: Any, input: Mapper = None, output: Mapper = None) -> Worker:
    """The worker from any value that a caller may pass. An invalid value is an error here."""
    for name, mapper, given_to in (("input", input, ("prompt", "state")), ("output", output, ("final_state",))):
        if mapper is not None and (not callable(mapper) or not accepts(mapper, *given_to)):
            raise ValueError(f"`{name}` must be a function of ({', '.join(given_to)}), got {mapper!r}")
    if isinstance(given, StateGraph):
        raise ValueError(f"`worker` is a graph that is not compiled: pass `graph.compile()`, got {given!r}")
    if isinstance(given, str):
        given = model_named(given)
    if isinstance(given, Pregel) and given.checkpointer is True:
        given = given.copy({"checkpointer": None})  # an attempt starts fresh, not from the thread of the one before it
    if isinstance(given, Runnable):
        return Worker(given.get_name(), given, _input_format(given, input, output), input, output)
    if not callable(given):
        raise ValueError(
            f"`worker` must be a chat model, its name, a function, a Runnable or a compiled graph, got {given!r}"
        )
    if not accepts(given, "prompt", besides=INJECTED):
        raise ValueError(f"A function given as `worker` must take one prompt, got {given!r}")
    name = str(getattr(given, "__name__", type(given).__name__))
    return Worker(name, as_runnable(given, name), "text", input, output)


def _input_format(given: Runnable[Any, Any], input: Mapper, output: Mapper) -> Literal["messages", "state", "text"]:
    core = unwrapped(given)
    if isinstance(core, PregelProtocol):
        channels = getattr(core, "channels", None)
        if channels is None or "messages" in channels:
            return "state"
        if hasattr(core, "builder") and (input is None or output is None):
            raise ValueError(
                "The worker's state has no `messages`: pass `input=`, a function that makes its input, and `output=`, "
                f"a function that reads its answer. Its fields are {', '.join(sorted(core.builder.channels))}"
            )
        return "text"
    if isinstance(core, RunnableSequence):
        return "text"
    return "messages" if all(isinstance(inner, BaseChatModel) for inner in chat_models_in(given)) else "text"


def unwrapped(given: Any) -> Any:
    """The runnable inside a binding."""
    while not isinstance(given, BaseChatModel) and isinstance(bound := getattr(given, "bound", None), Runnable):
        given = bound
    return given


def _text_of(given: Any, name: str) -> str:
    """An answer as text."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if isinstance(given, BaseMessage):
        return answer_of(given) if isinstance(given, AIMessage) else given.text
    if isinstance(given, BaseModel):
        return given.model_dump_json()
    if isinstance(given, (bool, int, float)):
        return str(given)
    what = f"a dict of {', '.join(map(str, given))}" if isinstance(given, Mapping) else repr(given)[:200]
    raise ValueError(f"The worker {name!r} returned {what}: set `output=` to a function that returns its answer")
