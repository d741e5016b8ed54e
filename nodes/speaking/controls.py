"""Controls: the two small tools by which a model that calls tools may plan anew, or ask the user."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

CONTROLS = {
    "replan": ("Set down a new plan before going on. Stands alone in its turn.", "plan", "The new plan."),
    "ask_user": ("Ask the user a question and wait. Stands alone in its turn.", "question", "The question."),
}
"""What each is for, its argument, and what the argument holds."""


def control_tool(name: str) -> BaseTool:
    """What is offered to the model: read where it is called, never run."""
    words, argument, meaning = CONTROLS[name]
    schema = {
        "title": name,
        "type": "object",
        "properties": {argument: {"type": "string", "description": meaning}},
        "required": [argument],
    }
    return StructuredTool(name=name, description=words, args_schema=schema, func=_never)


def _never(**_: Any) -> str:
    raise AssertionError("a control tool is read, never run")
