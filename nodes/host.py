"""How LangGraph runs a node, and what the node knows about the graph that runs it.

`Node` and `Route` are the small `Runnable` behind every node and conditional edge. LangGraph would send a plain `def`
through a thread pool under `ainvoke`; they call it directly. Only this file uses LangGraph's configuration keys.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, cast
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph import errors
from langgraph._internal._config import DEFAULT_RECURSION_LIMIT
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined] # re-exported from there

from langgraph_reflexion.driver import Waits, await_result, in_thread, is_async, run_async, run_sync, silent_config
from langgraph_reflexion.schemas import Failure, Usage
from langgraph_reflexion.state import read_channels, write_channels
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)


class Node(Runnable[Any, Any]):
    """A node: a function of its parts, the state and the config that returns an update, or a generator that waits."""

    store: BaseStore | None = None
    """The agent's store, which the caller's code in the node gets if the graph above has none."""
    on_error: Callable[[RunnableConfig, Exception, dict[str, Any]], None] | None = None
    """Called with an exception that ends the run, before it is raised, and with what the node writes anyway."""
    may_pause: bool = True
    """Whether a run can wait here for a person. Not with `checkpointer=False`: resumed inside another graph, the agent
    would start again, and the answer would go to whatever its model then asks for."""
    now: Callable[[], float] | None = None
    """The run's clock, for a node that may be the first one of a resumed run. It notes when the run was resumed, so
    that the time spent waiting for a person is not counted."""

    def __init__(self, name: str, function: Callable[..., Any], *parts: Any) -> None:
        self.name = name
        self.function = partial(function, *parts)

    @property
    def func(self) -> Callable[..., Any]:
        """The sync function, under the name that it has on LangGraph's own nodes, whose tests inspect it."""
        return self.invoke

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return run_sync(self._run(input, config or {}))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await run_async(self._run(input, config or {}))

    def _run(self, input: Any, config: RunnableConfig) -> Waits[Any]:
        if not self.may_pause and "configurable" in config:
            config["configurable"]["__pregel_checkpointer"] = None  # the parent graph's
        hide_old_answer(config)
        if self.store is not None and (runtime := runtime_of(config)).store is None:
            inside = {**configurable_of(config), "__pregel_runtime": replace(runtime, store=self.store)}
            config = cast("RunnableConfig", {**config, "configurable": inside})
        resumed = {"resumed_at": self.now()} if self.now is not None and is_first_step(config) else {}
        state = {**read_channels(input), **resumed}
        if resumed and isinstance(state.get("tally", {}).get("spent"), list):  # its form in version 0.1.0
            raise ValueError(
                "Version 0.1.0 paused this run: finish it with that version, or send its thread a new message"
            )
        try:
            update = self.function(state, config)
            if isinstance(update, Generator):
                update = yield from update
        except Exception as error:
            if self.on_error is not None and not isinstance(error, errors.GraphBubbleUp):
                self.on_error(config, error, resumed)
            raise
        if resumed and isinstance(update, dict):
            update = {**update, **resumed}
        elif resumed and isinstance(update, list):  # a tool's commands, and its messages
            update = [*update, resumed]
        return write_channels(update)


class Route(Runnable[Any, Any]):
    """A conditional edge: a pure function of the few fields that `reads` names.

    It returns the label of the next node, because LangGraph draws what a route returns.
    """

    def __init__(self, name: str, choose: Callable[[Any], Any], labels: Mapping[str, str], reads: type) -> None:
        self.name = name
        self.choose = choose
        self.labels = labels
        # LangGraph reads here which fields a route needs. Without it, every route would get the whole state.
        self.__annotations__ = {"state": reads}

    def __call__(self, state: Any) -> Any:
        return self.invoke(state)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        state = read_channels(input)
        if "tally" not in state:
            raise ValueError("No run has begun on this thread, so there is no decision to edit: invoke the agent first")
        if "__pregel_scratchpad" not in configurable_of(config or {}):
            # Nothing is running: `update_state` calls the routes too. The remaining steps are those of the next run.
            state.pop("remaining_steps", None)
        chosen = self.choose(state)
        return self.labels[chosen] if isinstance(chosen, str) else chosen

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self.invoke(input, config)


