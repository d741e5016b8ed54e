"""The parts of a run that the command line names: a model, and tools or a check in somebody's own module."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.prebuilt import ToolNode

from langgraph_reflexion.cli.wrong_use import WrongUse, sentence
from langgraph_reflexion.nodes.checks import named
from langgraph_reflexion.nodes.models.choice import model_named

NO_KEY = "not-needed"
"""What a server of one's own is told, which asks for no key."""


def model_of(name: str, base_url: str | None) -> BaseChatModel:
    """The model of a `provider:name`; `openai:…` may live at a URL of its own, and needs no key there."""
    provider, colon, model = name.partition(":")
    if colon and not (provider and model):
        raise WrongUse(f"--model is provider:name, such as openai:gpt-4o-mini, got {name!r}")
    if base_url is not None and provider != "openai":
        raise WrongUse(f"--base-url goes with openai:<name>, got --model {name}")
    try:
        return model_named(name) if base_url is None else _model_at(base_url, model)
    except Exception as fault:  # each provider raises exceptions of its own
        if "OPENAI_API_KEY" in str(fault):
            raise WrongUse(
                f"{name} needs a key: set OPENAI_API_KEY, or name a server of your own by --base-url"
            ) from fault
        raise WrongUse(f"--model {name}: {sentence(fault)}") from fault


def _model_at(base_url: str, model: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI
    from openai import OpenAIError

    try:
        return ChatOpenAI(model=model, base_url=base_url)
    except OpenAIError:  # there is no key in the environment
        return ChatOpenAI(model=model, base_url=base_url, api_key=lambda: NO_KEY)


def tools_of(place: str | None) -> Any:
    """The tools that `module:name` holds."""
    if place is None:
        return []
    found = _held("--tools", place, "calendar_tools:TOOLS")
    return found if isinstance(found, (list, tuple, ToolNode)) else [found]


def check_of(place: str | None) -> Any:
    """The check that `module:name` holds: a function of (answer, run)."""
    if place is None:
        return None
    found = _held("--check", place, "office:is_free")
    try:
        named([found])
    except ValueError as fault:
        raise WrongUse(str(fault).replace("`checks[0]`", f"--check {place}", 1)) from fault
    return found


def _held(option: str, place: str, example: str) -> Any:
    """What `module:name` holds; the module is found from the current folder, too."""
    module, _, name = place.partition(":")
    if not (module and name):
        raise WrongUse(f"{option} is module:name, such as {example}, got {place!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as fault:  # a module of the user's own may raise anything
        raise WrongUse(f"{option} {place}: {type(fault).__name__}: {sentence(fault)}") from fault
