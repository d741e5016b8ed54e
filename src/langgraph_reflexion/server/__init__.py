"""The routes that a LangGraph server adds for memory: `"http": {"app": "langgraph_reflexion.server:app"}`."""

from langgraph_reflexion.server.routes import app

__all__ = ["app"]
