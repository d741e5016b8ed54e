"""The memory routes on a store of a test's own, as on a LangGraph server that authenticates nobody."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from langgraph.store.base import BaseStore


@contextmanager
def server_with(store: BaseStore, **config: Any) -> Iterator[None]:
    """Give this store to the routes; `config` are settings of the server."""

    async def get_store() -> BaseStore:
        return store

    settings = SimpleNamespace(**{"LANGGRAPH_AUTH": {}, "LANGGRAPH_AUTH_TYPE": "noop", **config})
    modules = {"langgraph_api.config": settings, "langgraph_api.store": SimpleNamespace(get_store=get_store)}
    with patch.dict(sys.modules, modules):
        yield
