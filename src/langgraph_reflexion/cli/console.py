"""Console output with `rich`: lines, tables and JSON, with control characters in foreign text made visible."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from pydantic import ValidationError
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from langgraph_reflexion.text.json_text import escape_invisible

WIDEST = 100
"""Columns of text on a wide terminal: longer lines are hard to read."""
NEVER_FOLDED = 100_000
"""Columns where there is no terminal, so that a row or sentence is one line for `grep`."""
MAX_ERROR = 400
"""Characters of an exception in an error message: the first paragraph of a provider's error fits."""
MAX_LINE = 240
"""Characters of a tool's result or a failure in a trace: about three lines of a terminal."""
LEAST_FOLDED = 24
"""Columns that the last cell of a row needs beside the others: about four words."""
INDENT = " " * 6
ANSI = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")


class WrongUse(Exception):  # noqa: N818 — the user's mistake, not the program's
    """The command is wrong. The message says why and what to do instead."""


@contextmanager
def wrong_values() -> Iterator[None]:
    """Report a value that the library refuses as wrong use."""
    try:
        yield
    except ValueError as error:
        raise WrongUse(summarize(error)) from error


def summarize(error: BaseException) -> str:
    """An exception in one line: what a validator says, else its first paragraph."""
    invalid = error if isinstance(error, ValidationError) else error.__cause__
    if isinstance(invalid, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}".lstrip(": ") for e in invalid.errors())
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}…"


class Page:
    """Where a command writes: in colour and folded on a terminal, plain and unfolded elsewhere, as rich decides.

    Texts are never read as markup.
    """

    def __init__(self, file: TextIO, *, width: int | None = None) -> None:
        if isinstance(file, io.TextIOWrapper):
            file.reconfigure(errors="replace")
        terminal = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
        self._file = file
        self._console = Console(
            file=file,
            width=width or (terminal if file.isatty() else NEVER_FOLDED),
            color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich alone would keep what is bold
            markup=False,
            emoji=False,
            highlight=False,
        )

    def line(self, text: str = "", style: str = "", *, lead: str = "", mark: str = "") -> None:
        """A paragraph folded under itself, after a plain lead and a mark in the style of the text."""
        body = Text(clean(text), style)
        if not lead and not mark:
            self._print(body)
            return
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(lead) + Text(f"{mark} " if mark else "", style), body)
        self._print(grid)

    def command(self, text: str, style: str = "", *, lead: str = "") -> None:
        """A line to copy, never folded."""
        self._console.print(Text(lead) + Text(clean(text), style), soft_wrap=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows under their head, if any. On a terminal the last cell is folded, if need be below the others."""
        if not rows:
            return
        cells = [[" ".join(clean(cell).split()) for cell in row] for row in rows]
        widths = [max(map(cell_len, column)) for column in list(zip(head, *cells, strict=True))[:-1]]
        if self._console.width - sum(widths) - 2 * len(widths) < LEAST_FOLDED:
            for style, row in zip(("dim", *("" for _ in cells)), (head, *cells), strict=True):
                self.command("  ".join(map(set_cell_size, row, widths)).rstrip(), style)
                if row[-1]:
                    self.line(row[-1], style, lead="  ")
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for number, name in enumerate(head, 1):
            table.add_column(name, no_wrap=number < len(head), overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        self._print(table)

    def fields(self, values: Mapping[str, Any], *, title: str = "") -> None:
        """Named values under a title, a line each; empty ones are left out."""
        if title:
            self.line(title, "bold")
        filled = {name.replace("_", " "): text for name, value in values.items() if (text := format_value(value))}
        width = max((len(name) for name in filled), default=0)
        for name, text in filled.items():
            self.line(text, lead=f"  {name + ':':<{width + 2}}")

    def data(self, value: Any) -> None:
        """A value as JSON. What cannot be seen, or what a terminal would obey, is escaped."""
        utf = (self._file.encoding or "utf-8").lower().startswith("utf")
        text = json.dumps(value, ensure_ascii=not utf, indent=2)
        self._file.write(escape_invisible(text) + "\n")
        self._file.flush()

    def write(self, text: str) -> None:
        """A piece of a line, as it comes; the lines after the first are indented."""
        self._console.print(Text(clean(text).replace("\n", f"\n{INDENT}")), end="", soft_wrap=True)
        self._file.flush()

    def end_line(self) -> None:
        """End a line that was written in pieces."""
        self._file.write("\n")
        self._file.flush()

    def _print(self, renderable: RenderableType) -> None:
        """Print without the spaces that fill a cell."""
        with self._console.capture() as captured:
            self._console.print(renderable)
        self._file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()) or "\n")
        self._file.flush()


def note(text: str) -> None:
    """Print a note on standard error, in addition to the output."""
    Page(sys.stderr).line(text, "dim")


def clean(text: str) -> str:
    """Text without characters that a terminal would obey or nobody can see."""
    # Zero-width joiners stay: they are part of words and emojis.
    kept = (
        char if char.isprintable() or char in "\n\u200c\u200d" else " " if char.isspace() else ""
        for char in ANSI.sub("", text)
    )
    return "".join(kept)


def shorten(text: str) -> str:
    """Text in one line; where it is cut, the whole length is given."""
    line = " ".join(clean(text).split())
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}… ({len(text)} characters)"


def format_value(value: Any) -> str:
    """A value of a field as text; nothing for an empty one."""
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text}" for name, inner in value.items() if (text := format_value(inner)))
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value if value is not None else "")


def count_of(number: int, thing: str) -> str:
    """A number with its noun."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
