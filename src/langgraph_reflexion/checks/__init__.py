"""Checks, ready to use: each gives a verdict on an answer, in an agent, in trials, or called on its own."""

from langgraph_reflexion.checks.plain import rule

__all__ = ["rule"]
