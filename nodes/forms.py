"""The form an answer must have: read from the model's text, or put into shape by one more call."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from typing import Any, is_typeddict

import typing_extensions
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, TypeAdapter, ValidationError

from langgraph_reflexion.nodes.arguments import fault_in_value
from langgraph_reflexion.nodes.faults import model_fault, told
from langgraph_reflexion.nodes.models import Model, Spent, asked, innermost, let_pass, spent_on, unheard
from langgraph_reflexion.nodes.reading import Invalid, read_json
from langgraph_reflexion.nodes.step import Wait, Waits
from langgraph_reflexion.prompts import Prompts


class ResponseForm:
    """A pydantic model, a TypedDict, a dataclass or a JSON schema, with a prompt of its own where one is given."""

    def __init__(self, given: Any) -> None:
        self.prompt: str | None = None
        self.forced = type(given).__name__ == "ProviderStrategy"
        if isinstance(given, tuple):
            if len(given) != 2 or not isinstance(given[0], str):
                raise ValueError(f"`response_format` as a pair is (prompt, schema), got {given!r}")
            self.prompt, given = given
        if type(given).__name__.endswith("Strategy") and hasattr(given, "schema"):
            given = given.schema
        self.schema = given
        self.type: Any = dict
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(given, dict):
            if not {"type", "properties", "$ref", "anyOf", "oneOf", "allOf"} & set(given):
                raise ValueError(
                    f"`response_format` is no JSON schema: it has neither `type` nor `properties`, got {given!r}"
                )
            self.json_schema = given
            self.name = str(given.get("title") or "response")
        elif is_form(given):
            self._adapter = TypeAdapter(given)
            self.json_schema = self._adapter.json_schema()
            self.name = given.__name__
            self.type = given
        else:
            raise ValueError(
                f"`response_format` is a pydantic model, TypedDict, dataclass or JSON schema, got {given!r}"
            )

    def bound(self) -> dict[str, Any]:
        """What binds the form to a request of a provider that enforces schemas."""
        schema = {"name": self.name, "schema": self.json_schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}

    def read(self, text: str) -> tuple[Any, str]:
        """The value in an answer's text, or what is wrong with it."""
        value = read_json(text)
        if isinstance(value, Invalid):
            return None, value.message
        return self.fitted(value)

    def fitted(self, value: Any) -> tuple[Any, str]:
        """Data as the form's own type, or what is wrong with it."""
        if self._adapter is None:
            fault = fault_in_value(value, self.json_schema)
            return (None, fault) if fault else (value, "")
        try:
            return self._adapter.validate_python(value), ""
        except ValidationError as fault:
            said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()[:5])
            return None, f"the answer does not fit {self.name}: {said}"

    def plain(self, value: Any) -> Any:
        """The value as plain JSON data."""
        if self._adapter is None:
            return value
        return self._adapter.dump_python(value, mode="json")

    def shaped(
        self, model: Model, answer: str, messages: list[AnyMessage], words: Prompts, config: RunnableConfig
    ) -> Waits[tuple[Any, str, Spent]]:
        """An answer put into the form by one more call, in the model's own way and else in words."""
        instruction = words.render("shape", answer=answer)
        asking: list[AnyMessage] = [*messages, HumanMessage(instruction)]
        if self.prompt:
            asking = [SystemMessage(self.prompt), *asking]
        inner: Any = innermost(model)
        structured = getattr(inner, "with_structured_output", None)
        if structured is not None:
            try:
                runnable = structured(self.schema)
                quiet, meter = metered(unheard(config, "shape"))
                value = yield Wait(lambda: runnable.invoke(asking, quiet), lambda: runnable.ainvoke(asking, quiet))
                fitted, fault = self.fitted(value) if value is not None else (None, "no value came back")
                return fitted, fault, meter.spent
            except NotImplementedError:
                pass
            except Exception as fault:  # noqa: BLE001 — any provider's own exception; a refused form is asked in words
                let_pass(fault)
                if model_fault(fault) != "setting" or getattr(fault, "status_code", None) in (401, 403):
                    return None, told(fault), [0, 0, 0, 1]
        schema = json.dumps(self.json_schema, ensure_ascii=False)
        in_words = [*asking[:-1], HumanMessage(f"{instruction}\n\n{words.render('form', schema=schema)}")]
        try:
            reply = yield from asked(model, in_words, config, aside="shape")
        except Exception as fault:  # noqa: BLE001 — any provider's own exception
            let_pass(fault)
            return None, told(fault), [0, 0, 0, 1]
        value, fault_text = self.read(reply.message.text)
        return value, fault_text, reply.spent


def is_form(thing: Any) -> bool:
    """Whether answers can be validated against this."""
    if not isinstance(thing, type) and not is_typeddict(thing):
        return False
    model = isinstance(thing, type) and issubclass(thing, BaseModel)
    return model or is_dataclass(thing) or is_typeddict(thing) or typing_extensions.is_typeddict(thing)


class Meter:
    """What a call through somebody else's runnable cost."""

    def __init__(self) -> None:
        self.spent: Spent = [0, 0, 0, 0]


def metered(config: RunnableConfig) -> tuple[RunnableConfig, Meter]:
    """A config that counts the tokens of the model calls under it."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.outputs import ChatGeneration, LLMResult
    from langchain_core.runnables.config import merge_configs

    meter = Meter()

    class Count(BaseCallbackHandler):
        run_inline = True

        def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
            for made in response.generations[:1]:
                for one in made[:1]:
                    if isinstance(one, ChatGeneration) and isinstance(one.message, AIMessage):
                        meter.spent = [a + b for a, b in zip(meter.spent, spent_on(one.message), strict=True)]

    return merge_configs(config, {"callbacks": [Count()]}), meter
