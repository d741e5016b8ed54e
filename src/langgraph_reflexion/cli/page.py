"""The page: lines folded to the terminal, in colour where there is one, and rid of what strangers hide in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any, Literal, TextIO

from langgraph_reflexion.cli.width import columns, folded, table
from langgraph_reflexion.memory.exchange import legible

Ink = Literal["bold", "dim", "red", "green", "yellow", "magenta", "cyan"]

INK: dict[Ink, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}
INDENT = " " * 6
WIDEST = 100

# Text of models and tools is shown on a terminal, which would obey the control characters in it.
HIDDEN = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
PLAIN = str.maketrans({"→": "->", "←": "<-", "✓": "+", "✗": "x", "↻": "~", "●": "*", "·": "-", "…": "...", "—": "-"})


class Page:
    """Where a command writes. `NO_COLOR` is respected, and a page that is no terminal gets no colour."""

    def __init__(self, file: TextIO, *, color: bool | None = None, width: int | None = None) -> None:
        self._file = file
        self._color = _wants_color(file) if color is None else color
        self._width = width or min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
        self._folds = width is not None or file.isatty()
        self._column = 0

    def line(
        self, text: str = "", *inks: Ink, lead: str = "", mark: str = "", indent: str = "", fold: bool = True
    ) -> None:
        """A paragraph after its lead and its mark, folded under itself.

        What somebody will copy or search for is better not folded.
        """
        first = f"{lead or indent}{self.inked(mark, *inks)}{' ' if mark else ''}"
        rest = " " * (len(lead or indent) + len(mark) + bool(mark))
        parts = folded(clean(text), max(self._width - len(rest), 20)) if fold else [clean(text)]
        for number, part in enumerate(parts):
            self._write(f"{rest if number else first}{self.inked(part, *inks)}".rstrip() + "\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows under their head. Where nobody looks, as in a pipe, a row is one line."""
        cells = [[" ".join(clean(cell).split()) for cell in row] for row in rows]
        first, lines = table(head, cells, self._width if self._folds else None)
        for line in [*(self.inked(one, "dim") for one in first), *lines]:
            self._write(line + "\n")

    def data(self, value: Any) -> None:
        """A value as JSON, in letters that the file can hold."""
        plain = (self._file.encoding or "utf-8").lower().replace("-", "") not in ("utf8", "utf16", "utf32")
        self._write(legible(json.dumps(value, ensure_ascii=plain, indent=2)) + "\n")

    def lead(self, lead: str) -> None:
        """Begin a line that is told piece by piece."""
        self._write(lead)
        self._column = len(lead)

    def piece(self, text: str, *inks: Ink) -> None:
        """A piece of it as it comes, folded between words."""
        for word in re.findall(r"\n|[^\S\n]+|\S+", clean(text)):
            if word == "\n":
                self._write("\n" + INDENT)
                self._column = len(INDENT)
            elif self._column + columns(word) > self._width and self._column > len(INDENT):
                self._write("\n" + INDENT + (self.inked(word, *inks) if word.strip() else ""))
                self._column = len(INDENT) + columns(word.strip())
            else:
                self._write(self.inked(word, *inks))
                self._column += columns(word)

    def end(self) -> None:
        """End such a line."""
        self._write("\n")
        self._column = 0

    def inked(self, text: str, *inks: Ink) -> str:
        """The text in colour, where there is colour."""
        if not self._color or not inks or not text.strip():
            return text
        return f"\x1b[{';'.join(str(INK[ink]) for ink in inks)}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        encoding = self._file.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.translate(PLAIN).encode(encoding, "replace").decode(encoding)
        self._file.write(text)
        self._file.flush()


def clean(text: str) -> str:
    """Text without characters that a terminal would obey."""
    return HIDDEN.sub("", text).replace("\t", "    ")


def brief(text: str, longest: int = 240) -> str:
    """Text in one line; a cut says how long it was."""
    said = " ".join(clean(text).split())
    return said if len(said) <= longest else f"{said[:longest]}… ({len(text)} characters)"


def told(count: int, thing: str) -> str:
    """A count with its word."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _wants_color(file: TextIO) -> bool:
    return file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and _knows_color()


def _knows_color() -> bool:
    return sys.platform != "win32" or bool(os.environ.get("WT_SESSION") or os.environ.get("TERM"))
