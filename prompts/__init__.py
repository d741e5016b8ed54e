"""Words for the model, as text files: one file a prompt, named after what speaks it."""

from langgraph_reflexion.prompts.library import Prompts

__all__ = ["Prompts"]
