"""The steps of a run, one file each: a node reads the state and returns what it changed."""
