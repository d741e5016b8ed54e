"""The nodes of the graph, one file each. A node reads the state and returns what it changed."""
