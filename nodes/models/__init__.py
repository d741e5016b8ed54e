"""Call a model: choose it, build the prompt, use its protocol, and parse the reply."""
