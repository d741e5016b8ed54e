"""Test doubles: scripted chat models, and embeddings made from words."""

from __future__ import annotations

from langgraph_reflexion.testing.embeddings import WordEmbeddings
from langgraph_reflexion.testing.models import (
    RoleModel,
    ScriptedModel,
    TextOnlyRoleModel,
    TextOnlyScriptedModel,
)
from langgraph_reflexion.testing.questions import Question
from langgraph_reflexion.testing.replies import ScriptExhausted, ask, call, calls, reflection, replan, say

__all__ = [
    "Question",
    "RoleModel",
    "ScriptExhausted",
    "ScriptedModel",
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
