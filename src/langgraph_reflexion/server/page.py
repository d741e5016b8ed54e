"""The page: lessons and runs for people, in a browser. Three static files, which ask the routes for everything."""

from __future__ import annotations

from importlib.resources import files
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
HEADERS = {
    # Nothing is loaded from elsewhere, no script but the page's own file runs, and no other site may frame the page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def page_file(request: Request) -> Response:
    """A page for people: lessons, runs, numbers over time, and decisions."""
    kind = request.url.path.rpartition("page")[2].lstrip(".") or "html"
    text = (files("langgraph_reflexion.server") / f"page.{kind}").read_text(encoding="utf-8")
    return Response(text, media_type=KINDS[kind], headers=HEADERS)


def refuse_other_sites(request: Request) -> None:
    """Refuse a change that a browser asks for on behalf of another site, or that an HTML form could send.

    A browser names the site in `Origin` and no page can forge that; programs send none.
    """
    origin = request.headers.get("origin")
    is_ours = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not is_ours and request.headers.get("sec-fetch-site") != "same-origin":
        raise HTTPException(403, f"a page of {origin} may not change memory here; use this server's own page")
    sent = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if sent != "application/json":
        raise HTTPException(415, f"the body is JSON with `Content-Type: application/json`, got {sent!r}")
