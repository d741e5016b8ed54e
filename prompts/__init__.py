"""The prompts room."""
