"""Under the JSON protocol, stream only the text of `final`, while the decision is still being written."""

from __future__ import annotations

import re
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph.message import push_message
from pydantic_core import from_json

from langgraph_reflexion.nodes.models.choice import Model
from langgraph_reflexion.nodes.models.decision_json import read_object
from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.text.json_text import after_thinking

_OBJECT = re.compile(r"[^{\[]*(\{.*)", re.DOTALL)
"""A reply whose first value is an object."""


class StreamedFinal(Runnable[Any, Any]):
    """A model under the JSON protocol, of whose reply only the text of `final` is streamed to the user.

    The object itself is not for the user, so the model's own stream must be tagged `nostream`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        reply = _StreamedReply()
        for chunk in self._model.stream(input, config, **kwargs):
            reply.add(chunk)
        return reply.message()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        reply = _StreamedReply()
        async for chunk in self._model.astream(input, config, **kwargs):
            reply.add(chunk)
        return reply.message()


class _StreamedReply:
    """Gathers the chunks of a reply, and streams what belongs to its answer."""

    def __init__(self) -> None:
        self._chunks: Any = None
        self._final = FinalText()

    def add(self, chunk: Any) -> None:
        self._chunks = chunk if self._chunks is None else self._chunks + chunk
        self._stream(self._final.feed(chunk.text))

    def message(self) -> AIMessage:
        self._stream(self._final.rest())
        return cast("AIMessage", message_chunk_to_message(self._chunks))

    def _stream(self, text: str) -> None:
        if text and self._chunks.id:
            push_message(AIMessageChunk(content=text, id=self._chunks.id), state_key=None)


class FinalText:
    """Takes a reply in pieces, and returns the new text of its answer, the top-level `final`.

    Plain JSON is read while it is written. Of any other form that `read_object` reads, the answer comes at the end.
    """

    def __init__(self) -> None:
        self._text = ""
        self._answer = ""

    def feed(self, piece: str) -> str:
        """Return the text that this piece adds to the answer."""
        self._text += piece
        return self._new_in(_answer_in(self._text))

    def rest(self) -> str:
        """Return the text of the answer that has not come yet."""
        read = read_object(self._text)
        return self._new_in(read.final) if isinstance(read, Decision) and read.action == "finish" else ""

    def _new_in(self, answer: str | None) -> str:
        if answer is None or not answer.startswith(self._answer):
            return ""
        new = answer[len(self._answer) :]
        self._answer = answer
        return new


def _answer_in(text: str) -> str | None:
    """The answer in the part of a reply that is written so far, if it is known to be one."""
    try:
        found = _OBJECT.match(after_thinking(text))
        decision = from_json(found[1], allow_partial="trailing-strings") if found else {}
    except ValueError:  # not plain JSON, or not yet
        return None
    final = decision.get("final") if decision.get("action") == "finish" else None
    return final if isinstance(final, str) else None
