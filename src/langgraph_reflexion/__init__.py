"""LangGraph agents that learn from their own failures."""
