"""The report: one HTML page with the table, the curves, and every transcript a person may want to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from langgraph_reflexion.evals.curves import png, svg
from langgraph_reflexion.evals.ledger import Result
from langgraph_reflexion.evals.table import rows_of, table
from langgraph_reflexion.evals.tasks import Task
from langgraph_reflexion.evals.transcripts import calls_in, transcript_of

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #27272a }
pre { white-space: pre-wrap; background: #f4f4f5; padding: .6rem .8rem; border-radius: .3rem; font-size: .85rem }
pre.table { white-space: pre; overflow-x: auto; font-size: .75rem }
svg { width: 100%; font: 14px system-ui, sans-serif } details { margin: .3rem 0 .3rem 1rem }
summary { cursor: pointer } .right { color: #15803d } .wrong { color: #b91c1c } .who { color: #71717a }
"""


def write_report(
    folder: Path, results: Mapping[str, Sequence[Result]], tasks: Sequence[Task], trials: int, about: str
) -> Path:
    """Write `report.html` and `curves.png`; the place of the page."""
    rows = rows_of(results, trials)
    (folder / "curves.png").write_bytes(png(rows))
    page = folder / "report.html"
    fresh = page.with_suffix(".new")
    with fresh.open("w", encoding="utf-8", errors="replace") as file:
        file.write(
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Experiment</title><style>{STYLE}</style>\n'
        )
        file.write(f"<h1>Experiment</h1>\n<p>{escape(about)}</p>\n")
        figures, _, notes = "\n".join(table(results, trials)).partition("\n\n")
        file.write(f'<pre class="table">{escape(figures)}</pre>\n<p class="who">{escape(notes)}</p>\n{svg(rows)}\n')
        by_id, order = {task.id: task for task in tasks}, {task.id: place for place, task in enumerate(tasks)}
        for row in rows:
            file.write(f"<h2>{escape(row.setup)}</h2>\n")
            for result in sorted(results[row.setup], key=lambda one: order.get(one.task, len(order))):
                file.writelines(_told(folder, result, by_id.get(result.task)))
        file.write("</html>\n")
    fresh.replace(page)
    return page


def _told(folder: Path, result: Result, task: Task | None) -> Iterator[str]:
    """One task: what was asked, each trial, what was thought of it, and every model call."""
    right = result.solved_at is not None
    why = result.error or str(result.stop_reason).replace("_", " ")
    how = f"solved in trial {result.solved_at}" if right else f"not solved, {why}"
    word = "right" if right else "wrong"
    yield f'<details><summary><span class="{word}">{escape(result.task)}: {escape(how)}</span></summary>\n'
    if task is not None:
        known = f'<br><span class="who">The right answer is: {escape(task.answer)}</span>' if task.answer else ""
        yield f"<p>{escape(task.task)}{known}</p>\n"
    for number, trial in enumerate(result.trials, 1):
        said = "".join(f"<br>{escape(one)}" for one in trial.said)
        yield f"<p><b>Trial {number}</b>: {escape(str(trial.answer))}{said}</p>\n"
    for title, texts in (("Reflections", result.plans), ("Lessons of earlier tasks it was shown", result.lessons_used)):
        if texts:
            yield f"<p><b>{title}</b></p>\n" + "".join(f"<pre>{escape(text)}</pre>\n" for text in texts)
    calls = list(calls_in(transcript_of(folder, result.setup, result.task)))
    if calls:
        yield f"<details><summary>{len(calls)} model call{'s' * (len(calls) > 1)}</summary>\n"
        for call in calls:
            yield from _call(call)
        yield "</details>\n"
    yield "</details>\n"


def _call(call: Mapping[str, Any]) -> Iterator[str]:
    yield f'<p class="who">{escape(str(call.get("who", "model")))}</p>\n'
    answer = call.get("answer") or {"role": "error", "text": call.get("error", "")}
    for message in (*call.get("asked", ()), answer):
        yield f'<pre><span class="who">{escape(str(message["role"]))}</span>\n{escape(str(message["text"]))}</pre>\n'
