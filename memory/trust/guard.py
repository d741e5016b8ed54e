"""The guard: text that tries to speak as somebody else is found, at writing and again at reading."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from langgraph_reflexion.memory.trust.confessions import without_confessions
from langgraph_reflexion.memory.trust.decoding import decoded, joined, plain, readings
from langgraph_reflexion.memory.trust.intents import intents, meant
from langgraph_reflexion.memory.trust.judging import harm, powers
from langgraph_reflexion.memory.trust.tricks import CODED, DROPS, MENTIONS, QUOTED, SPACED, SQUASHED, compiled
from langgraph_reflexion.schemas import Lesson

_HIDDEN = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]|[\U000e0100-\U000e01ef]{2,}|(?<![\u3400-\u9fff])[\U000e0100-\U000e01ef]"
)
_JOINERS = re.compile("[\u200c\u200d](?=[A-Za-z0-9\u4e00-\u9fff ])|(?<=[A-Za-z0-9\u4e00-\u9fff ])[\u200c\u200d]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

LOOKED_AT = 4_000
"""Characters of a field that are looked at; none that long is kept or shown."""

_TRICKS = compiled()
_INTENTS = intents()


@lru_cache(maxsize=2_000)
def suspicion(text: str) -> str | None:
    """Why a text must not be shown to a model, or `None` where nothing speaks against it."""
    return _suspicion(text[:LOOKED_AT])


@lru_cache(maxsize=50_000)  # the same lessons are looked at again and again
def _suspicion(text: str) -> str | None:
    if _HIDDEN.search(text) or _JOINERS.search(text) or _CONTROL.search(text):
        return "it holds hidden characters"
    read = _without_mentions(plain(text))
    reason = _said(read)
    if reason is not None:
        return reason
    if next(decoded(read), None) is not None:
        return CODED
    whole = joined(text)
    for other in (*([] if whole == text else [_without_mentions(plain(whole))]), *readings(read)):
        if _said(other) is not None:
            return _said(other) if other.casefold() == read.casefold() else f"in disguise, {_said(other)}"
    return None


def _without_mentions(text: str) -> str:
    """The text without what it quotes, where it says that those are only somebody's words."""
    rest = QUOTED.sub("…", text)
    return rest if rest != text and MENTIONS.search(rest) else text


def _said(text: str) -> str | None:
    for reason, pattern in _TRICKS:
        if pattern.search(text):
            return reason
    small = text.lower()
    for reason, pattern in _INTENTS:
        if meant(pattern, small):
            return reason
    if SQUASHED.search(re.sub(r"[^a-z]", "", small)) and not SPACED.search(small):
        return DROPS
    return harm(without_confessions(text))


@lru_cache(maxsize=50_000)
def overreach(text: str) -> str | None:
    """That a stranger's words, as a tool was heard to say them, speak of what no stranger may decide, or `None`."""
    touched = sorted(powers(plain(text), told=True))
    return f"a tool said it, and it speaks of {touched[0]}" if touched else None


def suspicion_of(lesson: Lesson) -> str | None:
    """The same for every field of a lesson that a model may come to read, and for its situation and text together."""
    for text in shown_texts(lesson):
        reason = suspicion(text[:LOOKED_AT])
        if reason:
            return reason
    return of_both(lesson)


def of_both(lesson: Lesson) -> str | None:
    """The same for a lesson's situation and text as one sentence."""
    return suspicion(f"{lesson.when.rstrip(' .。:')}: {lesson.text}"[:LOOKED_AT]) if lesson.when else None


def shown_texts(lesson: Lesson) -> Iterable[str]:
    """The fields of a lesson that hold words."""
    texts = [lesson.text, lesson.when, lesson.when_not, lesson.why, lesson.topic, lesson.name, *lesson.tags]
    return [text for text in texts if text]
