"""Auditing: what is asked about a finished run, what is made of the replies, and what an auditor may read."""
