"""Call a model: its reply, how the reply ended, and its cost."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, ValidationError

from langgraph_reflexion.driver import Wait, Waits, default_config, either, pause, silent_config
from langgraph_reflexion.nodes.exceptions import cause_of, describe, is_lost_connection, model_fault, retry_delay
from langgraph_reflexion.nodes.host import silent_graph_config
from langgraph_reflexion.nodes.models.choice import Model
from langgraph_reflexion.schemas import Usage
from langgraph_reflexion.state import start_of_run
from langgraph_reflexion.text.json_text import map_texts, valid_text
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseMessage)
COST_OF_NO_REPLY = Usage(calls=1)
"""The cost of a call that raised: its tokens are not known."""
NO_OBJECT = "its arguments are not a JSON object"


class Reply(NamedTuple):
    """A reply and its cost."""

    message: AIMessage
    spent: Usage


def call_model(
    model: Model,
    messages: Sequence[AnyMessage],
    config: RunnableConfig,
    *,
    seconds: float | None = None,
    retries: int = 0,
    silent_as: str | None = None,
) -> Waits[Reply]:
    """The reply of a model, within `seconds`. With `silent_as`, a name for traces, nothing is streamed to the user.

    The name must not be a node's: LangGraph would take a model that is a chain, such as one with fallbacks, for the
    node itself, and stream its reply.

    The reply is cleaned so that it can be stored and sent again.
    """
    config = config if silent_as is None else silent_config(config, run_name=silent_as)
    # Most texts are ASCII and need no second look: the whole conversation is read before each decision.
    prompt = [m if isinstance(m.content, str) and m.content.isascii() else with_valid_text(m) for m in messages]
    inner, kwargs = _unwrapped(model)
    written = _WrittenCalls()
    config = with_handlers(config, written)
    try:
        given = yield from ask(inner, prompt, config, seconds=seconds, retries=retries, **kwargs)
    except Exception as error:
        if (given := _reply_in(error)) is None:
            raise
    if isinstance(given, BaseModel) and not isinstance(given, BaseMessage):  # from `with_structured_output`
        given = given.model_dump_json()
    if isinstance(given, BaseMessage) and not isinstance(given, AIMessage):  # a server sent an unknown role
        given = AIMessage(given.content, id=given.id, response_metadata=given.response_metadata)
    reply = given if isinstance(given, AIMessage) else AIMessage(str(given))
    broken = written.broken() if reply.tool_calls else {}
    calls, invalid = _valid_calls(reply, broken) if reply.tool_calls or reply.invalid_tool_calls else ([], [])
    fields = {"tool_calls": calls, "invalid_tool_calls": invalid, "additional_kwargs": reply.additional_kwargs}
    return Reply(with_valid_text(reply, **fields), usage_of(reply))


def reply_or_fault(asking: Waits[Reply]) -> Waits[Reply | Exception]:
    """The reply of a model, or the exception if there is none. An error in the settings is raised."""
    try:
        return (yield from asking)
    except Exception as fault:
        raise_control_flow(fault)
        if model_fault(fault) == "setting":
            raise
        return fault


def ask(
    model: Model,
    prompt: list[AnyMessage],
    config: RunnableConfig,
    *,
    seconds: float | None,
    retries: int,
    **kwargs: Any,
) -> Waits[Any]:
    """The result of a model for a prompt. A lost connection is retried with backoff, besides the client's retries."""
    started = time.monotonic()
    for attempt in range(retries + 1):
        left = None if seconds is None else seconds - (time.monotonic() - started)
        try:
            return (yield either(model.invoke, model.ainvoke, prompt, config, **kwargs).within(left))
        except Exception as error:
            delay = retry_delay(error, attempt, left)
            if attempt == retries or not is_lost_connection(error) or delay is None:
                raise
            logger.info("The model is called again in %.2g s: %s", delay, mask_secrets(describe(error)))
            yield pause(delay)


def _unwrapped(model: Model) -> tuple[Model, Mapping[str, Any]]:
    """The model inside a plain binding, and what it binds. Called directly, no empty config is merged."""
    if isinstance(model, RunnableBinding) and not model.config and not model.config_factories:
        kind = type(model)
        if kind.invoke is RunnableBinding.invoke and kind.ainvoke is RunnableBinding.ainvoke:
            return model.bound, model.kwargs
    return model, {}


def _reply_in(error: Exception) -> AIMessage | None:
    """The reply inside an exception. OpenAI's client raises one if a reply with a schema reaches the length limit,
    LangChain's message class if the arguments of a call are JSON but not an object, and Groq's if it cannot read a
    call."""
    if isinstance(error, ValidationError) and error.title == "AIMessage":
        faults = [fault for fault in error.errors() if fault["loc"][:1] == ("tool_calls",)]
        return _unread_calls([str(fault["input"]) for fault in faults], NO_OBJECT)
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(inner, dict) and inner.get("code") == "tool_use_failed":
        return _unread_calls([str(inner.get("failed_generation", ""))], str(inner.get("message")))
    completion = getattr(error, "completion", None)
    if type(error).__name__ != "LengthFinishReasonError" or completion is None:
        return None
    about = {"finish_reason": "length", "model_provider": "openai", "model_name": completion.model}
    message = AIMessage(completion.choices[0].message.content or "", response_metadata=about)
    if (usage := completion.usage) is not None:  # a streamed reply has none
        read, written = usage.prompt_tokens, usage.completion_tokens
        message.usage_metadata = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return message


