"""A simulated stream of tasks with hidden rules, and the memories that are put on it. No model takes part."""
