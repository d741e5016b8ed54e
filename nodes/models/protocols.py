"""The protocols for a model: two of ours, and the caller's own. Each returns a `Decision`.

`Native` uses the provider's tool calling, `Json` one object in text, `Parser` a caller's function. Each formats the
conversation, parses a reply, decides what of it to keep in `messages`, and shows an invalid reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.models.calling import stopped_by_provider
from langgraph_reflexion.nodes.models.choice import ToolSpecs
from langgraph_reflexion.nodes.models.decision_json import Invalid, names_a_field, read_object
from langgraph_reflexion.nodes.models.transcript import (
    answer_of,
    bounded,
    calls_in,
    fenced_result,
    media_blocks,
    new_call_id,
    not_run,
    with_ids,
    without_calls,
)
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Action, Decision
from langgraph_reflexion.text.json_text import (
    Parsed,
    UnreadableError,
    after_thinking,
    fold_key,
    only_value,
    without_thinking,
)

QUOTED = 4_000
"""Characters of an invalid reply that are shown to the model again."""

CONTROLS = {
    "replan": ("Write a new plan before you continue. Call it alone.", "plan", "The new plan."),
    "ask_user": ("Ask the user a question and wait. Call it alone.", "question", "The question."),
}
"""The two control tools: the purpose of each, its argument, and the description of the argument."""


class Native:
    """Native tool calling, with several calls in one turn. Text with calls is a thought, text alone is the answer."""

    rules = ""
    """The part of the system message about the format of a reply."""

    def __init__(self, controls: Sequence[str], answer_schema: dict[str, Any] | None = None) -> None:
        """`answer_schema` is the JSON schema of an answer that the model gives as a tool call, named by its title."""
        self.controls = tuple(controls)
        self.answer_schema = answer_schema
        self._answer_tool = None if answer_schema is None else answer_schema["title"]

    def offered(self) -> list[BaseTool]:
        """The tools that are bound in addition to the caller's. Their calls are read, never run."""
        controls = [_control_tool(name) for name in self.controls]
        if self.answer_schema is None:
            return controls
        about = self.answer_schema.get("description") or "Give the answer, and end. Call it alone."
        # Not a dict: some clients take another form than OpenAI's, and convert a tool to it.
        name = self.answer_schema["title"]
        return [*controls, StructuredTool(name=name, description=about, args_schema=self.answer_schema)]

    def to_prompt(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """The conversation in the protocol's format."""
        return list(messages)

    def read(self, reply: AIMessage) -> Decision | Invalid:
        """The decision in a reply."""
        if reply.invalid_tool_calls:
            cut = reply.invalid_tool_calls[0]
            why = cut.get("error") or "the arguments are not a complete JSON object"
            return Invalid("parse_error", f"the call of {cut['name']!r} cannot be read: {bounded(str(why), 500)}")
        if reply.tool_calls and stopped_by_provider(reply):
            return Invalid("parse_error", "the provider stopped the reply in the middle of a call")
        if reply.tool_calls:
            names = [call["name"] for call in reply.tool_calls]
            alone = next((name for name in names if name in self.controls or name == self._answer_tool), None)
            if alone is None:
                return Decision(thought=reply.text, action="tool_call", calls=reply.tool_calls)
            if len(names) > 1:
                return Invalid("rule_violation", f"`{alone}` must be the only call of its turn")
            if alone != self._answer_tool:
                return self._control(reply, alone)
            answer = json.dumps(reply.tool_calls[0]["args"], ensure_ascii=False)
            return Decision(thought=reply.text, action="finish", final=answer)
        if without_thinking(answer := answer_of(reply)):
            return Decision(action="finish", final=answer)
        return Invalid("parse_error", "the reply is empty: it has no text and no call")

    def _control(self, reply: AIMessage, name: str) -> Decision | Invalid:
        argument = CONTROLS[name][1]
        text = reply.tool_calls[0]["args"].get(argument)
        if not isinstance(text, str) or not text.strip():
            return Invalid("schema_error", f"`{name}` needs a text in `{argument}`, got {text!r}")
        return Decision(thought=reply.text, action=cast("Action", name), final=text)

    def to_message(self, reply: AIMessage, decision: Decision, turn: str) -> AIMessage:
        """The reply for `messages`. A call without an id gets one that follows from `turn`."""
        came_as_call = decision.action == "finish" and reply.tool_calls
        return without_calls(reply, decision.final or "") if came_as_call else reply

    def invalid_turn(self, reply: AIMessage, reason: str) -> list[AnyMessage]:
        """An invalid reply as it is shown to the model again."""
        shown = _acceptable_turn(reply)
        answers = [not_run(shown, call, f"Not run: {reason}") for call in calls_in(shown)]
        return [shown, *answers] if answers or reply.text.strip() or _answered_by_provider(reply) else []


def _control_tool(name: str) -> BaseTool:
    description, argument, meaning = CONTROLS[name]
    properties = {argument: {"type": "string", "description": meaning}}
    schema = {"title": name, "type": "object", "properties": properties, "required": [argument]}
    return StructuredTool(name=name, description=description, args_schema=schema)


_WRITTEN_CALL = re.compile(
    r"^[^\w\n]*Action(?: ?\d+)?\s*:[\s`*\"'-]*(\w[\w .-]{0,63}?)[`*\"']*"
    r"((?<! )\(|\s*[\[{]|\s*\((?=[\"'{)]|\w+\s?=)|\s*$)",  # not a bracket with a remark after the name
    re.IGNORECASE | re.MULTILINE,
)
_CALL_MARKS = re.compile(r"```(?:json)?|</tool_call>")


def written_call(text: str, tools: Sequence[str]) -> str | None:
    """The tool that an answer calls in text, as in `Action: Search[x]` or a JSON object, instead of natively."""
    names = {fold_key(name): name for name in tools}
    if (written := _written_object(text)) is not None:
        return names.get(fold_key(str(written.get("name"))))
    if not (calls := list(_WRITTEN_CALL.finditer(text))) or "final answer:" in text.casefold():
        return None
    for call in calls:
        name = names.get(fold_key(call[1]))
        if name is not None and (call[2].strip() or "action input" in text.casefold()):
            return name
    return None


def _written_object(text: str) -> dict[str, Any] | None:
    """The call as open models write it, which some servers do not parse: only `{"name": …, "arguments": {…}}`."""
    if "name" not in text or not text.rstrip().endswith(("}", "```", "</tool_call>")):
        return None
    with suppress(UnreadableError):
        found = only_value(_CALL_MARKS.sub("", after_thinking(text).rpartition("<tool_call>")[2]).strip())
        value = found.value if isinstance(found, Parsed) else None
        if isinstance(value, dict) and value.keys() <= {"type", "id", "name", "arguments", "parameters"}:
            return value if isinstance(value.get("arguments", value.get("parameters")), dict) else None
    return None


def _acceptable_turn(reply: AIMessage) -> AIMessage:
    """An invalid turn that every provider accepts: its calls have valid names and bounded objects as arguments.

    Some servers parse the arguments of earlier calls, and refuse a request in which one is no JSON object.
    """
    unread = [{**call, "name": call["name"] or "", "args": {"cut": call["args"]}} for call in reply.invalid_tool_calls]
    calls = []
    for call in cast("list[ToolCall]", [*reply.tool_calls, *unread]):
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call["name"])[:64] or "unknown"
        written = json.dumps(call["args"], ensure_ascii=False, default=str)
        args = call["args"] if len(written) <= QUOTED else {"cut": bounded(written, QUOTED)}
        calls.append(ToolCall(name=name, args=args, id=call["id"], type="tool_call"))
    content: Any = bounded(reply.content, QUOTED) if isinstance(reply.content, str) else reply.content
    if not isinstance(content, str):
        by_id = {call["id"]: call for call in calls}
        done = _answered_by_provider(reply)
        content = [_acceptable_block(block, by_id) for block in content if not _is_unfinished(block, done)]
    return reply.model_copy(update={"content": content, "tool_calls": calls, "invalid_tool_calls": []})


