"""The agent's chat model: created from what the caller passed, bound to tools, and selected for each run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool

from langgraph_reflexion.context import Context, field_of
from langgraph_reflexion.driver import Waits, accepts, call_function, model_named
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.nodes.host import has_parent, runtime_of

ModelLike: TypeAlias = str | BaseChatModel | Runnable[Any, Any]
"""A chat model, with or without bound settings or fallbacks, or its name."""

_MISTRAL = re.compile("(?:mi|mini|magi|code|dev|math)stral|(?:mi|pi|vo)xtral")
"""The names of Mistral's models."""


class Selected(NamedTuple):
    """The model of a run, with its tools for decisions, and without them for anything else."""

    with_tools: Model
    plain: Model


class ModelChoice:
    """The models of an agent, prepared once with its tools. `select` returns the one for a run."""

    def __init__(
        self, model: Any, tools: ToolSpecs | None, format_binding: FormatBinding | None, known: Collection[str]
    ) -> None:
        """`tools` are bound to the selected model. With None nothing is bound. `known` are the names of all tools."""
        self._tools, self._format_binding, self._known = tools, format_binding, known
        self._function: Callable[..., Any] | None = None
        self._models: dict[str, Model] = {}
        if isinstance(model, Mapping):
            if not model:
                raise ValueError("`model` must name at least one model, got {}")
            if unfit := [name for name in model if not isinstance(name, str)]:
                raise ValueError(f"`model` must map names, which are strings, to chat models, got {unfit[0]!r}")
            self._models = {name: _model_of(given) for name, given in model.items()}
        elif isinstance(model, (str, Runnable)):
            self._models = {"": _model_of(model)}
        elif callable(model) and not isinstance(model, type):
            if not accepts(model, None, None):
                raise ValueError(f"A function given as `model` must take (state, runtime), got {model!r}")
            self._function = model
        else:
            raise ValueError(
                "`model` must be a chat model, a name such as 'openai:gpt-4o-mini', or a function of (state, runtime), "
                f"got {model!r}"
            )
        self._ready = {name: self._prepare(given) for name, given in self._models.items()}

    def _prepare(self, model: Model) -> Selected:
        if self._tools is None:
            return Selected(model, plain(model))
        return Selected(map_chat_models(model, self._with_tools), plain(model))

    def _with_tools(self, model: Model) -> Model:
        """A chat model with the agent's tools bound. If the caller has bound them already, it is unchanged."""
        more = dict(self._format_binding(model)) if self._format_binding is not None else {}
        already, tools = bound_names(model), self._tools or ()
        if already is not None:
            wanted = {name for tool in tools if (name := tool_name(tool))}
            if missing := wanted - already:
                raise ValueError(
                    f"The model is already bound to tools, but not to {', '.join(sorted(missing))}: "
                    "bind it to all tools"
                )
            if unknown := already - wanted - {*self._known}:
                raise ValueError(f"The model is bound to {', '.join(sorted(unknown))}: add it to `tools` too")
        elif isinstance(model, DynamicRunnable):
            # Its `bind_tools` is that of the default model and would lose the configurable fields.
            bound = self._with_tools(model.default)
            more = cast("Any", bound).kwargs if isinstance(bound, RunnableBindingBase) else {}
        elif tools:
            return _bind_tools(model, tools, more)
        return model.bind(**more) if more else model

    def _name_from(self, context: Any, *, of_parent: bool) -> str:
        """The model that the context names, by default the first. An unknown name is refused.

        If the only model here has no name, a parent's context, or one of another class, means another model.
        """
        name = field_of(context, "model")
        is_other = of_parent or not isinstance(context, Context)
        if name is None or (list(self._models) == [""] and is_other):
            return next(iter(self._models))
        if not isinstance(name, str) or name not in self._models:
            known = ", ".join(repr(known) for known in self._models if known) or "none is named"
            raise ValueError(f"`Context.model` is {name!r}, which is not a model of the agent; its models are: {known}")
        return name

    def enforces_format(self, model: Model) -> bool:
        """Whether the response format is part of each request of this model, because its provider enforces it."""
        return self._format_binding is not None and "response_format" in self._format_binding(model)

    def select(self, view: Callable[[], Any], config: RunnableConfig) -> Waits[Selected]:
        """The model of this run. `view` returns the state for the caller's function."""
        runtime = runtime_of(config)
        if self._function is None:
            name = self._name_from(runtime.context, of_parent=has_parent(config))
            if not isinstance(self._models[name], DynamicRunnable):
                return self._ready[name]
            model = configured(self._models[name], config)
        else:
            given = yield call_function("The function that chooses the model", self._function, view(), runtime)
            if not isinstance(given, (str, Runnable)):
                raise ValueError(f"The function given as `model` must return a chat model or its name, got {given!r}")
            model = _model_of(given)
        return self._prepare(model)


