"""Check a call's arguments against the tool's schema before the tool runs."""

from __future__ import annotations

import copy
import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, Tool
from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError
from pydantic.fields import FieldInfo

logger = logging.getLogger(__name__)

ArgumentCheck = Callable[[dict[str, Any]], str | None]
"""Returns what is wrong with a call's arguments, or None."""

MAX_FAULTS = 5
"""Errors named in one message. More would only cost tokens."""

MAX_VALUE = 60
"""Characters of a value quoted in a message."""

MAX_MESSAGE = 300
"""Characters of a validator's own message."""


class Arguments:
    """The argument checks of all the tools of an agent, prepared once."""

    def __init__(
        self,
        tools: Iterable[BaseTool],
        filled_in: Mapping[str, Set[str]] | None = None,
        schemas: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        """`filled_in` names, by tool, the parameters that LangGraph injects and the tool's schema does not show.

        `schemas` are those of tools that run elsewhere.
        """
        more = filled_in or {}
        self._checks = {tool.name: _check_for(tool, more.get(tool.name, frozenset())) for tool in tools}
        self._checks |= {name: _json_check(schema, frozenset()) for name, schema in (schemas or {}).items()}

    def fault_in(self, name: str, args: dict[str, Any]) -> str | None:
        """Return what does not fit, each field named, or None; never raises.

        Values are read as leniently as the tool reads them. Injected parameters (state, store, runtime, call id) are
        not required, and a model may not give them.
        """
        try:
            return self._checks[name](args)
        except Exception as error:  # noqa: BLE001 — a validator of the tool's own may raise anything
            return f"{type(error).__name__}: {error}"[:500]


def _check_for(tool: BaseTool, filled_in: Set[str]) -> ArgumentCheck:
    """Return the check for a tool's kind of schema."""
    if tool.args_schema is None and isinstance(tool, Tool):
        return lambda args: None if len(args) == 1 else f"the tool takes one argument, got {short_json(sorted(args))}"
    injected = frozenset(getattr(tool, "_injected_args_keys", ())) | filled_in
    if isinstance(tool.args_schema, dict):
        if wrong := wrong_schema(tool.args_schema):
            logger.warning(
                "Calls of the tool %r are not fully checked, because its schema is invalid: %s", tool.name, wrong
            )
        return _json_check(tool.args_schema, injected)
    try:
        schema: Any = tool.get_input_schema()
        shown: Any = tool.tool_call_schema
        hidden = set(schema.model_fields) - set(shown.model_fields)
    except Exception as error:  # noqa: BLE001 — whatever it is, the tool itself validates what it is given
        logger.warning("Calls of the tool %r are not checked, because its schema cannot be read: %s", tool.name, error)
        return lambda _args: None
    config = _config_fields(tool, schema)
    return _model_check(schema, (hidden | injected) - config, config, allow_extra=_allows_extra(tool, schema))


def short_json(value: Any) -> str:
    """Return a value as truncated JSON."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."


def _not_a_parameter(name: str, offered: list[str]) -> str:
    return f"`{name}` is not a parameter; the parameters are: {', '.join(offered) or 'none'}"


def _path(parts: Iterable[Any]) -> str:
    """Return `rooms[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


# ---------------------------------------------------------------- pydantic


def _model_check(schema: type[BaseModel], filled_in: Set[str], config: Set[str], *, allow_extra: bool) -> ArgumentCheck:
    """Check by a pydantic model, without what LangGraph fills in.

    `config` are fields for the run's configuration: a model may give them, and they are not read.
    """
    names = {name: _names_of(name, field) for name, field in schema.model_fields.items()}
    hidden = {spelling for name in filled_in for spelling in names.get(name, {name})}
    taken = {spelling for name, spellings in names.items() if name not in filled_in for spelling in spellings}
    offered = [name for name in names if name not in filled_in | config]
    unread = hidden | config

    def check(args: dict[str, Any]) -> str | None:
        extra = [name for name in args if name in hidden or (name not in taken | config and not allow_extra)]
        given = {name: value for name, value in args.items() if name not in config and name not in extra}
        faults = [_not_a_parameter(name, offered) for name in extra]
        try:
            schema.model_validate(copy.deepcopy(given))  # a validator may change what it is given
        except ValidationError as error:
            faults += [_pydantic_fault(fault) for fault in error.errors() if not {*fault["loc"][:1]} & unread]
        except Exception:
            # A validator may fail on a field that only LangGraph fills in. Then the tool itself must decide.
            if not unread:
                raise
        return "; ".join(list(dict.fromkeys(faults))[:MAX_FAULTS]) or None

    return check


def _names_of(name: str, field: FieldInfo) -> set[str]:
    """Return the names under which a field may be given."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    found = [name, field.alias, *(choice.path[0] if isinstance(choice, AliasPath) else choice for choice in choices)]
    return {str(spelling) for spelling in found if spelling}


def _allows_extra(tool: BaseTool, schema: type[BaseModel]) -> bool:
    """Whether the schema allows additional fields: it says so, or was made from a function with `**kwargs`."""
    if schema.model_config.get("extra") in ("allow", "ignore"):
        return True
    parameters = inspect.signature(_function_of(tool)).parameters.values()
    return any(param.kind is param.VAR_KEYWORD and param.name in schema.model_fields for param in parameters)


def _config_fields(tool: BaseTool, schema: type[BaseModel]) -> set[str]:
    """Return the parameters that get the run's configuration, which a schema made from a function may list."""
    try:
        hints = get_type_hints(_function_of(tool))
    except Exception:  # noqa: BLE001 — hints that name what is not importable here
        return set()
    return {name for name in schema.model_fields if hints.get(name) is RunnableConfig}


def _function_of(tool: BaseTool) -> Callable[..., Any]:
    own: Callable[..., Any] | None = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    return own or tool._run


def misfits(error: ValidationError) -> str:
    """Return what does not fit a pydantic schema, each field named."""
    return "; ".join(list(dict.fromkeys(map(_pydantic_fault, error.errors())))[:MAX_FAULTS])


def _pydantic_fault(error: Mapping[str, Any]) -> str:
    """Return a shorter form of one of pydantic's errors."""
    path, kind, message = _path(error["loc"]), error["type"], str(error["msg"])
    name = f"`{path}`" if path else "the arguments"
    if kind == "missing":
        return f"{name} is missing"
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")[:MAX_MESSAGE]
    return f"{name}: {message}" + (f", got {short_json(error['input'])}" if path and "got " not in message else "")


# ---------------------------------------------------------------- JSON schemas

_COMBINING = {"additionalProperties", "patternProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf"}


def _json_check(schema: dict[str, Any], injected: frozenset[str]) -> ArgumentCheck:
    """Check by a schema given as data.

    If a schema lists its parameters and does not mention others, others are not allowed, because the tool could not use
    them.
    """
    listed, required = schema.get("properties"), schema.get("required")
    properties = listed if isinstance(listed, Mapping) else {}
    offered = [name for name in properties if name not in injected]
    if isinstance(required, list):
        schema = {**schema, "required": [name for name in required if not (isinstance(name, str) and name in injected)]}
    closed = bool(properties) and not _COMBINING & set(schema)
    fault_in = json_schema_check(schema)

    def check(args: dict[str, Any]) -> str | None:
        extra = [name for name in args if name in injected or (closed and name not in properties)]
        fault = fault_in({name: value for name, value in args.items() if name not in extra})
        faults = [_not_a_parameter(name, offered) for name in extra[:MAX_FAULTS]]
        return "; ".join([*faults, *filter(None, [fault])]) or None

    return check


def wrong_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a JSON schema is invalid, with the place, or None."""
    from jsonschema import SchemaError, validators  # imported late, like below

    try:
        validators.validator_for(schema, default=validators.Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return f"`{_path(error.absolute_path)}`: {error.message}"[:MAX_MESSAGE]
    except Exception as error:  # noqa: BLE001 — it may contain itself, or keys that are not strings
        return f"it cannot be read: {type(error).__name__}: {error}"[:MAX_MESSAGE]
    return None


def json_schema_check(schema: Mapping[str, Any]) -> Callable[[Any], str | None]:
    """Return a function that says what in a value does not fit a JSON schema, each field named, or None.

    An invalid schema, or one with a reference that cannot be resolved, finds no fault. Nothing is fetched.
    """
    from jsonschema import validators  # imported late, because it costs as much as LangGraph's graph module
    from jsonschema.exceptions import best_match
    from referencing import Registry

    standard = validators.validator_for(schema, default=validators.Draft202012Validator)
    rules = standard.VALIDATORS

    def fits_type(validator: Any, types: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        # OpenAPI's way to allow null, which tools made from web services have.
        if not (value is None and schema.get("nullable") is True):
            yield from rules["type"](validator, types, value, schema)

    def fits_pattern(validator: Any, pattern: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(value, str) and _is_fast(pattern, value):
            yield from rules["pattern"](validator, pattern, value, schema)

    def fits_names(keyword: str) -> Callable[..., Iterator[Any]]:
        def fits(validator: Any, part: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
            patterns = schema.get("patternProperties", ())
            if isinstance(value, dict) and all(_is_fast(pattern, name) for pattern in patterns for name in value):
                yield from rules[keyword](validator, part, value, schema)

        return fits

    own: dict[str, Any] = {"type": fits_type, "pattern": fits_pattern}
    own |= {keyword: fits_names(keyword) for keyword in ("patternProperties", "additionalProperties")}
    if "patternProperties" in str(schema):  # it follows references, so any pattern in the schema may stop the run
        own["unevaluatedProperties"] = lambda *_: ()
    # Overlapping alternatives are common and harmless, so two matches also satisfy `oneOf`.
    lenient = validators.extend(standard, {**own, "oneOf": rules.get("anyOf", rules["type"])})
    validator = lenient(schema, registry=Registry())

    def fault_in(value: Any) -> str | None:
        try:
            faults = [_schema_fault(best_match([error])) for error in validator.iter_errors(value)]
        except Exception as error:  # noqa: BLE001 — a wrong schema breaks in many ways: the tool itself has to decide
            logger.debug("A JSON schema cannot be used: %r", error)
            return None
        return "; ".join(list(dict.fromkeys(faults))[:MAX_FAULTS]) or None

    return fault_in


def _schema_fault(error: Any) -> str:
    """One of `jsonschema`'s errors, with its field."""
    path, message = _path(error.absolute_path), error.message
    message = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
    return f"`{path}`: {message}" if path else message


_LOOSE = re.compile(r"[*+]|\{\d*,\}")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")


def _is_fast(pattern: str, value: str) -> bool:
    """Whether a pattern is valid and certainly fast. Any other is left to the tool."""
    if len(value) > 200 or len(_LOOSE.findall(pattern)) > 3 or _REPEATED_GROUP.search(pattern):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
