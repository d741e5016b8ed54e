"""What a model of a test may say, without a word about the protocol it is asked under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, ToolCall
from pydantic import BaseModel

from langgraph_reflexion.schemas import Decision

Reply: TypeAlias = str | AIMessage | Decision | Mapping[str, Any] | BaseModel | BaseException | type[BaseException]
"""Text and messages are said as they are, data is put in JSON, an exception is raised."""


class ScriptExhausted(AssertionError):  # noqa: N818 — it tells what happened to the script
    """A model is asked for something its script does not hold."""


def call(tool: str, /, **args: Any) -> Decision:
    """Call one tool."""
    return calls((tool, args))


def calls(*wanted: tuple[str, Mapping[str, Any]], thought: str = "") -> Decision:
    """Call several tools in one turn, each given as its name and its arguments."""
    made = [ToolCall(name=tool, args=dict(args), id="") for tool, args in wanted]
    return Decision(action="tool_call", calls=made, thought=thought)


def say(answer: str, *, thought: str = "") -> Decision:
    """Give an answer."""
    return Decision(action="finish", final=answer, thought=thought)


def replan(note: str, *, thought: str = "") -> Decision:
    """Change the plan, and leave a note of it."""
    return Decision(action="replan", final=note, thought=thought)


def ask(question: str, *, thought: str = "") -> Decision:
    """Put a question to the user."""
    return Decision(action="ask_user", final=question, thought=thought)


def reflection(patch: str = "Read the error before the next call.", **fields: Any) -> dict[str, Any]:
    """A whole reflection as a model writes it; `fields` stand in for the plain ones.

    `reflection("Give the weekday.", memory_to_write=[{"kind": "rule", "text": "…"}])`
    """
    plain = {
        "failure_signal": "tool_error",
        "root_cause": "tool_misuse",
        "explanation": "The call did not fit the tool.",
        "fix_strategy": [{"kind": "change_prompt", "text": "Say what the tool expects."}],
        "patch_prompt": patch,
        "memory_to_write": [],
        "confidence": 90,
    }
    return {**plain, **fields}
