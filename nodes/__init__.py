"""The nodes of the graph, one file each, and what they share. A node reads the state and returns what it changed."""
