"""Under the JSON protocol the user hears the text of `final` alone, as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, message_chunk_to_message
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import push_message

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.nodes.acting.timing import within
from langgraph_reflexion.nodes.host import hears_tokens
from langgraph_reflexion.nodes.speaking.bindings import Model
from langgraph_reflexion.nodes.speaking.final_text import FinalText
from langgraph_reflexion.nodes.speaking.models import Reply, asked, received, unheard


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
