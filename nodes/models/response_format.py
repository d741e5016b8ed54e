"""The response format: the value in an answer's text, and how a model is asked for JSON of a schema."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, TypeAdapter, ValidationError

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.exceptions import model_fault, status_of
from langgraph_reflexion.nodes.models.calling import (
    COST_OF_NO_REPLY,
    Reply,
    call_model,
    raise_control_flow,
)
from langgraph_reflexion.nodes.models.choice import Model, enforces_schemas, map_chat_models
from langgraph_reflexion.nodes.tools.arguments import json_schema_check, misfits, wrong_schema
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.text.json_text import JsonError, read_json


class ResponseFormat:
    """A pydantic model, TypedDict, dataclass, union of these, or JSON schema, optionally with its own prompt.

    LangChain's strategies say how to ask for it: a `ProviderStrategy` is bound to each request regardless of the
    model's profile, and a `ToolStrategy` is a tool that the model calls to answer.
    """

    def __init__(self, given: Any) -> None:
        self.prompt: str | None = None
        if isinstance(given, tuple):
            if len(given) != 2 or not isinstance(given[0], str):
                raise ValueError(f"A pair given as `response_format` must be (prompt, schema), got {given!r}")
            self.prompt, given = given
        strategy = type(given).__name__
        self.forced, self.is_tool = strategy == "ProviderStrategy", strategy == "ToolStrategy"
        self._strict = bool(getattr(getattr(given, "schema_spec", None), "strict", None))
        if strategy.endswith("Strategy") and hasattr(given, "schema"):
            given = given.schema
        if sys.version_info < (3, 12) and is_typeddict(given) and type(given).__module__ == "typing":
            given = _known_to_pydantic(given)
        self.type: Any = dict
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(given, dict):
            if not {"type", "properties", "$ref", "anyOf", "oneOf", "allOf"} & set(given):
                raise ValueError(
                    f"`response_format` is not a JSON schema: it has neither `type` nor `properties`, got {given!r}"
                )
            if wrong := wrong_schema(given):
                raise ValueError(f"`response_format` is not a valid JSON schema: {wrong}")
            self.json_schema = given
            self._fault_in = json_schema_check(given)
        elif all(map(is_schema_class, _members(given))):
            self._adapter = TypeAdapter(given)
            self.json_schema = self._adapter.json_schema()
            self.type = given
        else:
            raise ValueError(
                f"`response_format` must be a pydantic model, TypedDict, dataclass or JSON schema, got {given!r}"
            )
        name = getattr(given, "__name__", None) or self.json_schema.get("title") or "response"
        self.name = re.sub(r"[^A-Za-z0-9_-]", "_", str(name))[:64]

    @property
    def types(self) -> tuple[type, ...]:
        """The classes of its values."""
        return tuple(member for member in _members(self.type) if isinstance(member, type))

    @property
    def is_object(self) -> bool:
        """Whether its values are objects of one kind, because providers accept no other schema for answers or tools."""
        return self.json_schema.get("type", "object") == "object" and "properties" in self.json_schema

    def binding_for(self, model: Model, *, beside_tools: bool) -> dict[str, Any]:
        """The arguments that bind the schema to each request of a model whose provider enforces schemas, else none."""
        is_enforced = self.forced or (not self.is_tool and enforces_schemas(model, beside_tools=beside_tools))
        if not (is_enforced and self.is_object):
            return {}
        # If there are tools too, `langchain-openai` takes the name from the title.
        return schema_binding(self.name, {**self.json_schema, "title": self.name}, strict=self._strict)

    def read(self, text: str) -> tuple[Any, str]:
        """The value in an answer's text, or what is wrong with it."""
        try:
            return self.validate(read_json(text))
        except JsonError as fault:
            return None, str(fault)

    def validate(self, value: Any) -> tuple[Any, str]:
        """Data as a value of the response format, or what is wrong with it."""
        if self._adapter is None:
            fault = self._fault_in(value)
            return (None, fault) if fault else (value, "")
        try:
            return self._adapter.validate_python(value), ""
        except ValidationError as fault:
            return None, f"the answer does not fit {self.name}: {misfits(fault)}"

    def plain(self, value: Any) -> Any:
        """The value as plain JSON data."""
        if self._adapter is None:
            return value
        return self._adapter.dump_python(value, mode="json")

    def saved(self, value: Any) -> Any:
        """The value as plain data from which `validate` makes an equal value, or None if there are none."""
        dump = None if self._adapter is None else self._adapter.dump_python
        data = value if dump is None else dump(value, mode="json", by_alias=True, round_trip=True, warnings=False)
        return data if self.validate(data) == (value, "") else None

    def structured(self, model: Model) -> Model | None:
        """The model with its class's structured output. None if it has none."""
        is_model = isinstance(self.type, type) and issubclass(self.type, BaseModel)
        schema = self.type if is_model else {**self.json_schema, "title": self.name}
        try:
            return map_chat_models(model, lambda inner: cast("Any", inner).with_structured_output(schema))
        except Exception as fault:  # noqa: BLE001 — nothing was asked yet, and a prompt works without it
            raise_control_flow(fault)
            return None


def _known_to_pydantic(given: Any) -> Any:
    """The same TypedDict from `typing_extensions`: before Python 3.12 pydantic takes no other."""
    fields = get_type_hints(given, include_extras=True)
    known: Any = typing_extensions.TypedDict(given.__name__, fields, total=given.__total__)  # type: ignore[misc]
    known.__doc__ = given.__doc__
    return known


def schema_binding(name: str, schema: dict[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """What binds a schema to a request of a provider that enforces schemas."""
    named = {"name": name, "schema": schema, **({"strict": True} if strict else {})}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def with_schema(question: str, schema: dict[str, Any], prompts: Prompts) -> str:
    """The question with the schema of its answer as text, for any other provider."""
    return f"{question}\n\n{prompts.render('form', schema=json.dumps(schema, ensure_ascii=False))}"


def ask_for_json(
    model: Model,
    messages: Sequence[AnyMessage],
    config: RunnableConfig,
    name: str,
    schema: dict[str, Any],
    *,
    prompts: Prompts | None = None,
    **options: Any,
) -> Waits[Reply]:
    """The reply to the question in the first message, whose answer is JSON of this schema.

    A provider that enforces schemas gets it with the request. Any other, and one that refuses it, gets it as text after
    the question or, with no `prompts`, only the question. `options` are those of `call_model`.
    """
    refused = False
    if enforces_schemas(model):
        try:
            return (yield from call_model(model.bind(**schema_binding(name, schema)), messages, config, **options))
        except Exception as fault:
            raise_control_flow(fault)
            if model_fault(fault) != "setting" or status_of(fault) in (401, 403):
                raise
            refused = True
    question, *rest = messages
    if prompts is not None:
        question = HumanMessage(with_schema(question.text, schema, prompts))
    reply = yield from call_model(model, [question, *rest], config, **options)
    return Reply(reply.message, reply.spent + COST_OF_NO_REPLY) if refused else reply


def _members(given: Any) -> tuple[Any, ...]:
    """The members of a union. Anything else is its own."""
    return get_args(given) if get_origin(given) in (Union, UnionType) else (given,)


def is_schema_class(thing: Any) -> bool:
    """Whether it is a TypedDict, pydantic model or dataclass."""
    if is_typeddict(thing) or typing_extensions.is_typeddict(thing):
        return True
    return isinstance(thing, type) and (issubclass(thing, BaseModel) or is_dataclass(thing))
