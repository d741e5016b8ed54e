"""What the routes need of the LangGraph server they run in: its store, and who is asking."""

from __future__ import annotations

import importlib
from typing import cast

from langgraph.store.base import BaseStore
from starlette.requests import Request


async def server_store() -> BaseStore:
    """The store that the server gives to its graphs."""
    store = importlib.import_module("langgraph_api.store")  # there within a LangGraph server, and nowhere else
    return cast("BaseStore", await store.get_store())


def user_of(request: Request) -> str | None:
    """Who the server says is asking; None where it authenticates nobody."""
    user = request.scope.get("user")
    try:
        identity = getattr(user, "identity", None)
    except NotImplementedError:  # Starlette's own user who is not signed in
        return None
    return str(identity) if identity else None
