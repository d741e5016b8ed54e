"""Parse a reflection from a model's reply, leniently."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast, get_args

from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.schemas import Depth, Diagnosis, Failure, Fix, FixKind, Kind, Memo, Reflection, RootCause
from langgraph_reflexion.text import lazy_pattern
from langgraph_reflexion.text.json_text import JsonError, read_json, without_thinking
from langgraph_reflexion.text.tokens import known_word

LONGEST_FIELD = 2_000
LONGEST_TAG = 200
MOST_ENTRIES = 10
_PLAN = lazy_pattern(
    r"(?:(?:^[\s>#*_-]*|\b)(?:(?:my|the|a|new|short)\s+)*)\bplan[*_]*\s*[:：][*_]*", re.IGNORECASE | re.MULTILINE
)
_REASON = lazy_pattern(r"^[\s>#*_-]*(?:a\s+)?(?:possible\s+)?reason[*_]*\s*[:：][*_]*", re.IGNORECASE)
"""The labels of a free reflection, with or without Markdown."""


class ReadReflection(NamedTuple):
    """A reflection, or the reason why there is none."""

    reflection: Reflection | None
    reason: str = ""
    dropped: Sequence[tuple[str, str]] = ()
    """Memos that are left out, each with the reason."""


def reply_schema(*, between_trials: bool = False) -> dict[str, Any]:
    """The schema for the model: a reflection without its depth, which we set."""
    schema = Reflection.model_json_schema()
    for name in ("depth",) if between_trials else ("depth", "diagnosis", "lessons"):
        schema["properties"].pop(name)
    schema["required"] = list(schema["properties"])
    return schema


def read_reflection(text: str, failure: Failure, depth: Depth) -> ReadReflection:
    """A reply as a reflection, parsed leniently. Invalid only if it has neither a patch nor memories."""
    try:
        data = read_json(text)
    except JsonError as fault:
        return ReadReflection(None, str(fault))
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, dict):
        return ReadReflection(None, "it is not a JSON object")
    memos, dropped = _memos(data.get("memory_to_write"))
    patch = data.get("patch_prompt")
    if patch is not None and not isinstance(patch, (str, list)):
        return ReadReflection(None, f"`patch_prompt` must be text, got {patch!r:.200}")
    if "patch_prompt" not in data and not memos:
        return ReadReflection(None, "it has neither `patch_prompt` nor anything in `memory_to_write`")
    fixes = []
    for item in _listed(data.get("fix_strategy"))[:MOST_ENTRIES]:
        fields = item if isinstance(item, dict) else {"text": item}
        kind = known_word(fields.get("kind", fields.get("type")), get_args(FixKind)) or "other"
        fixes.append(Fix(kind=cast("FixKind", kind), text=_text(fields.get("text"))))
    lessons = [text for item in _listed(data.get("lessons"))[:MOST_ENTRIES] if (text := _text(item))]
    cause, explanation = known_word(data.get("root_cause"), get_args(RootCause)), _text(data.get("explanation"))
    if cause is None and (sentence := _text(data.get("root_cause"))):
        explanation = f"{sentence} {explanation}".strip()
    return ReadReflection(
        Reflection(
            failure_signal=_text(data.get("failure_signal")) or failure.signal,
            root_cause=cast("RootCause", cause or "other"),
            explanation=explanation,
            fix_strategy=fixes,
            patch_prompt=_text(patch),
            memory_to_write=memos,
            confidence=_confidence(data.get("confidence")),
            depth=depth,
            diagnosis=cast("Diagnosis | None", known_word(data.get("diagnosis"), get_args(Diagnosis))),
            lessons=lessons,
        ),
        dropped=dropped,
    )


def read_freely(text: str, failure: Failure, depth: Depth) -> ReadReflection:
    """A reflection in a model's own words: a possible reason, then `Plan:` and a plan. Without `Plan:`, all is plan."""
    reply = bounded(without_thinking(text), LONGEST_FIELD)
    if not reply:
        return ReadReflection(None, "it is empty")
    *_, mark = [None, *_PLAN.finditer(reply)]
    return ReadReflection(
        Reflection(
            failure_signal=failure.signal,
            root_cause="other",
            explanation="" if mark is None else _REASON.sub("", reply[: mark.start()]).strip(),
            fix_strategy=[],
            patch_prompt=reply if mark is None else reply[mark.end() :].strip(),
            depth=depth,
        )
    )


def _memos(given: Any) -> tuple[list[Memo], list[tuple[str, str]]]:
    """The memos of a reply, and the text of each that is left out with the reason."""
    memos: list[Memo] = []
    dropped: list[tuple[str, str]] = []
    for item in _listed(given):
        fields = item if isinstance(item, dict) else {"text": item}
        text = _text(fields.get("text"))
        if not text:
            dropped.append((_text(str(item)), "it has no text"))
        elif len(memos) == MOST_ENTRIES:
            dropped.append((text, f"a reflection may leave {MOST_ENTRIES} memos"))
        else:
            kind = known_word(fields.get("kind", fields.get("type")), get_args(Kind)) or "rule"
            tags = [bounded(_text(tag), LONGEST_TAG) for tag in _listed(fields.get("tags"))[:MOST_ENTRIES]]
            memos.append(
                Memo(kind=cast("Kind", kind), text=text, when=_text(fields.get("when")), tags=[*filter(None, tags)])
            )
    return memos, dropped


def _confidence(given: Any) -> float | None:
    """A confidence in percent, from 90, 0.9, "90" or "90%". None if it cannot be parsed. A plain 1 means 100 %."""
    if isinstance(given, str):
        number = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", given)
        if number is None:
            return None
        return _confidence(float(number[1])) if not number[2] else min(float(number[1]), 100.0)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or math.isnan(given):
        return None
    share = 0 < given <= 1
    return min(max(float(given * 100 if share else given), 0.0), 100.0)


def _listed(given: Any) -> list[Any]:
    """A list. A single value becomes a list of one."""
    return given if isinstance(given, list) else [] if given is None or given == "" else [given]


def _text(given: Any) -> str:
    """A field as bounded text. A list of texts is joined."""
    if isinstance(given, list):
        given = "\n".join(item for item in given if isinstance(item, str))
    return bounded(given.strip(), LONGEST_FIELD) if isinstance(given, str) else ""
