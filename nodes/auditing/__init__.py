"""Auditing: the auditors of a finished run, with their prompts, replies and tools, and the self-check during a run."""
