"""The error notebook: what auditors found wrong with finished runs."""
