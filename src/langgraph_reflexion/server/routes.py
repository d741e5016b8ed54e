"""Memory over HTTP: what an agent of this server has learned, and what a person decides over it.

Each user of a server that authenticates sees their own lessons, as their runs do. The first paragraphs of a docstring
are for readers of the code, what stands below `---` for the server's OpenAPI page.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from pydantic_core import to_jsonable_python
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.namespaces import label
from langgraph_reflexion.memory.values import Change
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.server.host import server_store, user_of

FILTERS = ("kind", "status", "topic", "tag", "origin")
MOST = 1000
Deed = Callable[[LessonBook, str], Awaitable[Lesson]]


async def lessons(request: Request) -> Response:
    """All lessons, the oldest first; with a query the nearest.
    ---
    summary: The lessons of an agent
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: query, name: query, schema: {type: string}, description: What to look for; without it all are listed}
      - {in: query, name: limit, schema: {type: integer, default: 100, maximum: 1000}}
      - {in: query, name: offset, schema: {type: integer, default: 0}}
      - {in: query, name: kind, schema: {type: string}}
      - {in: query, name: status, schema: {type: string}}
      - {in: query, name: topic, schema: {type: string}}
      - {in: query, name: tag, schema: {type: string}}
      - {in: query, name: origin, schema: {type: string}}
    responses:
      "200": {description: Lessons; beside a query each with its score}
      "422": {description: A value that cannot be}
    """
    book, asked = await _book(request), request.query_params
    if unknown := set(asked) - {"query", "limit", "offset", *FILTERS}:
        raise HTTPException(422, f"nothing is called {min(unknown)!r} here")
    limit, offset = _number(asked.get("limit", "100"), "limit"), _number(asked.get("offset", "0"), "offset")
    filters: Any = {name: asked[name] for name in FILTERS if name in asked}
    try:
        if asked.get("query"):
            found = await book.asearch(asked["query"], limit=limit, **filters)
            return _told([{**_plain(one.lesson), "score": one.score} for one in found])
        some = await book.alessons(**filters)
    except ValueError as fault:
        raise HTTPException(422, str(fault)) from fault
    return _told([_plain(one) for one in some[offset : offset + limit]])


async def lesson(request: Request) -> Response:
    """One lesson.
    ---
    summary: A lesson
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    responses:
      "200": {description: The lesson as it is now}
      "404": {description: There is none of this id}
    """
    found = await (await _book(request)).aget(request.path_params["id"])
    if found is None:
        raise _missing(request)
    return _told(_plain(found))


async def history(request: Request) -> Response:
    """What happened to a lesson.
    ---
    summary: A lesson's history
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    responses:
      "200": {description: Every change in order}
      "404": {description: There is none of this id}
    """
    book = await _book(request)
    changes = await _known(request, book.ahistory(request.path_params["id"]))
    return _told([_plain(change) for change in changes])


async def approve(request: Request) -> Response:
    """Make a lesson active.
    ---
    summary: Approve a lesson; no later loss takes it back
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    responses:
      "200": {description: The lesson as it is now}
      "404": {description: There is none of this id}
    """
    return await _decided(request, LessonBook.aapprove)


async def restore(request: Request) -> Response:
    """Bring back a lesson that was set aside.
    ---
    summary: Restore a retired, superseded or quarantined lesson
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    responses:
      "200": {description: The lesson as it is now}
      "404": {description: There is none of this id}
      "409": {description: It was not set aside}
    """
    return await _decided(request, LessonBook.arestore)


async def retire(request: Request) -> Response:
    """Show a lesson no more.
    ---
    summary: Retire a lesson, with the reason
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    requestBody:
      content: {application/json: {schema: {type: object, required: [why], properties: {why: {type: string}}}}}
    responses:
      "200": {description: The lesson as it is now}
      "404": {description: There is none of this id}
      "422": {description: No reason is given}
    """
    why = (await _body(request)).get("why")
    if not isinstance(why, str) or not why.strip():
        raise HTTPException(422, 'say why, as {"why": "..."}')
    return await _decided(request, lambda book, id: book.aretire(id, why))


async def forget(request: Request) -> Response:
    """Remove a lesson for good.
    ---
    summary: Forget a lesson, with its text, vectors, evidence and history
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    responses:
      "204": {description: It is gone}
      "404": {description: There is none of this id}
    """
    book = await _book(request)
    await _known(request, book.aforget(request.path_params["id"]))
    return Response(status_code=204)


async def run(request: Request) -> Response:
    """What a run was shown.
    ---
    summary: What a run was shown, went without and wrote, and what came of it
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
      - {in: path, name: id, required: true, schema: {type: string}}
    responses:
      "200": {description: The run explained}
      "404": {description: There is no record of this run}
    """
    book = await _book(request)
    return _told(await _known(request, book.aexplain(request.path_params["id"])))


async def statistics(request: Request) -> Response:
    """How many lessons there are.
    ---
    summary: Lessons by status, kind and origin, and how they did
    tags: [Memory]
    parameters:
      - {in: path, name: agent, required: true, schema: {type: string}}
    responses:
      "200": {description: The numbers}
    """
    return _told(await (await _book(request)).astats())


async def _book(request: Request) -> LessonBook:
    """The book of this agent, and of this user where the server authenticates."""
    user = user_of(request)
    namespace = ("reflexion", request.path_params["agent"], *([label(user)] if user is not None else []))
    try:
        return LessonBook(await server_store(), namespace)
    except ValueError as fault:
        raise HTTPException(422, str(fault)) from fault


async def _decided(request: Request, deed: Deed) -> Response:
    book = await _book(request)
    try:
        return _told(_plain(await _known(request, deed(book, request.path_params["id"]))))
    except ValueError as fault:
        raise HTTPException(409, str(fault)) from fault


async def _known(request: Request, wanted: Awaitable[Any]) -> Any:
    try:
        return await wanted
    except KeyError:
        raise _missing(request) from None


def _missing(request: Request) -> HTTPException:
    of = request.path_params
    return HTTPException(404, f"{of['agent']} knows nothing of the id {of['id']!r}")


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body() or b"{}")
    except ValueError as fault:
        raise HTTPException(422, f"the body is no JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise HTTPException(422, "the body is a JSON object")
    return cast("dict[str, Any]", found)


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= MOST**2):
        raise HTTPException(422, f"`{name}` is a whole number, got {text!r}")
    return min(int(text), MOST) if name == "limit" else int(text)


def _plain(found: Lesson | Change) -> Any:
    return to_jsonable_python(found)


def _told(data: Any) -> Response:
    return JSONResponse(to_jsonable_python(data))


async def _fault(_: Request, fault: Exception) -> Response:
    fault = cast("HTTPException", fault)
    return JSONResponse({"detail": fault.detail}, status_code=fault.status_code)


BASE = "/memory/{agent}"
ONE = BASE + "/lessons/{id}"
app = Starlette(
    routes=[
        Route(f"{BASE}/lessons", lessons),
        Route(f"{BASE}/statistics", statistics),
        Route(f"{BASE}/runs/{{id}}", run),
        Route(ONE, lesson),
        Route(ONE, forget, methods=["DELETE"]),
        Route(f"{ONE}/history", history),
        Route(f"{ONE}/approve", approve, methods=["POST"]),
        Route(f"{ONE}/retire", retire, methods=["POST"]),
        Route(f"{ONE}/restore", restore, methods=["POST"]),
    ],
    exception_handlers={HTTPException: _fault},
)
