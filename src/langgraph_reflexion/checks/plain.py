"""Checks that need nobody: a function of your own, a pattern or form, an expected answer, words that must be in it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from langgraph_reflexion.checks.check import Check
from langgraph_reflexion.nodes.checking import NamedCheck, is_async
from langgraph_reflexion.nodes.speaking.forms import Meter
from langgraph_reflexion.nodes.step import Waits
from langgraph_reflexion.schemas import Run


def rule(function: Callable[..., Any], name: str | None = None) -> Check:
    """A function of the answer, or of (answer, run), sync or async, under a name of its own."""
    if not callable(function):
        raise ValueError(f"`rule` takes a function of the answer, or of (answer, run), got {function!r}")
    called = str(name or getattr(function, "__name__", type(function).__name__))
    asked = NamedCheck("rule" if called == "<lambda>" else called, _of_both(function))

    def judging(answer: Any, run: Run) -> Waits[Any]:
        return (yield from asked.verdict(answer, run, Meter()))

    return Check(asked.name, judging, asked.asks_model, asked.wants_model)


def _of_both(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or where it takes the answer alone, one of (answer, run)."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin that tells no signature: it is tried when its turn comes
        return function
    if _binds(signature, None, None):
        return function
    if not _binds(signature, None):
        raise ValueError(f"`rule` takes a function of the answer, or of (answer, run), got {function!r}")
    if is_async(function):

        async def later(answer: Any, _run: Run) -> Any:
            return await function(answer)

        return later
    return lambda answer, _run: function(answer)


def _binds(signature: inspect.Signature, *given: Any) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
