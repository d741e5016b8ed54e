"""Do a call's arguments fit the tool? Asked before the tool runs, of the tool's own schema."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, Tool
from pydantic import BaseModel

from langgraph_reflexion.nodes.acting.json_schema import MOST_FAULTS, fault_in_value, told

Check = Callable[[dict[str, Any]], str | None]
"""Says what is wrong with a call's arguments, or nothing."""

_FLAT = frozenset((str, int, float, bool, type(None)))
"""Values that hold no others: a validator cannot change them, and no field hides in them."""


class Arguments:
    """What each tool's schema says of a call, made ready once for all the tools of an agent."""

    def __init__(self, tools: Iterable[BaseTool], filled_in: Mapping[str, Set[str]] | None = None) -> None:
        """`filled_in` names, by tool, what its schema does not tell that the agent fills in."""
        more = filled_in or {}
        self._checks = {tool.name: _check_of(tool, more.get(tool.name, frozenset())) for tool in tools}

    def fault_in(self, name: str, args: dict[str, Any]) -> str | None:
        """Return what does not fit, each field named, or `None`; never raises.

        Values are taken as leniently as the tool takes them. What the agent fills in (state, store, runtime, call id)
        is not asked for, and is one field too many where a model gives it.
        """
        check = self._checks.get(name)
        if check is None:
            return f"there is no tool {name!r}"
        try:
            return check(args)
        except Exception as error:  # noqa: BLE001 — a validator of the tool's own may raise anything
            return f"{type(error).__name__}: {error}"[:500]


def _check_of(tool: BaseTool, filled_in: Set[str]) -> Check:
    """Return the check for a tool's kind of schema."""
    if tool.args_schema is None and isinstance(tool, Tool):
        return _takes_one
    injected = frozenset(getattr(tool, "_injected_args_keys", ())) | filled_in
    if isinstance(tool.args_schema, dict):
        return _json_check(tool.args_schema, injected)
    try:
        schema: Any = tool.get_input_schema()
        offered: Any = tool.tool_call_schema
        fields, shown = set(_fields_of(schema)), set(_fields_of(offered))
    except Exception:  # noqa: BLE001 — a schema that cannot even be made says nothing of a call
        return _takes_anything
    config = _config_fields(tool, fields)
    hidden = ((fields - shown) | injected) - config
    return _model_check(schema, hidden, config, open_=_takes_any(tool, schema, fields))


def _takes_anything(args: dict[str, Any]) -> str | None:  # noqa: ARG001 — a check that has nothing to say
    return None


def _takes_one(args: dict[str, Any]) -> str | None:
    return None if len(args) == 1 else f"the tool takes one argument, got {told(sorted(args))}"


# ---------------------------------------------------------------- pydantic


def _model_check(schema: Any, filled_in: Set[str], config: Set[str], *, open_: bool) -> Check:
    """Check by a pydantic model of either version, less what is filled in: `config` may be given and is not read."""
    names = {name: _spellings(name, one) for name, one in _fields_of(schema).items()}
    hidden = {spelling for name in filled_in for spelling in names.get(name, {name})}
    taken = {spelling for name, spellings in names.items() if name not in filled_in for spelling in spellings}
    offered = [name for name in names if name not in filled_in | config]
    unread = hidden | config
    validate: Callable[[Any], Any] = getattr(schema, "model_validate", None) or schema.parse_obj

    def check(args: dict[str, Any]) -> str | None:
        extra = [name for name in args if name in hidden or (name not in taken | config and not open_)]
        given = {name: one for name, one in args.items() if name not in config and name not in extra}
        faults = [_extra(name, offered) for name in extra]
        try:
            if all(type(one) in _FLAT for one in given.values()):
                validate(given)
            else:
                faults += _extras_below(validate(copy.deepcopy(given)), given, "")
        except ValueError as error:
            if not callable(errors := getattr(error, "errors", None)):
                raise
            faults += [_said(one) for one in errors() if not one["loc"] or one["loc"][0] not in unread]
        except Exception:
            # A validator may stumble over a field that only the agent fills in: then the tool itself has the word.
            if not unread:
                raise
        return "; ".join(list(dict.fromkeys(faults))[:MOST_FAULTS]) or None

    return check


