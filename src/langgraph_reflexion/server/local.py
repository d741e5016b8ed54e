"""The page and the routes for the lessons of one store, on the local address and protected by a token."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.server.routes import app


def serve(book: LessonBook, listening: socket.socket, announce: Callable[[str], object]) -> None:
    """Serve on this socket until Ctrl-C. `announce` is called with the link."""
    token = secrets.token_urlsafe()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    announce(f"{address}/memory/{quote(book.namespace[-1])}/page?token={token}")
    config = uvicorn.Config(local_app(book, token), log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


def local_app(book: LessonBook, token: str) -> Starlette:
    """The server's routes on this book, for clients that have the token in the link or as a bearer token."""

    async def check_token(request: Request, respond: RequestResponseEndpoint) -> Response:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = bearer or request.query_params.get("token", "")
        is_open = request.url.path.endswith(("/page.css", "/page.js"))
        if is_open or hmac.compare_digest(given.encode(), token.encode()):
            return await respond(request)
        return JSONResponse({"detail": "the token of the link is missing"}, 403)

    local = Starlette(
        routes=app.routes,
        exception_handlers=app.exception_handlers,
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=check_token)],
    )
    local.state.memory = book
    return local
