"""Under the JSON protocol, stream only the text of `final`, while the decision is still being written."""

from __future__ import annotations

import re
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph.message import push_message

from langgraph_reflexion.nodes.models.choice import Model
from langgraph_reflexion.text.json_text import Broken, UnreadableError, after_thinking, unescape, values_in

MAX_READS = 50
"""Parses of a reply while it arrives. Two are enough for a real one. A reply that needs more is not streamed."""
MAX_EVENT = 40
"""Characters that may come in pieces: a key, its colon and the quote after it."""
_EVENT = re.compile(r"""final["']?\s*:\s*["']|action["']?\s*:\s*["']\w+["']|</think>|\*/""")
"""Fields that start an answer, or show that earlier text is an answer."""
_CHARACTER = re.compile(
    r"[^\\\"'\ud800-\udbff]+|[^\\]|\\u(?:[0-9a-fA-F]{4}|[0-9a-fA-F]{0,3}(?=[^0-9a-fA-F]))|\\[^u]", re.DOTALL
)
"""Plain characters of a string, or one escape, if it is complete."""
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}|[\ud800-\udbff]")
"""The first half of a character, which waits for the other."""


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
        text = self._final.feed(chunk.text)
        if text and self._chunks.id:
            push_message(AIMessageChunk(content=text, id=self._chunks.id), state_key=None)

    def message(self) -> AIMessage:
        return cast("AIMessage", message_chunk_to_message(self._chunks))


class FinalText:
    """Takes a reply in pieces, and returns the new unescaped text of the top-level `final`.

    Text is held back until `action` is known to be `finish`. Text of other fields or nested objects is never returned.
    """

    def __init__(self) -> None:
        self._text = ""
        self._looked = 0
        self._reads = 0
        self._at: int | None = None
        """Where to continue in the string of `final`, once it is open and known to be the answer."""
        self._quote = ""
        self._done = False

    def feed(self, piece: str) -> str:
        """Return the text that this piece adds to the answer."""
        if self._done:
            return ""
        self._text += piece
        if self._at is not None:
            return self._read_answer()
        if not self._may_have_answer():
            return ""
        try:
            return self._find_answer(after_thinking(self._text))
        except UnreadableError:  # perhaps only until more text arrives
            return ""

    def _may_have_answer(self) -> bool:
        """Whether the new text may open the answer, so that the reply must be read again."""
        events = [event.end() for event in _EVENT.finditer(self._text, self._looked)]
        self._looked = max([self._looked, len(self._text) - MAX_EVENT, *events])
        self._reads += bool(events)
        self._done = self._reads > MAX_READS
        return bool(events) and not self._done

    def _find_answer(self, text: str) -> str:
        """Look for the decision, and for its `final`."""
        for found in values_in(text):
            fields = getattr(found, "fields", None) or getattr(found, "value", None)
            if not isinstance(fields, dict) or text[: found.start].rstrip().endswith("["):
                continue
            action = fields.get("action")
            if action in ("tool_call", "replan", "ask_user"):
                self._done = True
            elif action == "finish" and isinstance(fields.get("final"), str):
                self._done = True
                return str(fields["final"])
            elif (
                action == "finish"
                and isinstance(found, Broken)
                and (found.open_key, found.depth) == ("final", 1)
                and text[found.at : found.at + 1] in ("'", '"')
            ):
                self._at = len(self._text) - len(text) + found.at + 1
                self._quote = text[found.at]
                return self._read_answer()
        return ""

    def _read_answer(self) -> str:
        """Return the new text of the open string."""
        start = at = self._at or 0
        high = start
        while (char := _CHARACTER.match(self._text, at)) and char[0] != self._quote:
            # The first half of a character waits for the second.
            high = at if _HIGH.fullmatch(char[0]) else char.end()
            at = char.end()
        self._done = char is not None and char[0] == self._quote
        end = at if self._done else high
        self._at = end
        return unescape(self._text[start:end])
