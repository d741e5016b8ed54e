"""Do a call's arguments fit the tool? Asked before the tool runs, of the tool's own schema."""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeGuard, get_type_hints
from urllib.parse import unquote

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, Tool
from pydantic import BaseModel

MOST_FAULTS = 5
DEEP = 64
MOST_WORK = 20_000
"""Comparisons after which a schema is believed: it then refers to itself without end."""

KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer())),
    "number": ("a number", lambda value: _is_number(value)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("a list", lambda value: isinstance(value, list | tuple)),
    "null": ("null", lambda value: value is None),
}


def fault_in_value(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return what does not fit, each field named, or `None` where all of it fits.

    Keywords that are not known are passed over, and so is a schema that cannot be followed to its end.
    """
    fitting = _Fitting(schema)
    faults = [fault for _, fault in zip(range(MOST_FAULTS), fitting.faults(value, schema, "", 0), strict=False)]
    return "; ".join(faults) or None


def told(value: Any) -> str:
    """Return a value as JSON, cut."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."


class _Fitting:
    """One comparison: holds the document that references point into, and the work it may still do."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.work = 0

    def faults(self, value: Any, schema: Any, path: str, depth: int) -> Iterator[str]:
        self.work += 1
        if self.work > MOST_WORK or depth > DEEP:
            return
        name = _name(path)
        if schema is False:
            yield f"{name} is not allowed"
        if not isinstance(schema, Mapping) or (value is None and schema.get("nullable") is True):
            return
        if isinstance(reference := schema.get("$ref"), str):
            yield from self.faults(value, self._target(reference), path, depth + 1)
        wrong_kind = _kind_fault(value, schema.get("type"))
        if wrong_kind:
            yield f"{name} {wrong_kind}"
            return
        yield from (f"{name} {fault}" for fault in _own_faults(value, schema))
        yield from self._combined(value, schema, path, depth)
        if isinstance(value, dict):
            yield from self._fields(value, schema, path, depth)
        if isinstance(value, list | tuple):
            yield from self._items(value, schema, path, depth)

    def _target(self, reference: str) -> Any:
        """Return what a reference within the document points at; anything goes where it points at nothing."""
        if not reference.startswith("#"):
            return True
        target: Any = self.document
        for part in filter(None, unquote(reference[1:]).split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and part in target:
                target = target[part]
            elif isinstance(target, list) and part.isdecimal() and int(part) < len(target):
                target = target[int(part)]
            else:
                return True
        return target

    def _combined(self, value: Any, schema: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
        for one in _list(schema.get("allOf")):
            yield from self.faults(value, one, path, depth + 1)
        for word in ("anyOf", "oneOf"):
            # Forms that overlap are common and harmless: `oneOf` is satisfied by two as well.
            options = _list(schema.get(word))
            tried = [next(self.faults(value, one, path, depth + 1), None) for one in options]
            if options and None not in tried:
                yield self._none_fits(value, options, [fault for fault in tried if fault], path)

    def _other_kind(self, value: Any, schema: Any) -> bool:
        if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
            schema = self._target(schema["$ref"])
        return not isinstance(schema, Mapping) or _kind_fault(value, schema.get("type")) is not None

    def _none_fits(self, value: Any, options: list[Any], faults: list[str], path: str) -> str:
        """Say what keeps a value from every option; the only one of its own kind says it best."""
        own = [fault for one, fault in zip(options, faults, strict=True) if not self._other_kind(value, one)]
        if len(own) == 1:
            return own[0]
        kinds = [one.get("type") for one in options if isinstance(one, Mapping)]
        named = [KINDS[kind][0] for kind in kinds if isinstance(kind, str) and kind in KINDS]
        wanted = " or ".join(dict.fromkeys(named)) if len(named) == len(options) else "one of the forms allowed"
        return f"{_name(path)} must be {wanted}, got {told(value)}"

    def _fields(self, value: dict[str, Any], schema: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
        required = schema.get("required")
        for name in _list(required):
            if isinstance(name, str) and name not in value:
                yield f"`{_below(path, name)}` is missing"
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        others = schema.get("additionalProperties", True) if "patternProperties" not in schema else True
        for name, one in value.items():
            if name in properties:
                yield from self.faults(one, properties[name], _below(path, name), depth + 1)
            elif others is False:
                known = ", ".join(map(str, properties)) or "none"
                yield f"`{_below(path, name)}` is not a field; the fields are: {known}"
            else:
                yield from self.faults(one, others, _below(path, name), depth + 1)

    def _items(self, value: Any, schema: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
        items = schema.get("items", True)
        first = schema.get("prefixItems", items if isinstance(items, list) else [])
        if isinstance(items, list):
            items = schema.get("additionalItems", True)
        for at, one in enumerate(value):
            form = first[at] if isinstance(first, list) and at < len(first) else items
            if form is not True:
                yield from self.faults(one, form, f"{path}[{at}]", depth + 1)


def _kind_fault(value: Any, kinds: Any) -> str | None:
    wanted = [kind for kind in (_list(kinds) or [kinds]) if isinstance(kind, str) and kind in KINDS]
    if not wanted or any(KINDS[kind][1](value) for kind in wanted):
        return None
    return f"must be {' or '.join(KINDS[kind][0] for kind in wanted)}, got {told(value)}"


def _own_faults(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a value apart from what lies in it."""
    if "const" in schema and not _same(value, schema["const"]):
        yield f"must be {told(schema['const'])}, got {told(value)}"
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_same(value, one) for one in choices):
        yield f"must be one of {', '.join(map(told, choices[:20]))}, got {told(value)}"
    if _is_number(value):
        yield from _range_faults(value, schema)
    if isinstance(value, str):
        yield from _size_faults(value, schema, "Length", "characters")
        if isinstance(pattern := schema.get("pattern"), str) and not _matches(pattern, value):
            yield f"must match the pattern {pattern}, got {told(value)}"
    if isinstance(value, list | tuple):
        yield from _size_faults(value, schema, "Items", "items")
    if isinstance(value, dict):
        yield from _size_faults(value, schema, "Properties", "fields")


def _range_faults(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    bounds: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
        ("minimum", "at least", lambda one, bound: one >= bound),
        ("maximum", "at most", lambda one, bound: one <= bound),
        ("exclusiveMinimum", "more than", lambda one, bound: one > bound),
        ("exclusiveMaximum", "less than", lambda one, bound: one < bound),
    )
    for word, said, holds in bounds:
        # Older schemas have true or false in the last two, which say nothing on their own.
        if _is_number(bound := schema.get(word)) and not holds(value, bound):
            yield f"must be {said} {bound}, got {told(value)}"


def _size_faults(value: Any, schema: Mapping[str, Any], word: str, said: str) -> Iterator[str]:
    if _is_number(least := schema.get(f"min{word}")) and len(value) < least:
        yield f"must have at least {least} {said}, got {len(value)}"
    if _is_number(most := schema.get(f"max{word}")) and len(value) > most:
        yield f"must have at most {most} {said}, got {len(value)}"


_LOOSE = re.compile(r"[*+]|\{\d*,\}")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")


def _matches(pattern: str, value: str) -> bool:
    """Try a pattern that is sure to end soon; any other is left to the tool."""
    if len(value) > 200 or len(_LOOSE.findall(pattern)) > 3 or _REPEATED_GROUP.search(pattern):
        return True
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name(path: str) -> str:
    return f"`{path}`" if path else "the value"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


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