def _acceptable_block(block: Any, calls: dict[str | None, ToolCall]) -> Any:
    """A content block. OpenAI's Responses API has calls among them, and its client sends these as they are."""
    call = calls.get(block.get("call_id") or block.get("id")) if isinstance(block, dict) else None
    if call is None:
        return block
    args = {"arguments": json.dumps(call["args"], ensure_ascii=False)} if "arguments" in block else {}
    return {**block, "name": call["name"], **args}


def _answered_by_provider(reply: AIMessage) -> set[str]:
    """The ids of the calls of a provider's own tools that have a result, which follows in the same reply."""
    blocks = [block for block in reply.content if isinstance(block, dict)]
    return {found for block in blocks if (found := block.get("tool_use_id") or block.get("tool_call_id"))}


def _is_unfinished(block: Any, done: set[str]) -> bool:
    """Whether a block was cut off, so that its provider refuses it: a call of the provider's own tool without a result,
    or a thought of Anthropic's without its signature."""
    if not isinstance(block, dict):
        return False
    if block.get("type") == "thinking":
        return isinstance(block.get("thinking"), str) and not block.get("signature")
    kinds = ("server_tool_use", "mcp_tool_use", "server_tool_call")
    return block.get("type") in kinds and block.get("id") not in done


class TextProtocol:
    """A protocol with requests and replies as text, with nothing bound to the model."""

    rules = ""

    def invalid_turn(self, reply: AIMessage, reason: str) -> list[AnyMessage]:
        text = bounded(reply.text, QUOTED)
        return [AIMessage(text)] if text.strip() else []


