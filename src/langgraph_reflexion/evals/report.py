"""The report: one HTML page with the table, the curves as SVG, and the trials of every task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from langgraph_reflexion.evals.figures import format_table, make_rows
from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.tasks import Task

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #27272a }
pre { white-space: pre-wrap; background: #f4f4f5; padding: .6rem .8rem; border-radius: .3rem; font-size: .85rem }
pre.table { white-space: pre; overflow-x: auto; font-size: .75rem }
svg { width: 100% } details { margin: .3rem 0 .3rem 1rem }
summary { cursor: pointer } .right { color: #15803d } .wrong { color: #b91c1c } .who { color: #71717a }
"""
COLORS = ("#1f5fbf", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e", "#a16207", "#475569", "#be185d", "#111827")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 460, 60, 400, 32, 44
"""Size and margins of the curves in points. The legend with the names of the set-ups is in the right margin."""


def write_report(
    folder: Path | str,
    results: Mapping[str, Sequence[Result]],
    tasks: Sequence[Task],
    trials: int,
    figures: str,
    about: str,
) -> Path:
    """Write `report.html` and `curves.svg`, and return the page's path. `figures` says what the figures are."""
    folder, rows = Path(folder), make_rows(results, trials)
    lines = {f"{row.setup} {row.accuracy:.0f} %": row.by_trial for row in rows}
    curves = draw_curves(lines, figures)
    (folder / "curves.svg").write_text(curves, encoding="utf-8")
    page = folder / "report.html"
    fresh = page.with_suffix(".new")
    with fresh.open("w", encoding="utf-8", errors="replace") as file:
        file.write('<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Experiment</title>')
        file.write(f"<style>{STYLE}</style>\n<h1>Experiment</h1>\n<p>{escape(about)}</p>\n")
        table, _, notes = "\n".join(format_table(results, trials, figures)).partition("\n\n")
        file.write(f'<pre class="table">{escape(table)}</pre>\n<p class="who">{escape(notes)}</p>\n{curves}\n')
        by_id, order = {task.id: task for task in tasks}, {task.id: place for place, task in enumerate(tasks)}
        for row in rows:
            file.write(f"<h2>{escape(row.setup)}</h2>\n")
            for result in sorted(
                results[row.setup], key=lambda found: (order.get(found.task, len(order)), found.repeat)
            ):
                file.writelines(_task_lines(result, by_id.get(result.task)))
        file.write("</html>\n")
    fresh.replace(page)
    return page


def _task_lines(result: Result, task: Task | None) -> Iterator[str]:
    """One task: its text, each trial, and the reflections."""
    solved = result.solved_at is not None
    why = result.error or str(result.stop_reason).replace("_", " ")
    end = f"solved in trial {result.solved_at}" if solved else f"not solved, {why}"
    again = f" (repeat {result.repeat})" if result.repeat > 1 else ""
    title = f"{result.task}{again}: {end}"
    yield f'<details><summary><span class="{"right" if solved else "wrong"}">{escape(title)}</span></summary>\n'
    if task is not None:
        known = f'<br><span class="who">The right answer is: {escape(task.answer)}</span>' if task.answer else ""
        yield f"<p>{escape(task.task)}{known}</p>\n"
    for number, trial in enumerate(result.trials, 1):
        complaints = "".join(f"<br>{escape(text)}" for text in trial.complaints)
        yield f"<p><b>Trial {number}</b>: {escape(str(trial.answer))}{complaints}</p>\n"
    for title, texts in (("Reflections", result.plans), ("Lessons of earlier tasks", result.lessons_used)):
        if texts:
            yield f"<p><b>{title}</b></p>\n" + "".join(f"<pre>{escape(text)}</pre>\n" for text in texts)
    yield "</details>\n"


def draw_curves(lines: Mapping[str, Sequence[float]], figures: str) -> str:
    """The percentage of tasks solved by trial as an SVG, with a line and a legend entry for each set-up."""
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
