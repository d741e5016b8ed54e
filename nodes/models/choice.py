"""Which model is asked: one, one of several by name, or what a function of the caller chooses."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig

from langgraph_reflexion.context import Context, field_of
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.nodes.calling import calling, takes
from langgraph_reflexion.nodes.host import runtime_of
from langgraph_reflexion.nodes.models.bindings import (
    Form,
    Model,
    Offer,
    configured,
    is_configurable,
    offering,
    plain,
)


def model_named(name: str) -> BaseChatModel:
    """The model of a `provider:name` string; `openai:` needs nothing more, others need `langchain`."""
    provider, _, model = name.partition(":")
    if not provider.strip() or (":" in name and not model.strip()):
        raise ModelError(f"The model {name!r} cannot be made: a name is 'provider:model', as 'openai:gpt-4o-mini'")
    if provider == "openai" and model:
        return _of_openai(name, model)
    try:
        chat_models = importlib.import_module("langchain.chat_models")
    except ImportError:
        raise ModelError(
            f"The model {name!r} needs `pip install langchain` and its provider's package; "
            "`openai:<name>` works without, with OPENAI_BASE_URL for servers that speak the same"
        ) from None
    try:
        return cast("BaseChatModel", chat_models.init_chat_model(name))
    except Exception as fault:  # each provider's client has exceptions of its own
        raise ModelError(f"The model {name!r} cannot be made: {fault}") from fault


def _of_openai(name: str, model: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI
    from openai import OpenAIError

    try:
        return ChatOpenAI(model=model)
    except OpenAIError as fault:
        raise ModelError(f"The model {name!r} cannot be made: {fault}") from fault


class Choice:
    """Whose turn it is to answer: one model, one of several by name, or what the caller's function says."""

    def __init__(
        self, model: Any, tools: Offer | None = (), form: Form | None = None, known: Collection[str] = ()
    ) -> None:
        """`tools` are bound to whichever model it is; None takes each model as it comes."""
        self._tools, self._form, self._known = tools, form, known
        self._function: Callable[..., Any] | None = None
        self._plain: dict[str, Model] = {}
        if isinstance(model, Mapping):
            if not model:
                raise ValueError("`model` names no model: {}")
            self._plain = {str(name): self._made(one) for name, one in model.items()}
        elif isinstance(model, (str, Runnable)):
            self._plain = {"": self._made(model)}
        elif callable(model) and not isinstance(model, type):
            if not takes(model, None, None):
                raise ValueError(f"`model` as a function takes (state, runtime), and {model!r} does not")
            self._function = model
        else:
            raise ValueError(
                "`model` is a chat model, a name such as 'openai:gpt-4o-mini', or a function of (state, runtime), "
                f"got {model!r}"
            )
        self._ready = {name: self._offered(one) for name, one in self._plain.items()}
        self._alone = {name: plain(one) for name, one in self._plain.items()}

    @staticmethod
    def _made(model: Any) -> Model:
        if isinstance(model, str):
            return model_named(model)
        if not isinstance(model, Runnable):
            raise ValueError(f"`model` holds chat models or their names, got {model!r}")
        return model

    def _offered(self, model: Model) -> Model:
        return model if self._tools is None else offering(model, self._tools, self._known, self._form)

    @property
    def example(self) -> Model | None:
        """The first model, from which the protocol is told; None where a function chooses."""
        return next(iter(self._plain.values()), None)

    def named_in(self, context: Any) -> str:
        """Which model a context names, the first by default; a name that no model has is refused.

        A parent's own context may well have a field of that name: where no model here has one, it means another.
        """
        name = field_of(context, "model")
        if name is None or (list(self._plain) == [""] and not isinstance(context, Context)):
            return next(iter(self._plain))
        if not isinstance(name, str) or name not in self._plain:
            known = ", ".join(repr(one) for one in self._plain if one) or "none is named"
            raise ValueError(f"`Context.model` is {name!r}, and the agent's models are: {known}")
        return name

    def binds_form(self, model: Model) -> bool:
        """Whether the response form goes with each request of this model, its provider enforcing it."""
        return self._form is not None and bool(self._form(model))

    def chosen(self, state: Any, config: RunnableConfig) -> Waits[tuple[Model, Model]]:
        """The model for this question, as it decides, and alone for anything else."""
        runtime = runtime_of(config)
        if self._function is None:
            key = self.named_in(runtime.context)
            given = self._plain[key]
            if is_configurable(given):
                given = configured(given, config)
                return self._offered(given), plain(given)
            return self._ready[key], self._alone[key]
        model = yield calling("The function that chooses the model", self._function, state, runtime)
        if not isinstance(model, (str, Runnable)):
            raise ValueError(f"The function given as `model` gives a chat model or its name, got {model!r}")
        made = self._made(model)
        return self._offered(made), plain(made)


class Only(Choice):
    """The one model there is, whatever model the context names: that is for the worker to say."""

    def __init__(self, model: Model) -> None:
        super().__init__(model, None)

    def named_in(self, context: Any) -> str:
        return ""

    def chosen(self, state: Any, config: RunnableConfig) -> Waits[tuple[Model, Model]]:
        yield from ()
        return self._ready[""], self._alone[""]
