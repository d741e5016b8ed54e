"""The requests to a scripted model and its replies, complete or streamed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from langgraph_reflexion.schemas import Decision
from langgraph_reflexion.text import hash_of

Role = Literal["decide", "reflect", "other"]
REFLECTION_FIELDS = ("root_cause", "patch_prompt")
FREE_CHOICES = (None, False, "auto", "none")


@dataclass(frozen=True)
class Question:
    """One request to a model, for a test to inspect."""

    messages: list[BaseMessage]
    """The prompt."""
    specs: list[dict[str, Any]] = field(default_factory=list)
    """The bound tools in OpenAI's format."""
    schema: dict[str, Any] | None = None
    """The JSON schema the answer must fit, if there is one."""
    forced: str | None = None
    """The tool the answer must call, if there is one."""
    at: float = 0.0
    """The time of the request, on the monotonic clock."""

    @property
    def tools(self) -> list[str]:
        """The names of the bound tools."""
        return [name_of(spec) for spec in self.specs]

    @property
    def text(self) -> str:
        """The text of the whole prompt, tool calls included."""
        return "\n\n".join(text_of(message) for message in self.messages)

    @property
    def system(self) -> str:
        """The text of the system messages."""
        return "\n\n".join(text_of(message) for message in self.messages if message.type == "system")

    @property
    def last(self) -> BaseMessage:
        """The last message of the prompt."""
        return self.messages[-1]

    @property
    def in_json(self) -> bool:
        """Whether the decision is one JSON object instead of native tool calls."""
        return not self.specs and "tool_input" in self.text

    @property
    def role(self) -> Role:
        """The kind of request: a decision, a reflection, or other structured data.

        The schema decides first. The words of the prompt count only where no tools are bound, because a
        conversation may quote a reflection.
        """
        fields = (self.schema or {}).get("properties") or {}
        if _is_reflection(fields):
            return "reflect"
        if self.specs and self.forced is None:
            return "decide"
        if self.forced is None and _is_reflection(self.text):
            return "reflect"
        return "decide" if self.schema is None or "tool_input" in (fields or self.text) else "other"

    def parameters(self, tool: str) -> dict[str, Any] | None:
        """The schema of a bound tool's arguments. `None` for a tool that is not bound."""
        named = (spec.get("function", {}) for spec in self.specs if name_of(spec) == tool)
        return next((function.get("parameters") or {} for function in named), None)


def read_question(messages: Sequence[BaseMessage], settings: Mapping[str, Any], at: float) -> Question:
    """The question made from a prompt and its settings, which have OpenAI's names."""
    specs = list(settings.get("tools") or [])
    forced = _forced_tool(settings.get("tool_choice"), specs)
    asked = Question(list(messages), specs, forced=forced, at=at)
    return replace(asked, schema=asked.parameters(forced) if forced else _schema_in(settings.get("response_format")))


def name_of(spec: Mapping[str, Any]) -> str:
    """The name of a tool in OpenAI's format. A provider's own tool is named by its type."""
    return str(spec.get("function", {}).get("name") or spec.get("name") or spec.get("type"))


def text_of(message: BaseMessage) -> str:
    """The text of a message, and its tool calls as JSON."""
    parts = [str(message.text)]
    if isinstance(message, AIMessage):
        made = [*message.tool_calls, *message.invalid_tool_calls]
        written = [{"name": tool_call["name"], "args": tool_call["args"]} for tool_call in made]
        parts += [json.dumps(tool_call, ensure_ascii=False, default=str) for tool_call in written]
    return "\n".join(part for part in parts if part)


def _forced_tool(choice: Any, specs: list[dict[str, Any]]) -> str | None:
    """The only tool that must be called. `None` if the model has a choice."""
    if isinstance(choice, Mapping):
        return name_of(choice)
    if choice in FREE_CHOICES:
        return None
    if choice in ("any", "required", True):
        return name_of(specs[0]) if len(specs) == 1 else None
    return str(choice)


def _schema_in(form: Any) -> dict[str, Any] | None:
    """The schema of a response format. An object of any shape has an empty one."""
    if isinstance(form, type):
        parameters: dict[str, Any] = convert_to_openai_tool(form)["function"]["parameters"]
        return parameters
    if not isinstance(form, Mapping) or form.get("type") == "text":
        return None
    return dict(form.get("json_schema", {}).get("schema") or {})


def _is_reflection(place: Any) -> bool:
    return all(name in place for name in REFLECTION_FIELDS)


Reply: TypeAlias = str | AIMessage | Decision | Mapping[str, Any] | BaseModel | BaseException | type[BaseException]
"""Text and messages are returned as they are, data as JSON, decisions in the protocol in use; exceptions are raised."""


class ScriptExhausted(AssertionError):  # noqa: N818 — it describes the script
    """A model was asked for something that is not in its script."""


# ------------------------------------------------------------ what a script says


def call(tool: str, /, **args: Any) -> Decision:
    """Call one tool."""
    return calls((tool, args))


def calls(*wanted: tuple[str, Mapping[str, Any]], thought: str = "") -> Decision:
    """Call several tools in one turn, each given as its name and its arguments."""
    tool_calls = [ToolCall(name=tool, args=dict(args), id="") for tool, args in wanted]
    return Decision(action="tool_call", calls=tool_calls, thought=thought)


