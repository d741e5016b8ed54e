"""What an exception means: a model's fault, a setting only a person can mend, or a tool's error and its class."""

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
from langgraph_reflexion.nodes.models.history import bounded
from langgraph_reflexion.schemas import ErrorClass

ModelFault = Literal["overflow", "setting", "model_error"]

LONGEST_FAULT = 4_000
MOST_MISFITS = 5
LONGEST_PAUSE = 60.0

_MISSET = (ModelAuthenticationError, ModelPermissionDeniedError, ModelNotFoundError, ModelInvalidRequestError)
_OVERFLOW = re.compile(
    r"context[ _](length|window|size)|maximum (context|number of tokens)|too many tokens|(prompt|input) is too long",
    re.I,
)
_NO_TOOLS = re.compile(r"\b(supports?|requires?)\b.*\btools?\b|\btools?\b.*\b(supports?|requires?)\b", re.I | re.S)
"""How servers of local models say that a model cannot call tools, or not as the server was started."""
_PASSING = ("timeout", "ratelimit", "toomanyrequests", "connecterror", "connectionerror")
"""What clients call the faults that pass; theirs are seldom Python's own."""
_MISSET_STATUS = {400, 401, 403, 404, 405, 422}


def model_fault(fault: Exception) -> ModelFault:
    """What a model's exception calls for: a shorter prompt, a person, or the end of the run."""
    status = status_of(fault)
    if isinstance(fault, ContextOverflowError):
        return "overflow"
    if getattr(fault, "code", None) == "context_length_exceeded" or (status == 400 and _OVERFLOW.search(str(fault))):
        return "overflow"
    if isinstance(fault, _MISSET) or status in _MISSET_STATUS or isinstance(fault, ImportError):
        return "setting"
    return "model_error"


def lacks_tools(fault: Exception) -> bool:
    """Whether a provider refuses the request because its model cannot call tools."""
    return model_fault(fault) == "setting" and bool(_NO_TOOLS.search(str(fault)))


def status_of(fault: BaseException) -> int | None:
    """The HTTP status an exception carries, on itself or on its response, by any client's name for it."""
    for holder in (fault, getattr(fault, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and 100 <= status < 600:
                return status
    return None


def told(fault: BaseException) -> str:
    """An exception as evidence: its type and its message, however long."""
    try:
        said = str(fault)
    except Exception:  # noqa: BLE001 — an exception of somebody else's may not even be able to say itself
        said = ""
    return bounded(f"{type(fault).__name__}: {said}", LONGEST_FAULT) if said.strip() else type(fault).__name__


def told_as_a_sentence(fault: BaseException) -> str:
    """The same, ending as a sentence does."""
    said = told(fault).rstrip()
    return said if said.endswith((".", "!", "?", "…")) else f"{said}."


def misfits(fault: ValidationError) -> str:
    """What a validator found, each with the field it found it in."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in fault.errors()[:MOST_MISFITS])


def tool_error_class(fault: BaseException) -> ErrorClass:
    """The class of a tool's error."""
    status = status_of(fault)
    name = type(fault).__name__.lower()
    if status == 429 or "ratelimit" in name or "toomanyrequests" in name:
        return "rate_limit"
    if isinstance(fault, TimeoutError) or status in (408, 504) or "timeout" in name:
        return "timeout"
    if isinstance(fault, PermissionError) or status in (401, 403):
        return "permission"
    if isinstance(fault, ValidationError) or name in ("toolinvocationerror", "toolinputerror"):
        return "bad_arguments"
    return "exception"


def is_passing(fault: BaseException) -> bool:
    """Whether the tool itself says that trying again may help. Our own time limit says no such thing."""
    if isinstance(fault, OutOfTimeError):
        return False
    status = status_of(fault)
    if status is not None:
        return status in (408, 425, 429) or status >= 500
    name = type(fault).__name__.lower()
    return isinstance(fault, (TimeoutError, ConnectionError)) or any(word in name for word in _PASSING)


def pause_before(fault: BaseException, attempt: int) -> float:
    """Seconds to wait before the next try: what the server names, else a doubling from a quarter of a second.

    What a server names is never cut short: a call that would have to wait longer than `LONGEST_PAUSE` is not repeated.
    """
    named = _seconds_in(getattr(fault, "retry_after", None))
    for holder in (getattr(fault, "response", None), fault):
        if named is None:
            named = _retry_after(getattr(holder, "headers", None))
    return named if named is not None else min(0.25 * 2**attempt, LONGEST_PAUSE)


def _retry_after(headers: Any) -> float | None:
    if not hasattr(headers, "items"):
        return None
    return next((_seconds_in(value) for key, value in headers.items() if str(key).lower() == "retry-after"), None)


def _seconds_in(value: Any) -> float | None:
    """The seconds that a server names, as a number or as a moment; None where it names none that can be read."""
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