class FixedModel(ModelChoice):
    """One model, of a trial or of a middleware's request. The context does not select it, and no tools are bound."""

    _format_binding = None

    def __init__(self, model: Model | None, decides: Model | None = None) -> None:
        """`decides` makes the decisions, if that is a different model."""
        self._model, self._decides = model, decides

    def select(self, view: Callable[[], Any], config: RunnableConfig) -> Waits[Selected]:
        if self._model is None:
            raise ModelError(
                "A check needs the agent's model, which is not known here: pass a model to the check, or a `reflector`"
            )
        model = configured(self._model, config)
        return Selected(self._decides or model, plain(model))
        yield  # a generator, as in the base class


def model_for(model: Any, setting: str) -> Model | None:
    """The model of a setting, given as an object or by name."""
    if isinstance(model, str):
        return model_named(model)
    if model is None or isinstance(model, Runnable):
        return model
    raise ValueError(f"`{setting}` must be a chat model or its name, got {model!r}")


def _model_of(model: Any) -> Model:
    if (found := model_for(model, "model")) is None:
        raise ValueError(f"`model` must contain chat models or their names, got {model!r}")
    return found


# ---------------------------------------------------------------- the chat models inside the caller's value

Model = Runnable[Any, Any]
ToolSpecs = Sequence[BaseTool | dict[str, Any]]
FormatBinding = Callable[[Model], Mapping[str, Any]]
"""Returns the arguments that bind the response format to a request of a model. Empty if it does not support that."""

_TOOL_SETTINGS = ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call")


def chat_models_in(model: Any) -> Iterator[Any]:
    """The chat models inside, including fallbacks."""
    if isinstance(model, RunnableSequence):
        yield from chat_models_in(model.steps[_model_index(model)])
    elif isinstance(model, RunnableWithFallbacks):
        for inner in (model.runnable, *model.fallbacks):
            yield from chat_models_in(inner)
    elif isinstance(model, RunnableBindingBase):
        yield from chat_models_in(model.bound)
    elif isinstance(model, DynamicRunnable):
        yield from chat_models_in(model.default)
    else:
        yield model


def map_chat_models(model: Model, change: Callable[[Model], Model]) -> Model:
    """The runnable with each chat model in it replaced, together with the binding of its tools."""
    if isinstance(model, RunnableSequence):
        steps, at = list(model.steps), _model_index(model)
        steps[at] = map_chat_models(steps[at], change)
        return RunnableSequence(*steps, name=model.name)
    if isinstance(model, RunnableWithFallbacks):
        fallbacks = [map_chat_models(fallback, change) for fallback in model.fallbacks]
        return model.model_copy(update={"runnable": map_chat_models(model.runnable, change), "fallbacks": fallbacks})
    if isinstance(model, RunnableBindingBase) and "tools" not in model.kwargs:
        return model.model_copy(update={"bound": map_chat_models(model.bound, change)})
    return change(model)


