"""LangGraph agents that learn from their own failures."""

from langgraph_reflexion.context import Context, Limits, MemoryPolicy
from langgraph_reflexion.graph import create_reflexion_agent
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import (
    Attempt,
    Decision,
    Episode,
    Failure,
    Lesson,
    Outcome,
    Reflection,
    Run,
    Verdict,
)

__all__ = [
    "Attempt",
    "Context",
    "Decision",
    "Episode",
    "Failure",
    "Lesson",
    "LessonBook",
    "Limits",
    "MemoryPolicy",
    "Outcome",
    "Reflection",
    "Run",
    "Verdict",
    "create_reflexion_agent",
]
