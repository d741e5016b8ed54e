"""What callers give to the factories, refused at once where it cannot work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from langgraph_reflexion.context import Limits, MemoryPolicy
from langgraph_reflexion.nodes.calling import is_async, takes
from langgraph_reflexion.nodes.models.bindings import Model, bound_names, calls_tools
from langgraph_reflexion.nodes.models.choice import model_named
from langgraph_reflexion.nodes.models.protocols import CONTROLS, Json, Native, Reader, Speech
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.prompts import Prompts


def must_fit(
    limits: Limits,
    memory: MemoryPolicy,
    store: BaseStore | None,
    clock: Callable[[], datetime] | None,
    name: str | None,
    checkpointer: Any,
    context_schema: Any,
) -> None:
    """Refuse a setting of another kind, with the value."""
    must_be(limits, Limits, "limits")
    must_be(memory, MemoryPolicy, "memory")
    for setting, value, kind in (
        ("store", store, BaseStore),
        ("name", name, str),
        ("context_schema", context_schema, type),
    ):
        if value is not None:
            must_be(value, kind, setting)
    if checkpointer is not None and not isinstance(checkpointer, bool):
        must_be(checkpointer, BaseCheckpointSaver, "checkpointer")
    if clock is not None and (not callable(clock) or is_async(clock) or not takes(clock)):
        raise ValueError(f"`clock` is a function of nothing that gives an aware datetime, got {clock!r}")


def must_be(value: Any, kind: type, setting: str) -> None:
    """Refuse a value of another kind, with the way out where it was nearly one."""
    if isinstance(value, kind):
        return
    said = f"`{setting}` is a {'class' if kind is type else kind.__name__}, got {value!r}"
    if isinstance(value, type) and issubclass(value, kind):
        said += f": make one, {value.__name__}(...)"
    elif hasattr(value, "__aenter__") or hasattr(value, "__enter__"):
        opened = "async with" if not hasattr(value, "__enter__") else "with"
        said += f": open it first, `{opened} ... as {setting}:`"
    raise ValueError(said)


def must_be_one_of(value: Any, words: Sequence[str], setting: str) -> None:
    """Refuse a word that is none of these."""
    if value not in words:
        raise ValueError(f"`{setting}` is one of {', '.join(map(repr, words))}, got {value!r}")


def model_for(model: Any, role: str) -> Model | None:
    """The model of a role, by itself or by its name."""
    if model is None or isinstance(model, Runnable):
        return model
    if isinstance(model, str):
        return model_named(model)
    raise ValueError(f"`{role}` is a chat model or its name, got {model!r}")


def controls_named(controls: Any) -> tuple[str, ...] | None:
    """The controls that the caller names; None where they leave it open."""
    if controls is None:
        return None
    listed = isinstance(controls, Iterable) and not isinstance(controls, (str, bytes))
    names = tuple(controls) if listed else (controls,)
    if not listed or any(name not in tuple(CONTROLS) for name in names):
        raise ValueError(f"`controls` holds some of {', '.join(CONTROLS)}, got {controls!r}")
    return names


def speech_for(model: Any, toolbox: Toolbox, protocol: Any, controls: Sequence[str] | None, words: Prompts) -> Speech:
    """How to speak to the model; `auto` takes native calls where the model's class can bind tools."""
    allowed = tuple(CONTROLS) if controls is None else tuple(controls)
    if callable(protocol):
        if is_async(protocol):
            raise ValueError(
                f"A reader given as `protocol` is no async function: it waits for nothing, got {protocol!r}"
            )
        if isinstance(protocol, type) or not takes(protocol, None):
            raise ValueError(
                f"A reader given as `protocol` takes an AIMessage and gives a Decision, and {protocol!r} does not"
            )
        return Reader(protocol, allowed)
    if protocol not in ("auto", "tools", "json"):
        raise ValueError(f"`protocol` is 'auto', 'tools', 'json' or a reader of your own, got {protocol!r}")
    by_itself = protocol == "auto"
    if by_itself:
        example = next(iter(model.values()), None) if isinstance(model, Mapping) else model
        is_chosen = not isinstance(example, (str, Runnable)) and callable(example)
        native = isinstance(example, str) or is_chosen or calls_tools(example)
        protocol = "tools" if native else "json"
    if protocol == "tools":
        return Native(tuple(controls or ()))
    for one in model.values() if isinstance(model, Mapping) else [model]:
        if isinstance(one, Runnable) and (names := bound_names(one)):
            raise ValueError(f"The model is bound to {', '.join(sorted(names))}, and protocol='json' asks in words")
    toolbox.must_leave(allowed)
    told = [tool for tool in toolbox.offered if not isinstance(tool, dict)]
    if lost := [tool for tool in toolbox.offered if isinstance(tool, dict)]:
        raise ValueError(f"`tools` holds a provider's own, which only protocol='tools' can offer: {lost[0]!r}")
    return Json(allowed, told, words, plain_words=by_itself and not told)


def warn_of_unused(limits: Limits, checks: Sequence[Any]) -> None:
    """Warn, in the name of the factory's caller, of a score that nothing can reach."""
    if "success_score" in limits.model_fields_set and not checks:
        warnings.warn("`success_score` is set and there is no check to give a score", UserWarning, stacklevel=3)
