"""What an exception means: a model's error, a setting that only a person can fix, or a tool's error and its class."""

from __future__ import annotations

import email.utils
import re
import time
from contextlib import suppress
from typing import Any, Literal

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAuthenticationError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
)
from pydantic import ValidationError

from langgraph_reflexion.nodes.calling import OutOfTimeError
from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.schemas import ErrorClass

ModelFault = Literal["overflow", "setting", "model_error"]

LONGEST_ERROR = 4_000
"""Characters of an exception's message: a stack trace as a message would fill a prompt."""
MOST_MISFITS = 5
"""Errors of one validation that are named."""
LONGEST_PAUSE = 60.0
"""Seconds; who names a longer time to wait is not waited for."""
FIRST_PAUSE = 0.25
"""Seconds before the first retry if the server names none; doubled before each further one."""

_WRONG_SETTING = (
    ModelAuthenticationError,
    ModelPermissionDeniedError,
    ModelNotFoundError,
    ModelInvalidRequestError,
    ImportError,
)
_WRONG_SETTING_STATUS = {400, 401, 403, 404, 405, 422}
_OVERFLOW = re.compile(
    r"context[ _](length|window|size)|maximum (context|number of tokens)|too many tokens|(prompt|input) is too long",
    re.I,
)
_NO_TOOLS = re.compile(r"\b(supports?|requires?)\b.*\btools?\b|\btools?\b.*\b(supports?|requires?)\b", re.I | re.S)
"""How servers of local models say that a model cannot call tools, or not as the server was started."""
_TRANSIENT = ("timeout", "ratelimit", "toomanyrequests", "connecterror", "connectionerror")
"""What clients call the errors that pass; theirs are seldom Python's own."""
_LOST_CONNECTION = (
    "connectionerror",
    "connecterror",
    "protocolerror",
    "readerror",
    "writeerror",
    "incompleteread",
    "chunkedencodingerror",
    "payloaderror",
    "disconnectederror",
)
"""How Python, `httpx`, `requests`, `aiohttp` and `urllib3` end the names of their errors for a lost connection."""


def model_fault(error: Exception) -> ModelFault:
    """What a model's exception calls for: a shorter prompt, a person, or the end of the run."""
    status = status_of(error)
    if isinstance(error, ContextOverflowError) or getattr(error, "code", None) == "context_length_exceeded":
        return "overflow"
    # A model in this process raises with no status; that of a rate limit may speak of too many tokens too.
    if status in (None, 400, 413) and _OVERFLOW.search(describe(error)):
        return "overflow"
    return "setting" if isinstance(error, _WRONG_SETTING) or status in _WRONG_SETTING_STATUS else "model_error"


def lacks_tools(error: Exception) -> bool:
    """Whether a provider refuses the request because its model cannot call tools."""
    return model_fault(error) == "setting" and bool(_NO_TOOLS.search(str(error)))


def status_of(error: BaseException) -> int | None:
    """The HTTP status an exception carries, on itself or on its response, by any client's name for it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and 100 <= status < 600:
                return status
    return None


def describe(error: BaseException) -> str:
    """An exception as evidence: its type and its message, cut."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 — an exception of somebody else's may fail to print itself
        message = ""
    name = type(error).__name__
    return bounded(f"{name}: {message}", LONGEST_ERROR) if message.strip() else name


def as_sentence(error: BaseException) -> str:
    """The same, ending as a sentence does."""
    text = describe(error).rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def misfits(error: ValidationError) -> str:
    """What a validator found, each with the field it found it in."""
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:MOST_MISFITS])


def tool_error_class(error: BaseException) -> ErrorClass:
    """The class of a tool's error."""
    status = status_of(error)
    name = type(error).__name__.lower()
    if status == 429 or "ratelimit" in name or "toomanyrequests" in name:
        return "rate_limit"
    if isinstance(error, TimeoutError) or status in (408, 504) or "timeout" in name:
        return "timeout"
    if isinstance(error, PermissionError) or status in (401, 403):
        return "permission"
    if isinstance(error, ValidationError) or name in ("toolinvocationerror", "toolinputerror"):
        return "bad_arguments"
    return "exception"


def is_transient(error: BaseException) -> bool:
    """Whether trying again may help, as the error itself says. Our own time limit says no such thing."""
    if isinstance(error, OutOfTimeError):
        return False
    status = status_of(error)
    if status is not None:
        return status in (408, 425, 429) or status >= 500
    name = type(error).__name__.lower()
    return isinstance(error, (TimeoutError, ConnectionError)) or any(word in name for word in _TRANSIENT)


def is_lost_connection(error: BaseException) -> bool:
    """Whether the connection was lost, before a reply or in the middle of it. A time limit or an HTTP status is not."""
    if status_of(error) is not None or "timeout" in type(error).__name__.lower():
        return False
    return any(kind.__name__.lower().endswith(_LOST_CONNECTION) for kind in type(error).__mro__)


def pause_before(error: BaseException, attempt: int) -> float:
    """Seconds to wait before the next try: what the server names, else a doubling from a quarter of a second.

    What a server names is never cut short: a call that would have to wait longer than `LONGEST_PAUSE` is not repeated.
    """
    named = _seconds_in(getattr(error, "retry_after", None))
    for holder in (getattr(error, "response", None), error):
        if named is None:
            named = _retry_after(getattr(holder, "headers", None))
    return named if named is not None else min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)


def _retry_after(headers: Any) -> float | None:
    if not hasattr(headers, "items"):
        return None
    return next((_seconds_in(value) for key, value in headers.items() if str(key).lower() == "retry-after"), None)


def _seconds_in(value: Any) -> float | None:
    """The seconds that a server names, as a number or as a moment; None if it names none that can be read."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if value is None or callable(value):
        return None
    with suppress(TypeError, ValueError):
        return max(0.0, float(value))
    try:
        return max(0.0, email.utils.parsedate_to_datetime(str(value)).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
