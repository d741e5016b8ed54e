"""Ask a model once, and count what the call cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphBubbleUp

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.calling import within
from langgraph_reflexion.nodes.models.bindings import (
    Model,
    unbound,
)
from langgraph_reflexion.text.json_text import whole

Spent = list[int]
"""Input, output and total tokens, and calls."""


class Reply(NamedTuple):
    """What came back, and what it cost."""

    message: AIMessage
    spent: Spent


def asked(
    model: Model,
    messages: Sequence[AnyMessage],
    config: RunnableConfig,
    *,
    seconds: float | None = None,
    aside: str | None = None,
) -> Waits[Reply]:
    """Ask once. With `aside`, a name for traces, its tokens never reach the user."""
    quiet = config if aside is None else unheard(config, aside)
    given, (asking, more) = list(messages), unbound(model)
    message = yield within(
        seconds, lambda: asking.invoke(given, quiet, **more), lambda: asking.ainvoke(given, quiet, **more)
    )
    return received(message if isinstance(message, AIMessage) else AIMessage(str(message)))


def received(message: AIMessage) -> Reply:
    """What came back, fit to be kept and sent again: half characters, which no provider takes, are replaced."""
    said = {
        name: getattr(message, name) for name in ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")
    }
    mended = {name: _whole_in(value) for name, value in said.items()}
    return Reply(message if mended == said else message.model_copy(update=mended), spent_on(message))


def _whole_in(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_whole_in(key): _whole_in(one) for key, one in value.items()}
    return [_whole_in(one) for one in value] if isinstance(value, list) else value


def unheard(config: RunnableConfig, name: str) -> RunnableConfig:
    """A config whose model call has a name of its own in traces and streams nothing to the user."""
    return cast("RunnableConfig", {**config, "tags": [*(config.get("tags") or []), "nostream"], "run_name": name})


def spent_on(message: AIMessage) -> Spent:
    """What one reply cost."""
    usage = message.usage_metadata
    if usage is None:
        return [0, 0, 0, 1]
    return [usage["input_tokens"], usage["output_tokens"], usage["total_tokens"], 1]


def plus(left: Spent, right: Spent) -> Spent:
    """Two costs together."""
    return [a + b for a, b in zip(left, right, strict=True)]


def let_pass(fault: Exception) -> None:
    """Raise what is LangGraph's own control flow."""
    if isinstance(fault, GraphBubbleUp):
        raise fault


class Meter:
    """Tokens and calls so far."""

    def __init__(self) -> None:
        self.spent: Spent = [0, 0, 0, 0]


class _Count(BaseCallbackHandler):
    run_inline = ignore_chain = True

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        for made in response.generations[:1]:
            for one in made[:1]:
                if isinstance(one, ChatGeneration) and isinstance(one.message, AIMessage):
                    self.meter.spent = plus(self.meter.spent, spent_on(one.message))


def metered(config: RunnableConfig, meter: Meter, *others: BaseCallbackHandler) -> RunnableConfig:
    """A config under which the meter counts the tokens of each model call, and others listen too."""
    known = config.get("callbacks")
    if not isinstance(known, BaseCallbackManager):
        return {**config, "callbacks": [*(known or []), _Count(meter), *others]}
    # LangChain's `merge_configs` would go through all that a config holds, and this is done for every call.
    manager = known.copy()
    for handler in (_Count(meter), *others):
        manager.add_handler(handler)
    return {**config, "callbacks": manager}


@contextmanager
def under(config: RunnableConfig) -> Iterator[None]:
    """Within it, a model that is called without a config has this one."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
