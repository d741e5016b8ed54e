"""The demo: find an appointment offline. Its model is a script and says so. Everything else is real."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool

from langgraph_reflexion.schemas import Run

TASK = (
    "Find one hour for the planning meeting on Tuesday 2026-03-03: it starts on the hour, "
    "strictly after 09:00, and ends by 14:00."
)
ALIKE = TASK.replace("planning", "budget").replace("2026-03-03", "2026-03-10")
BUSY = ((540, 570), (600, 660), (720, 750), (780, 840))
"""In minutes of the day: 09:00-09:30, 10:00-11:00, 12:00-12:30, 13:00-14:00."""

HELLO = f"I am a script that finds a free hour on a day. Ask me, for instance: {TASK} Or say: … and book it."
UNDERSTOOD = re.compile(r"\b(?:hour|time|day|meeting|calendar|free|busy|book|look)s?\b|\d", re.IGNORECASE)
"""Words of a request that the script can handle. It answers anything else by saying what it is."""

LESSON = "Give the calendar a plain weekday name, never a date."
PATCH = "Call busy_times again with the weekday alone, then pick the one free hour."
REFLECTION = {
    "failure_signal": "tool_error",
    "root_cause": "tool_misuse",
    "explanation": "The calendar takes a weekday and was given a date.",
    "fix_strategy": [{"kind": "change_prompt", "text": "Say which form of a day the calendar takes."}],
    "patch_prompt": PATCH,
    "memory_to_write": [
        {
            "kind": "rule",
            "text": LESSON,
            "when": "finding one hour for a meeting that starts on the hour",
            "tags": ["calendar"],
        }
    ],
    "confidence": 95,
}


@tool(description="Look up the busy times of a day in the calendar.")  # `python -OO` has no docstrings
def busy_times(day: str) -> str:
    if re.search(r"\d", day):
        raise ValueError(f"{day!r} is not a weekday: this calendar knows Monday to Friday by name")
    return ", ".join(f"{clock(start)}-{clock(end)}" for start, end in BUSY)


@tool(description="Book the meeting room for an hour, such as 11:00.")
def book(hour: str) -> str:
    return f"booked {hour}"


def is_free(answer: Any, run: Run) -> str | None:
    """Reject a time that is not on the hour, not within the limits or not free, and say which."""
    if run.messages and not _is_request(run.messages):
        return None
    found = re.search(r"\b(\d{1,2}):(\d{2})\b", str(answer))
    if found is None:
        return "The answer names no time."
    start = int(found[1]) * 60 + int(found[2])
    if start % 60:
        return f"{clock(start)} is not on the hour."
    if not 540 < start <= 780:
        return f"{clock(start)} is not after 09:00 with an end by 14:00."
    clash = next((busy for busy in BUSY if start < busy[1] and busy[0] < start + 60), None)
    return f"{clock(start)} overlaps with the busy time {clock(clash[0])}-{clock(clash[1])}." if clash else None


def clock(minute: int) -> str:
    """A minute of the day as a clock time."""
    return f"{minute // 60:02}:{minute % 60:02}"


class ScriptedPlanner(BaseChatModel):
    """Not a language model: fixed rules that make one mistake, unless the prompt advises against it."""

    careful: bool = False
    """Whether it never makes the mistake."""

    @property
    def _llm_type(self) -> str:
        return "scripted-planner"

    def bind_tools(self, tools: Sequence[dict[str, Any] | type | Any | BaseTool], **kwargs: Any) -> Runnable[Any, Any]:
        """Tools do not change a script."""
        return self.bind(**{key: value for key, value in kwargs.items() if key == "stop"})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_reply(messages, self.careful))])


def _reply(messages: Sequence[BaseMessage], careful: bool) -> AIMessage:
    text = "\n".join(message.text for message in messages)
    is_warned = careful or LESSON in text or PATCH in text
    is_reflection = "patch_prompt" in text
    message = AIMessage(json.dumps(REFLECTION)) if is_reflection else _decision(messages, text, is_warned)
    size = len(text) // 4
    message.usage_metadata = {"input_tokens": size, "output_tokens": 20, "total_tokens": size + 20}
    return message


def _decision(messages: Sequence[BaseMessage], text: str, is_warned: bool) -> AIMessage:
    if not _is_request(messages):
        return AIMessage(HELLO)
    # Only messages of the user have an id: a failure message has none and is not a task.
    since = max((i for i, message in enumerate(messages) if message.type == "human" and message.id), default=0)
    results = [message for message in messages[since:] if isinstance(message, ToolMessage)]
    busy = next((found.text for found in results if found.name == "busy_times" and found.status == "success"), None)
    if busy is None:
        dates = re.findall(r"\d{4}-\d{2}-\d{2}", text)
        return _call(messages, "busy_times", day="Tuesday" if is_warned else dates[0] if dates else "2026-03-03")
    hour = _free_hour(busy)
    booking = next((found for found in results if found.name == "book"), None)
    if booking is None:
        wanted = re.search(r"\bbook\b", messages[since].text, re.IGNORECASE)
        return _call(messages, "book", hour=hour) if wanted else AIMessage(f"{hour} is free.")
    if booking.status == "error":
        return AIMessage(f"{hour} is free, and not booked.")
    return AIMessage(f"{booking.text.removeprefix('booked ')} is booked.")


def _is_request(messages: Sequence[BaseMessage]) -> bool:
    return any(message.type == "human" and message.id and UNDERSTOOD.search(message.text) for message in messages)


def _call(messages: Sequence[BaseMessage], name: str, **args: str) -> AIMessage:
    before = sum(bool(getattr(message, "tool_calls", None)) for message in messages)
    return AIMessage("", tool_calls=[tool_call(name=name, args=args, id=f"{name}-{before}-{'-'.join(args.values())}")])


def _free_hour(busy: str) -> str:
    spans = [[int(h) * 60 + int(m) for h, m in re.findall(r"(\d\d):(\d\d)", span)] for span in busy.split(",")]
    hours = [h for h in range(600, 781, 60) if not any(h < end and start < h + 60 for start, end in spans)]
    return clock(hours[0]) if hours else "No hour"
