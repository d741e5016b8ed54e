"""The chat models inside what a caller gives: behind bindings, in a sequence, with fallbacks, configurable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import (
    Runnable,
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
"""What else is bound to a model, by what it can do: the schema of its answers."""

_TOOL_SETTINGS = ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call")


def leaves(model: Any) -> Iterator[Any]:
    """The chat models inside, fallbacks too."""
    if isinstance(model, RunnableSequence):
        yield from leaves(model.steps[_place(model)])
    elif isinstance(model, RunnableWithFallbacks):
        for inner in (model.runnable, *model.fallbacks):
            yield from leaves(inner)
    elif isinstance(model, RunnableBindingBase):
        yield from leaves(model.bound)
    elif isinstance(model, DynamicRunnable):
        yield from leaves(model.default)
    else:
        yield model


def rebuilt(model: Model, change: Callable[[Model], Model]) -> Model:
    """The same runnable with a change made of each chat model in it, or of the binding that gives it its tools."""
    if isinstance(model, RunnableSequence):
        steps, at = list(model.steps), _place(model)
        steps[at] = rebuilt(steps[at], change)
        return RunnableSequence(*steps, name=model.name)
    if isinstance(model, RunnableWithFallbacks):
        fallbacks = [rebuilt(fallback, change) for fallback in model.fallbacks]
        return model.model_copy(update={"runnable": rebuilt(model.runnable, change), "fallbacks": fallbacks})
    if isinstance(model, RunnableBindingBase) and "tools" not in model.kwargs:
        return model.model_copy(update={"bound": rebuilt(model.bound, change)})
    return change(model)


def _place(sequence: RunnableSequence[Any, Any]) -> int:
    """Which step of a sequence is the model; a prompt may stand before it and a parser behind."""
    for at, step in enumerate(sequence.steps):
        if any(isinstance(leaf, BaseChatModel) or _binds_tools(leaf) for leaf in leaves(step)):
            return at
    raise ValueError(f"`model` is a sequence without a chat model in it: {sequence!r}")


# ---------------------------------------------------------------- what a model can do


def calls_tools(model: Any) -> bool:
    """Whether a model can call tools natively: it is bound to some, or its class knows how to bind them."""
    return bound_names(model) is not None or all(_binds_tools(leaf) for leaf in leaves(model))


def _binds_tools(model: Any) -> bool:
    own = getattr(type(model), "bind_tools", None)
    return own is not None and own is not BaseChatModel.bind_tools


def knows_schemas(model: Any, *, beside_tools: bool = False) -> bool:
    """Whether its profile says that the provider enforces schemas; with fallbacks, whether all of them do."""
    return all(
        (_profile(leaf) or {}).get("structured_output") and not (beside_tools and _is_either_or(leaf))
        for leaf in leaves(model)
    )


def _is_either_or(model: Any) -> bool:
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

    def look(inner: Model) -> Model:
        if isinstance(inner, RunnableBindingBase):
            specs = [spec for spec in inner.kwargs["tools"] if isinstance(spec, dict)]
            found.append({name for spec in specs if (name := tool_name(spec))})
        return inner

    rebuilt(model, look)
    return found[0] if found else None


def tool_name(tool: BaseTool | dict[str, Any]) -> str | None:
    """The name of a tool, also of one given as a provider's dict."""
    if not isinstance(tool, dict):
        return tool.name
    function = tool.get("function")
    return (function.get("name") if isinstance(function, dict) else None) or tool.get("name")


# ---------------------------------------------------------------- with tools, without, and as the run wants it


def offering(model: Model, tools: Offer, known: Collection[str] = (), form: Form | None = None) -> Model:
    """The model with these tools bound; one that came bound with them is taken as it is.

    `known` are the names of all tools, those too that are not offered.
    """
    wanted = {name for tool in tools if (name := tool_name(tool))}

    def bind(inner: Model) -> Model:
        more = dict(form(inner)) if form is not None else {}
        already = bound_names(inner)
        if already is not None:
            _check_bound(already, wanted, {*known, *wanted})
        elif isinstance(inner, DynamicRunnable):
            # Its own `bind_tools` is its default's, and would forget what can be configured.
            bound = bind(inner.default)
            more = cast("Any", bound).kwargs if isinstance(bound, RunnableBindingBase) else {}
        elif tools:
            return _bound(inner, tools, more)
        return inner.bind(**more) if more else inner

    return rebuilt(model, bind)


def _bound(model: Model, tools: Offer, more: dict[str, Any]) -> Model:
    try:
        return cast("Model", cast("Any", model).bind_tools(list(tools), **more))
    except (NotImplementedError, AttributeError):
        if _binds_tools(model):
            raise
        raise ValueError(
            f"{type(model).__name__} cannot bind tools: give another model, or use protocol='json'"
        ) from None


def _check_bound(already: set[str], wanted: set[str], known: set[str]) -> None:
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
    rest = {key: value for key, value in model.kwargs.items() if key not in _TOOL_SETTINGS}
    return model.model_copy(update={"kwargs": rest}) if rest or model.config else model.bound


def configured(model: Model, config: RunnableConfig) -> Model:
    """The model that the run's config chooses."""
    while isinstance(model, DynamicRunnable):
        model, _ = model.prepare(config)
    return model
