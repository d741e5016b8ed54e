"""The graphs: which step follows which, and the factories that callers use."""

from langgraph_reflexion.graph.agent import create_reflexion_agent

__all__ = ["create_reflexion_agent"]
