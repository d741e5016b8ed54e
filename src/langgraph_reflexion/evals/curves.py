"""The curves of an experiment: the percentage of tasks solved by trial, as one SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLORS = ("#1f5fbf", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e", "#a16207", "#475569", "#be185d", "#111827")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 460, 60, 400, 32, 44
"""Size and margins of the curves in points. The legend with the names of the set-ups is in the right margin."""


def draw_curves(lines: Mapping[str, Sequence[float]], figures: str) -> str:
    """The picture, with a line and a legend entry for each set-up. `figures` says what the figures are."""
    label = escape(f"% of tasks solved ({figures})")
    points = max(map(len, lines.values()), default=1)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at(number: int, share: float) -> tuple[float, float]:
        across = (number - 1) / max(points - 1, 1)
        return LEFT + across * (right - LEFT), bottom - share / 100 * (bottom - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label} by trial" font-family="system-ui, sans-serif" font-size="14">',
        f'<text x="8" y="{TOP - 16}">{label}</text>',
        f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">trial</text>',
    ]
    for share in range(0, 101, 20):
        y = at(1, share)[1]
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#d4d4d8"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share}</text>')
    for number in range(1, points + 1):
        parts.append(f'<text x="{at(number, 0)[0]:.1f}" y="{bottom + 20}" text-anchor="middle">{number}</text>')
    for number, (name, shares) in enumerate(lines.items()):
        color, y = COLORS[number % len(COLORS)], TOP + 16 + 26 * number
        path = " ".join("{:.1f},{:.1f}".format(*at(place, share)) for place, share in enumerate(shares, 1))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts.append(f'<rect x="{right + 20}" y="{y - 6}" width="14" height="4" fill="{color}"/>')
        parts.append(f'<text x="{right + 42}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"])
