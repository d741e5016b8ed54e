"""Cards: lessons, their changes, a run and its counts, as a person reads them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from langgraph_reflexion.cli.page import Page, brief, told
from langgraph_reflexion.memory import Change
from langgraph_reflexion.schemas import Lesson

HEAD = ("ID", "KIND", "STATUS", "HELPED", "LESSON")
CHANGES = ("ID", "WHEN", "WHAT", "BY", "WHY")


def row(lesson: Lesson) -> tuple[str, ...]:
    """A lesson as a row of a table."""
    judged = lesson.wins + lesson.losses
    return lesson.id, lesson.kind, lesson.status, f"{lesson.wins}/{judged}" if judged else "-", lesson.text


def change(one: Change) -> tuple[str, ...]:
    """What happened to a lesson, as a row of a table."""
    what = f"{one.action}, now {one.status}" if one.status and one.status != one.action else one.action
    return one.id, _time(one.at), what, one.by, one.why


def as_data(one: Change) -> dict[str, Any]:
    """The same as plain data."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(one).items()}


def card(page: Page, lesson: Lesson, evidence: list[str], hidden: str | None) -> None:
    """All that is known of a lesson, with what failed in the runs that taught it, and why no run is shown it."""
    trigger = lesson.trigger
    page.line(lesson.text, "bold")
    _fields(
        page,
        {
            "id": lesson.id,
            "name": lesson.name,
            "kind": lesson.kind,
            "status": lesson.status,
            "hidden": hidden,
            "when": lesson.when,
            "when not": lesson.when_not,
            "why": lesson.why,
            "topic": lesson.topic,
            "tags": ", ".join(lesson.tags),
            "trust": lesson.origin,
            "confidence": None if lesson.confidence is None else f"{lesson.confidence:g}",
            "failure": ", ".join(filter(None, (trigger.signal, trigger.tool, trigger.fingerprint)))
            if trigger
            else None,
            "shown": _shown(lesson.shown, lesson.wins, lesson.losses),
            "withheld": _without(lesson),
            "evidence": "\n".join(brief(one) for one in dict.fromkeys(evidence)),
            "from runs": ", ".join(lesson.sources),
            "in place of": ", ".join(lesson.supersedes),
            "written": _time(lesson.created_at),
            "changed": _time(lesson.updated_at),
            "last used": _time(lesson.last_used_at),
            "expires": _time(lesson.expires_at),
        },
    )


def counts(page: Page, place: str, stats: dict[str, Any]) -> None:
    """How many there are, of what sort, and how they did."""
    page.line(f"{told(stats['lessons'], 'lesson')} in {place}", "bold")
    sorts = {name: ", ".join(f"{word} {n}" for word, n in stats[name].items()) for name in ("status", "kind", "origin")}
    record = _shown(stats["shown"], stats["wins"], stats["losses"])
    _fields(page, {"may show": stats["live"], **sorts, "shown": record, "runs kept": stats["episodes"]})


def run(page: Page, found: dict[str, Any], texts: dict[str, str]) -> None:
    """What a run was shown and wrote, and what came of it. `texts` are those of the lessons it wrote."""
    page.line(found["task"], "bold")
    score = None if found["score"] is None else f"{found['score']:g}"
    _fields(page, {"run": found["run"], "ended": f"{found['status']}, {found['stop_reason']}", "score": score})
    for one in found["failures"]:
        page.line(f"{one['signal']} at step {one['step']}: {brief(one['evidence'])}", lead=_lead("failed"))
    for name in ("shown", "withheld"):
        for one in found[name]:
            _told(page, name, one)
    for one in found["written"]:
        page.line(f"{one} {texts.get(one, '')}", lead=_lead("wrote"))
    for one in found["changes"]:
        page.line(f"{one['lesson']} {one['action']}{': ' * bool(one['why'])}{one['why']}", lead=_lead("changed"))


def _told(page: Page, name: str, one: dict[str, Any]) -> None:
    """A lesson that a run was shown or went without: why, from which evidence, and what came of it."""
    if one["text"] is None:
        page.line(f"{one['lesson']}, forgotten since", lead=_lead(name))
        return
    page.line(f"{one['lesson']} {one['text']} ({one['result'] or 'not counted'})", lead=_lead(name))
    page.line("; ".join(filter(None, (one["why"], one["without"]))), lead=_lead("  why"))
    for behind in one["evidence"]:
        failure = behind["failure"]
        page.line(f"run {behind['run']}{': ' + brief(failure) if failure else ''}", lead=_lead("  from"))


def _fields(page: Page, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if value not in (None, ""):
            page.line(str(value), lead=_lead(name))


def _lead(name: str) -> str:
    return f"  {name + ':':<13}"


def _shown(times: int, wins: int, losses: int) -> str:
    return f"{told(times, 'time')}; helped in {wins} of {wins + losses} that count" if times else "never yet"


def _without(lesson: Lesson) -> str | None:
    judged = lesson.withheld_wins + lesson.withheld_losses
    return f"from {told(judged, 'run')}, {lesson.withheld_wins} of which did well" if judged else None


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"
