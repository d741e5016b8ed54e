"""Classify exceptions: a model error, a setting that only a person can fix, or a tool error and its class."""

from __future__ import annotations

import email.utils
import re
import subprocess
import time
from contextlib import suppress
from typing import Any, Literal

from langchain_core import exceptions

from langgraph_reflexion.driver import OutOfTimeError
from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.schemas import ErrorClass

ModelFault = Literal["overflow", "setting", "model_error"]

MAX_ERROR = 4_000
"""Characters of an exception's message, because a stack trace would fill a prompt."""
MAX_RETRY_DELAY = 60.0
"""Seconds. If the server asks for a longer wait, the call is not retried."""
FIRST_RETRY_DELAY = 0.25
"""Seconds before the first retry if the server names no time. Doubled before each further retry."""

_WRONG_SETTING = (
    exceptions.ModelAuthenticationError,
    exceptions.ModelPermissionDeniedError,
    exceptions.ModelNotFoundError,
    exceptions.ModelInvalidRequestError,
    ImportError,
)
_WRONG_SETTING_STATUS = {400, 401, 403, 404, 405, 422}
_NO_KEY = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")
"""What the clients of Amazon and Google raise before a request if there is no key."""
_FILTERED = ("content_filter", "content_policy_violation")
"""Error codes with which OpenAI and Azure refuse a conversation because of its content, with the status 400."""
_FILTERED_IN_WORDS = re.compile("content filter|content exists risk|inappropriate content", re.IGNORECASE)
"""Anthropic's, DeepSeek's and Qwen's words for the same."""
_OVERFLOW = re.compile(
    r"(context_|(context|prompt|inputs?|payload|model token)[`'\"]? )(length|window|size|limit|token)"
    r"|(prompt|input) (is too long|exceeds)|maximum (context|number of tokens)|too many tokens",
    re.I,
)
"""Phrases for a prompt that is too long. Providers word the rest in many ways."""
_TRANSIENT = ("timeout", "ratelimit", "toomanyrequests", "connecterror", "connectionerror")
"""Names of transient errors in clients, which rarely use Python's own classes."""
_LOST_CONNECTION = re.compile(
    r"(api|connect|connection|connectionclosed|protocol|read|write|chunkedencoding|payload|disconnected"
    r"|eventstream|response|jsondecode)error$|incompleteread$"
)
"""How the error names for a lost connection end in Python, `httpx`, `requests`, `aiohttp`, `urllib3` and `boto3`.
For an error that is sent in the middle of a stream, OpenAI's and Anthropic's clients raise `APIError`, Bedrock's
`EventStreamError`, and Ollama's `ResponseError` without a status. A response that is not JSON was cut or replaced on
its way, as by a gateway's page with the status 200."""

_LOST_IN_WORDS = re.compile(
    r"Event loop is closed|No generations found in stream\.|No data received from Ollama stream\.|server_error"
)
"""Messages for a lost connection without an exception class of its own: from Python, from LangChain, from its Ollama
client while the server loads the model, and OpenAI's error code."""


def model_fault(error: BaseException) -> ModelFault:
    """Whether a model's exception needs a shorter prompt, needs a person, or ends the run."""
    status = status_of(error)
    if isinstance(error, exceptions.ContextOverflowError) or getattr(error, "code", None) == "context_length_exceeded":
        return "overflow"
    # A model in this process raises without a status. A rate limit's message may mention too many tokens too.
    # A client of a provider raises a `TypeError` for a parameter that it does not have.
    unknown = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
    message = describe(error)
    if status == 413 or (status in (None, 400, 422) and not unknown and _OVERFLOW.search(message)):
        return "overflow"
    no_key = type(error).__name__ in _NO_KEY
    known = isinstance(error, _WRONG_SETTING) or status in _WRONG_SETTING_STATUS or no_key
    filtered = getattr(error, "code", None) in _FILTERED or _FILTERED_IN_WORDS.search(message)
    return "setting" if (known or unknown) and not filtered else "model_error"


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an exception or of its response, under the name that any client uses."""
    response = getattr(error, "response", None)
    found = [getattr(holder, name, None) for holder in (error, response) for name in ("status_code", "status", "code")]
    about = response.get("ResponseMetadata") if isinstance(response, dict) else None  # from `boto3`
    found.append(about.get("HTTPStatusCode") if isinstance(about, dict) else None)
    return next((status for status in found if isinstance(status, int) and 100 <= status < 600), None)


def cause_of(error: BaseException) -> BaseException:
    """The only exception in a group, as MCP clients raise it from a task group, else the exception itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """An exception as evidence: its type and its truncated message."""
    error = cause_of(error)
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 — `str()` of any other exception class may fail
        message = ""
    name = type(error).__name__
    return bounded(f"{name}: {message}", MAX_ERROR) if message.strip() else name


def as_sentence(error: BaseException) -> str:
    """An exception as evidence, with a full stop at the end."""
    text = describe(error).rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


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
    if status in (400, 422) or name in ("toolinvocationerror", "toolinputerror"):
        return "bad_arguments"
    return "exception"


def is_transient(error: BaseException) -> bool:
    """Whether the error is marked as transient, so that a retry may help. Our time limit and a command's are not."""
    if isinstance(error, (OutOfTimeError, subprocess.TimeoutExpired)):
        return False
    status = status_of(error)
    if status is not None:
        return status in (408, 425, 429) or status >= 500
    name = type(error).__name__.lower()
    return isinstance(error, (TimeoutError, ConnectionError)) or any(word in name for word in _TRANSIENT)


def is_lost_connection(error: BaseException) -> bool:
    """Whether the connection was lost, before or during a reply. A time limit or an HTTP error does not count.

    The status 200 does: the server began a reply and then sent an error.
    """
    if status_of(error) not in (None, 200) or "timeout" in type(error).__name__.lower():
        return False
    # `langchain-openai` shares its connections between agents: one kept open by an earlier `asyncio.run` is dead. A
    # stream may end before its first chunk. And a failed reply of OpenAI's Responses API is a `ValueError`.
    if type(error) in (RuntimeError, ValueError) and _LOST_IN_WORDS.search(str(error)):
        return True
    return any(_LOST_CONNECTION.search(kind.__name__.lower()) for kind in type(error).__mro__)


def retry_delay(error: BaseException, attempt: int, seconds: float | None = None) -> float | None:
    """Seconds to wait before the next try: the server's time, else starting at a quarter of a second and doubling.

    A server's time is never shortened: None if it is longer than `MAX_RETRY_DELAY`, or than the `seconds` left.
    """
    named = _seconds_in(getattr(error, "retry_after", None))
    for holder in (getattr(error, "response", None), error):
        headers: Any = getattr(holder, "headers", None)
        if named is None and hasattr(headers, "items"):
            values = (value for key, value in headers.items() if str(key).lower() == "retry-after")
            named = _seconds_in(next(values, None))
    wait = named if named is not None else min(FIRST_RETRY_DELAY * 2**attempt, MAX_RETRY_DELAY)
    return wait if wait <= MAX_RETRY_DELAY and (seconds is None or wait < seconds) else None


def _seconds_in(value: Any) -> float | None:
    """The waiting time that a server names, as a number or a date, in seconds. None if there is none."""
    with suppress(TypeError, ValueError):
        return max(0.0, float(value))
    try:
        return max(0.0, email.utils.parsedate_to_datetime(str(value)).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
