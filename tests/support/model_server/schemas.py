"""What a provider finds wrong with a JSON schema it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KINDS = {"object", "array", "string", "number", "integer", "boolean", "null"}


def fault_in_schema(schema: Any, *, strict: bool = False) -> str | None:
    """Say what is wrong with the schema of an object; `None` where nothing is.

    Under `strict` every object names all of its fields as required and allows no others.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return f"schema must be of type 'object', got {str(schema)[:80]}"
    return next(_faults(schema, schema, "schema", strict), None)


def _faults(schema: Any, root: Mapping[str, Any], at: str, strict: bool) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{at} is no schema: {str(schema)[:80]}"
        return
    yield from _own_faults(schema, root, at, strict)
    for name in ("properties", "$defs", "definitions"):
        parts = schema.get(name, {})
        if not isinstance(parts, Mapping):
            yield f"{at}.{name} is no object"
            return
        for key, part in parts.items():
            yield from _faults(part, root, f"{at}.{name}.{key}", strict)
    for name in ("anyOf", "oneOf", "allOf"):
        options = schema.get(name, [True])
        if not isinstance(options, list) or not options:
            yield f"{at}.{name} is no list of schemas"
            return
        for index, part in enumerate(options):
            yield from _faults(part, root, f"{at}.{name}[{index}]", strict)
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from _faults(schema[name], root, f"{at}.{name}", strict)


def _own_faults(schema: Mapping[str, Any], root: Mapping[str, Any], at: str, strict: bool) -> Iterator[str]:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or any(kind not in KINDS for kind in kinds):
        yield f"{at}.type is not one of JSON's types: {schema['type']!r}"
        return
    if "array" in kinds and "items" not in schema:
        yield f"{at} is an array without items"
    required = schema.get("required", [])
    if not isinstance(required, list) or any(not isinstance(name, str) for name in required):
        yield f"{at}.required is no list of names"
        return
    if not isinstance(schema.get("enum", [None]), list) or schema.get("enum") == []:
        yield f"{at}.enum is no list of values"
    if "$ref" in schema and not _resolves(schema["$ref"], root):
        yield f"{at}.$ref leads nowhere: {schema['$ref']!r}"
    if strict and "object" in kinds:
        if schema.get("additionalProperties") is not False:
            yield f"{at}.additionalProperties must be false"
        if set(required) != set(schema.get("properties", {})):
            yield f"{at}.required must name every property"


def _resolves(reference: Any, root: Mapping[str, Any]) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    place: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        if not isinstance(place, Mapping) or step not in place:
            return False
        place = place[step]
    return True
