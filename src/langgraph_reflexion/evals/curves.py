"""Curves: the per cent of tasks solved within so many trials, drawn as PNG and as SVG without a drawing package."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.evals.figures import Row
from langgraph_reflexion.evals.lettering import drawn

WIDTH, HEIGHT = 1000, 460
LEFT, RIGHT, TOP, BOTTOM = 60, 400, 32, 44
COLORS = ("#1f5fbf", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e", "#a16207", "#475569", "#be185d", "#111827")
GREY, INK = "#d4d4d8", "#27272a"
Pixels = NDArray[np.float64]
Point = tuple[float, float]


def svg(rows: Sequence[Row]) -> str:
    """The curves as a picture within a page."""
    trials = max(len(row.by_trial) for row in rows)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Per cent of tasks solved by trial">']
    for share in range(0, 101, 20):
        _, y = _at(1, share, trials)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GREY}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share}</text>')
    for trial in range(1, trials + 1):
        x, _ = _at(trial, 0, trials)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{trial}</text>')
    parts.append(f'<text x="8" y="{TOP - 16}">% solved</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">trial</text>')
    for number, row in enumerate(rows):
        color, y = COLORS[number % len(COLORS)], _legend(number)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _line(row, trials))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts.append(f'<rect x="{WIDTH - RIGHT + 20}" y="{y - 6}" width="14" height="4" fill="{color}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 42}" y="{y}">{escape(_label(row))}</text>')
    return "\n".join([*parts, "</svg>"])


def png(rows: Sequence[Row]) -> bytes:
    """The same as a PNG file."""
    trials = max(len(row.by_trial) for row in rows)
    pixels: Pixels = np.full((HEIGHT, WIDTH, 3), 255.0)
    for share in range(0, 101, 20):
        _, y = _at(1, share, trials)
        _stroke(pixels, (LEFT, y), (WIDTH - RIGHT, y), GREY, 1.0)
        _write(pixels, f"{share}", LEFT - 8 - 12 * len(f"{share}"), y - 7)
    for trial in range(1, trials + 1):
        x, _ = _at(trial, 0, trials)
        _write(pixels, f"{trial}", x - 5, HEIGHT - BOTTOM + 10)
    _write(pixels, "% solved", 8, 2)
    _write(pixels, "trial", WIDTH - RIGHT - 60, HEIGHT - 16)
    for number, row in enumerate(rows):
        color, points = COLORS[number % len(COLORS)], _line(row, trials)
        for start, end in zip(points, points[1:] or points, strict=False):
            _stroke(pixels, start, end, color, 2.5)
        y = _legend(number)
        _stroke(pixels, (WIDTH - RIGHT + 20, y - 4), (WIDTH - RIGHT + 34, y - 4), color, 4.0)
        _write(pixels, _label(row), WIDTH - RIGHT + 42, y - 11)
    return _encoded(pixels)


def _label(row: Row) -> str:
    return f"{row.setup} {row.accuracy:.0f} %"


def _at(trial: float, share: float, trials: int) -> Point:
    across = (trial - 1) / max(trials - 1, 1)
    return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share / 100 * (HEIGHT - TOP - BOTTOM)


def _line(row: Row, trials: int) -> list[Point]:
    return [_at(number, share, trials) for number, share in enumerate(row.by_trial, 1)]


def _legend(number: int) -> int:
    return TOP + 16 + 26 * number


def _stroke(pixels: Pixels, start: Point, end: Point, color: str, width: float) -> None:
    """A line with soft edges: each pixel takes as much of the colour as it is near."""
    (x0, y0), (x1, y1) = start, end
    top, bottom = int(max(min(y0, y1) - width - 1, 0)), int(max(y0, y1) + width + 2)
    left, right = int(max(min(x0, x1) - width - 1, 0)), int(max(x0, x1) + width + 2)
    part = pixels[top:bottom, left:right]
    ys, xs = np.mgrid[top : top + part.shape[0], left : left + part.shape[1]]
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2
    along = np.clip(((xs - x0) * (x1 - x0) + (ys - y0) * (y1 - y0)) / length, 0, 1) if length else 0.0
    away = np.hypot(xs - x0 - along * (x1 - x0), ys - y0 - along * (y1 - y0))
    _blend(part, np.clip(width / 2 + 0.5 - away, 0, 1), color)


def _write(pixels: Pixels, text: str, x: float, y: float) -> None:
    shape = drawn(text, 2)
    part = pixels[int(y) : int(y) + shape.shape[0], int(x) : int(x) + shape.shape[1]]
    _blend(part, shape[: part.shape[0], : part.shape[1]], INK)


def _blend(part: Pixels, share: Pixels, color: str) -> None:
    ink = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)], dtype=float)
    part += (ink - part) * share[..., None]


def _encoded(pixels: Pixels) -> bytes:
    plain = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    lines = b"".join(b"\0" + line.tobytes() for line in plain)
    head = struct.pack(">IIBBBBB", plain.shape[1], plain.shape[0], 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