class Json(TextProtocol):
    """One JSON object per turn, for models without tool calling. Calls and results are shown as text."""

    def __init__(
        self, controls: Sequence[str], tools: ToolSpecs, prompts: Prompts, *, allow_prose: bool = False
    ) -> None:
        """With `allow_prose` an answer may also be prose, because without tools it can be nothing else."""
        self.controls = tuple(controls)
        self._allow_prose = allow_prose
        specs = [convert_to_openai_tool(tool)["function"] for tool in tools]
        actions = (["tool_call"] if specs else []) + ["finish", *controls]
        self.rules = prompts.render(
            "rules",
            actions=" or ".join(f'"{action}"' for action in actions),
            controls="".join(prompts.render(name) + "\n" for name in controls),
            tools="\n".join(json.dumps(spec, ensure_ascii=False) for spec in specs) or "none",
        )

    def to_prompt(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        return as_text(messages, object_of)

    def read(self, reply: AIMessage) -> Decision | Invalid:
        if self._allow_prose and without_thinking(reply.text) and not names_a_field(reply.text):
            return Decision(action="finish", final=reply.text)
        return read_object(reply.text, controls=self.controls)

    def to_message(self, reply: AIMessage, decision: Decision, turn: str) -> AIMessage:
        return _in_native_form(reply, decision, decision.thought, turn)


class Parser(TextProtocol):
    """A caller's own parser. No rules are added, and replies are unchanged."""

    def __init__(self, function: Callable[[AIMessage], Decision], controls: Sequence[str]) -> None:
        self._function = function
        self.controls = tuple(controls)

    def to_prompt(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        return as_text(messages, _with_plan)

    def read(self, reply: AIMessage) -> Decision | Invalid:
        try:
            decision = self._function(reply)
        except Exception as error:  # noqa: BLE001 — the caller's own code, whose error is evidence
            return Invalid("parse_error", describe(error))
        if not isinstance(decision, Decision):
            return Invalid("parse_error", f"the parser returned {type(decision).__name__}, not a Decision")
        return decision

    def to_message(self, reply: AIMessage, decision: Decision, turn: str) -> AIMessage:
        return _in_native_form(reply, decision, reply.text, turn)


def _with_plan(message: AIMessage) -> str:
    """A turn as the model wrote it, and the plan that a caller's parser read in it, if it is in other words."""
    plans = [str(call["args"].get("plan", "")) for call in message.tool_calls if call["name"] == "replan"]
    text = "\n".join([message.text, *(plan for plan in plans if plan not in message.text)])
    return text if message.text else object_of(message)


def _in_native_form(reply: AIMessage, decision: Decision, text: str, turn: str) -> AIMessage:
    """The reply as if the model had called tools natively."""
    calls = decision.calls
    if decision.action == "replan":
        calls = [ToolCall(name="replan", args={"plan": decision.final}, id="", type="tool_call")]
    calls = [{**call, "id": call["id"] or new_call_id(turn, i)} for i, call in enumerate(calls)]
    content = text if calls else decision.final or ""
    return with_ids(reply.model_copy(update={"content": content, "tool_calls": calls, "invalid_tool_calls": []}))


ModelProtocol = Native | Json | Parser
"""How to talk to a model."""

# ---------------------------------------------------------------- a conversation as text


def as_text(messages: Sequence[AnyMessage], turn_text: Callable[[AIMessage], str]) -> list[AnyMessage]:
    """The conversation without calls: turns as text, results as user messages, adjacent user messages joined.

    A turn without an id is an invalid reply, shown unchanged.
    """
    out: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            label = "Error of" if message.status == "error" else "Observation of"
            text, media = f"{label} {message.name or 'the call'}:\n{fenced_result(message)}", media_blocks(message)
            _join(out, HumanMessage([{"type": "text", "text": text}, *media] if media else text))
        elif isinstance(message, AIMessage) and (message.tool_calls or message.id is not None):
            out.append(AIMessage(turn_text(message)))
        elif isinstance(message, HumanMessage):
            _join(out, message)
        else:
            out.append(message)
    return out


def _join(out: list[AnyMessage], message: HumanMessage) -> None:
    before = out[-1] if out else None
    if not isinstance(before, HumanMessage):
        out.append(message)
    elif isinstance(before.content, str) and isinstance(message.content, str):
        out[-1] = HumanMessage(f"{before.content}\n\n{message.content}")
    else:
        out[-1] = HumanMessage([*_blocks_of(before), *_blocks_of(message)])


def _blocks_of(message: HumanMessage) -> list[str | dict[Any, Any]]:
    return [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content


def object_of(message: AIMessage) -> str:
    """A turn as the JSON object that the model wrote or would have written."""
    objects = [{"thought": message.text, **_fields_of(call)} for call in message.tool_calls]
    if not objects:
        objects = [{"thought": "", "action": "finish", "tool": None, "tool_input": None, "final": message.text}]
    return "\n".join(json.dumps(fields, ensure_ascii=False, default=str) for fields in objects)


def _fields_of(call: ToolCall) -> dict[str, Any]:
    control = CONTROLS.get(call["name"])
    if control is not None and control[1] in call["args"]:
        return {"action": call["name"], "tool": None, "tool_input": None, "final": call["args"][control[1]]}
    return {"action": "tool_call", "tool": call["name"], "tool_input": call["args"], "final": None}