def as_runnable(function: Callable[..., Any], name: str) -> Runnable[Any, Any]:
    """A caller's function as LangGraph calls one, with injected arguments. It adds no trace.

    Under `ainvoke` a sync function has a thread of its own, because many runs may wait in it at once.
    """

    @wraps(function)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        return await await_result(in_thread(lambda: function(*args, **kwargs), own=True).acall())

    functions = (None, function) if is_async(function) else (function, acall)
    return cast("Runnable[Any, Any]", RunnableCallable(*functions, name=name, trace=False))


def configurable_of(config: RunnableConfig) -> dict[str, Any]:
    """The part of a config that LangGraph fills."""
    return config.get("configurable") or {}


def runtime_of(config: RunnableConfig) -> Runtime[Any]:
    """The run's context, store and stream."""
    return cast("Runtime[Any] | None", configurable_of(config).get("__pregel_runtime")) or Runtime()


def silent_graph_config(config: RunnableConfig, *, recursion_limit: int, context: bool) -> RunnableConfig:
    """The config for a graph called inside a node, so that no stream of messages or events shows it."""
    runtime = replace(runtime_of(config), stream_writer=lambda _event: None)
    inside = {**configurable_of(config), "__pregel_runtime": runtime if context else replace(runtime, context=None)}
    callbacks: Any = config.get("callbacks")
    if isinstance(callbacks, BaseCallbackManager):  # `nostream` alone does not stop what a node returns
        callbacks = callbacks.copy()
        for handler in [*callbacks.handlers]:
            if type(handler).__name__.startswith("StreamMessagesHandler"):
                callbacks.remove_handler(handler)
    return silent_config(config, configurable=inside, callbacks=callbacks, recursion_limit=recursion_limit)


def remote_graph_config(config: RunnableConfig) -> RunnableConfig:
    """The config for a graph on a server, without the run's thread.

    The server knows a thread by its id alone, so each call would continue the one before it, or the agent's own thread.
    """
    inside = {name: value for name, value in configurable_of(config).items() if name != "thread_id"}
    return cast("RunnableConfig", {**config, "configurable": inside})


def context_without_run() -> contextvars.Context:
    """A copy of the caller's context variables in which no graph runs, so that a graph called there is independent."""
    context = contextvars.copy_context()
    context.run(var_child_runnable_config.set, None)
    return context


def checkpoints(config: RunnableConfig) -> bool:
    """Whether there are checkpoints, so that a run can pause for a person and resume."""
    return bool(configurable_of(config).get("__pregel_checkpointer"))


def has_parent(config: RunnableConfig) -> bool:
    """Whether this graph runs inside another."""
    return "|" in str(configurable_of(config).get("checkpoint_ns") or "")


def run_id(config: RunnableConfig) -> str:
    """LangGraph's id of this run, else a new one. An agent in a parent graph gets its own id."""
    info = runtime_of(config).execution_info
    given = info.run_id if info is not None else None
    if given is None:
        return str(uuid4())
    if has_parent(config):
        return str(uuid5(NAMESPACE_OID, f"{given}/{configurable_of(config).get('checkpoint_ns')}"))
    return str(given)


def was_resumed(config: RunnableConfig) -> bool:
    """Whether this node, or one that ran in parallel, paused for a person who has now answered."""
    scratchpad = configurable_of(config).get("__pregel_scratchpad")
    if scratchpad is None:
        return False
    # LangGraph keeps both forms of an answer until the step of the graph above ends. Only the first step here counts.
    is_answered = answers_by_id(config) or scratchpad.get_null_resume() is not None
    return bool(scratchpad.resume) or (is_answered and is_first_step(config))


def answers_by_id(config: RunnableConfig) -> bool:
    """Whether a person answered by the ids of the pauses, perhaps in a graph inside this one."""
    return bool(configurable_of(config).get("__pregel_resume_map"))


