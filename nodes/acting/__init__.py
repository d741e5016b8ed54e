"""Acting with tools: what may be called, with what, for how long, and what a result or an error means."""
