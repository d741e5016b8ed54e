"""A request of LangChain's agent, wrapped as a model for our nodes: it takes a prompt and returns a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import StructuredOutputValidationError, ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic_core import to_json

from langgraph_reflexion.driver import default_config
from langgraph_reflexion.nodes.finish import end_message
from langgraph_reflexion.nodes.models.calling import refusal_in
from langgraph_reflexion.nodes.models.prompt import extend_system_message
from langgraph_reflexion.state import State


@dataclass(init=False)
class LessonRequest(ModelRequest[Any]):
    """A request that keeps its lessons if a later middleware replaces the system message, as `dynamic_prompt` does."""

    lessons: str = ""

    def __init__(self, *, lessons: str, **fields: Any) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "lessons", lessons)

    def override(self, **overrides: Any) -> ModelRequest[Any]:
        request = super().override(**overrides)
        system = request.system_message
        if system is not None and self.lessons.splitlines()[0] in system.text:
            return request
        [joined] = extend_system_message([system] if system is not None else [], self.lessons)
        return replace(request, system_message=cast("SystemMessage", joined))


class HandlerModel(Runnable[Any, Any]):
    """A request and its handler as a model, for `decide`: it takes a prompt and returns a message."""

    def __init__(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any], stem: str) -> None:
        self._request, self._handler, self._stem = request, handler, stem
        self.response: ModelResponse[Any] = ModelResponse([])
        """The last response."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        try:
            with default_config(config or {}):
                return self._read(self._handler(self._request_for(input)))
        except StructuredOutputValidationError as error:
            return self._read_misfit(error)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:
        try:
            with default_config(config or {}):
                return self._read(await self._handler(self._request_for(input)))
        except StructuredOutputValidationError as error:
            return self._read_misfit(error)

    def reply(self, state: State, name: str | None) -> ModelResponse[Any]:
        """The model's response for the conversation."""
        pending, response = state["decision"], self.response
        if state["stop"] and pending is not None:
            return ModelResponse([end_message(state, pending, name)])
        message = pending["message"] if pending is not None else state["messages"][-1]
        if message is None or response.structured_response is not None:
            return response
        return replace(response, result=[message if isinstance(part, AIMessage) else part for part in response.result])

    def _request_for(self, messages: Sequence[AnyMessage]) -> ModelRequest[Any]:
        """The request with this prompt. A system message that was among the messages stays there."""
        first, system, theirs = messages[0] if messages else None, self._request.system_message, self._request.messages
        is_theirs = system is None and bool(theirs) and isinstance(theirs[0], SystemMessage)
        if not isinstance(first, SystemMessage) or is_theirs:
            return self._request.override(messages=list(messages))
        lessons = first.text.removeprefix(system.text if system is not None else "").strip()
        request = self._request.override(system_message=first, messages=list(messages[1:]))
        return request if not lessons else LessonRequest(**vars(request), lessons=lessons)

    def _read(self, response: ModelResponse[Any]) -> AIMessage:
        """The reply to parse as a decision. A structured response is an answer. One that does not fit is not."""
        at = next(i for i, message in enumerate(response.result) if isinstance(message, AIMessage))
        reply = cast("AIMessage", response.result[at])
        if reply.id is None:
            reply = reply.model_copy(update={"id": self._stem})
        self.response = replace(response, result=[*response.result[:at], reply, *response.result[at + 1 :]])
        answers = {message.tool_call_id: message for message in response.result if isinstance(message, ToolMessage)}
        if not answers:
            return reply
        calls = [call for call in reply.tool_calls if call["id"] not in answers]
        if (value := response.structured_response) is not None:
            text = reply.content if calls else text_of(value)
            return reply.model_copy(update={"tool_calls": calls, "content": text})
        wrong = [
            invalid_tool_call(name=call["name"], args=text_of(call["args"]), id=call["id"], error=answer.text)
            for call in reply.tool_calls
            if (answer := answers.get(str(call["id"])))
        ]
        return reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": wrong})

    def _read_misfit(self, error: StructuredOutputValidationError) -> AIMessage:
        """Handle an answer that does not fit the response format. If the caller wants the exception, raise it."""
        if isinstance(self._request.response_format, ToolStrategy):
            raise error
        reply = error.ai_message
        self.response = ModelResponse([reply])
        if reply.invalid_tool_calls or refusal_in(reply):  # the model did not try to answer in that format
            return reply
        wrong = invalid_tool_call(name=error.tool_name, args=reply.text, error=str(error.source))
        return reply.model_copy(update={"tool_calls": [], "invalid_tool_calls": [wrong]})


def text_of(value: Any) -> str:
    """A structured response as the text of an answer."""
    return value if isinstance(value, str) else to_json(value).decode()
