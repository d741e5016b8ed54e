"""Judging: which harm a text would have done, and which powers it touches on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langgraph_reflexion.memory.trust.harms import HARMS, PLAIN, POWERS, REFUSED, Harm
from langgraph_reflexion.text.meanings import Word, read

SCOPE = 14
"""Words before a deed in which its clause may warn of it."""

_ALL = (*HARMS, *REFUSED)
_REFUSED = frozenset(REFUSED)
_BY_DEED = {deed: [at for at, one in enumerate(_ALL) if one.deed == deed] for deed in {one.deed for one in _ALL}}
"""The numbers of the harms that a deed may begin."""


def harm(text: str) -> str | None:
    """What harm a text would have done, or `None`."""
    words = read(text)
    places: dict[tuple[int, str], list[int]] = {}
    for at, word in enumerate(words):
        for meaning in word.means:
            places.setdefault((word.sentence, meaning), []).append(at)
    told: dict[int, set[int]] = {}
    for sentence, meaning in places:
        told.setdefault(sentence, set()).update(_BY_DEED.get(meaning, ()))
    for sentence, numbers in told.items():
        for one in map(_ALL.__getitem__, sorted(numbers)):
            refused = one in _REFUSED
            for at in places[sentence, one.deed]:
                if not _meets(words, one, at, sentence, places):
                    continue
                if _refused(words, at) if refused else not (_warned(words, at) or _cared(words, at, one)):
                    return one.reason
    return None


def powers(text: str, *, told: bool = False) -> set[str]:
    """The powers that a text touches on; `told`: that it would use, unwarned and unchecked."""
    words = read(text)
    touched = {
        power: [at for at, word in enumerate(words) if word.means & set(meanings) and "check" not in word.means]
        for power, meanings in POWERS.items()
    }
    if not told:
        return {power for power, at in touched.items() if at}
    anyhow = Harm("", "", (), careless=True)
    return {
        power
        for power, places in touched.items()
        if any(not _warned(words, at) and not _cared(words, at, anyhow) for at in places)
    }


def sense(words: Sequence[Word]) -> set[str]:
    """The telling meanings of some words: those that any text may hold are left out."""
    return {meaning for word in words for meaning in word.means} - PLAIN


def _meets(words: Sequence[Word], one: Harm, at: int, sentence: int, places: dict[tuple[int, str], list[int]]) -> bool:
    if any((sentence, other) in places for other in one.unless) or _narrated(words, one, at):
        return False
    least = at
    for thing in one.things:
        near = [
            place
            for place in places.get((sentence, thing), ())
            if place != at
            and (place > at or words[at].text != "without")
            and abs(words[place].at - words[at].at) <= one.near
            and (one in _REFUSED or not _struck(words, at, place))
        ]
        later = [place for place in near if place > least] if one.ordered else near
        if not later:
            return False
        least = later[0]
    return True


def _struck(words: Sequence[Word], at: int, place: int) -> bool:
    """Whether a thing that follows the deed is named as what it is not: `in the header, not in the URL`."""
    return any(
        "not" in one.means and one.clause == words[place].clause for one in words[max(at + 1, place - 3) : place]
    )


def _narrated(words: Sequence[Word], one: Harm, at: int) -> bool:
    """Whether it is told what came of it: `Without checking the code, a failed copy was kept`."""
    return (
        one.deed == "without"
        and (at == 0 or words[at - 1].sentence < words[at].sentence)
        and any("adverse" in word.means for word in words[at:] if word.sentence == words[at].sentence)
    )


def _warned(words: Sequence[Word], at: int) -> bool:
    """Whether the clause of a deed says that it is not to be done."""
    return any("not" in one.means for one in _before(words, at)) or any(
        "not_after" in one.means for one in words[at + 1 : at + SCOPE] if one.clause == words[at].clause
    )


def _refused(words: Sequence[Word], at: int) -> bool:
    """Whether a deed is told not to be done, in so many words."""
    ahead = [one.means for one in _before(words, at)][-4:]
    if any("not" in one for one in ahead):
        return not any("without" in one for one in ahead)
    return any("not_after" in one.means for one in words[at + 1 : at + SCOPE] if one.clause == words[at].clause)


def _cared(words: Sequence[Word], at: int, one: Harm) -> bool:
    """Whether a check or a person stands before the deed, itself neither skipped nor forbidden."""
    return one.careless and any(
        "check" in word.means and not _warned(words, i) and not any("without" in other.means for other in words[:i])
        for i, word in enumerate(words)
        if word.sentence == words[at].sentence and i != at
    )


def _before(words: Sequence[Word], at: int) -> Iterator[Word]:
    return (one for one in words[max(at - SCOPE, 0) : at] if one.clause == words[at].clause)
