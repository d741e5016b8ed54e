"""Load the models, tools and checks that options name, and run a command's event loop."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from langgraph_reflexion import ModelError
from langgraph_reflexion.cli.console import WrongUse, summarize
from langgraph_reflexion.driver import model_named, start_thread

T = TypeVar("T")


# ------------------------------------------------------------ by name


def make_model(name: str | None, base_url: str | None, option: str = "--model", **given: Any) -> Any:
    """The model named `provider:name`, if any. With a base URL, `openai:…` uses that address and needs no key.

    `given` are settings of the model; those that are `None` are left to its client.
    """
    address = "--base-url" if option == "--model" else f"{option}-base-url"
    if name is None and base_url is not None:
        raise WrongUse(f"{address} needs {option} openai:<name>")
    if name is None:
        return None
    provider, colon, model = name.partition(":")
    if not (colon and provider and model):
        raise WrongUse(f"{option} must be provider:name, such as openai:gpt-4o-mini, got {name!r}")
    if base_url is not None and provider != "openai":
        raise WrongUse(f"{address} works only with openai:<name>, got {option} {name}")
    settings = {key: value for key, value in {**given, "base_url": base_url}.items() if value is not None}
    if base_url is not None and not os.environ.get("OPENAI_API_KEY"):
        settings["api_key"] = "not-needed"
    try:
        return model_named(name, **settings)
    except ModelError as error:
        if "OPENAI_API_KEY" in str(error):
            text = f"{name} needs a key: set OPENAI_API_KEY, or name your own server with {address}"
            raise WrongUse(text) from error
        raise WrongUse(f"{option}: {summarize(error)}") from error


def load_object(option: str, place: str, example: str) -> Any:
    """The object at `module:name`; modules in the current folder are found too."""
    module, _, name = place.partition(":")
    if not (module and name):
        raise WrongUse(f"{option} must be module:name, such as {example}, got {place!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # the user's module may raise anything
        raise WrongUse(f"{option} {place}: {type(error).__name__}: {summarize(error)}") from error


def load_tools(place: str | None) -> Any:
    """The tools at `module:name`, if any: a list, a `ToolNode`, or one tool."""
    from langgraph.prebuilt import ToolNode

    if place is None:
        return None
    found = load_object("--tools", place, "calendar_tools:TOOLS")
    return found if isinstance(found, (list, tuple, ToolNode)) else [found]


# ------------------------------------------------------------ the event loop


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine; Ctrl-C cancels it."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(DaemonThreads())
        return runner.run(coroutine)


class DaemonThreads(ThreadPoolExecutor):
    """An executor that does not wait at exit, so that a hanging tool does not keep the process alive."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call the function in its own daemon thread."""
        return start_thread(lambda: fn(*args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Return at once: daemon threads end with the process."""
