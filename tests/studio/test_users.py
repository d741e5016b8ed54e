"""Users of one server reach their own memory, whatever they say and whichever way they take."""

from __future__ import annotations

import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import Auth
from starlette.testclient import TestClient

from langgraph_reflexion import Context, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.server import app, own_memory
from langgraph_reflexion.testing import RoleModel, say


def signed_in(identity: str) -> Any:
    return {"configurable": {"langgraph_auth_user": SimpleNamespace(identity=identity)}}


@pytest.mark.req("J2")
@pytest.mark.parametrize("context", [Context(user_id="alice"), Context(), None])
def test_the_servers_own_identity_fills_the_namespace_whatever_the_caller_says(context: Any) -> None:
    store = InMemoryStore()
    policy = MemoryPolicy(namespace=("u", "{user_id}"))
    agent = create_reflexion_agent(RoleModel(say("11:00")), memory=policy, store=store)
    agent.invoke({"messages": [("user", "When?")]}, signed_in("bob.b"), context=context)
    assert {place[:-1] for place in store.list_namespaces()} == {("u", "bob~2eb")}


@pytest.mark.req("J2")
@pytest.mark.parametrize(
    ("namespaces", "asked", "allowed"),
    [
        ((), ("reflexion", "demo", "ada~2eb", "lessons"), True),
        ((), ("reflexion", "demo", "ada~2eb"), True),
        ((), ("reflexion", "demo", "bob", "lessons"), False),
        ((), ("reflexion", "demo", "bob", "ada~2eb"), False),
        ((), ("reflexion", "demo", "ada.b"), False),
        ((), ("reflexion", "demo"), False),
        ((), ("notes", "demo", "ada~2eb"), False),
        ((), (), False),
        ((), None, False),
        ((("u", "{user_id}"), ("org", "{team}", "{user_id}")), ("u", "ada~2eb", "lessons"), True),
        ((("u", "{user_id}"), ("org", "{team}", "{user_id}")), ("org", "blue", "ada~2eb"), True),
        ((("u", "{user_id}"), ("org", "{team}", "{user_id}")), ("org", "blue", "bob"), False),
    ],
)
async def test_the_handler_of_the_store_lets_each_user_reach_their_own_memory_alone(
    namespaces: Any, asked: Any, allowed: bool
) -> None:
    handler = own_memory(*namespaces)
    ctx = SimpleNamespace(user=SimpleNamespace(identity="ada.b"))
    if allowed:
        assert await handler(ctx, {"namespace": asked}) is True
        return
    with pytest.raises(Auth.exceptions.HTTPException, match="Only your own memory") as refused:
        await handler(ctx, {"namespace": asked})
    assert refused.value.status_code == 403


@pytest.mark.parametrize("name", ["lessons", "episodes", "evidence", "notebook"])
async def test_a_user_with_the_name_of_a_collection_does_not_reach_the_memory_that_users_share(name: str) -> None:
    ctx = SimpleNamespace(user=SimpleNamespace(identity=name))
    with pytest.raises(Auth.exceptions.HTTPException, match="Only your own memory"):
        await own_memory()(ctx, {"namespace": ("reflexion", "planner", name)})


def test_a_namespace_that_all_users_share_is_refused() -> None:
    with pytest.raises(ValueError, match="user_id"):
        own_memory(("team",))


@pytest.mark.req("J2")
@pytest.mark.parametrize(
    ("handled", "warned"), [("store", False), ("everything", False), ("threads", True), ("", True)]
)
def test_a_server_whose_store_is_open_to_every_user_says_so_at_its_start(
    handled: str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    auth = Auth()
    handler = own_memory()
    if handled:
        {"store": auth.on.store, "everything": auth.on, "threads": auth.on.threads}[handled](handler)
    module = ModuleType("langgraph_api.auth.custom")
    module.get_auth_instance = lambda: auth  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langgraph_api.auth.custom", module)
    monkeypatch.setitem(sys.modules, "langgraph_api", ModuleType("langgraph_api"))
    monkeypatch.setitem(sys.modules, "langgraph_api.auth", ModuleType("langgraph_api.auth"))
    with caplog.at_level(logging.WARNING), TestClient(app):
        pass
    assert ("own_memory()" in caplog.text) is warned
