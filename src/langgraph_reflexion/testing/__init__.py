"""Doubles for tests, ours and users': models that answer by script, a local provider, embeddings of words."""

from __future__ import annotations

from langgraph_reflexion.testing.embeddings import WordEmbeddings
from langgraph_reflexion.testing.models import (
    RoleModel,
    ScriptedModel,
    TextOnlyRoleModel,
    TextOnlyScriptedModel,
)
from langgraph_reflexion.testing.moods import Mood
from langgraph_reflexion.testing.questions import Question
from langgraph_reflexion.testing.replies import ScriptExhausted, ask, call, calls, reflection, replan, say
from langgraph_reflexion.testing.server import ModelServer
from langgraph_reflexion.testing.student import Student

__all__ = [
    "ModelServer",
    "Mood",
    "Question",
    "RoleModel",
    "ScriptExhausted",
    "ScriptedModel",
    "Student",
    "TextOnlyRoleModel",
    "TextOnlyScriptedModel",
    "WordEmbeddings",
    "ask",
    "call",
    "calls",
    "reflection",
    "replan",
    "say",
]
