"""Experiments: run tasks under ten set-ups, evaluate the results, and compare two experiments."""
