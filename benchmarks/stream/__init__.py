"""A simulated stream of tasks, and the memories that are compared on it."""
