"""Memory over HTTP: the lessons of this server's agents, and a person's decisions about them.

On a server with authentication, users see their own lessons, like their runs. Otherwise `?user=` names the user.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any, cast

from pydantic_core import to_jsonable_python
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.arguments import label
from langgraph_reflexion.memory.book import FILTERS
from langgraph_reflexion.memory.history import uplift_data
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.server.users import authenticates, server_store, user_of, warning_of_open_store

MAX_ITEMS = 1000
"""Items in one reply, so that it stays below a few megabytes."""
Endpoint = Callable[[LessonBook, Request], Awaitable[Any]]
"""Returns the data of the reply. If it takes an id, a `KeyError` means that the id is unknown."""
Action = Callable[[LessonBook, str], Awaitable[Any]]
"""A method of a book that takes an id."""


async def lessons(book: LessonBook, request: Request) -> Any:
    """List an agent's lessons, oldest first, or search them with a query.

    The query string may have `query`, `limit`, `offset` and the filters of a `LessonBook`. If a filter is given several
    times, one of its values must match.
    """
    params = request.query_params
    limit, offset = _number(request, "limit", "100"), _number(request, "offset", "0")
    filters: Any = {name: params.getlist(name) for name in FILTERS if name in params}
    if params.get("query"):
        found = await book.asearch(params["query"], limit=offset + limit, **filters)
        return [{**_lesson_data(match.lesson), "score": match.score} for match in found[offset:]]
    some = await book.alessons(**filters)
    return [_lesson_data(lesson) for lesson in some[offset : offset + limit]]


async def retire(book: LessonBook, request: Request) -> Any:
    """Retire a lesson, with the reason.

    The body is `{"why": "..."}`.
    """
    why = (await _body(request)).get("why")
    if not isinstance(why, str) or not why.strip():
        raise HTTPException(422, 'pass the reason, as {"why": "..."}')
    return await _lesson_after(lambda book, id: book.aretire(id, why))(book, request)


async def undo(book: LessonBook, request: Request) -> Any:
    """Undo a change, everything a run changed, or everything since a time. Returns the changes that were undone.

    The body is `{"what": "..."}` with the id of a change or a run, or `{"since": "2031-03-04T12:00+01:00"}`.
    """
    body = await _body(request)
    what, since = body.get("what"), body.get("since")
    if set(body) not in ({"what"}, {"since"}) or not isinstance(what or since, str):
        raise ValueError('say what to undo, as {"what": "a change or a run"} or {"since": "2031-03-04T12:00+01:00"}')
    return await book.aundo(what, since=_time(since) if since else None)


def _route(
    path: str, endpoint: Endpoint, method: str = "GET", *, params: Sequence[str] = (), refused: int | None = None
) -> Route:
    """The route of an endpoint. `params` are its query parameters besides `user`.

    `refused` is the status if the endpoint refuses the request with a `ValueError`. Other errors are the server's.
    """

    async def respond(request: Request) -> Response:
        if method != "GET":
            _refuse_other_sites(request)
        book = await _book(request, (*params, "user"))
        try:
            found = await endpoint(book, request)
        except KeyError as missing:
            agent = request.path_params["agent"]
            if "id" not in request.path_params and endpoint is not undo:
                raise
            id = request.path_params.get("id") or missing.args[0]
            raise HTTPException(404, f"the memory of {agent!r} has nothing with the id {id!r}") from None
        except ValueError as fault:
            if refused is None:
                raise
            raise HTTPException(refused, str(fault)) from fault
        return Response(status_code=204) if found is None else JSONResponse(to_jsonable_python(found))

    # A server's OpenAPI page would read the docstrings as YAML.
    return Route(f"/memory/{{agent}}/{path}", respond, methods=[method], include_in_schema=False)


async def _book(request: Request, known: Sequence[str]) -> LessonBook:
    """The book of this agent and user. The user is the authenticated one, else the one in the query.

    `known` names the allowed query parameters.
    """
    if unknown := set(request.query_params) - set(known):
        raise HTTPException(422, f"there is no parameter {min(unknown)!r} here; the parameters are {', '.join(known)}")
    book = getattr(request.app.state, "memory", None)  # of a store's file, on the command line
    if isinstance(book, LessonBook):
        return book
    user, named = user_of(request), request.query_params.get("user")
    if named is not None and (user is not None or authenticates()):
        raise HTTPException(403, "`user` works only on a server without authentication")
    user = user or named
    labels = map(label, [request.path_params["agent"], *([user] if user else [])])
    return LessonBook(await server_store(), ("reflexion", *labels))


def _by_id(action: Action) -> Endpoint:
    """An endpoint that returns what the action returns."""
    return lambda book, request: action(book, request.path_params["id"])


def _lesson_after(action: Action) -> Endpoint:
    """An endpoint that returns the lesson after the action, with `hidden`: why it is never shown, or null."""

    async def endpoint(book: LessonBook, request: Request) -> Any:
        id = request.path_params["id"]
        lesson, hidden = await action(book, id), await book.ahidden(id)
        return {**_lesson_data(lesson), "hidden": hidden}

    return endpoint


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError) as fault:
        raise HTTPException(422, f"the body is not JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise HTTPException(422, "the body must be a JSON object")
    return cast("dict[str, Any]", found)


def _number(request: Request, name: str, default: str) -> int:
    text = request.query_params.get(name, default)
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and int(text) <= MAX_ITEMS**2):
        raise HTTPException(422, f"`{name}` must be a whole number from 0 to {MAX_ITEMS**2:,}, got {text[:40]!r}")
    return min(int(text), MAX_ITEMS) if name == "limit" else int(text)


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`since` must be a time like 2031-03-04T12:00+01:00, got {text!r}") from None


def _lesson_data(lesson: Lesson) -> Any:
    return {**to_jsonable_python(lesson), "uplift": uplift_data(lesson)}


async def _error_response(_: Request, fault: Exception) -> Response:
    fault = cast("HTTPException", fault)
    return JSONResponse({"detail": fault.detail}, status_code=fault.status_code)


# ------------------------------------------------------------ the page

FILES = {"": ("html", "text/html"), ".css": ("css", "text/css"), ".js": ("js", "text/javascript")}
HEADERS = {
    # Nothing is loaded from other sites, only the page's own script runs, and no other site may frame the page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def page(request: Request) -> Response:
    """A page with lessons, runs and statistics, where people can make decisions."""
    ending, media_type = FILES[request.url.path.rpartition("/page")[2]]
    text = (files("langgraph_reflexion.server") / f"page.{ending}").read_text(encoding="utf-8")
    return Response(text, media_type=media_type, headers=HEADERS)


def _refuse_other_sites(request: Request) -> None:
    """Refuse a change that a browser requests for another site, or that an HTML form could send.

    A browser sends the site in `Origin`, which no page can forge. Programs send none.
    """
    origin = request.headers.get("origin")
    is_ours = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if not is_ours and request.headers.get("sec-fetch-site") != "same-origin":
        raise HTTPException(403, f"a page of {origin} may not change memory here; use the page of this server")
    sent = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if sent != "application/json":
        raise HTTPException(415, f"the body must be JSON with `Content-Type: application/json`, got {sent!r}")


# ------------------------------------------------------------ the app


app = Starlette(
    routes=[
        *(Route(f"/memory/{{agent}}/page{ending}", page, include_in_schema=False) for ending in FILES),
        _route("lessons", lessons, params=("query", "limit", "offset", *FILTERS), refused=422),
        _route("statistics", lambda book, _: book.astats()),
        _route("runs", lambda book, request: book.aepisodes(_number(request, "limit", "100")), params=["limit"]),
        _route("runs/{id}", _by_id(LessonBook.aexplain)),
        _route("undo", undo, "POST", refused=422),
        _route("lessons/{id}", _lesson_after(LessonBook.aget)),
        _route("lessons/{id}", _by_id(LessonBook.aforget), "DELETE"),
        _route("lessons/{id}/history", _by_id(LessonBook.ahistory)),
        _route("lessons/{id}/approve", _lesson_after(LessonBook.aapprove), "POST", refused=409),
        _route("lessons/{id}/retire", retire, "POST", refused=409),
        _route("lessons/{id}/restore", _lesson_after(LessonBook.arestore), "POST", refused=409),
    ],
    exception_handlers={HTTPException: _error_response},
    lifespan=warning_of_open_store,
)
