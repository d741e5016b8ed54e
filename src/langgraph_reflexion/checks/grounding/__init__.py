"""Grounding: what an answer claims by name, number or quotation, and where it comes from."""
