"""Asking a model: which one, in what binding, what it cost, and what its exception means."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.nodes.host import runtime_of
from langgraph_reflexion.nodes.step import Wait, Waits, in_thread
from langgraph_reflexion.nodes.timing import within

Model = Runnable[Any, Any]
Offer = Sequence[BaseTool | dict[str, Any]]
Spent = list[int]
"""Input, output and total tokens, and calls."""


def model_named(name: str) -> BaseChatModel:
    """The model of a `provider:name` string; `openai:` needs nothing more, others need `langchain`."""
    provider, _, model = name.partition(":")
    if provider == "openai" and model:
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(model=model)
    try:
        chat_models = importlib.import_module("langchain.chat_models")
    except ImportError:
        raise ModelError(
            f"The model {name!r} needs `pip install langchain` and its provider's package; "
            "`openai:<name>` works without, with OPENAI_BASE_URL for servers that speak the same"
        ) from None
    try:
        return cast("BaseChatModel", chat_models.init_chat_model(name))
    except (ImportError, ValueError) as fault:
        raise ModelError(f"There is no model {name!r}: {fault}") from fault


def innermost(model: Any) -> Any:
    """The chat model inside a binding, a sequence, fallbacks or configurable fields."""
    for _ in range(8):
        if isinstance(model, BaseChatModel):
            return model
        steps = getattr(model, "steps", None)
        if steps:
            model = next((step for step in steps if _binds(step) or hasattr(step, "bound")), steps[-1])
            continue
        inner = next((vars(model)[key] for key in ("bound", "runnable", "default") if key in vars(model)), None)
        if inner is None:
            return model
        model = inner
    return model


def calls_tools(model: Any) -> bool:
    """Whether the model's class knows how to bind tools."""
    inner = innermost(model)
    return _binds(inner)


def _binds(model: Any) -> bool:
    own = getattr(type(model), "bind_tools", None)
    return own is not None and own is not BaseChatModel.bind_tools


def knows_schemas(model: Any) -> bool:
    """Whether the model's profile says that its provider enforces schemas."""
    profile = getattr(innermost(model), "profile", None) or {}
    return bool(profile.get("structured_output"))


def bound_names(model: Any) -> set[str] | None:
    """The names of the tools that a model came bound with, or None."""
    layers = list(getattr(model, "steps", None) or [model])
    kwargs: Mapping[str, Any] = next((layer.kwargs for layer in layers if "tools" in getattr(layer, "kwargs", {})), {})
    if "tools" not in kwargs:
        return None
    specs = [spec for spec in kwargs["tools"] if isinstance(spec, dict)]
    names = [(spec.get("function") or {}).get("name") or spec.get("name") for spec in specs]
    return {str(name) for name in names if name}


def offering(model: Model, tools: Offer, **form: Any) -> Model:
    """The model with these tools bound; one that came bound with them is taken as it is."""
    already = bound_names(model)
    if already is not None:
        wanted = {tool.name for tool in tools if isinstance(tool, BaseTool)}
        if missing := wanted - already:
            raise ValueError(
                f"The model is already bound, and not to {', '.join(sorted(missing))}; bind it to all tools"
            )
        if not wanted and already:
            raise ValueError(f"The model is bound to {', '.join(sorted(already))}, which `tools` does not name")
        return model.bind(**form) if form else model
    if tools:
        return cast("Model", cast("Any", model).bind_tools(list(tools), **form))
    return model.bind(**form) if form else model


class Choice:
    """Whose turn it is to answer: one model, one of several by name, or what the caller's function says."""

    def __init__(self, model: Any, tools: Offer = (), form: Callable[[Model], dict[str, Any]] | None = None) -> None:
        self._tools, self._form = tools, form
        self._function: Callable[..., Any] | None = None
        self._plain: dict[str, Model] = {}
        if isinstance(model, Mapping):
            if not model:
                raise ValueError("`model` names no model: {}")
            self._plain = {str(name): self._made(one) for name, one in model.items()}
        elif isinstance(model, (str, Runnable)):
            self._plain = {"": self._made(model)}
        elif callable(model):
            self._function = model
        else:
            raise ValueError(
                f"`model` is a chat model, a name such as 'openai:gpt-4o-mini', or a function; got {model!r}"
            )
        self._ready = {name: self._offered(one) for name, one in self._plain.items()}

    @staticmethod
    def _made(model: Any) -> Model:
        if isinstance(model, str):
            return model_named(model)
        if not isinstance(model, Runnable):
            raise ValueError(f"`model` holds chat models or their names, got {model!r}")
        return model

    def _offered(self, model: Model) -> Model:
        return offering(model, self._tools, **(self._form(model) if self._form is not None else {}))

    @property
    def example(self) -> Model | None:
        """The first model, from which the protocol is told; None where a function chooses."""
        return next(iter(self._plain.values()), None)

    def check(self, name: str | None) -> None:
        """Refuse a name that no model has, before anything is asked."""
        if name is not None and name not in self._plain:
            known = ", ".join(repr(one) for one in self._plain if one) or "none is named"
            raise ValueError(f"`Context.model` is {name!r}, and the agent's models are: {known}")

    def chosen(self, state: Any, config: RunnableConfig) -> Waits[tuple[Model, Model]]:
        """The model for this question, with tools bound and without."""
        runtime = runtime_of(config)
        if self._function is None:
            name = field_of(runtime.context, "model")
            self.check(name)
            key = name if name is not None else next(iter(self._plain))
            return self._ready[key], self._plain[key]
        function = self._function
        if inspect.iscoroutinefunction(function):
            model = yield Wait(_only_async, lambda: function(state, runtime))
        else:
            model = yield in_thread(lambda: function(state, runtime))
        made = self._made(model)
        return self._offered(made), made


def _only_async() -> Any:
    raise RuntimeError("The function that chooses the model is async: use `ainvoke` or `astream`, or give a sync one")


def field_of(context: Any, name: str) -> Any:
    """A field by name of whatever the context is."""
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)


class Reply(NamedTuple):
    """What came back, and what it cost."""

    message: AIMessage
    spent: Spent


def asked(
    model: Model,
    messages: Sequence[AnyMessage],
    config: RunnableConfig,
    *,
    seconds: float | None = None,
    aside: str | None = None,
) -> Waits[Reply]:
    """Ask once. With `aside`, a name for traces, its tokens never reach the user."""
    quiet = config if aside is None else unheard(config, aside)
    given = list(messages)
    message = yield within(seconds, lambda: model.invoke(given, quiet), lambda: model.ainvoke(given, quiet))
    if not isinstance(message, AIMessage):
        message = AIMessage(str(message))
    return Reply(message, spent_on(message))


def unheard(config: RunnableConfig, name: str) -> RunnableConfig:
    """A config whose model call has a name of its own in traces and streams nothing to the user."""
    return cast("RunnableConfig", {**config, "tags": [*(config.get("tags") or []), "nostream"], "run_name": name})


def spent_on(message: AIMessage) -> Spent:
    """What one reply cost."""
    usage = message.usage_metadata
    if usage is None:
        return [0, 0, 0, 1]
    return [usage["input_tokens"], usage["output_tokens"], usage["total_tokens"], 1]


def plus(left: Spent, right: Spent) -> Spent:
    """Two costs together."""
    return [a + b for a, b in zip(left, right, strict=True)]


def let_pass(fault: Exception) -> None:
    """Raise what is LangGraph's own control flow."""
    if isinstance(fault, GraphBubbleUp):
        raise fault
