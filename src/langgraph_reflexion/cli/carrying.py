"""Carrying: lessons leave a store as JSON Lines, and come into one."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from langgraph_reflexion.cli.desk import Desk
from langgraph_reflexion.cli.on_store import note
from langgraph_reflexion.cli.page import told
from langgraph_reflexion.cli.wrong_use import WrongUse
from langgraph_reflexion.errors import LessonError
from langgraph_reflexion.memory.exchange import write_lines


def export(desk: Desk) -> int:
    """Write lessons to a file, or to standard output."""
    found, file = desk.book.lessons(**desk.filters), desk.asked.file
    if not found:
        desk.nothing()
    if file == "-":
        write_lines(found, in_utf8(sys.stdout))
        sys.stdout.flush()
        return 0
    if not found:
        note(f"{file} was not written.")
        return 1
    try:
        if _is_database(file):
            raise WrongUse(f"{file} is a database, and lines in its place would be the end of it")
        write_lines(found, file)
    except OSError as fault:
        raise WrongUse(f"cannot write {file}: {fault.strerror or fault}") from fault
    _counted(desk, f"{told(len(found), 'lesson')} written to {file}", {"exported": len(found), "file": file})
    return 0


def _is_database(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    with path.open("rb") as opened:
        return opened.read(16) == b"SQLite format 3\0"


def load(desk: Desk) -> int:
    """Keep the lessons of a file that are new here."""
    file, strict, update = desk.asked.file, not desk.asked.keep_going, desk.asked.update
    try:
        loaded = desk.book.load(in_utf8(sys.stdin) if file == "-" else file, strict=strict, update=update)
    except OSError as fault:
        raise WrongUse(f"cannot read {file}: {fault.strerror or fault}") from fault
    except UnicodeDecodeError as fault:
        raise LessonError(f"{file} is no UTF-8 text; nothing was imported") from fault
    except LessonError as fault:
        raise LessonError(f"{file}: {fault}; nothing was imported, --keep-going skips such lines") from fault
    changed = f", {loaded.changed} reworded" if loaded.changed else ""
    skipped = f", {told(loaded.skipped, 'bad line')} skipped" if loaded.skipped else ""
    said = f"{told(loaded.added, 'lesson')} added to {desk.place}{changed}, {loaded.unchanged} known already{skipped}"
    _counted(desk, said, asdict(loaded))
    if loaded.otherwise:
        way = "its words look like a trick" if update else "--update takes the words of the file"
        note(f"{told(loaded.otherwise, 'lesson')} in {file} with other words than here, where nothing changed: {way}.")
    return 0


def _counted(desk: Desk, said: str, counts: dict[str, Any]) -> None:
    if desk.json:
        desk.page.data(counts)
    else:
        desk.page.line(said)


def in_utf8(stream: TextIO) -> TextIO:
    """A standard stream as lines of JSON want it, whatever the terminal's encoding."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream
