"""Confessions: what a reflection says went wrong is no advice, where it goes on to say what to do instead.

Reflections tell of a skipped check most of all: `I answered without checking the dates; I should have read them first.`
Read as advice, the first half would be a trick.
"""

from __future__ import annotations

import re

_PART = re.compile(r"(?<=[.;:!?。；！？])\s*")
_TOLD = re.compile(
    r"\b(?:i|we|my|it|the \w+|this)\b[^.;:]{0,60}?\b(?:(?<!is )(?<!are )(?<!be )(?!need|proceed|feed|speed)\w{2,}ed|"
    r"took|gave|went|bought|sent|wrote|got|was|were|did|had|made|found|came|ran|chose|kept|left|lost|forgot|broke|put|read|overwrote|"
    r"thought|saw|led)\b"
    r"|^\s*(?:\w+ing|not \w+ing)\b[^.;:]{0,60}\b(?:led to|caused|broke|cost|gave|was|were|made|left|lost)\b",
    re.IGNORECASE,
)
"""A sentence about something that is over."""

_ORDERED = re.compile(
    r"\b(?:should|must|shall|will|would|may|can|could|need|needs|always|never|next|please|let|do|don['’]t|ought|"
    r"have to|you|your|whenever|every|each|any|all|from now on|allowed|approved|fine|safe|"
    r"works?|worked|best|better|policy|rules?)\b",
    re.IGNORECASE,
)
"""What makes more than a confession of it."""

_MENDED = re.compile(
    r"\b(?:should|must|need to|will|ought to|next (?:time|trial|attempt)|instead|first|before|ask|check|verify|"
    r"read|look|compare|confirm|run|test|open|handle)\b",
    re.IGNORECASE,
)
_REPEATED = re.compile(
    r"\b(?:same|likewise|again|that way|so|there|like that|keep doing|as (?:i|we|it|before)|"
    r"skip|worked|fine|faster|without)\b",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """A text's sentences, and their halves."""
    return [part for part in _PART.split(text) if part]


def is_told(sentence: str) -> bool:
    """Whether a sentence speaks of something that is over."""
    return _TOLD.search(sentence) is not None


def without_confessions(text: str) -> str:
    """The text without the sentences that only say what went wrong, where the rest says what to do about it."""
    parts = sentences(text)
    rest = [part for part in parts if not is_told(part) or _ORDERED.search(part)]
    advice = " ".join(rest)
    mends = len(rest) < len(parts) and _MENDED.search(advice) and not _REPEATED.search(advice)
    return advice if mends else text
