"""The graphs in `langgraph.json`: an offline agent, and one with a real model."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import Field

from langgraph_reflexion.context import Context, MemoryPolicy
from langgraph_reflexion.driver import model_named
from langgraph_reflexion.graph.agent import create_reflexion_agent
from langgraph_reflexion.graph.demo import ScriptedPlanner, book, busy_times, is_free
from langgraph_reflexion.graph.layout import Graph

MODEL = "LANGGRAPH_REFLEXION_MODEL"
DEFAULT_MODEL = "openai:gpt-4o-mini"
BY_USER = MemoryPolicy(by_user=True)
"""Separate lessons per user: the user the server authenticated, else the context's `user_id`."""


class DemoContext(Context):
    """The context of the demo, which Studio shows as a form."""

    model: Literal["hasty", "careful"] | None = Field(
        default=None, description="`hasty` makes a mistake until a lesson advises against it; `careful` makes none."
    )


def demo() -> Graph:
    """The appointment demo with a scripted model, without a key or network. Booking needs an approval."""
    return create_reflexion_agent(
        {"hasty": ScriptedPlanner(), "careful": ScriptedPlanner(careful=True)},
        [busy_times, book],
        checks=[is_free],
        approve=["book"],
        memory=BY_USER,
        context_schema=DemoContext,
        name="demo",
    )


def agent() -> Graph:
    """The same demo with the model in LANGGRAPH_REFLEXION_MODEL, which is created at its first call."""
    return create_reflexion_agent(
        _configured_model, [busy_times, book], checks=[is_free], approve=["book"], memory=BY_USER, name="agent"
    )


def _configured_model(_state: Any, _runtime: Any) -> Any:
    """The model, created at its first call, so that the server can start without a key."""
    return model_named(os.environ.get(MODEL, DEFAULT_MODEL))
