"""Findings: what an error auditor says of a run, as it is kept, counted and told."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from langgraph_reflexion.memory.notebook.grouping import Group, Groups, Record, words_of
from langgraph_reflexion.memory.suspicion import suspicion
from langgraph_reflexion.schemas import Category, Severity
from langgraph_reflexion.text.secrets import mask_secrets
from langgraph_reflexion.text.words import tokens, weight

LONGEST = 500
"""Characters of each text of a finding that are kept."""
MOST_EVIDENCE = 20
LONGEST_ID = 200
TEXTS = ("description", "cause", "suggestion")
LOOKED_OVER = 50
"""Groups, the most repeated ones, that are looked at beyond those asked for."""
LONGEST_TASK = 4_000
FITS = 2.0
"""Telling words shared with the task that lift a mistake above another made three times as often."""
DAYS = 30
"""The latest days that the trend is told of."""

CATEGORIES: tuple[str, ...] = get_args(Category)
SEVERITIES: tuple[str, ...] = get_args(Severity)


def finding_of(given: Any) -> Record:
    """The fields of an auditor's finding, tidied; what cannot be kept is a `ValueError` that says why."""
    if not isinstance(given, Mapping):
        raise ValueError(f"a finding is a dictionary of the auditor's form, got {given!r:.200}")
    category, severity = given.get("category"), given.get("severity") or "medium"
    if category not in CATEGORIES:
        raise ValueError(f"`category` is one of {', '.join(CATEGORIES)}, got {category!r:.200}")
    if severity not in SEVERITIES:
        raise ValueError(f"`severity` is one of {', '.join(SEVERITIES)}, got {severity!r:.200}")
    texts = {name: _text(given.get(name)) for name in TEXTS}
    if not texts["description"]:
        raise ValueError(f"`description` says what went wrong, got {given.get('description')!r:.200}")
    evidence = given.get("evidence")
    ids = [one[:LONGEST_ID] for one in evidence if isinstance(one, str) and one] if isinstance(evidence, list) else []
    tool = given.get("tool")
    return {
        "category": category,
        **texts,
        "severity": severity,
        "evidence": list(dict.fromkeys(ids))[:MOST_EVIDENCE],
        "tool": tool[:LONGEST_ID] if isinstance(tool, str) and tool else None,
        "words": words_of(texts["description"], texts["suggestion"]),
    }


def doubt_of(finding: Mapping[str, Any]) -> str | None:
    """Why no model may read this finding, or `None` where nothing speaks against it."""
    return next(filter(None, (suspicion(finding[name]) for name in (*TEXTS, "tool") if finding[name])), None)


def is_sound(value: Any) -> bool:
    """Whether a stored value is a finding as it was written here."""
    return (
        isinstance(value, dict)
        and value.get("category") in CATEGORIES
        and all(isinstance(value.get(name), str) for name in (*TEXTS, "id", "session", "at", "group", "status"))
        and isinstance(value.get("order"), int)
        and isinstance(value.get("evidence"), list)
        and isinstance(value.get("words"), list)
        and value.get("severity") in SEVERITIES
    )


def concerns(record: Record, tool: str) -> bool:
    """Whether a finding is about this tool: by name, or in its own words."""
    if record.get("tool") is not None:
        return bool(record["tool"] == tool)
    if tool not in record["description"] and tool not in record["suggestion"] and tool not in record["cause"]:
        return False
    named = [record[name] for name in TEXTS if tool in record[name]]
    return any(re.search(rf"(?<!\w){re.escape(tool)}(?!\w)", text) for text in named)


# ---------------------------------------------------------------- counting


def statistics(records: Sequence[Record], sessions: Collection[Record], groups: Groups) -> dict[str, Any]:
    """How many findings there are, of what sort, and whether there are more or fewer of them lately."""
    scores = [one["score"] for one in sessions if isinstance(one.get("score"), (int, float))]
    known = {one["session"] for one in records} | {one["session"] for one in sessions}
    return {
        "total": len(records),
        "sessions": len(known - {""}),
        "groups": len(groups),
        "repeated": len(groups.often(2)),
        "quarantined": sum(one["status"] == "quarantined" for one in records),
        "mean_score": _mean(scores),
        "by_category": dict(Counter(one["category"] for one in records).most_common()),
        "by_severity": dict(Counter(one["severity"] for one in records).most_common()),
        "by_tool": dict(Counter(one["tool"] for one in records if one.get("tool")).most_common()),
        "trend": _trend(records, sessions),
    }


def _trend(records: Sequence[Record], sessions: Collection[Record]) -> dict[str, Any]:
    """The latest days one by one, and whether the later half of the runs was better than the earlier."""
    found = Counter(one["at"][:10] for one in records)
    scores: dict[str, list[float]] = defaultdict(list)
    for one in sessions:
        if isinstance(one.get("score"), (int, float)):
            scores[one["at"][:10]].append(one["score"])
    days = [
        {"day": day, "findings": found[day], "mean_score": _mean(scores.get(day, []))}
        for day in sorted({*found, *scores})[-DAYS:]
    ]
    in_order = [one["score"] for one in sorted(sessions, key=lambda one: one["at"]) if one.get("score") is not None]
    half = len(in_order) // 2
    if half < 2:
        return {"days": days, "direction": "unknown"}
    gain = sum(in_order[-half:]) / half - sum(in_order[:half]) / half
    return {"days": days, "direction": "better" if gain > 2 else "worse" if gain < -2 else "steady"}


def _mean(numbers: Sequence[float]) -> float | None:
    return round(sum(numbers) / len(numbers), 1) if numbers else None


# ---------------------------------------------------------------- telling


def rules_text(groups: Groups, task: str, limit: int, least: int) -> str:
    """The most repeated mistakes, those that fit the task before others, a line each; empty where there are none."""
    lines: list[str] = []
    for group in _by_fit(groups, task[:LONGEST_TASK], max(limit, 0), least):
        if len(lines) < limit and doubt_of(group.latest) is None:
            lines.append(_line(group))
    return "\n".join(["Mistakes of earlier runs, the most repeated first:", *lines]) if lines else ""


def _by_fit(groups: Groups, task: str, limit: int, least: int) -> list[Group]:
    """Those that share telling words with the task rise; among equals the more repeated and the later come first."""
    often = groups.most_repeated(least, limit + LOOKED_OVER)
    query = set(tokens(task))
    if not query:
        return often
    known = {id(group): group for group in (*groups.sharing(query, least), *often)}

    def worth(group: Group) -> tuple[float, int]:
        shared = sum(map(weight, query & group.words))
        return group.count * (1 + 3 * min(shared / FITS, 1.0)), group.latest["order"]

    return heapq.nlargest(limit + LOOKED_OVER, known.values(), key=worth)


def _line(group: Group) -> str:
    record, count = group.latest, group.count
    times = "once" if count == 1 else f"{count} times"
    advice, what = record["suggestion"], record["description"]
    return f"- [{record['category']}, {times}] {f'{advice} ({what})' if advice else what}"


def _text(value: Any) -> str:
    text = mask_secrets(" ".join(value[: 8 * LONGEST].split())) if isinstance(value, str) else ""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"
