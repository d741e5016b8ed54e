"""What a judge wrote, read as a verdict: from an object, from lines, or from prose, and never guessed.

A judge states refusals alone; its acceptance is its score. What contradicts itself, or cannot be read, says nothing,
and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from langgraph_reflexion.checks.judge_prose import of_text
from langgraph_reflexion.checks.judge_words import (
    FIELDS,
    ISSUE_KEYS,
    NO_KEYS,
    SCORE_KEYS,
    SIDE_KEYS,
    SIDES,
    TOP_KEYS,
    WORD_KEYS,
    YES_KEYS,
    names_a_field,
    nothing,
    number_in,
    score_of,
    truth,
    verdict_of,
    word_of,
)
from langgraph_reflexion.schemas import Dimension, Verdict
from langgraph_reflexion.text.json_text import TangledError, Torn, Whole, values_in, without_thinking


def read_verdict(text: str) -> Verdict:
    """The verdict in a judge's reply. One that states nothing and has no score says why in its issues."""
    text = without_thinking(text)
    if not text:
        return nothing("it said nothing")
    try:
        spread = list(values_in(text))
    except TangledError as fault:
        return nothing(str(fault))
    objects = [one for found in spread if isinstance(found, Whole) for one in _verdicts_in(found)]
    if any(isinstance(one, Whole) and one.twice is not None and _verdicts_in(one) for one in spread):
        return nothing("a key is given twice")
    if len({json.dumps(one, sort_keys=True, default=str) for one in objects}) > 1:
        return nothing("it gave several different verdicts")
    if objects:
        return _of_object(objects[0])
    if any(isinstance(one, Torn) and (one.certain or names_a_field(one.keys)) for one in spread):
        return nothing("its object is cut or misspelt")
    if any(isinstance(one, Whole) and isinstance(one.value, dict) and names_a_field(one.value) for one in spread):
        return nothing("its object holds what nobody can read as a verdict")
    return of_text(text)


def _verdicts_in(found: Whole) -> list[dict[str, Any]]:
    """The objects that say something of an answer; one wrapped in another, or alone in a list, is taken out."""
    value = found.value[0] if isinstance(found.value, list) and len(found.value) == 1 else found.value
    for _ in range(3):
        if not isinstance(value, dict):
            return []
        if names_a_field(value) or any(word_of(one) in SIDE_KEYS for one in value):
            whole = all(not isinstance(one, dict) for name, one in value.items() if word_of(name) in FIELDS)
            if whole:
                return [value]
        inner = [one for one in value.values() if isinstance(one, dict)]
        if len(inner) != 1:
            return []
        value = inner[0]
    return []


def _of_object(given: Mapping[str, Any]) -> Verdict:
    said = {word_of(name): value for name, value in given.items()}
    notes: list[str] = []
    stated = [truth(said[key]) for key in said if key in YES_KEYS]
    stated += [None if (one := truth(said[key])) is None else not one for key in said if key in NO_KEYS]
    top = next((number_in(said[key]) for key in said if key in TOP_KEYS), None)
    scores = [(said[key], score_of(said[key], top)) for key in said if key in SCORE_KEYS]
    score = next((value for _, value in scores if value is not None), None)
    if len({value for _, value in scores if value is not None}) > 1:
        return nothing("it gave several different scores")
    notes += [f"its score {raw!r} cannot be read" for raw, value in scores if value is None and raw is not None]
    sides = _sides(said, notes)
    if score is None and sides and not scores:
        score = sum(min(max(side.score, 0.0), 100.0) for side in sides.values()) / len(sides)
    issues = [*(text for key in said if key in ISSUE_KEYS for text in _texts(said[key])), *notes]
    feedback = " ".join(text for key in said if key in WORD_KEYS for text in _texts(said[key]))
    return verdict_of(stated, score, issues, feedback, sides)


def _sides(said: Mapping[str, Any], notes: list[str]) -> dict[str, Dimension]:
    """The dimensions, as an object of numbers or objects, or as a list."""
    sides: dict[str, Dimension] = {}
    apart = [one for word in said if word in SIDE_KEYS for one in _entries(said[word])]
    for name, one in [*apart, *((word, said[word]) for word in said if word in SIDES)]:
        fields = {word_of(word): value for word, value in one.items()} if isinstance(one, Mapping) else {"score": one}
        score = score_of(next((fields[word] for word in fields if word in SCORE_KEYS), None))
        words = " ".join(text for word in fields if word in WORD_KEYS for text in _texts(fields[word]))
        if score is None:
            notes.append(f"its score of {name} cannot be read" + (f": {words}" if words else ""))
            continue
        sides[name] = Dimension(score=score, feedback=words)
    return sides


def _entries(given: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return [(str(name), one) for name, one in given.items()]
    if isinstance(given, list):
        named = [
            (one.get("name") or one.get("dimension") or one.get("criterion"), one)
            for one in given
            if isinstance(one, Mapping)
        ]
        return [(str(name), one) for name, one in named if name]
    return []


def _texts(given: Any) -> list[str]:
    """Texts out of a text, a list, or a list of objects that hold one each."""
    if isinstance(given, str):
        return [given.strip()] if given.strip() else []
    if isinstance(given, Mapping):
        given = [one for one in given.values() if isinstance(one, str)][:2]
        return [": ".join(given)] if given else []
    return [text for one in given for text in _texts(one)] if isinstance(given, list) else []
