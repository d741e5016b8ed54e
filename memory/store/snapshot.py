"""The snapshot: short codes kept beside the file, so that a large store answers soon after it is opened.

It is never the truth: each code is used only for an item whose vectors, as the file has them, are those it was made
from. What is missing, damaged, of another file or out of date is computed again.
"""

from __future__ import annotations

import sqlite3

from langgraph_reflexion.memory.store.file import File
from langgraph_reflexion.memory.store.mirror import Mirror


def save(file: File, mirror: Mirror) -> None:
    """Keep the codes of the mirror beside the file."""


def load(file: File, connection: sqlite3.Connection, mirror: Mirror) -> None:
    """Take the codes that still hold into the mirror."""
