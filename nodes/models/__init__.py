"""Ask a model: which one, with what prompt, under which protocol, and what its reply means."""
