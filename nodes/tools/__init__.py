"""Tools: which may be called, their arguments, and the detection of loops."""
