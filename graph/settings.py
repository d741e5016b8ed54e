"""Check what a caller passes to a factory, and create the protocol and the models from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from langgraph_reflexion.context import Limits, MemoryPolicy
from langgraph_reflexion.driver import accepts, is_async, model_named
from langgraph_reflexion.memory import check_instance
from langgraph_reflexion.nodes.models.choice import Model, ModelChoice, bound_names, can_call_tools, tool_name
from langgraph_reflexion.nodes.models.protocols import CONTROLS, Json, ModelProtocol, Native, Parser
from langgraph_reflexion.nodes.models.response_format import ResponseFormat
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.prompts import Prompts


def check_settings(
    limits: Limits,
    memory: MemoryPolicy,
    store: BaseStore | None,
    clock: Callable[[], datetime] | None,
    name: str | None,
    checks: Sequence[Any],
    checkpointer: Any = None,
    context_schema: Any = None,
) -> None:
    """Refuse a setting of the wrong type, and name its value. Warn about a `success_score` that no check can reach."""
    check_instance(Limits, limits, "limits")
    check_instance(MemoryPolicy, memory, "memory")
    if isinstance(memory.guard, str):
        model_named(memory.guard)  # a wrong name is refused here, and not at the first lesson
    optional = (("store", store, BaseStore), ("name", name, str), ("context_schema", context_schema, type))
    for setting, value, kind in optional:
        if value is not None:
            check_instance(kind, value, setting)
    if checkpointer is not None and not isinstance(checkpointer, bool):
        check_instance(BaseCheckpointSaver, checkpointer, "checkpointer")
    if clock is not None and (not callable(clock) or is_async(clock) or not accepts(clock)):
        raise ValueError(f"`clock` must be a function of no arguments that returns an aware datetime, got {clock!r}")
    if "success_score" in limits.model_fields_set and not checks:
        warnings.warn("`success_score` is set, but there is no check that gives a score", UserWarning, stacklevel=3)


def controls_of(controls: Any) -> tuple[str, ...] | None:
    """The caller's controls. None if not set."""
    if controls is None:
        return None
    is_list = isinstance(controls, Iterable) and not isinstance(controls, (str, bytes))
    names = tuple(controls) if is_list else ()
    if not is_list or any(name not in tuple(CONTROLS) for name in names):
        raise ValueError(f"`controls` must be a list of any of {', '.join(CONTROLS)}, got {controls!r}")
    return names


def protocol_for(
    model: Any,
    toolbox: Toolbox,
    protocol: Any,
    controls: Sequence[str] | None,
    prompts: Prompts,
    response_format: ResponseFormat | None,
) -> ModelProtocol:
    """The protocol for the model. `auto` uses native tool calls if the model's class can bind tools."""
    allowed = tuple(CONTROLS) if controls is None else tuple(controls)
    if callable(protocol):
        if is_async(protocol):
            raise ValueError(f"A parser given as `protocol` must not be async, got {protocol!r}")
        if isinstance(protocol, type) or not accepts(protocol, None):
            raise ValueError(
                f"A parser given as `protocol` must take an AIMessage and return a Decision, got {protocol!r}"
            )
        return Parser(protocol, allowed)
    if protocol not in ("auto", "tools", "json"):
        raise ValueError(f"`protocol` must be 'auto', 'tools', 'json' or your own parser, got {protocol!r}")
    models = list(model.values()) if isinstance(model, Mapping) else [model]
    is_native = protocol == "tools"
    if protocol == "auto":
        example = next(iter(models), None)
        is_native = not isinstance(example, Runnable) or can_call_tools(example)
    if is_native:
        return Native(tuple(controls or ()), _answer_schema(models, toolbox, response_format))
    for choice in models:
        if isinstance(choice, Runnable) and (names := bound_names(choice)):
            raise ValueError(
                f"The model is bound to {', '.join(sorted(names))}, but protocol='json' sends no bound tools: "
                "pass an unbound model"
            )
    toolbox.check_names(allowed)
    described = [tool for tool in toolbox.offered if tool_name(tool) in toolbox.names]
    if builtin := [tool for tool in toolbox.offered if tool_name(tool) not in toolbox.names]:
        raise ValueError(f"A provider's built-in tool in `tools` needs protocol='tools', got {builtin[0]!r}")
    return Json(allowed, described, prompts, allow_prose=protocol == "auto" and not described)


def _answer_schema(
    models: Sequence[Any], toolbox: Toolbox, response_format: ResponseFormat | None
) -> dict[str, Any] | None:
    """The schema of the tool that gives the answer, or None if the answer is no call of a tool."""
    # A model that has bound tools already, or may have, cannot be bound to one more.
    is_unbound = all(isinstance(m, str) or (isinstance(m, Runnable) and bound_names(m) is None) for m in models)
    if response_format is None or not (response_format.is_tool and response_format.is_object and is_unbound):
        return None
    toolbox.check_names([response_format.name])
    return {**response_format.json_schema, "title": response_format.name}


def model_choice(
    model: Any, protocol: ModelProtocol, toolbox: Toolbox, response_format: ResponseFormat | None
) -> ModelChoice:
    """The agent's models, with what its protocol binds to them. A caller's own parser leaves a model as it is."""
    known = toolbox.node.tools_by_name
    if not isinstance(protocol, Native):
        return ModelChoice(model, None if isinstance(protocol, Parser) else (), None, known)
    specs = (*toolbox.offered, *protocol.offered())

    def format_binding(model: Model) -> dict[str, Any]:
        """Require a tool call if the answer is one, else bind the schema if the provider enforces it."""
        if protocol.answer_schema is not None:
            return {"tool_choice": "any"}
        return {} if response_format is None else response_format.binding_for(model, beside_tools=bool(specs))

    return ModelChoice(model, specs, format_binding, known)
