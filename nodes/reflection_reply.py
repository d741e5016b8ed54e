"""How a reply is read as a reflection: what is missing is named, what is beside the form is left out."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, get_args

from pydantic import ValidationError

from langgraph_reflexion.nodes.exceptions import misfits
from langgraph_reflexion.nodes.models.decision_json import Invalid, read_json
from langgraph_reflexion.nodes.models.history import bounded
from langgraph_reflexion.schemas import Depth, Diagnosis, Failure, FixKind, Kind, Reflection
from langgraph_reflexion.text.json_text import without_thinking

LONGEST_FIELD = 2_000
LONGEST_TAG = 200
MOST_ENTRIES = 10
_PLAN = re.compile(
    r"(?:(?:^[\s>#*_-]*|\b)(?:(?:my|the|a|new|short)\s+)*)\bplan[*_]*\s*[:：][*_]*", re.IGNORECASE | re.MULTILINE
)
_REASON = re.compile(r"^[\s>#*_-]*(?:a\s+)?(?:possible\s+)?reason[*_]*\s*[:：][*_]*", re.IGNORECASE)
"""The two marks, however they are dressed up."""


@cache
def reply_schema(*, between_trials: bool = False) -> dict[str, Any]:
    """What a model is asked for: a reflection without its depth, which is not the model's to say. It is not changed."""
    schema = Reflection.model_json_schema()
    for name in ("depth",) if between_trials else ("depth", "diagnosis", "lessons"):
        schema["properties"].pop(name)
    schema["required"] = list(schema["properties"])
    return schema


def read_reflection(text: str, failure: Failure, depth: Depth) -> tuple[Reflection | None, str]:
    """A reply as a reflection, or why it is none. Memos of an unknown kind are left out, not fatal."""
    data = read_json(text)
    if isinstance(data, Invalid):
        return None, data.message
    if not isinstance(data, dict):
        return None, "it is no JSON object"
    known = {name: data[name] for name in Reflection.model_fields if name in data}
    known |= {"failure_signal": str(known.get("failure_signal") or failure.signal), "depth": depth}
    fixes, memos = known.get("fix_strategy"), known.get("memory_to_write")
    for name in ("failure_signal", "explanation", "patch_prompt"):
        if isinstance(known.get(name), str):
            known[name] = bounded(known[name], LONGEST_FIELD)
    if isinstance(fixes, list):
        known["fix_strategy"] = [_fix(one) for one in fixes[:MOST_ENTRIES]]
    if known.get("explanation") is None:
        known.pop("explanation", None)
    if known.get("diagnosis") not in get_args(Diagnosis):
        known.pop("diagnosis", None)
    known["lessons"] = _sentences(known.get("lessons"))
    if memos is None:
        known.pop("memory_to_write", None)
    elif isinstance(memos, list):
        known["memory_to_write"] = [_memo(memo) for memo in memos if _is_memo(memo)][:MOST_ENTRIES]
    try:
        return Reflection.model_validate(known), ""
    except ValidationError as fault:
        return None, misfits(fault)


def read_freely(text: str, failure: Failure, depth: Depth) -> tuple[Reflection | None, str]:
    """A reflection in a model's own words: a possible reason, then `Plan:` and what to do; without it all is plan."""
    said = bounded(without_thinking(text), LONGEST_FIELD)
    if not said:
        return None, "it is empty"
    *_, mark = [None, *_PLAN.finditer(said)]
    return Reflection(
        failure_signal=failure.signal,
        root_cause="other",
        explanation="" if mark is None else _REASON.sub("", said[: mark.start()]).strip(),
        fix_strategy=[],
        patch_prompt=said if mark is None else said[mark.end() :].strip(),
        depth=depth,
    ), ""


def _sentences(given: Any) -> list[str]:
    some = given if isinstance(given, list) else [given]
    return [bounded(one, LONGEST_FIELD) for one in some[:MOST_ENTRIES] if isinstance(one, str) and one.strip()]


def _fix(given: Any) -> Any:
    if not isinstance(given, dict):
        return {"kind": "other", "text": bounded(str(given), LONGEST_FIELD)}
    kind = given.get("kind")
    text = bounded(str(given.get("text") or ""), LONGEST_FIELD)
    return {"kind": kind if kind in get_args(FixKind) else "other", "text": text}


def _memo(memo: dict[str, Any]) -> dict[str, Any]:
    """A memo's own fields; for one odd word beside the rule the whole reflection is not asked for again."""
    when, tags = memo.get("when"), _sentences(memo.get("tags"))
    return {
        "kind": _kind(memo),
        "text": bounded(memo["text"], LONGEST_FIELD),
        "when": bounded(when, LONGEST_FIELD) if isinstance(when, str) else "",
        "tags": [bounded(tag, LONGEST_TAG) for tag in tags],
    }


def _is_memo(memo: Any) -> bool:
    return isinstance(memo, dict) and _kind(memo) in get_args(Kind) and isinstance(memo.get("text"), str)


def _kind(memo: dict[str, Any]) -> str:
    return str(memo.get("kind")).strip().lower()
