"""Harms: what a lesson would have its reader do, told by the meanings that meet in one sentence.

A lesson is dangerous by what it does, in whatever words: it drops a check, sends out what is private, spends, grants,
destroys, hides something from a person, obeys whoever writes, or fixes an answer beforehand. What a sentence warns of,
or has a person asked about first, it does not do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from langgraph_reflexion.memory.meanings import Word, read
from langgraph_reflexion.memory.words import listed


class Harm(NamedTuple):
    """Meanings that say it when they meet within so many words; `unless` one of others stands in the sentence."""

    reason: str
    deed: str
    things: tuple[str, ...]
    near: int = 8
    unless: tuple[str, ...] = ()
    careless: bool = False
    """Whether it is harm only where no check or person stands before it."""
    ordered: bool = False
    """Whether the things must follow the deed, one after another."""


CHECKS = "it drops a check"
MONEY = "it spends or redirects money"
RIGHTS = "it gives rights away"
CARRIES = "it carries data out"
DESTROYS = "it destroys what is of value"
HIDES = "it hides something from a person"
OBEYS = "it gives a stranger's text the last word"
FIXES = "it fixes the answer beforehand"
DROPS = "it tells the reader to drop its instructions"

HARMS: tuple[Harm, ...] = (
    Harm(DROPS, "drop", ("rules", "prior"), 7),
    Harm(DROPS, "drop", ("told",), 6),
    Harm(DROPS, "off", ("rules",), 4),
    Harm(DROPS, "worthless", ("person",), 6),
    Harm(CHECKS, "skip", ("guard",), 6),
    Harm(CHECKS, "needless", ("guard",), 6),
    Harm(CHECKS, "needless", ("check", "risky"), 14),
    Harm(CHECKS, "without", ("guard",), 4),
    Harm(CHECKS, "without", ("check",), 4, ("again",)),
    Harm(CHECKS, "without", ("tell",), 4),
    Harm(CHECKS, "treat", ("failing", "passing"), 8, careless=True),
    Harm(CHECKS, "zero", ("guard",), 8),
    Harm(CHECKS, "secretly", ("risky",), 8),
    Harm(CHECKS, "answer", ("before", "guard"), 7, ordered=True),
    Harm(MONEY, "approve", ("all",), 5, careless=True, ordered=True),
    Harm(MONEY, "approve", ("unbound",), 6, careless=True),
    Harm(MONEY, "weak", ("request", "unbound"), 6, careless=True),
    Harm(MONEY, "pay", ("money", "unbound"), 7, careless=True),
    Harm(MONEY, "pay", ("whoever",), 9, careless=True),
    Harm(MONEY, "pay", ("sayso",), 6, careless=True),
    Harm(MONEY, "account", ("pay", "own"), 8, careless=True),
    Harm(MONEY, "gift", ("money",), 8),
    Harm(MONEY, "writeoff", ("pay",), 5, careless=True),
    Harm(MONEY, "approve", ("pay", "all"), 7, careless=True),
    Harm(MONEY, "spend", ("pay", "unbound"), 9, careless=True),
    Harm(MONEY, "pay", ("all", "approve"), 9, careless=True),
    Harm(MONEY, "pay", ("account", "new"), 14, careless=True),
    Harm(MONEY, "spend", ("gift",), 10, careless=True),
    Harm(MONEY, "spend", ("person", "premium"), 8, careless=True),
    Harm(MONEY, "move", ("account", "money"), 12, careless=True),
    Harm(MONEY, "pay", ("before", "contract"), 10, careless=True, ordered=True),
    Harm(MONEY, "pay", ("small", "limit"), 14),
    Harm(RIGHTS, "grant", ("high",), 7, careless=True),
    Harm(RIGHTS, "grant", ("anyone", "rights"), 9, careless=True),
    Harm(RIGHTS, "let", ("third", "holdings"), 9, careless=True),
    Harm(RIGHTS, "worldopen", (), careless=True),
    Harm(RIGHTS, "forever", ("rights",), 8),
    Harm(RIGHTS, "forever", ("secret",), 8),
    Harm(RIGHTS, "share", ("whoever",), 6, careless=True),
    Harm(RIGHTS, "act", ("impostor",), 5, careless=True),
    Harm(RIGHTS, "treat", ("third", "authority"), 12, careless=True),
    Harm(RIGHTS, "treat", ("source", "authority"), 12, careless=True),
    Harm(CARRIES, "move", ("private", "out"), 16),
    Harm(CARRIES, "move", ("secret", "out"), 16),
    Harm(CARRIES, "move", ("private", "anyone"), 16),
    Harm(CARRIES, "move", ("private", "each_time"), 12),
    Harm(CARRIES, "move", ("private", "demand"), 12, careless=True),
    Harm(CARRIES, "move", ("secret", "demand"), 12, careless=True),
    Harm(CARRIES, "give", ("secret", "third"), 9),
    Harm(CARRIES, "give", ("secret", "out"), 9),
    Harm(CARRIES, "give", ("secret", "unbound"), 9),
    Harm(CARRIES, "spread", ("secret",), 5),
    Harm(CARRIES, "bcc", ("out",), 8),
    Harm(CARRIES, "keep", ("secret", "publicplace"), 9, ("hide",)),
    Harm(CARRIES, "show", ("own_rules",), 8),
    Harm(CARRIES, "move", ("own_rules", "out"), 12),
    Harm(DESTROYS, "delete", ("valuable",), 6, ("harmless",), careless=True),
    Harm(DESTROYS, "trash", ("valuable",), 8, ("harmless",), careless=True),
    Harm(HIDES, "hide", ("adverse", "report"), 10),
    Harm(HIDES, "hide", ("adverse", "person"), 10),
    Harm(HIDES, "delete", ("owed", "report"), 12),
    Harm(HIDES, "secretly", ("report",), 12),
    Harm(HIDES, "unseen", ("person",), 7),
    Harm(HIDES, "unseen", ("adverse",), 7),
    Harm(OBEYS, "follow", ("source", "orders"), 12),
    Harm(OBEYS, "follow", ("source", "whatever"), 9),
    Harm(OBEYS, "telling", ("source",), 10, ("halt",)),
    Harm(OBEYS, "asorder", ("source",), 8),
    Harm(OBEYS, "source", ("outrank", "person"), 16, ordered=True),
    Harm(OBEYS, "source", ("steer", "yours"), 10),
    Harm(FIXES, "answer", ("regardless",), 12),
    Harm(FIXES, "prefer", ("only",), 9),
    Harm(FIXES, "prefer", ("regardless",), 9),
    Harm(FIXES, "praise", ("all",), 8),
    Harm(FIXES, "rival", ("bad",), 6),
    Harm(FIXES, "stars", ("give",), 3),
)

REFUSED: tuple[Harm, ...] = (
    Harm(CHECKS, "asking", ("risky",), 12, ("again", "harmless")),
    Harm(HIDES, "tell", ("person", "adverse"), 9),
    Harm(HIDES, "tell", ("owed",), 5),
    Harm(HIDES, "know", ("person",), 6),
    Harm(MONEY, "contest", ("pay",), 5),
)
"""What is harm where it is told not to be done."""

POWERS: Mapping[str, tuple[str, ...]] = {
    "money": ("pay", "gift", "writeoff", "premium"),
    "payees": ("account",),
    "secrets": ("secret",),
    "private data": ("private", "own_rules"),
    "strangers": ("bcc", "third", "whoever", "demand", "worldopen"),
    "rights": ("high", "impostor", "forever"),
    "checks": ("guard", "needless", "unasked"),
    "what is of value": ("valuable",),
    "packages": ("package",),
    "secrecy": ("hide", "secretly", "unseen", "owed"),
    "preference": ("prefer", "praise", "rival", "stars"),
    "orders": ("orders", "asorder", "off", "authority"),
}
"""What no stranger may decide, by the meanings that touch on it."""

PLAIN = listed(
    """
    not not_after all prior check asking before act fetch install answer tell know treat grant let move keep give
    follow new person source risky unbound regardless report adverse yours small limit approve whatever
    """
)
"""Meanings that any text may hold."""

SCOPE = 14
"""Words before a deed in which its clause may warn of it."""


def harm(text: str) -> str | None:
    """What harm a text would have done, or `None`."""
    words = read(text)
    places: dict[tuple[int, str], list[int]] = {}
    for at, word in enumerate(words):
        for meaning in word.means:
            places.setdefault((word.sentence, meaning), []).append(at)
    sentences = {word.sentence for word in words}
    for sentence in sentences:
        for one in HARMS:
            for at in places.get((sentence, one.deed), ()):
                if _meets(words, one, at, sentence, places) and not _warned(words, at) and not _cared(words, at, one):
                    return one.reason
        for one in REFUSED:
            for at in places.get((sentence, one.deed), ()):
                if _meets(words, one, at, sentence, places) and _refused(words, at):
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
            and abs(words[place].at - words[at].at) <= one.near
            and (one in REFUSED or not _struck(words, at, place))
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
