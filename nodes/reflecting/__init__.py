"""Reflecting: what a reflection is asked, and how its reply is read."""
