"""Width: the columns that a text takes on a terminal, where Chinese takes two a character, and lines folded by them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

NARROWEST = 24
"""Columns below which a table's last cell goes under its row."""
GAP = "  "
CLOSING = "、。，．！？：；）」』】》”’…"
"""What begins no line."""


def columns(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(one) for one in text)


def folded(text: str, width: int) -> list[str]:
    """Lines of at most so many columns, broken between words and wide characters; a long word stands out."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for unit in _units(paragraph):
            if line.strip() and columns(line) + columns(unit.rstrip()) > width:
                lines.append(line.rstrip())
                line = unit.lstrip()
            else:
                line += unit
        lines.append(line.rstrip())
    return lines


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> tuple[list[str], list[str]]:
    """The line of the head and those of the rows. The last cell is folded to the width where there is one.

    Where that leaves too little room, it goes under its row, and there is no head.
    """
    widths = [max(columns(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    room = None if width is None else width - sum(widths) - len(GAP) * len(widths)
    if room is not None and room < NARROWEST:
        return [], [line for row in rows for line in _stacked(row, width or NARROWEST)]
    lines = [line for row in rows for line in _row(row, widths, [row[-1]] if room is None else folded(row[-1], room))]
    return _row(head, widths, [head[-1]]), lines


def _stacked(row: Sequence[str], width: int) -> list[str]:
    return [*folded(GAP.join(row[:-1]), width), *(GAP + part for part in folded(row[-1], width - len(GAP)))]


def _row(row: Sequence[str], widths: Sequence[int], last: Sequence[str]) -> list[str]:
    cells = GAP.join(cell + " " * (width - columns(cell)) for cell, width in zip(row[:-1], widths, strict=True))
    blank = " " * columns(cells)
    return [f"{blank if number else cells}{GAP}{part}".rstrip() for number, part in enumerate(last)]


def _units(text: str) -> Iterator[str]:
    """Spaces, words, and wide characters with the marks that close them."""
    for word in re.findall(r"\s+|\S+", text):
        held = ""
        for one in word:
            if held and one not in CLOSING and (_columns(one) == 2 or _columns(held[-1]) == 2 or held[-1] in CLOSING):
                yield held
                held = ""
            held += one
        yield held


def _columns(one: str) -> int:
    if unicodedata.east_asian_width(one) in "WF":
        return 2
    return 0 if unicodedata.category(one) in ("Mn", "Me", "Cf") else 1
