"""The graphs: which node follows which, and the factories that callers use."""

from langgraph_reflexion.graph.after_run import after_run
from langgraph_reflexion.graph.agent import create_reflexion_agent
from langgraph_reflexion.graph.trials import create_trial_graph

__all__ = ["after_run", "create_reflexion_agent", "create_trial_graph"]
