"""What a model is asked: the prompt, the tools bound, the form the answer must have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

Role = Literal["decide", "reflect", "other"]
REFLECTION_FIELDS = ("root_cause", "patch_prompt")
FREE_CHOICES = (None, False, "auto", "none")


@dataclass(frozen=True)
class Question:
    """One question to a model, as a test looks at it afterwards."""

    messages: list[BaseMessage]
    """The prompt."""
    specs: list[dict[str, Any]] = field(default_factory=list)
    """The bound tools in OpenAI's form."""
    schema: dict[str, Any] | None = None
    """The JSON schema the answer must fit, where one is asked for."""
    forced: str | None = None
    """The tool the answer must call, where one is."""
    at: float = 0.0
    """When it was asked, on the monotonic clock."""

    @property
    def tools(self) -> list[str]:
        """The names of the bound tools."""
        return [name_of(spec) for spec in self.specs]

    @property
    def text(self) -> str:
        """All a model reads of the prompt, tool calls too."""
        return "\n\n".join(text_of(message) for message in self.messages)

    @property
    def system(self) -> str:
        """What the prompt says in the system role."""
        return "\n\n".join(text_of(message) for message in self.messages if message.type == "system")

    @property
    def last(self) -> BaseMessage:
        """The last message of the prompt."""
        return self.messages[-1]

    @property
    def in_json(self) -> bool:
        """Whether a decision is wanted as one JSON object, and not as native calls."""
        return not self.specs and "tool_input" in self.text

    @property
    def role(self) -> Role:
        """What is asked for: a decision, a reflection, or something else in a form of its own.

        The schema tells a reflection first. Only where no tools are bound do the words of the prompt,
        since a conversation may quote what a reflection looks like.
        """
        fields = (self.schema or {}).get("properties") or {}
        if _holds(fields):
            return "reflect"
        if self.specs and self.forced is None:
            return "decide"
        if self.forced is None and _holds(self.text):
            return "reflect"
        return "decide" if self.schema is None or "tool_input" in (fields or self.text) else "other"

    def parameters(self, tool: str) -> dict[str, Any] | None:
        """The schema of a bound tool's arguments; `None` for a tool that is not bound."""
        for spec in self.specs:
            if name_of(spec) == tool:
                found: dict[str, Any] = spec.get("function", {}).get("parameters") or {}
                return found
        return None


def question(messages: Sequence[BaseMessage], settings: Mapping[str, Any], at: float) -> Question:
    """Read a question from a prompt and the settings that came with it, in OpenAI's names."""
    specs = list(settings.get("tools") or [])
    asked = Question(list(messages), specs, at=at, forced=_forced(settings.get("tool_choice"), specs))
    schema = asked.parameters(asked.forced) if asked.forced else _form(settings.get("response_format"))
    return Question(asked.messages, specs, schema, asked.forced, at)


def name_of(spec: Mapping[str, Any]) -> str:
    """The name of a tool in OpenAI's form; a provider's own tool is named by its type."""
    return str(spec.get("function", {}).get("name") or spec.get("name") or spec.get("type"))


def text_of(message: BaseMessage) -> str:
    """The text of a message, and its tool calls as JSON."""
    parts = [str(message.text)]
    if isinstance(message, AIMessage):
        made = [*message.tool_calls, *message.invalid_tool_calls]
        written = [{"name": one["name"], "args": one["args"]} for one in made]
        parts += [json.dumps(one, ensure_ascii=False, default=str) for one in written]
    return "\n".join(part for part in parts if part)


def _forced(choice: Any, specs: list[dict[str, Any]]) -> str | None:
    """The one tool that must be called; `None` where the model has a choice."""
    if isinstance(choice, Mapping):
        return name_of(choice)
    if choice in FREE_CHOICES:
        return None
    if choice in ("any", "required", True):
        return name_of(specs[0]) if len(specs) == 1 else None
    return str(choice)


def _form(form: Any) -> dict[str, Any] | None:
    """The schema behind a response format; an object of any shape has an empty one."""
    if isinstance(form, type):
        parameters: dict[str, Any] = convert_to_openai_tool(form)["function"]["parameters"]
        return parameters
    if not isinstance(form, Mapping) or form.get("type") == "text":
        return None
    return dict(form.get("json_schema", {}).get("schema") or {})


def _holds(place: Any) -> bool:
    return all(name in place for name in REFLECTION_FIELDS)
