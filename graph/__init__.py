"""The graph room."""
