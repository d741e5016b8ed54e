"""The page's files and the routes on one store, behind a token, without a browser or a server."""

from __future__ import annotations

import sys
from importlib.resources import files
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, create_reflexion_agent
from langgraph_reflexion.server import app
from langgraph_reflexion.server.local import local_app
from langgraph_reflexion.testing import RoleModel, call, reflection, say

pytestmark = pytest.mark.req("N1")
RULE = "Give the calendar a weekday, never a date."
REFLECTION = reflection("Give the weekday.", memory_to_write=[{"kind": "rule", "text": RULE}])


def look() -> str:
    """Look up the calendar."""
    raise ValueError("no weekday")


@pytest.fixture
def book() -> LessonBook:
    book = LessonBook(InMemoryStore(), ("reflexion", "planner"))
    failure = Failure(signal="tool_error", evidence="ValueError: no weekday", step=1)
    book.credit(Episode(id="run-1", task="Plan the meeting.", success=True, failures=[failure]))
    book.add(Lesson(kind="rule", text=RULE, when="planning a meeting", sources=["run-1"]))
    return book


def asking(book: LessonBook, **headers: str) -> httpx.AsyncClient:
    here = httpx.ASGITransport(app=local_app(book, "secret"))
    return httpx.AsyncClient(transport=here, base_url="http://127.0.0.1:1/memory/planner", headers=headers)


async def test_without_the_token_of_the_link_nothing_is_shown_or_changed(book: LessonBook) -> None:
    [lesson] = book.lessons()
    async with asking(book) as nobody:
        for method, path in (("GET", "/page"), ("GET", "/lessons"), ("POST", f"/lessons/{lesson.id}/approve")):
            assert (await nobody.request(method, path)).status_code == 403
        assert (await nobody.get("/page", params={"token": "wrong"})).status_code == 403
        assert RULE not in (await nobody.get("/page.js")).text
        assert (await nobody.get("/page", params={"token": "secret"})).status_code == 200
    assert book.lessons() == [lesson]


@pytest.mark.parametrize("fault", [KeyError("kind"), ValueError("a broken row")])
@pytest.mark.parametrize("path", ["/statistics", "/runs"])
async def test_a_fault_of_the_store_is_not_the_clients(
    book: LessonBook, path: str, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InMemoryStore, "abatch", AsyncMock(side_effect=fault))
    async with asking(book, authorization="Bearer secret") as here:
        with pytest.raises(type(fault), match=str(fault.args[0])):
            await here.get(path)


def test_the_page_shows_every_field_of_a_lesson() -> None:
    script = (files("langgraph_reflexion.server") / "page.js").read_text(encoding="utf-8")
    missing = {name for name in Lesson.model_fields if f"lesson.{name}" not in script}
    assert missing == {"created_at", "updated_at", "version"}, "the history has the times and the changes"


async def test_the_page_loads_nothing_from_elsewhere_and_runs_no_script_but_its_own(book: LessonBook) -> None:
    async with asking(book, authorization="Bearer secret") as here:
        files = [await here.get(path) for path in ("/page", "/page.css", "/page.js")]
    for file in files:
        assert "default-src 'none'; script-src 'self'" in file.headers["content-security-policy"]
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "https://" not in file.text
        assert "http://" not in file.text.replace("http://www.w3.org/2000/svg", "")
    assert "innerHTML" not in files[2].text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[not-an-address"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"origin": "http://127.0.0.1:1"}, 200),
        ({"origin": "https://behind-a-proxy.example", "sec-fetch-site": "same-origin"}, 200),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({}, 200),
    ],
)
async def test_no_page_of_another_site_changes_a_lesson(book: LessonBook, headers: dict[str, str], status: int) -> None:
    [lesson] = book.lessons()
    async with asking(book, authorization="Bearer secret", **headers) as here:
        assert (await here.post(f"/lessons/{lesson.id}/approve")).status_code == status
        assert (await here.get("/lessons")).status_code == 200, "to read is another matter: the browser keeps it apart"
    assert book.lessons()[0].status == ("active" if status == 200 else "candidate")


@pytest.mark.parametrize(("auth", "status"), [({"path": "./auth.py:auth"}, 403), ({}, 200)])
async def test_nobody_names_a_user_where_the_server_authenticates_on_its_own_routes_alone(
    book: LessonBook, monkeypatch: pytest.MonkeyPatch, auth: dict[str, str], status: int
) -> None:
    async def get_store() -> Any:
        return book.store

    config = SimpleNamespace(LANGGRAPH_AUTH=auth, LANGGRAPH_AUTH_TYPE="noop")
    monkeypatch.setitem(sys.modules, "langgraph_api.config", config)
    monkeypatch.setitem(sys.modules, "langgraph_api.store", SimpleNamespace(get_store=get_store))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as here:
        assert (await here.get("/memory/planner/lessons", params={"user": "ada"})).status_code == status
        assert [one["text"] for one in (await here.get("/memory/planner/lessons")).json()] == [RULE]


async def test_the_lessons_of_an_agent_with_a_dot_in_its_name_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryStore()
    agent = create_reflexion_agent(RoleModel([call("look"), say("11:00")], REFLECTION), [look], store=store, name="a.b")
    (id,) = agent.invoke({"messages": [("user", "When?")]})["outcome"].lessons_written

    async def get_store() -> Any:
        return store

    monkeypatch.setitem(sys.modules, "langgraph_api.store", SimpleNamespace(get_store=get_store))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as here:
        assert [one["id"] for one in (await here.get("/memory/a.b/lessons")).json()] == [id]


@pytest.mark.req("J2", "D23")
async def test_a_search_is_read_page_by_page_and_a_filter_takes_several_values(book: LessonBook) -> None:
    book.add(Lesson(kind="pattern", text="Ask the calendar for one weekday after another.", when="planning a meeting"))
    async with asking(book, authorization="Bearer secret") as here:
        asked = [f"/lessons?query=calendar+weekday&limit=1&offset={offset}" for offset in range(3)]
        pages = [(await here.get(path)).json() for path in asked]
        both = (await here.get("/lessons?kind=rule&kind=pattern")).json()
    assert sorted(found["id"] for page in pages for found in page) == sorted(lesson.id for lesson in book.lessons())
    assert all(0 < found["score"] <= 1 for page in pages for found in page)
    assert [found["kind"] for found in both] == ["rule", "pattern"]


async def test_the_routes_give_what_the_page_shows(book: LessonBook) -> None:
    async with asking(book, authorization="Bearer secret") as here:
        [lesson] = (await here.get("/lessons")).json()
        [run] = (await here.get("/runs", params={"limit": 5})).json()
        explained = (await here.get("/runs/run-1")).json()
    assert (lesson["text"], lesson["uplift"]) == (RULE, "unproven")
    assert (run["id"], run["task"], run["failures"][0]["signal"]) == ("run-1", "Plan the meeting.", "tool_error")
    assert explained["written"] == [lesson["id"]]
    assert explained["created_at"] == run["created_at"].replace("Z", "+00:00")


@pytest.mark.req("J2")
@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 100_000, b"\xff", b"{}", b'{"since": "now"}', b'{"what": 1}'])
async def test_a_body_that_cannot_be_read_is_refused_with_the_reason(book: LessonBook, body: bytes) -> None:
    async with asking(book, authorization="Bearer secret") as here:
        answer = await here.post("/undo", content=body)
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)