def _model_index(sequence: RunnableSequence[Any, Any]) -> int:
    """The index of the model in a sequence. A prompt may come before it and a parser after it."""
    for at, step in enumerate(sequence.steps):
        if any(isinstance(inner, BaseChatModel) or _binds_tools(inner) for inner in chat_models_in(step)):
            return at
    raise ValueError(f"`model` is a sequence without a chat model in it: {sequence!r}")


# ---------------------------------------------------------------- what a model can do


def can_call_tools(model: Any) -> bool:
    """Whether a model can call tools natively: it is bound to some, or its class knows how to bind them."""
    return bound_names(model) is not None or all(_binds_tools(inner) for inner in chat_models_in(model))


def _bind_tools(model: Model, tools: ToolSpecs, more: dict[str, Any]) -> Model:
    try:
        return cast("Model", cast("Any", model).bind_tools(list(tools), **more))
    except (NotImplementedError, AttributeError):  # a wrapper may delegate it, so its class does not tell
        if _binds_tools(model):
            raise
        raise ValueError(f"{type(model).__name__} cannot bind tools: use another model or protocol='json'") from None


def _binds_tools(model: Any) -> bool:
    own = getattr(type(model), "bind_tools", None)
    return own is not None and own is not BaseChatModel.bind_tools


def enforces_schemas(model: Any, *, beside_tools: bool = False) -> bool:
    """Whether its profile says that the provider enforces schemas. With fallbacks, all must."""
    return all(
        (_profile(inner) or {}).get("structured_output") and not (beside_tools and _takes_tools_or_schema(inner))
        for inner in chat_models_in(model)
    )


def _takes_tools_or_schema(model: Any) -> bool:
    """Whether it is Gemini 2 or older, which takes tools or a schema but not both. Its profile does not say so."""
    return "gemini" in (name := _name_of(model)) and "gemini-3" not in name


def wants_turn_after_results(model: Any) -> bool:
    """Whether a user message may not follow a tool's result. Mistral's models refuse that, wherever they are served."""
    return any(_MISTRAL.search(f"{type(inner).__name__.lower()} {_name_of(inner)}") for inner in chat_models_in(model))


def _name_of(model: Any) -> str:
    names = (getattr(model, field, None) for field in ("model_name", "model", "model_id"))
    return str(next(filter(None, names), "")).lower()


def _profile(model: Any) -> Mapping[str, Any] | None:
    try:
        return getattr(model, "profile", None)
    except Exception:  # noqa: BLE001 — a configurable model creates its default for this, which may lack key or package
        return None


def bound_names(model: Any) -> set[str] | None:
    """The names of the tools that are bound to the caller's model, or None."""
    found: list[set[str]] = []

    def look(inner: Model) -> Model:
        if isinstance(inner, RunnableBindingBase):
            specs = [spec for spec in inner.kwargs["tools"] if isinstance(spec, dict)]
            found.append({name for spec in specs if (name := tool_name(spec))})
        return inner

    map_chat_models(model, look)
    return found[0] if found else None


def tool_name(tool: BaseTool | dict[str, Any]) -> str | None:
    """The name of a tool, which may be a provider's dict."""
    if not isinstance(tool, dict):
        return tool.name
    function = tool.get("function")
    return (function.get("name") if isinstance(function, dict) else None) or tool.get("name")


# ---------------------------------------------------------------- with tools, without, and as the run's config says


def plain(model: Model) -> Model:
    """The model for everything except decisions: without tools, prompt or parser."""
    if isinstance(model, RunnableSequence):
        return plain(model.steps[_model_index(model)])
    return map_chat_models(model, _without_tools)


def _without_tools(model: Model) -> Model:
    if not isinstance(model, RunnableBindingBase):
        return model
    rest = {key: value for key, value in model.kwargs.items() if key not in _TOOL_SETTINGS}
    return model.model_copy(update={"kwargs": rest}) if rest or model.config else model.bound


def configured(model: Model, config: RunnableConfig) -> Model:
    """The model that the run's config selects."""
    while isinstance(model, DynamicRunnable):
        model, _ = model.prepare(config)
    return model
