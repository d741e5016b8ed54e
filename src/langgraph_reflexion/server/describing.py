"""A route with what the server's OpenAPI page says of it.

Starlette reads a description below `---` in an endpoint's docstring, as YAML. JSON is YAML, so it is made here, and
each endpoint says in plain words what it does.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Endpoint = Callable[[Request], Awaitable[Response]]
Schema = Mapping[str, Any]


def documented_route(
    path: str,
    endpoint: Endpoint,
    answers: Mapping[int, str],
    *,
    method: str = "GET",
    query: Mapping[str, Schema] | None = None,
    body: Mapping[str, Schema] | None = None,
    one_of: Mapping[str, Schema] | None = None,
) -> Route:
    """The route to an endpoint, with its parameters, what it takes and what it answers by status.

    The names in the path are texts. Everything in a `body` is required, and just one thing where
    it is `one_of` them. The summary is the docstring's first line.
    """
    text = inspect.cleandoc(endpoint.__doc__ or "")
    about: dict[str, Any] = {
        "summary": text.partition("\n")[0].rstrip("."),
        "tags": ["Memory"],
        "parameters": [
            *({"in": "path", "name": name, "required": True, "schema": TEXT} for name in re.findall(r"{(\w+)}", path)),
            *({"in": "query", "name": name, "schema": dict(schema)} for name, schema in (query or {}).items()),
            {
                "in": "query",
                "name": "user",
                "schema": TEXT,
                "description": "The user, if the server authenticates nobody",
            },
        ],
        "responses": {str(status): {"description": answer} for status, answer in answers.items()},
    }
    if taken := body or one_of:
        many = {"required": list(taken)} if body else {"minProperties": 1, "maxProperties": 1}
        form = {"type": "object", **many, "properties": {name: dict(schema) for name, schema in taken.items()}}
        about["requestBody"] = {"required": True, "content": {"application/json": {"schema": form}}}
    endpoint.__doc__ = f"{text}\n---\n{json.dumps(about)}"
    return Route(path, endpoint, methods=[method])


TEXT: Schema = {"type": "string"}


def number(default: int, most: int | None = None) -> Schema:
    """A whole number with its default."""
    return {"type": "integer", "minimum": 0, "default": default, **({"maximum": most} if most is not None else {})}


def among(words: tuple[str, ...]) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words)}
