"""The guard: text that tries to speak as somebody else is found, at writing and again at reading."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from langgraph_reflexion.memory.tricks import DROPS, compiled
from langgraph_reflexion.schemas import Lesson

_HIDDEN = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)
_JOINERS = re.compile("[\u200c\u200d](?=[A-Za-z0-9\u4e00-\u9fff ])|(?<=[A-Za-z0-9\u4e00-\u9fff ])[\u200c\u200d]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

_SPACE = re.compile(r"\s{2,}")
LOOKED_AT = 4_000
"""Characters of a field that are looked at; none that long is kept or shown."""

_TRICKS = compiled()
_SQUASHED = re.compile(
    r"(?:ignore|disregard|forget|override)(?:all|any|the|your|my|every)*(?:previous|prior|above|earlier|preceding)?"
    r"(?:system)?(?:instructions?|prompts?|rules|guidelines)|reveal(?:the|your)systemprompt|youarenow(?:an?|the|in)"
)
_LOOKALIKES = str.maketrans("аеорсухіѕԁɡɩ013457@$ιοαενρτυκχ", "aeopcyxisdgioieastasioaevptukx")


def suspicion(text: str) -> str | None:
    """Why a text must not be shown to a model, or `None` where nothing speaks against it."""
    if _HIDDEN.search(text) or _JOINERS.search(text) or _CONTROL.search(text):
        return "it holds hidden characters"
    # One sign for each stretch of white space: what may stand in it must not be tried from each of its places.
    plain = _SPACE.sub(_one_space, unicodedata.normalize("NFKC", text))
    for reason, pattern in _TRICKS:
        if pattern.search(plain):
            return reason
    squashed = re.sub(r"[^a-z]", "", plain.casefold().translate(_LOOKALIKES))
    if _SQUASHED.search(squashed):
        return DROPS
    return None


def suspicion_of(lesson: Lesson) -> str | None:
    """The same for every field of a lesson that a model may come to read."""
    for text in shown_texts(lesson):
        reason = suspicion(text[:LOOKED_AT])
        if reason:
            return reason
    return None


def shown_texts(lesson: Lesson) -> Iterable[str]:
    """The fields of a lesson that hold words."""
    texts = [lesson.text, lesson.when, lesson.when_not, lesson.why, lesson.topic, lesson.name, *lesson.tags]
    return [text for text in texts if text]


def _one_space(found: re.Match[str]) -> str:
    return "\n" if "\n" in found.group() else " "
