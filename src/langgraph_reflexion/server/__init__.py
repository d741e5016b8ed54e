"""What a LangGraph server adds for memory: routes (`"http": {"app": "langgraph_reflexion.server:app"}`) and access."""

from langgraph_reflexion.server.routes import app
from langgraph_reflexion.server.users import own_memory

__all__ = ["app", "own_memory"]