def _unread_calls(written: list[str], why: str) -> AIMessage | None:
    calls = [invalid_tool_call(name="", args=args, error=why) for args in written]
    return AIMessage("", invalid_tool_calls=calls) if calls else None


def with_valid_text(message: M, **fields: Any) -> M:
    """The message with these fields and without lone surrogates, which no provider accepts."""
    fields = map_texts({"content": message.content, **fields}, valid_text)
    changed = {name: value for name, value in fields.items() if getattr(message, name) != value}
    return message.model_copy(update=changed) if changed else message


def _valid_calls(message: AIMessage, broken: Mapping[Any, str]) -> tuple[list[Any], list[Any]]:
    """The calls with a name, arguments as a dict and an id as text. Anything else is an invalid call, as is a broken
    one: its arguments, by its name and id, are not JSON."""
    calls, invalid = list[Any](), list[Any]()
    for cut in cast("list[dict[str, Any]]", message.invalid_tool_calls):
        invalid.append({**cut, "id": None if (call_id := cut.get("id")) is None else str(call_id)})
    for call in cast("list[dict[str, Any]]", message.tool_calls):
        name, args, call_id = call.get("name"), call.get("args"), call.get("id")
        if isinstance(args, str):
            with suppress(ValueError):
                args = json.loads(args)
        call_id = None if call_id is None else str(call_id)
        if (key := (name, call.get("id"))) in broken:
            invalid.append(invalid_tool_call(name=str(name or ""), args=broken[key], id=call_id))
        elif isinstance(name, str) and (args is None or isinstance(args, dict)):
            calls.append({**call, "name": name, "args": args or {}, "id": call_id})
        else:
            error = NO_OBJECT if isinstance(name, str) else "it has no name"
            invalid.append(invalid_tool_call(name=str(name or ""), args=str(args), id=call_id, error=error))
    return calls, invalid


class _WrittenCalls(BaseCallbackHandler):
    """The calls of a streamed reply as they were written. LangChain guesses the end of arguments that break off."""

    run_inline = ignore_chain = ignore_chat_model = True

    def __init__(self) -> None:
        self._chunks: dict[UUID, list[AIMessageChunk]] = {}

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        message = getattr(chunk, "message", None)
        if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
            self._chunks.setdefault(run_id, []).append(message)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._chunks.pop(run_id, None)  # another try follows

    def broken(self) -> dict[tuple[str | None, str | None], str]:
        """The arguments that are not JSON, by the name and id of their call."""
        calls = [call for first, *rest in self._chunks.values() for call in (first + rest).tool_call_chunks]
        return {(call["name"], call["id"]): args for call in calls if (args := call["args"]) and not _is_json(args)}


def _is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text, strict=False)
        return True
    return False


def raise_control_flow(error: BaseException) -> None:
    """Raise the exception if it is LangGraph's own control flow, even in an exception group."""
    if isinstance(cause := cause_of(error), GraphBubbleUp):
        raise cause


# ---------------------------------------------------------------- how a reply ended

_REPEATED = re.compile(r"\A(.+?)\1+\Z")
_FINISH_REASON_FIELDS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""Fields in which providers say why a reply ended."""
_CUT_OFF = frozenset({"length", "model_length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})
_BROKEN = frozenset(
    {"error", "timeout", "other", "abort", "insufficient_system_resource", "pause_turn"}
    | {"malformed_function_call", "malformed_response", "malformed_tool_use", "malformed_model_output"}
)
"""Finish reasons of a provider that stopped in the middle of a reply (Mistral and OpenRouter, Cohere, Gemini, vLLM,
DeepSeek, Anthropic), or could not read the reply (Gemini, Bedrock)."""
_REFUSED = frozenset(
    {"refusal", "content_filter", "content_filtered", "guardrail_intervened"}
    | {"safety", "prohibited_content", "recitation", "blocklist", "spii", "model_armor"}
)
"""Finish reasons by which a provider itself refuses. The second line is Gemini's."""


def refusal_in(reply: AIMessage) -> str | None:
    """A refusal, in the provider's own field or as a finish reason."""
    refusal = reply.additional_kwargs.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return refusal
    for block in reply.content if isinstance(reply.content, list) else []:
        inner = block.get("value", block) if isinstance(block, dict) else None  # in `output_version="v1"` it is wrapped
        if isinstance(inner, dict) and inner.get("type") == "refusal":
            return str(inner.get("refusal") or "") or None
    if reply.text.strip():
        return reply.text if "refusal" in _finish_reasons(reply) else None
    return f"The provider gave no answer: {why}." if (why := stopped_by_provider(reply)) else None