def _fields_of(schema: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = schema.model_fields if hasattr(schema, "model_fields") else schema.__fields__
    return fields


def _spellings(name: str, field: Any) -> set[str]:
    """Return the names under which a field may be given."""
    found = {name, getattr(field, "alias", None)}
    alias = getattr(field, "validation_alias", None)
    for one in getattr(alias, "choices", [alias]):
        found.add(one if isinstance(one, str) else str(path[0]) if (path := getattr(one, "path", None)) else None)
    return {one for one in found if one}


def _takes_any(tool: BaseTool, schema: Any, fields: set[str]) -> bool:
    """Say whether more fields than the schema names are welcome: it says so, or was made from a `**function`."""
    if issubclass(schema, BaseModel):
        if schema.model_config.get("extra") in ("allow", "ignore"):
            return True
    elif getattr(getattr(schema.__config__, "extra", None), "value", None) == "allow":
        return True
    kinds = inspect.signature(_function_of(tool)).parameters.values()
    return any(one.kind is one.VAR_KEYWORD and one.name in fields for one in kinds)


def _config_fields(tool: BaseTool, fields: set[str]) -> set[str]:
    """Return the parameters that get the run's configuration, which a schema made from a function may list."""
    try:
        hints = get_type_hints(_function_of(tool))
    except Exception:  # noqa: BLE001 — hints that name what is not importable here
        return set()
    return {name for name in fields if hints.get(name) is RunnableConfig}


def _function_of(tool: BaseTool) -> Callable[..., Any]:
    own: Callable[..., Any] | None = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    return own or tool._run


def _said(error: Mapping[str, Any]) -> str:
    """One fault as pydantic found it, shorter."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    name = f"`{path}`" if path and path != "__root__" else "the arguments"
    kind, words = error["type"], str(error["msg"])
    if kind in ("missing", "value_error.missing"):
        return f"{name} is missing"
    if kind in ("extra_forbidden", "value_error.extra"):
        return f"{name} is not a parameter"
    words = words.removeprefix("Value error, ").removeprefix("Assertion failed, ")[:300]
    return f"{name}: {words}" + (
        f", got {told(error['input'])}" if path and "input" in error and "got " not in words else ""
    )


def _extra(name: str, offered: list[str]) -> str:
    return f"`{name}` is not a parameter; the parameters are: {', '.join(offered) or 'none'}"


def _extras_below(made: Any, given: Any, path: str) -> Iterator[str]:
    """Yield the fields of nested models that nobody would read."""
    if isinstance(made, BaseModel) and isinstance(given, Mapping):
        fields = type(made).model_fields
        spelt = {spelling: name for name, one in fields.items() for spelling in _spellings(name, one)}
        closed = bool(path) and type(made).model_config.get("extra") is None
        for key, value in given.items():
            below = f"{path}.{key}" if path else str(key)
            if key in spelt:
                yield from _extras_below(getattr(made, spelt[key], None), value, below)
            elif closed:
                yield _extra(below, list(fields))
    elif isinstance(made, Mapping) and isinstance(given, Mapping):
        for key, value in given.items():
            yield from _extras_below(made.get(key), value, f"{path}.{key}")
    elif isinstance(made, list | tuple) and isinstance(given, list | tuple) and len(made) == len(given):
        for at, (one, value) in enumerate(zip(made, given, strict=True)):
            yield from _extras_below(one, value, f"{path}[{at}]")


# ---------------------------------------------------------------- JSON schemas

_COMBINING = {"additionalProperties", "patternProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf"}


def _json_check(schema: dict[str, Any], injected: frozenset[str]) -> Check:
    """Check by a schema given as data.

    A schema that lists its parameters and says nothing of others means that there are no others: the tool would not
    know what to do with them.
    """
    listed, required = schema.get("properties"), schema.get("required")
    properties = listed if isinstance(listed, Mapping) else {}
    offered = [name for name in properties if name not in injected]
    named = required if isinstance(required, list) else []
    asked = {**schema, "required": [name for name in named if isinstance(name, str) and name not in injected]}
    closed = bool(properties) and not _COMBINING & set(schema)

    def check(args: dict[str, Any]) -> str | None:
        extra = [name for name in args if name in injected or (closed and name not in properties)]
        fault = fault_in_value({name: one for name, one in args.items() if name not in extra}, asked)
        return "; ".join([*(_extra(name, offered) for name in extra[:MOST_FAULTS]), *filter(None, [fault])]) or None

    return check
