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
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

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
    """The server's routes on this book, for clients with the token."""
    local = Starlette(
        routes=app.routes,
        exception_handlers=app.exception_handlers,
        middleware=[Middleware(TokenMiddleware, token=token)],
    )
    local.state.memory = book
    return local


class TokenMiddleware:
    """Accepts requests with the token, in the link or as a bearer token. Style and script need none."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        given = request.headers.get("authorization", "").removeprefix("Bearer ") or request.query_params.get(
            "token", ""
        )
        is_open = request.url.path.endswith(("/page.css", "/page.js"))
        if is_open or hmac.compare_digest(given.encode(), self.token.encode()):
            await self.app(scope, receive, send)
        else:
            await JSONResponse({"detail": "the token of the link is missing"}, 403)(scope, receive, send)
