"""The chat models inside what a caller gives: behind bindings, in a sequence, with fallbacks, configurable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool

Model = Runnable[Any, Any]
Offer = Sequence[BaseTool | dict[str, Any]]
Form = Callable[[Model], Mapping[str, Any]]
"""What else is bound to a model, by what it can do."""

OFFERED = ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call")


def rebuilt(model: Model, change: Callable[[Model], Model]) -> Model:
    """The same runnable with a change made of each chat model in it, or of the binding that gives it its tools."""
    if isinstance(model, RunnableSequence):
        steps, at = list(model.steps), _place(model)
        steps[at] = rebuilt(steps[at], change)
        return RunnableSequence(*steps, name=model.name)
    if isinstance(model, RunnableWithFallbacks):
        fallbacks = [rebuilt(one, change) for one in model.fallbacks]
        return model.model_copy(update={"runnable": rebuilt(model.runnable, change), "fallbacks": fallbacks})
    if isinstance(model, RunnableBindingBase) and "tools" not in model.kwargs:
        return model.model_copy(update={"bound": rebuilt(model.bound, change)})
    return change(model)


def leaves(model: Any) -> Iterator[Any]:
    """The chat models inside, fallbacks too."""
    if isinstance(model, RunnableSequence):
        yield from leaves(model.steps[_place(model)])
    elif isinstance(model, RunnableWithFallbacks):
        for one in (model.runnable, *model.fallbacks):
            yield from leaves(one)
    elif isinstance(model, RunnableBindingBase):
        yield from leaves(model.bound)
    elif isinstance(model, DynamicRunnable):
        yield from leaves(model.default)
    else:
        yield model


def _place(sequence: RunnableSequence[Any, Any]) -> int:
    """Which step of a sequence is the model; a prompt may stand before it and a parser behind."""
    for at, step in enumerate(sequence.steps):
        if any(isinstance(one, BaseChatModel) or binds_tools(one) for one in leaves(step)):
            return at
    raise ValueError(f"`model` is a sequence without a chat model in it: {sequence!r}")


def binds_tools(model: Any) -> bool:
    """Whether its class knows how to bind tools."""
    own = getattr(type(model), "bind_tools", None)
    return own is not None and own is not BaseChatModel.bind_tools


def calls_tools(model: Any) -> bool:
    """Whether a model can call tools natively: it is bound to some, or its class knows how to bind them."""
    return bound_names(model) is not None or all(binds_tools(one) for one in leaves(model))


def knows_schemas(model: Any, *, beside_tools: bool = False) -> bool:
    """Whether its profile says that the provider enforces schemas; with fallbacks, whether all of them do."""
    return all(
        (_profile(one) or {}).get("structured_output") and not (beside_tools and _takes_one_of_them(one))
        for one in leaves(model)
    )


def _takes_one_of_them(model: Any) -> bool:
    """Gemini before its third series takes tools or a schema, never both, and its profile does not say so."""
    name = str(getattr(model, "model_name", None) or getattr(model, "model", "")).lower()
    return "gemini" in name and "gemini-3" not in name


def _profile(model: Any) -> Mapping[str, Any] | None:
    try:
        return getattr(model, "profile", None)
    except (ImportError, ValueError):  # a configurable model makes its default to look, and may lack what it needs
        return None


def bound_names(model: Any) -> set[str] | None:
    """The names of the tools that a model came bound with, or None."""
    found: list[set[str]] = []

    def look(one: Model) -> Model:
        if isinstance(one, RunnableBindingBase):
            specs = [spec for spec in one.kwargs["tools"] if isinstance(spec, dict)]
            names = [(spec.get("function") or {}).get("name") or spec.get("name") for spec in specs]
            found.append({str(name) for name in names if name})
        return one

    rebuilt(model, look)
    return found[0] if found else None


def offering(model: Model, tools: Offer, known: Collection[str] = (), form: Form | None = None) -> Model:
    """The model with these tools bound; one that came bound with them is taken as it is.

    `known` are the names of all tools, those too that are not offered.
    """
    wanted = {name for tool in tools if (name := _name(tool))}

    def offered(one: Model) -> Model:
        more = dict(form(one)) if form is not None else {}
        already = bound_names(one)
        if already is not None:
            _must_fit(already, wanted, {*known, *wanted})
            return one.bind(**more) if more else one
        if isinstance(one, DynamicRunnable):
            # Its own `bind_tools` is its default's, and would forget what can be configured.
            bound = offered(one.default)
            return one.bind(**cast("Any", bound).kwargs) if isinstance(bound, RunnableBindingBase) else one
        if not tools:
            return one.bind(**more) if more else one
        return _bound(one, tools, more)

    return rebuilt(model, offered)


def _bound(model: Model, tools: Offer, more: dict[str, Any]) -> Model:
    try:
        return cast("Model", cast("Any", model).bind_tools(list(tools), **more))
    except (NotImplementedError, AttributeError):
        if binds_tools(model):
            raise
        raise ValueError(
            f"{type(model).__name__} cannot bind tools: give another model, or ask in words with protocol='json'"
        ) from None


def _name(tool: BaseTool | dict[str, Any]) -> str | None:
    if isinstance(tool, dict):
        return (tool.get("function") or {}).get("name") or tool.get("name")
    return tool.name


def _must_fit(already: set[str], wanted: set[str], known: set[str]) -> None:
    if missing := wanted - already:
        raise ValueError(f"The model is already bound, and not to {', '.join(sorted(missing))}; bind it to all tools")
    if unknown := already - known:
        raise ValueError(f"The model is bound to {', '.join(sorted(unknown))}, which `tools` does not name")


def plain(model: Model) -> Model:
    """The model alone, to be asked for anything but a decision: no tools, no prompt before it, no parser behind."""
    if isinstance(model, RunnableSequence):
        return plain(model.steps[_place(model)])
    return rebuilt(model, _without_tools)


def _without_tools(model: Model) -> Model:
    if not isinstance(model, RunnableBindingBase):
        return model
    rest = {key: value for key, value in model.kwargs.items() if key not in OFFERED}
    return model.model_copy(update={"kwargs": rest}) if rest or model.config else model.bound


def unbound(model: Model) -> tuple[Model, Mapping[str, Any]]:
    """What a plain binding holds, and what it adds to each call; asking it so spares merging its empty config."""
    if type(model) is RunnableBinding and not model.config and not model.config_factories:
        return model.bound, model.kwargs
    return model, {}


def is_configurable(model: Model) -> bool:
    """Whether the run's config has a say in which model it is."""
    return isinstance(model, DynamicRunnable)


def configured(model: Model, config: RunnableConfig) -> Model:
    """The model that the run's config chooses."""
    while isinstance(model, DynamicRunnable):
        model, _ = model.prepare(config)
    return model
