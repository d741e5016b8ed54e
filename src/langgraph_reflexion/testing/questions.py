"""Questions: what a model was asked, with the prompt, the bound tools and the schema of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

Role = Literal["decide", "reflect", "other"]
REFLECTION_FIELDS = ("root_cause", "patch_prompt")
FREE_CHOICES = (None, False, "auto", "none")


@dataclass(frozen=True)
class Question:
    """One request to a model, as a test inspects it afterwards."""

    messages: list[BaseMessage]
    """The prompt."""
    specs: list[dict[str, Any]] = field(default_factory=list)
    """The bound tools in OpenAI's form."""
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
        """What the model is asked for: a decision, a reflection, or other structured data.

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
        """The schema of a bound tool's arguments; `None` for a tool that is not bound."""
        for spec in self.specs:
            if name_of(spec) == tool:
                found: dict[str, Any] = spec.get("function", {}).get("parameters") or {}
                return found
        return None


def read_question(messages: Sequence[BaseMessage], settings: Mapping[str, Any], at: float) -> Question:
    """The question in a prompt and the settings that came with it, in OpenAI's names."""
    specs = list(settings.get("tools") or [])
    forced = _forced_tool(settings.get("tool_choice"), specs)
    asked = Question(list(messages), specs, forced=forced, at=at)
    return replace(asked, schema=asked.parameters(forced) if forced else _schema_in(settings.get("response_format")))


def name_of(spec: Mapping[str, Any]) -> str:
    """The name of a tool in OpenAI's form; a provider's own tool is named by its type."""
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
    """The one tool that must be called; `None` where the model has a choice."""
    if isinstance(choice, Mapping):
        return name_of(choice)
    if choice in FREE_CHOICES:
        return None
    if choice in ("any", "required", True):
        return name_of(specs[0]) if len(specs) == 1 else None
    return str(choice)


def _schema_in(form: Any) -> dict[str, Any] | None:
    """The schema behind a response format; an object of any shape has an empty one."""
    if isinstance(form, type):
        parameters: dict[str, Any] = convert_to_openai_tool(form)["function"]["parameters"]
        return parameters
    if not isinstance(form, Mapping) or form.get("type") == "text":
        return None
    return dict(form.get("json_schema", {}).get("schema") or {})


def _is_reflection(place: Any) -> bool:
    return all(name in place for name in REFLECTION_FIELDS)
