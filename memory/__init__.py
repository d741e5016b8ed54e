"""The memory room."""
