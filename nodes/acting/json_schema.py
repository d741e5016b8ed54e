"""Does a value fit a JSON schema? The part of the standard that tools and answers are described with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard
from urllib.parse import unquote

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
