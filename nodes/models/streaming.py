"""Under the JSON protocol, stream the text of `final` alone, as it comes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, message_chunk_to_message
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import push_message

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.calling import within
from langgraph_reflexion.nodes.host import hears_tokens
from langgraph_reflexion.nodes.models.asking import Reply, asked, received, unheard
from langgraph_reflexion.nodes.models.bindings import Model
from langgraph_reflexion.text.json_text import ESCAPES, QUOTES, join

Reading = Generator[None, str, str]
"""Takes the characters one by one and returns the first that it did not use."""

_THINKING, _THOUGHT = "<think>", "</think>"


class FinalText:
    """Fed a reply in pieces, gives what is new of the top-level `final`, unescaped.

    Text comes only when `action` is known to be `finish`; until then it is held back. What another field or a nested
    object holds never comes, and after something unreadable nothing more.
    """

    def __init__(self) -> None:
        self._ready: list[str] = []
        self._high = ""
        self._reading = self._reply()
        next(self._reading)

    def feed(self, piece: str) -> str:
        """Return the text that this piece adds to the answer."""
        for char in piece:
            self._reading.send(char)
        text = "".join(self._ready)
        self._ready.clear()
        return text

    def _reply(self) -> Reading:
        char = yield from self._thinking()
        before = ""
        while True:
            if char == "{" and before == "[":
                return (yield from _nothing_more())
            if char == "{":
                char, before = (yield from self._object()), "{"
            else:
                before = before if char.isspace() else char
                char = yield

    def _thinking(self) -> Reading:
        """Pass over the reasoning some models write first."""
        char = yield
        while char.isspace():
            char = yield
        for wanted in _THINKING:
            if char != wanted:
                return char
            char = yield
        seen = char
        while not seen.endswith(_THOUGHT):
            seen = (seen + (yield))[-len(_THOUGHT) :]
        return (yield)

    def _object(self) -> Reading:
        """Read one object; a brace that opens none is left to the prose."""
        action, held = "", list[str]()
        certain = False
        char = yield from _blank((yield))
        while char != "}":
            key = list[str]()
            if char in QUOTES:
                certain = True
                char = yield from self._string(char, key)
            else:
                while char.isalnum() or char == "_":
                    key.append(char)
                    char = yield
            char = yield from _blank(char)
            if char != ":":
                return (yield from _nothing_more()) if certain else char
            char = yield from _blank((yield))
            name = "".join(key)
            if char in QUOTES and name == "final":
                char = yield from self._string(char, self._ready if action == "finish" else held)
            elif char in QUOTES and name == "action":
                said = list[str]()
                char = yield from self._string(char, said)
                action = "".join(said)
                if action == "finish":
                    self._ready += held
            else:
                char = yield from self._passed_over(char)
            char = yield from _blank(char)
            if char == ",":
                char = yield from _blank((yield))
            elif char != "}":
                return (yield from _nothing_more())
        if action == "finish":
            return (yield from _nothing_more())
        return (yield)

    def _passed_over(self, char: str) -> Reading:
        """Pass over a value, and count its brackets."""
        open_ = 0
        while True:
            if char in QUOTES:
                char = yield from self._string(char, [])
                if not open_:
                    return char
                continue
            if open_:
                char = yield from _blank(char)
                if char in QUOTES:
                    continue
            if not open_ and (char in ",}]" or char.isspace()):
                return char
            open_ += (char in "{[") - (char in "}]")
            closed = not open_ and char in "}]"
            char = yield
            if closed:
                return char

    def _string(self, quote: str, into: list[str]) -> Reading:
        char = yield
        while char != quote:
            if char != "\\":
                self._unit(char, into)
                char = yield
                continue
            char = yield
            if char != "u":
                for one in ESCAPES.get(char, "\\" + char):
                    self._unit(one, into)
                char = yield
                continue
            digits, char = "", (yield)
            while len(digits) < 4 and char in "0123456789abcdefABCDEF":
                digits += char
                char = yield
            for one in chr(int(digits, 16)) if len(digits) == 4 else "\\u" + digits:
                self._unit(one, into)
        self._flush(into)
        return (yield)

    def _unit(self, char: str, into: list[str]) -> None:
        """Add a character; half of a pair waits for the other half."""
        if self._high and "\udc00" <= char <= "\udfff":
            into.append(join(self._high, char))
            self._high = ""
            return
        self._flush(into)
        if "\ud800" <= char <= "\udbff":
            self._high = char
        else:
            into.append("\ufffd" if "\udc00" <= char <= "\udfff" else char)

    def _flush(self, into: list[str]) -> None:
        if self._high:
            into.append("\ufffd")
            self._high = ""


def _blank(char: str) -> Reading:
    """Pass over white space and comments."""
    while True:
        if char.isspace():
            char = yield
        elif char == "#":
            while char != "\n":
                char = yield
        elif char == "/":
            char = yield
            if char == "/":
                while char != "\n":
                    char = yield
            elif char == "*":
                last, char = "", (yield)
                while (last, char) != ("*", "/"):
                    last, char = char, (yield)
                char = yield
            else:
                return (yield from _nothing_more())
        else:
            return char


def _nothing_more() -> Reading:
    while True:
        yield


def asked_for_object(
    model: Model, messages: Sequence[AnyMessage], config: RunnableConfig, *, seconds: float | None = None
) -> Waits[Reply]:
    """Ask for one object; where tokens are listened to, pass on those of its `final`."""
    if not hears_tokens(config):
        return (yield from asked(model, messages, config, seconds=seconds))
    quiet = unheard(config, "decide")

    def sync() -> Any:
        voice = _Voice()
        for chunk in model.stream(list(messages), quiet):
            voice.hear(chunk)
        return voice.whole()

    async def later() -> Any:
        voice = _Voice()
        async for chunk in model.astream(list(messages), quiet):
            voice.hear(chunk)
        return voice.whole()

    message = yield within(seconds, sync, later)
    return received(message)


class _Voice:
    """Gathers the chunks of a reply and says aloud what belongs to its answer."""

    def __init__(self) -> None:
        self._heard: Any = None
        self._final = FinalText()

    def hear(self, chunk: Any) -> None:
        self._heard = chunk if self._heard is None else self._heard + chunk
        said = self._final.feed(chunk.text)
        if said and self._heard.id:
            push_message(AIMessageChunk(content=said, id=self._heard.id), state_key=None)

    def whole(self) -> AIMessage:
        if self._heard is None:
            return AIMessage("")
        message = message_chunk_to_message(self._heard)
        return message if isinstance(message, AIMessage) else AIMessage(str(message.content))
