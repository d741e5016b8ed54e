"""Scripted chat models, which reply in order or by the role of the request, and embeddings made from words."""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr
from typing_extensions import override

from langgraph_reflexion.driver import Waits, pause, run_async, run_sync
from langgraph_reflexion.testing.script import Question, Reply, Role, ScriptExhausted, chunks_of, read_question, render

ScriptedReply: TypeAlias = Reply | Callable[[list[BaseMessage]], Reply]
"""One line of a script: a reply, or a function of the prompt's messages that returns one."""
Policy: TypeAlias = Reply | Callable[[Question], Reply] | Sequence[Reply | Callable[[Question], Reply]]
"""The replies of a role: one reply, a function of the question, or a list whose last reply is repeated."""


class Double(BaseChatModel):
    """A chat model without a provider. Subclasses choose the reply in `_reply`."""

    model_name: str = "scripted"
    delay: float = 0.0
    usage: tuple[int, int] | None = (10, 5)
    _asked: list[Question] = PrivateAttr(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def asked(self) -> list[Question]:
        """Every question so far, in order."""
        return list(self._asked)

    def answer(self, question: Question) -> AIMessage:
        """Record the question, and return its reply or raise the exception in the script."""
        return self._prepare(question)()

    def _prepare(self, question: Question) -> Callable[[], AIMessage]:
        """Record the question at once, because a call may be cancelled while it waits; the answer is made later."""
        with self._lock:
            self._asked.append(question)
            return partial(self._make_answer, self._reply(question), question, len(self._asked))

    def _make_answer(self, reply: Any, question: Question, number: int) -> AIMessage:
        if callable(reply) and not _is_error(reply):
            reply = reply(question)
        if isinstance(reply, BaseException) or _is_error(reply):
            raise reply
        message = render(reply, question, number)
        if message.usage_metadata is None and self.usage is not None:
            given, got = self.usage
            message.usage_metadata = UsageMetadata(input_tokens=given, output_tokens=got, total_tokens=given + got)
        ended = {"model_name": self.model_name, "finish_reason": "tool_calls" if message.tool_calls else "stop"}
        message.response_metadata = {**ended, **message.response_metadata}
        return message

    def _reply(self, question: Question) -> Any:
        """The next reply, or a function of the question that makes it."""
        raise NotImplementedError

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Only the name, because LangChain formats the model for each call, and a script may contain the model."""
        return [("model_name", self.model_name)]

    @override
    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools, as for any chat model."""
        specs = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=specs, tool_choice=tool_choice, **kwargs)

    def _wait(self, messages: list[BaseMessage], settings: dict[str, Any]) -> Waits[Callable[[], AIMessage]]:
        """Record the question, and wait until it can be answered."""
        answer = self._prepare(read_question(messages, settings, time.monotonic()))
        yield pause(self.delay)
        return answer

    @override
    def _generate(self, messages: list[BaseMessage], *_: Any, **settings: Any) -> ChatResult:
        return _result(run_sync(self._wait(messages, settings))())

    @override
    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **settings: Any) -> ChatResult:
        return _result((await run_async(self._wait(messages, settings)))())

    @override
    def _stream(self, messages: list[BaseMessage], *_: Any, **settings: Any) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(run_sync(self._wait(messages, settings))())

    @override
    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **settings: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks((await run_async(self._wait(messages, settings)))()):
            yield chunk


class ScriptedModel(Double):
    """A chat model that gives its replies in order, whatever the request.

    A reply is text, an `AIMessage`, `call(…)`, `calls(…)`, `say(…)`, `replan(…)`, `ask(…)`, data (put in the requested
    form), an exception (raised), or a function of the prompt's messages that returns one of these. When no replies are
    left, it raises `ScriptExhausted`.
    """

    replies: list[Any]

    def __init__(self, replies: Sequence[ScriptedReply], **settings: Any) -> None:
        if isinstance(replies, (str, bytes, Mapping)) or not isinstance(replies, Iterable):
            raise ValueError(f"`replies` must be a list of replies, got {replies!r}")
        super().__init__(**{"replies": list(replies), **settings})

    def _reply(self, question: Question) -> Any:
        if len(self._asked) > len(self.replies):
            raise ScriptExhausted(
                f"The script has {len(self.replies)} replies, and the model is asked once more: {_tail(question)!r}"
            )
        reply = self.replies[len(self._asked) - 1]
        return (lambda asked: reply(asked.messages)) if callable(reply) and not _is_error(reply) else reply


class RoleModel(Double):
    """A chat model that answers by role: a decision, a reflection, or other structured data.

    Each policy is a reply, a list of replies (the last one is repeated), or a function of the
    `Question`. A role without a policy raises `ScriptExhausted` when it is asked.
    """

    decide: Any = None
    reflect: Any = None
    other: Any = None
    _given: Counter[Role] = PrivateAttr(default_factory=Counter)

    def __init__(
        self, decide: Policy | None = None, reflect: Policy | None = None, other: Policy | None = None, **settings: Any
    ) -> None:
        super().__init__(**{"decide": decide, "reflect": reflect, "other": other, **settings})

    def _reply(self, question: Question) -> Any:
        role = question.role
        policy = getattr(self, role)
        if policy in (None, [], ()):
            raise ScriptExhausted(f"The model has no reply for `{role}`, and is asked: {_tail(question)!r}")
        if not isinstance(policy, (list, tuple)):
            return policy
        self._given[role] += 1
        return policy[min(self._given[role], len(policy)) - 1]


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    return (ChatGenerationChunk(message=chunk) for chunk in chunks_of(message))


def _is_error(reply: Any) -> bool:
    return isinstance(reply, type) and issubclass(reply, BaseException)


def _tail(question: Question) -> str:
    """The end of the prompt, short enough for an error."""
    text = question.text
    return text if len(text) <= 200 else f"…{text[-200:]}"


# ------------------------------------------------------------ embeddings

# A Chinese, Japanese or Korean character counts as a word, because nothing separates the words.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class WordEmbeddings(Embeddings):
    """Embeddings without a model: texts that share words are similar. Vectors have length 1 and are always the same."""

    def __init__(self, dims: int = 64) -> None:
        if not isinstance(dims, int) or dims < 1:
            raise ValueError(f"`dims` must be a whole number from 1, got {dims!r}")
        self.dims = dims

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The sum of the words' directions. A text without words has its own direction."""
        vector = [0.0] * self.dims
        for word in WORD.findall(text.lower()) or [""]:
            digest = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
            vector[(digest >> 1) % self.dims] += 1.0 if digest & 1 else -1.0
        length = math.hypot(*vector)
        # Words of opposite directions may cancel out.
        return [value / length for value in vector] if length else self.embed_query("")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, without a thread."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """As `embed_query`, without a thread."""
        return self.embed_query(text)