def stopped_by_provider(reply: AIMessage) -> str:
    """The provider's reason if it stopped the reply, or blocked the prompt, because of its content. Else empty."""
    feedback = reply.response_metadata.get("prompt_feedback")  # Gemini's. A blocked prompt has no finish reason.
    blocked = feedback.get("block_reason") if isinstance(feedback, dict) else None
    return blocked.lower() if isinstance(blocked, str) else min(_finish_reasons(reply) & _REFUSED, default="")


def cut_off(reply: AIMessage, earlier: Sequence[AnyMessage], task_id: str | None = None) -> str | None:
    """Why a reply is incomplete, or None: it reached its length limit, or has no finish reason although one is
    expected.

    The clients of OpenAI, Anthropic and Gemini give every reply a finish reason. Of another provider one is expected if
    an earlier reply of the same provider has one. If the provider is not known, only the replies of this run count,
    because those of other turns may be another model's.
    """
    endings = _finish_reasons(reply)
    if endings & _CUT_OFF:
        return "the reply was cut off at its length limit"
    if broken := min(endings & _BROKEN, default=""):
        return f"the reply was cut off in the middle, with the finish reason {broken!r}"
    if endings or reply.response_metadata.get("status") == "completed":  # as in OpenAI's Responses API
        return None
    provider = reply.response_metadata.get("model_provider")
    if provider is None:
        earlier = earlier[start_of_run(earlier, task_id) :]
    if provider in ("openai", "anthropic", "google_genai") or any(
        _finish_reasons(message)
        for message in reversed(earlier)
        if message.type == "ai"
        and message.response_metadata
        and message.response_metadata.get("model_provider") == provider
    ):
        return "the reply was cut off in the middle: it ends without a finish reason"
    return None


def cut_off_by_provider(reply: AIMessage, earlier: Sequence[BaseMessage]) -> str | None:
    """Like `cut_off`, for a reply that may not be a model's: only earlier replies with the name of a provider count."""
    return cut_off(reply, [cast("AnyMessage", m) for m in earlier if m.response_metadata.get("model_provider")])


def _finish_reasons(reply: BaseMessage) -> set[str]:
    """Why the reply ended, from the field that the provider uses.

    It may name an enum: `FinishReason.MAX_TOKENS`. If several chunks of a stream say it, LangChain joins the words.
    """
    metadata = reply.response_metadata or {}
    details = metadata.get("incomplete_details")
    incomplete = details.get("reason") if isinstance(details, dict) else None
    names = [incomplete, *map(metadata.get, _FINISH_REASON_FIELDS)]
    reasons = [_REPEATED.sub(r"\1", name.lower()) for name in names if isinstance(name, str)]
    return {name.rpartition(".")[2] for name in reasons}


# ---------------------------------------------------------------- what it cost


def usage_of(message: AIMessage) -> Usage:
    """The cost of one reply."""
    usage: dict[str, Any] = dict(message.usage_metadata or {})
    read, written, total = (int(usage.get(name) or 0) for name in ("input_tokens", "output_tokens", "total_tokens"))
    return Usage(input=read, output=written, total=total or read + written, calls=1)


class Meter(BaseCallbackHandler):
    """The cost of several model calls so far. As a callback, it counts those in the caller's code too."""

    run_inline = ignore_chain = True

    def __init__(self) -> None:
        self.spent = Usage()
        self._lock = threading.Lock()  # several calls may end at the same time

    def add(self, cost: Usage) -> None:
        """Add the cost of one call."""
        with self._lock:
            self.spent += cost

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        first = response.generations[0][0] if response.generations and response.generations[0] else None
        if isinstance(first, ChatGeneration) and isinstance(first.message, AIMessage):
            self.add(usage_of(first.message))


def with_handlers(config: RunnableConfig, *handlers: BaseCallbackHandler) -> RunnableConfig:
    """The config with these callbacks. Others stay."""
    known = config.get("callbacks")
    if not isinstance(known, BaseCallbackManager):
        return {**config, "callbacks": [*(known or []), *handlers]}
    # LangChain's `merge_configs` would read the whole config, and this runs for every call.
    manager = known.copy()
    for handler in handlers:
        manager.add_handler(handler)
    return {**config, "callbacks": manager}


def call_silently(
    graph: Runnable[Any, Any], given: Any, config: RunnableConfig, *, recursion_limit: int, context: bool = True
) -> Wait:
    """Call a graph inside a node, without showing it in the run's streams."""
    inside = silent_graph_config(config, recursion_limit=recursion_limit, context=context)
    # LangGraph merges the callbacks around a call into its own.
    return either(graph.invoke, graph.ainvoke, given, inside).inside(partial(default_config, inside))
