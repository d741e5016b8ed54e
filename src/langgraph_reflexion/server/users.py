"""Users of a LangGraph server: find the current user, and keep each user to their own memory.

The server's own store routes do not separate users. Without a handler, everyone who is signed in can read and write
everyone's lessons through them.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from langgraph.store.base import BaseStore
from langgraph_sdk import Auth
from starlette.requests import Request

from langgraph_reflexion.context import FIELD
from langgraph_reflexion.memory.access import COLLECTIONS
from langgraph_reflexion.memory.arguments import label

logger = logging.getLogger(__name__)

BY_USER = ("reflexion", "*", "{user_id}")
"""The default namespace of agents with `MemoryPolicy(by_user=True)`."""


async def server_store() -> BaseStore:
    """The store that the server gives to its graphs."""
    store = importlib.import_module("langgraph_api.store")  # exists only within a LangGraph server
    return cast("BaseStore", await store.get_store())


def user_of(request: Request) -> str | None:
    """The user that the server authenticated. None without authentication."""
    user = request.scope.get("user")
    try:
        identity = getattr(user, "identity", None)
    except NotImplementedError:  # Starlette's anonymous user
        return None
    return str(identity) if identity else None


def authenticates() -> bool:
    """Whether the server authenticates its users, on these routes or only on its own."""
    config = importlib.import_module("langgraph_api.config")
    return bool(config.LANGGRAPH_AUTH) or config.LANGGRAPH_AUTH_TYPE != "noop"


def own_memory(*namespaces: tuple[str, ...]) -> Callable[..., Any]:
    """A handler for `@auth.on.store`: through the store routes, a user can access only their own memory.

    `namespaces` are those of your agents' memories, `("reflexion", "*", "{user_id}")` unless you give others.
    `{user_id}` stands for the user; `*` and any other field for one label of any text.
    """
    patterns = namespaces or (BY_USER,)
    for pattern in patterns:
        if "{user_id}" not in pattern:
            raise ValueError(f"a namespace of `own_memory` must have a label '{{user_id}}', got {pattern!r}")

    async def handler(ctx: Any, value: Any) -> bool:
        wanted = tuple(value.get("namespace") or ())
        user = label(ctx.user.identity)
        # ("reflexion", "planner", "lessons") holds the lessons of an agent whose users share one memory.
        if user not in COLLECTIONS and any(_is_below(wanted, pattern, user) for pattern in patterns):
            return True
        begin = " or ".join(repr([user if part == "{user_id}" else part for part in pattern]) for pattern in patterns)
        raise Auth.exceptions.HTTPException(status_code=403, detail=f"Only your own memory: begin with {begin}")

    return handler


def _is_below(wanted: tuple[str, ...], pattern: tuple[str, ...], user: str) -> bool:
    """Whether a namespace is within a pattern's namespace, for this user."""

    def fits(given: str, part: str) -> bool:
        if part == "{user_id}":
            return given == user
        return part == "*" or FIELD.search(part) is not None or given == part

    return len(wanted) >= len(pattern) and all(map(fits, wanted, pattern))


@asynccontextmanager
async def warning_of_open_store(_app: Any) -> AsyncIterator[None]:
    """The lifespan of the app. Warns at the start if users are authenticated but the store routes are open to all."""
    try:
        auth = importlib.import_module("langgraph_api.auth.custom").get_auth_instance()
    except ImportError:  # not a LangGraph server
        auth = None
    covered = ("store", "*")
    if isinstance(auth, Auth) and not (auth._global_handlers or any(name in covered for name, _ in auth._handlers)):
        logger.warning(
            "Memory is kept by user, and no `@auth.on.store` handler keeps users apart: everyone who is signed in can "
            "read and change all lessons through the server's store routes. Add "
            "`auth.on.store(langgraph_reflexion.server.own_memory())` or a handler of your own."
        )
    yield
