"""Auditing: the prompts and replies of the auditors of a finished run, and the files they may read."""
