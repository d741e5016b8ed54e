"""Test doubles: scripted chat models, and embeddings made from words."""

from __future__ import annotations

from langgraph_reflexion.testing.models import RoleModel, ScriptedModel, WordEmbeddings
from langgraph_reflexion.testing.script import Question, ScriptExhausted, ask, call, calls, reflection, replan, say

__all__ = [
    "Question",
    "RoleModel",
    "ScriptExhausted",
    "ScriptedModel",
    "WordEmbeddings",
    "ask",
    "call",
    "calls",
    "reflection",
    "replan",
    "say",
]
