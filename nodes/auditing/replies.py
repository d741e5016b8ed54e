"""What auditors reply: read leniently, item by item; what is malformed is left out, and said."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from langgraph_reflexion.memory import finding_of
from langgraph_reflexion.nodes.models.decision_json import Invalid, read_json
from langgraph_reflexion.schemas import Category, Severity

MOST_ITEMS = 20
KINDS = ("rule", "project", "preference")
LONGEST_NAME = 64
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Report(NamedTuple):
    """What the error auditor says."""

    score: float | None
    findings: list[dict[str, Any]]
    left_out: list[str]


class Memories(NamedTuple):
    """What the memory extractor says."""

    memories: list[dict[str, str]]
    forget: list[str]
    left_out: list[str]


def fault_in(text: str, key: str) -> str | None:
    """Why a reply cannot be read at all, in words to mend it by, or `None`."""
    data = read_json(text)
    if isinstance(data, Invalid):
        return data.message
    if not isinstance(data, dict) or not isinstance(data.get(key), list):
        return f"The reply is one JSON object with a list under {key!r}."
    return None


def read_report(text: str, labels: Mapping[str, str], tools: list[str]) -> Report:
    """The findings of a reply that can be read; evidence that does not exist is dropped."""
    data, found, left_out = _object(text), list[dict[str, Any]](), list[str]()
    for given in data["findings"][:MOST_ITEMS]:
        try:
            found.append(_finding(given, labels, tools))
        except ValueError as fault:
            left_out.append(str(fault))
    return Report(_score(data.get("score")), found, left_out)


def read_memories(text: str) -> Memories:
    """The memories of a reply that can be read."""
    data, found, left_out = _object(text), list[dict[str, str]](), list[str]()
    for given in data["memories"][:MOST_ITEMS]:
        try:
            found.append(_memory(given))
        except ValueError as fault:
            left_out.append(str(fault))
    forget = data.get("forget")
    names = [slug for one in forget[:MOST_ITEMS] if (slug := _slug(one))] if isinstance(forget, list) else []
    return Memories(found, names, left_out)


def _object(text: str) -> dict[str, Any]:
    data = read_json(text)
    if not isinstance(data, dict):
        raise ValueError(f"the reply is no JSON object: {text[:100]!r}")
    return data


def _finding(given: Any, labels: Mapping[str, str], tools: list[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"a finding is an object, got {given!r:.100}")
    cited = given.get("evidence")
    there = [labels[one] for one in cited if isinstance(one, str) and one in labels] if isinstance(cited, list) else []
    category = given.get("category") if given.get("category") in get_args(Category) else "other"
    severity = given.get("severity") if given.get("severity") in get_args(Severity) else "medium"
    made = {**given, "category": category, "severity": severity, "evidence": there, "tool": _tool(given, tools)}
    tidy = finding_of(made)
    if not tidy["suggestion"]:
        raise ValueError(f"a finding has a suggestion, got {given!r:.100}")
    return tidy


def _tool(given: Mapping[str, Any], tools: list[str]) -> str | None:
    """The tool of the run that a finding is about: the one it names, else one that its words name."""
    if given.get("tool") in tools:
        return str(given["tool"])
    said = " ".join(str(given.get(name) or "") for name in ("description", "suggestion"))[:2_000]
    return next((one for one in tools if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", said)), None)


def _score(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        return None
    return min(max(float(given), 0.0), 100.0)


def _memory(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ValueError(f"a memory is an object, got {given!r:.100}")
    kind, name, content = given.get("kind"), _slug(given.get("name")), given.get("content")
    if kind not in KINDS:
        raise ValueError(f"`kind` is one of {', '.join(KINDS)}, got {kind!r:.100}")
    if name is None:
        raise ValueError(f"`name` is a slug such as 'answer-language', got {given.get('name')!r:.100}")
    if not isinstance(content, str) or not content.strip():
        raise ValueError(f"`content` is a sentence, got {content!r:.100}")
    description = given.get("description")
    return {
        "kind": str(kind),
        "name": name,
        "description": description if isinstance(description, str) else "",
        "content": content,
    }


def _slug(given: Any) -> str | None:
    if not isinstance(given, str) or len(given) > LONGEST_NAME:
        return None
    slug = re.sub(r"[\s_]+", "-", given.strip().lower())
    return slug if _SLUG.fullmatch(slug) else None