def hide_old_answer(config: RunnableConfig) -> None:
    """Hide an answer without an id, if it was for an earlier pause, from this node and the graphs inside it.

    LangGraph keeps it in the graph above, and would give it to the next pause, even to an approval. It is for the first
    step since the run was resumed. Without checkpoints, a resumed run starts again, and its pause comes later.
    """
    scratchpad = configurable_of(config).get("__pregel_scratchpad")
    is_old = answers_by_id(config) or (checkpoints(config) and not is_first_step(config))
    if is_old and scratchpad is not None and scratchpad.get_null_resume() is not None:
        hidden = replace(scratchpad, get_null_resume=lambda _consume=False: None)
        config["configurable"]["__pregel_scratchpad"] = hidden  # in place, because `interrupt` reads LangGraph's config


def is_first_step(config: RunnableConfig) -> bool:
    """Whether the graph has taken no step since it was called. A node other than the first one is then resumed."""
    if configurable_of(config).get("__pregel_resuming"):  # a replay counts the copy of its checkpoint as a step
        return True
    steps = steps_of(config)
    return steps is not None and steps[0] <= steps[1]


def steps_of(config: RunnableConfig) -> tuple[int, int] | None:
    """The graph's current step, and its first step since it was called. None if nothing is running."""
    scratchpad = configurable_of(config).get("__pregel_scratchpad")
    if scratchpad is None:
        return None
    # LangGraph leaves its default out of a node's config.
    limit = config.get("recursion_limit") or DEFAULT_RECURSION_LIMIT
    return scratchpad.step, scratchpad.stop - limit - 1


def values_now(config: RunnableConfig, fields: Sequence[str]) -> dict[str, Any]:
    """The state's values of these fields, for a node that got a call instead of the state."""
    read = configurable_of(config).get("__pregel_read")
    return cast("dict[str, Any]", read(list(fields), True)) if read is not None else {}


def user_of(config: RunnableConfig) -> str | None:
    """The user that the server authenticated. None without authentication."""
    server = runtime_of(config).server_info
    identity = getattr(server.user, "identity", None) if server is not None else None
    return str(identity) if identity else None


def is_bad_resume(fault: BaseException) -> bool:
    """Whether a person's reply did not fit a tool's own interrupt. The run stops and can be answered again."""
    judge = getattr(errors, "is_invalid_resume", None)  # some supported versions lack it
    return judge is not None and bool(judge(fault))


def emit(config: RunnableConfig, event: str, /, **fields: Any) -> None:
    """Write an event to the custom stream."""
    runtime_of(config).stream_writer({"type": event, **fields})


def emit_step(config: RunnableConfig, node: str, spent: Usage, *, answered: Any, **fields: Any) -> None:
    """The record of one model call and its parsed reply as an event. It is not in the state."""
    model = (answered.response_metadata or {}).get("model_name") if isinstance(answered, BaseMessage) else None
    emit(config, "step", node=node, answered=answered, model=model, usage=spent.model_dump(), **fields)


def emit_failure(config: RunnableConfig, failure: Failure, message_id: str | None = None) -> None:
    """The event of a failure. Streamed tokens of the message `message_id` no longer count."""
    emit(config, "failure", failure=failure.model_dump(mode="json"), message_id=message_id)


def emit_lesson(
    config: RunnableConfig, kind: str, text: str, action: str, reason: str, lesson_id: str | None = None
) -> None:
    """The event of a memo, and its line in the log: whether it was saved, and why."""
    logger.info("Lesson %s: %r%s", action, mask_secrets(text), f" ({mask_secrets(reason)})" if reason else "")
    emit(config, "lesson", action=action, reason=reason, id=lesson_id, text=text, kind=kind)


def streams_tokens(config: RunnableConfig) -> bool:
    """Whether a caller streams the tokens of this graph with `stream_mode="messages"`.

    Under `stream_events(version="v3")` the handler has another name. There LangGraph itself shows finished messages,
    except those whose tokens it has seen.
    """
    callbacks = config.get("callbacks")
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", [])
    return any(type(handler).__name__ == "StreamMessagesHandler" for handler in handlers or [])
