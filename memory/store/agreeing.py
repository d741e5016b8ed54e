"""Agreeing: a file and the index it is opened with, before anything is read or written."""

from __future__ import annotations

import json

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store.file import File
from langgraph_reflexion.memory.store.schema import set_setting, setting
from langgraph_reflexion.memory.store.settings import Settings
from langgraph_reflexion.memory.store.writing import remember


def agree(file: File, settings: Settings) -> None:
    """Check the file against the index, and remember the fields for whoever opens it without one."""
    with file.reading() as connection:
        dims, fields = setting(connection, "dims"), setting(connection, "fields")
        others = bool(settings.dims) and dims not in (None, settings.dims)
        used = others and connection.execute("SELECT 1 FROM items WHERE vectors IS NOT NULL LIMIT 1").fetchone()
        query = "SELECT 1 FROM recipes WHERE text = ?"
        known = settings.usual is None or connection.execute(query, (settings.usual,)).fetchone()
    wanted = None if settings.fields is None else json.dumps(settings.fields)
    if used:
        raise StoreError(
            f"the store {file.path!r} holds vectors of {dims} dimensions, the index has {settings.dims}: "
            "open it with the index it was made with, or export it into a new file"
        )
    if (settings.dims and dims != settings.dims) or (wanted and wanted != fields) or not known:
        with file.writing() as connection:
            remember(connection, [settings.usual])
            if settings.dims:
                set_setting(connection, "dims", settings.dims)
            if wanted:
                set_setting(connection, "fields", wanted)
