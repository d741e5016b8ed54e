"""Console output with `rich`: lines, tables and JSON, with control characters in foreign text made visible."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from pydantic import ValidationError
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from langgraph_reflexion.errors import ReflexionError
from langgraph_reflexion.text.json_text import escape_invisible

MAX_ERROR = 400
"""Characters of an exception in an error message: the first paragraph of a provider's error fits."""
MAX_LINE = 240
"""Characters of a tool's result or a failure in a trace: about three lines of a terminal."""
MIN_WIDTH = 24
"""Columns that a text needs after its lead: three or four words. With less room it goes below."""
INDENT = " " * 6
ANSI = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")


class WrongUse(Exception):  # noqa: N818 — the user's mistake, not the program's
    """The command is wrong. The message says why and what to do instead."""


@contextmanager
def wrong_use(kind: type[Exception], message: str) -> Iterator[None]:
    """Report an exception of this kind as wrong use. After the message, an error of the system is named."""
    try:
        yield
    except kind as error:
        reason = f": {error.strerror or error}" if isinstance(error, OSError) else ""
        raise WrongUse(message + reason) from error


@contextmanager
def wrong_values() -> Iterator[None]:
    """Report a value that the library refuses as wrong use, and an id that was deleted in the meantime."""
    try:
        yield
    except ReflexionError:
        raise
    except ValueError as error:
        raise WrongUse(summarize(error)) from error
    except KeyError as error:
        raise WrongUse(f"{error.args[0]} was deleted in the meantime") from error


def summarize(error: BaseException) -> str:
    """An exception in one line: what a validator says, else its first paragraph."""
    invalid = error if isinstance(error, ValidationError) else error.__cause__
    if isinstance(invalid, ValidationError):
        faults = ((".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, ")) for e in invalid.errors())
        return "; ".join(f"{where}: {what}".lstrip(": ") for where, what in faults)
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}…"


class Page:
    """Where a command writes: in color on a terminal, plain elsewhere, as rich decides.

    Text is never parsed as markup. It is wrapped only on a terminal: after a lead, and with `wrap`. What may be copied,
    such as a command, is left to the terminal. Elsewhere a row is one line, for `grep`.
    """

    def __init__(self, file: TextIO) -> None:
        if isinstance(file, io.TextIOWrapper):
            file.reconfigure(errors="replace")
        self._file = file
        self._console = Console(
            file=file,
            color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich itself would keep bold
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )

    def line(self, text: str = "", style: str = "", *, lead: str = "", mark: str = "", wrap: bool = False) -> None:
        """A text after a plain lead and a mark in its own style. Its further lines are indented like the first."""
        head, body = Text(lead) + Text(f"{mark} " if mark else "", style), Text(clean(text), style)
        indent, width = head.cell_len, self._console.width
        lines = body.split("\n", allow_blank=True)
        if (lead or wrap) and self._file.isatty():
            if width - indent < MIN_WIDTH:
                head, indent = head + "\n    ", 4
            lines = body.wrap(self._console, max(width - indent, MIN_WIDTH))
        shown = head + Text("\n" + " " * indent).join(lines)
        shown.rstrip()
        self._console.print(shown)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows under their head, if any."""
        if not rows:
            return
        cells = [[" ".join(clean(cell).split()) for cell in row] for row in (head, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        for number, row in enumerate(cells):
            lead = "".join(set_cell_size(cell, width + 2) for cell, width in zip(row[:-1], widths, strict=False))
            self.line(row[-1], "" if number else "dim", lead=lead)

    def fields(self, values: Mapping[str, Any], *, title: str) -> None:
        """Named values under a title, a line each; empty ones are left out."""
        self.line(title, "bold", wrap=True)
        filled = {name.replace("_", " "): text for name, value in values.items() if (text := format_value(value))}
        width = max((len(name) for name in filled), default=0)
        for name, text in filled.items():
            self.line(text, lead=f"  {name + ':':<{width + 2}}")

    def data(self, value: Any) -> None:
        """A value as JSON. Invisible and control characters are escaped."""
        utf = (self._file.encoding or "utf-8").lower().startswith("utf")
        text = json.dumps(value, ensure_ascii=not utf, indent=2)
        self._file.write(escape_invisible(text) + "\n")
        self._file.flush()


def note(text: str) -> None:
    """Print a note on standard error, in addition to the output."""
    Page(sys.stderr).line(text, "dim")


def clean(text: str) -> str:
    """Text without control characters and invisible ones."""
    # Zero-width joiners stay: they are part of words and emojis.
    kept = (
        char if char.isprintable() or char in "\n\u200c\u200d" else " " if char.isspace() else ""
        for char in ANSI.sub("", text)
    )
    return "".join(kept)


def shorten(text: str) -> str:
    """Text on one line. If it is cut, the full length is given."""
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