def say(answer: str, *, thought: str = "") -> Decision:
    """Give the answer."""
    return Decision(action="finish", final=answer, thought=thought)


def replan(note: str, *, thought: str = "") -> Decision:
    """Change the plan, with a note about the new one."""
    return Decision(action="replan", final=note, thought=thought)


def ask(question: str, *, thought: str = "") -> Decision:
    """Ask the user a question."""
    return Decision(action="ask_user", final=question, thought=thought)


def reflection(patch: str = "Read the error before the next call.", **fields: Any) -> dict[str, Any]:
    """A complete reflection as a model writes it. `fields` replace the defaults.

    `reflection("Give the weekday.", memory_to_write=[{"kind": "rule", "text": "…"}])`
    """
    defaults = {
        "failure_signal": "tool_error",
        "root_cause": "tool_misuse",
        "explanation": "The call did not fit the tool.",
        "fix_strategy": [{"kind": "change_prompt", "text": "Say what the tool expects."}],
        "patch_prompt": patch,
        "memory_to_write": [],
        "confidence": 90,
    }
    return {**defaults, **fields}


# ------------------------------------------------------------ the message it becomes


def render(reply: Reply, question: Question, number: int) -> AIMessage:
    """The message for a reply. `number` gives the calls of a repeated question different ids."""
    if isinstance(reply, AIMessage):
        # A copy, because LangChain writes the run's id into the message.
        message = reply.model_copy(deep=True)
    elif isinstance(reply, str):
        message = AIMessage(content=reply)
    elif isinstance(reply, Decision):
        message = _decision_message(reply, question)
    elif isinstance(reply, Mapping):
        message = _data_message(dict(reply), question)
    elif isinstance(reply, BaseModel):
        message = _data_message(reply.model_dump(mode="json", exclude_unset=True), question)
    else:
        raise TypeError(f"A reply is text, a message, a decision, data or an exception, got {reply!r}")
    for index, tool_call in enumerate(message.tool_calls):
        tool_call["id"] = tool_call["id"] or _call_id(question, number, index)
    return message


def _decision_message(decision: Decision, question: Question) -> AIMessage:
    if question.in_json:
        return AIMessage(content=_to_json(_json_decision(decision)))
    if decision.action == "finish":
        return AIMessage(content=decision.final or "")
    made = decision.calls or [_control_call(decision, question)]
    return AIMessage(content=decision.thought, tool_calls=[ToolCall(**tool_call) for tool_call in made])


def _json_decision(decision: Decision) -> dict[str, Any]:
    if len(decision.calls) > 1:
        raise ValueError(f"One JSON object calls one tool, got {len(decision.calls)} calls")
    wanted = decision.calls[0] if decision.calls else None
    return {
        "thought": decision.thought,
        "action": decision.action,
        "tool": wanted["name"] if wanted else None,
        "tool_input": wanted["args"] if wanted else None,
        "final": decision.final,
    }


def _control_call(decision: Decision, question: Question) -> ToolCall:
    """A call of the control tool named like the action, which takes one text."""
    parameters = question.parameters(decision.action)
    if parameters is None:
        raise ValueError(f"`{decision.action}` needs a control tool of that name, got {question.tools}")
    names = parameters.get("required") or list(parameters.get("properties", {}))
    return ToolCall(name=decision.action, args=dict.fromkeys(names[:1], decision.final), id="")


def _data_message(data: dict[str, Any], question: Question) -> AIMessage:
    if question.forced:
        return AIMessage(content="", tool_calls=[ToolCall(name=question.forced, args=data, id="")])
    return AIMessage(content=_to_json(data))


def _to_json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def _call_id(question: Question, number: int, index: int) -> str:
    """An id that is the same for the same conversation and different for any other question."""
    story = "\n".join([str(number), str(index), *(text_of(message) for message in question.messages)])
    return f"call_{hash_of(story, 16)}"


# ------------------------------------------------------------ the message streamed


def chunks_of(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Chunks that add up to the message: words, calls in halves, token counts last, as a provider streams them."""
    content = message.content
    # Content of one message is either text or blocks in every chunk: mixed, they would not add up.
    empty: Any = "" if isinstance(content, str) else []
    parts: Any = re.findall(r"\s*\S+|\s+$", content) if isinstance(content, str) else [[block] for block in content]
    yield AIMessageChunk(content=empty, additional_kwargs=message.additional_kwargs)
    for part in parts:
        yield AIMessageChunk(content=part)
    for call_chunk in _call_chunks(message):
        yield AIMessageChunk(content=empty, tool_call_chunks=[call_chunk])
    yield AIMessageChunk(
        content=empty,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


def _call_chunks(message: AIMessage) -> Iterator[ToolCallChunk]:
    written = [(made["name"], made["id"], _to_json(made["args"])) for made in message.tool_calls]
    written += [(bad["name"] or "", bad["id"], bad["args"] or "") for bad in message.invalid_tool_calls]
    for index, (name, call_id, args) in enumerate(written):
        half = len(args) // 2
        yield tool_call_chunk(name=name, id=call_id, args="", index=index)
        for part in (args[:half], args[half:]):
            yield tool_call_chunk(args=part, index=index)
