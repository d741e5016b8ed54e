"""One agent, made in either way: by our own factory, or by `create_agent` with `ReflexionMiddleware`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent

from langgraph_reflexion import ReflexionMiddleware, create_reflexion_agent

WAYS = ("graph", "middleware")
OURS = ("checks", "tool_checks", "reflector", "memory", "limits", "store", "prompts", "clock")
"""Settings of the middleware; what else is given goes to `create_agent`."""


def make_agent(way: str, model: Any, tools: Sequence[Any] = (), **settings: Any) -> Any:
    """An agent with these settings of `create_reflexion_agent`."""
    if way == "graph":
        return create_reflexion_agent(model, tools, **settings)
    assert settings.pop("protocol", "tools") in ("auto", "tools"), "the middleware speaks by native tool calls alone"
    ours = {name: settings.pop(name) for name in OURS if name in settings}
    if "prompt" in settings:
        settings["system_prompt"] = settings.pop("prompt")
    return create_agent(model, list(tools), middleware=[ReflexionMiddleware(**ours)], **settings)
