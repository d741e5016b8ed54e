"""Tools: what may be called and with what, and whether the calls go round in a loop."""
