"""Which model is asked: the only one, one of several by name, or what a function of the caller chooses."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.configurable import DynamicRunnable

from langgraph_reflexion.context import Context, field_of
from langgraph_reflexion.driver import Waits
from langgraph_reflexion.errors import ModelError
from langgraph_reflexion.nodes.calling import accepts, call_function
from langgraph_reflexion.nodes.host import runtime_of
from langgraph_reflexion.nodes.models.bindings import (
    Form,
    Model,
    Offer,
    configured,
    offering,
    plain,
)


def model_named(name: str) -> BaseChatModel:
    """The model of a `provider:model` string; `openai:` needs nothing more, others need `langchain`."""
    provider, _, model = name.partition(":")
    if not provider.strip() or (":" in name and not model.strip()):
        raise ModelError(f"The model {name!r} cannot be made: a name is 'provider:model', as 'openai:gpt-4o-mini'")
    try:
        if provider == "openai" and model:
            from langchain_openai import ChatOpenAI

            return ChatOpenAI(model=model)
        chat_models = importlib.import_module("langchain.chat_models")
        return cast("BaseChatModel", chat_models.init_chat_model(name))
    except ModuleNotFoundError as error:
        if error.name not in ("langchain", "langchain.chat_models"):
            raise ModelError(f"The model {name!r} cannot be made: {error}") from error
        raise ModelError(
            f"The model {name!r} needs `pip install langchain` and its provider's package; "
            "`openai:<name>` works without, with OPENAI_BASE_URL for servers that speak the same"
        ) from None
    except Exception as error:  # each provider's client has exceptions of its own
        raise ModelError(f"The model {name!r} cannot be made: {error}") from error


class Choice:
    """The models of an agent, prepared once with its tools; `chosen` says which one a run asks."""

    def __init__(
        self, model: Any, tools: Offer | None = (), form: Form | None = None, known: Collection[str] = ()
    ) -> None:
        """`tools` are bound to whichever model it is; None takes each model as it comes."""
        self._tools, self._form, self._known = tools, form, known
        self._function: Callable[..., Any] | None = None
        self._models: dict[str, Model] = {}
        if isinstance(model, Mapping):
            if not model:
                raise ValueError("`model` names no model: {}")
            self._models = {str(name): _made(given) for name, given in model.items()}
        elif isinstance(model, (str, Runnable)):
            self._models = {"": _made(model)}
        elif callable(model) and not isinstance(model, type):
            if not accepts(model, None, None):
                raise ValueError(f"`model` as a function takes (state, runtime), and {model!r} does not")
            self._function = model
        else:
            raise ValueError(
                "`model` is a chat model, a name such as 'openai:gpt-4o-mini', or a function of (state, runtime), "
                f"got {model!r}"
            )
        self._ready = {name: (self._offered(given), plain(given)) for name, given in self._models.items()}

    def _offered(self, model: Model) -> Model:
        return model if self._tools is None else offering(model, self._tools, self._known, self._form)

    @property
    def example(self) -> Model | None:
        """The first model, by which `protocol="auto"` decides; None if a function chooses."""
        return next(iter(self._models.values()), None)

    def named_in(self, context: Any) -> str:
        """Which model a context names, the first by default; a name that no model has is refused.

        A parent's own context may well have a field of that name: where no model here has one, it means another.
        """
        name = field_of(context, "model")
        if name is None or (list(self._models) == [""] and not isinstance(context, Context)):
            return next(iter(self._models))
        if not isinstance(name, str) or name not in self._models:
            known = ", ".join(repr(known) for known in self._models if known) or "none is named"
            raise ValueError(f"`Context.model` is {name!r}, and the agent's models are: {known}")
        return name

    def binds_form(self, model: Model) -> bool:
        """Whether the response form goes with each request of this model, its provider enforcing it."""
        return self._form is not None and "response_format" in self._form(model)

    def chosen(self, view: Callable[[], Any], config: RunnableConfig) -> Waits[tuple[Model, Model]]:
        """The model of this run: with its tools, for a decision, and alone, for anything else.

        `view` gives the state as a function of the caller's is to see it.
        """
        runtime = runtime_of(config)
        if self._function is None:
            name = self.named_in(runtime.context)
            if not isinstance(self._models[name], DynamicRunnable):
                return self._ready[name]
            model = configured(self._models[name], config)
        else:
            given = yield call_function("The function that chooses the model", self._function, view(), runtime)
            if not isinstance(given, (str, Runnable)):
                raise ValueError(f"The function given as `model` gives a chat model or its name, got {given!r}")
            model = _made(given)
        return self._offered(model), plain(model)


class Only(Choice):
    """The one model there is, whatever model the context names: that is for the worker to say."""

    def __init__(self, model: Model) -> None:
        super().__init__(model, None)

    def named_in(self, context: Any) -> str:
        return ""


def _made(model: Any) -> Model:
    if isinstance(model, str):
        return model_named(model)
    if not isinstance(model, Runnable):
        raise ValueError(f"`model` holds chat models or their names, got {model!r}")
    return model
