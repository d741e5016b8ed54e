"""The steps: each reads the state and returns what it changed. `speaking` and `acting` hold what they do it with."""
