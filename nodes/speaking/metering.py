"""Metering: what model calls cost that are made inside somebody else's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langgraph_reflexion.nodes.speaking.models import Spent, plus, spent_on


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
