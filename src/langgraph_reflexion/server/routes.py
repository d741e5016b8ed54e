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
Action = Callable[[LessonBook, str], Awaitable[Lesson | None]]


async def lessons(request: Request) -> Response:
    """List an agent's lessons, oldest first, or search them with a query.

    The query string may have `query`, `limit`, `offset` and the filters of a `LessonBook`. If a filter is given several
    times, one of its values must match.
    """
    book, params = await _book(request, ("query", "limit", "offset", *FILTERS)), request.query_params
    limit, offset = _number(params.get("limit", "100"), "limit"), _number(params.get("offset", "0"), "offset")
    filters: Any = {name: params.getlist(name) for name in FILTERS if name in params}
    try:
        if params.get("query"):
            found = await book.asearch(params["query"], limit=offset + limit, **filters)
            return _json([{**_lesson_data(match.lesson), "score": match.score} for match in found[offset:]])
        some = await book.alessons(**filters)
    except ValueError as fault:
        raise HTTPException(422, str(fault)) from fault
    return _json([_lesson_data(lesson) for lesson in some[offset : offset + limit]])


async def lesson(request: Request) -> Response:
    """Get a lesson.

    In the reply, `hidden` says why the lesson is never shown, or is null.
    """
    return await _lesson_after(request, LessonBook.aget)


async def history(request: Request) -> Response:
    """Get a lesson's history."""
    book = await _book(request)
    changes = await _or_404(request, book.ahistory(request.path_params["id"]))
    return _json(changes)


async def approve(request: Request) -> Response:
    """Approve a lesson with exactly its current text. Later losses do not change that."""
    return await _lesson_after(request, LessonBook.aapprove)


async def restore(request: Request) -> Response:
    """Restore a retired, superseded or quarantined lesson."""
    return await _lesson_after(request, LessonBook.arestore)


async def retire(request: Request) -> Response:
    """Retire a lesson, with the reason.

    The body is `{"why": "..."}`.
    """
    why = (await _body(request)).get("why")
    if not isinstance(why, str) or not why.strip():
        raise HTTPException(422, 'pass the reason, as {"why": "..."}')
    return await _lesson_after(request, lambda book, id: book.aretire(id, why))


async def forget(request: Request) -> Response:
    """Forget a lesson, with its text, vectors, evidence and history."""
    book = await _book(request)
    await _or_404(request, book.aforget(request.path_params["id"]))
    return Response(status_code=204)


async def undo(request: Request) -> Response:
    """Undo a change, everything a run changed, or everything since a time. Returns the changes that were undone.

    The body is `{"what": "..."}` with the id of a change or a run, or `{"since": "2031-03-04T12:00+01:00"}`.
    """
    book, body = await _book(request), await _body(request)
    what, since = body.get("what"), body.get("since")
    try:
        if set(body) not in ({"what"}, {"since"}) or not isinstance(what or since, str):
            raise ValueError(
                'say what to undo, as {"what": "a change or a run"} or {"since": "2031-03-04T12:00+01:00"}'
            )
        undone = await book.aundo(what, since=_time(since) if since else None)
    except KeyError:
        raise _missing(request, str(what)) from None
    except ValueError as fault:
        raise HTTPException(422, str(fault)) from fault
    return _json(undone)


async def runs(request: Request) -> Response:
    """List the recorded runs, newest first.

    The query string may have `limit`.
    """
    book = await _book(request, ("limit",))
    return _json(await book.aepisodes(_number(request.query_params.get("limit", "100"), "limit")))


async def run(request: Request) -> Response:
    """Explain a run: the lessons it was shown, those withheld, what it wrote, and how it ended."""
    book = await _book(request)
    return _json(await _or_404(request, book.aexplain(request.path_params["id"])))


async def statistics(request: Request) -> Response:
    """Count lessons by status, kind and origin, with their results."""
    return _json(await (await _book(request)).astats())


async def _book(request: Request, known: Sequence[str] = ()) -> LessonBook:
    """The book of this agent and user. The user is the authenticated one, else the one in the query.

    `known` names other allowed query parameters.
    """
    if request.method != "GET":
        _refuse_other_sites(request)
    known = (*known, "user")
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


async def _lesson_after(request: Request, action: Action) -> Response:
    """The lesson after an action, and why it is never shown, if it is not."""
    book, id = await _book(request), request.path_params["id"]
    try:
        now = await _or_404(request, action(book, id))
        hidden = await _or_404(request, book.ahidden(id))
        return _json({**_lesson_data(now), "hidden": hidden})
    except ValueError as fault:
        raise HTTPException(409, str(fault)) from fault


async def _or_404(request: Request, wanted: Awaitable[Any]) -> Any:
    try:
        return await wanted
    except KeyError:
        raise _missing(request, request.path_params["id"]) from None


def _missing(request: Request, id: str) -> HTTPException:
    return HTTPException(404, f"the memory of {request.path_params['agent']!r} has nothing with the id {id!r}")


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError) as fault:
        raise HTTPException(422, f"the body is not JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise HTTPException(422, "the body must be a JSON object")
    return cast("dict[str, Any]", found)


def _number(text: str, name: str) -> int:
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


def _json(data: Any) -> Response:
    return JSONResponse(to_jsonable_python(data))


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


def _route(path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str = "GET") -> Route:
    # A server's OpenAPI page would read the docstrings as YAML.
    return Route(f"/memory/{{agent}}/{path}", endpoint, methods=[method], include_in_schema=False)


app = Starlette(
    routes=[
        _route("lessons", lessons),
        _route("statistics", statistics),
        _route("page", page),
        _route("page.css", page),
        _route("page.js", page),
        _route("runs", runs),
        _route("runs/{id}", run),
        _route("undo", undo, "POST"),
        _route("lessons/{id}", lesson),
        _route("lessons/{id}", forget, "DELETE"),
        _route("lessons/{id}/history", history),
        _route("lessons/{id}/approve", approve, "POST"),
        _route("lessons/{id}/retire", retire, "POST"),
        _route("lessons/{id}/restore", restore, "POST"),
    ],
    exception_handlers={HTTPException: _error_response},
    lifespan=warning_of_open_store,
)
