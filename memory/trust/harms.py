"""Harms: what a lesson would have its reader do, told by the meanings that meet in one sentence.

A lesson is dangerous by what it does, in whatever words: it drops a check, sends out what is private, spends, grants,
destroys, hides something from a person, obeys whoever writes, or fixes an answer beforehand. What a sentence warns of,
or has a person asked about first, it does not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from langgraph_reflexion.text.words import listed


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
    Harm(DROPS, "needless", ("heed", "inhouse"), 7),
    Harm(DROPS, "off", ("rules",), 4),
    Harm(DROPS, "worthless", ("person",), 6),
    Harm(CHECKS, "skip", ("guard",), 6),
    Harm(CHECKS, "needless", ("guard",), 6),
    Harm(CHECKS, "needless", ("check", "risky"), 14),
    Harm(CHECKS, "without", ("guard",), 4),
    Harm(CHECKS, "without", ("check",), 4, ("again",)),
    Harm(CHECKS, "without", ("tell",), 4),
    Harm(CHECKS, "treat", ("failing", "passing"), 8, careless=True),
    Harm(CHECKS, "weak", ("secret", "all"), 5, careless=True),
    Harm(CHECKS, "approve", ("yourself",), 5, careless=True),
    Harm(CHECKS, "spend", ("silence",), 14),
    Harm(CHECKS, "risky", ("silence",), 14),
    Harm(CHECKS, "treat", ("passing", "before", "check"), 7, ordered=True),
    Harm(CHECKS, "weak", ("guard", "all"), 8, careless=True),
    Harm(CHECKS, "treat", ("silence", "guard"), 10),
    Harm(CHECKS, "click", ("guard", "unbound"), 8),
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
    Harm(MONEY, "buys", ("unbound",), 6, careless=True),
    Harm(MONEY, "account", ("new", "letter"), 10, careless=True),
    Harm(MONEY, "account", ("new", "unbound"), 10, careless=True),
    Harm(MONEY, "spend", ("person", "premium"), 8, careless=True),
    Harm(MONEY, "move", ("account", "money"), 12, careless=True),
    Harm(MONEY, "pay", ("before", "contract"), 10, careless=True, ordered=True),
    Harm(MONEY, "pay", ("small", "limit"), 14),
    Harm(RIGHTS, "grant", ("high",), 7, ("guard",), careless=True),
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
    Harm(CARRIES, "move", ("secret", "third"), 10),
    Harm(CARRIES, "move", ("secret", "publicplace"), 9, ("hide",)),
    Harm(CARRIES, "move", ("private", "source"), 12),
    Harm(CARRIES, "show", ("secret", "all"), 6),
    Harm(CARRIES, "plaintext", ("secret",), 8),
    Harm(CARRIES, "webhook", ("private",), 9),
    Harm(CARRIES, "tell", ("secret", "publicplace"), 9),
    Harm(CARRIES, "tell", ("private", "third"), 9),
    Harm(CARRIES, "bcc", ("out",), 8),
    Harm(CARRIES, "keep", ("secret", "publicplace"), 9, ("hide",)),
    Harm(CARRIES, "show", ("own_rules",), 8, ("hide",)),
    Harm(CARRIES, "move", ("own_rules", "out"), 12),
    Harm(DESTROYS, "delete", ("valuable",), 6, ("harmless", "saved"), careless=True),
    Harm(DESTROYS, "trash", ("valuable",), 8, ("harmless", "saved"), careless=True),
    Harm(HIDES, "hide", ("adverse", "report"), 10),
    Harm(HIDES, "hide", ("adverse", "person"), 10),
    Harm(HIDES, "delete", ("owed", "report"), 12),
    Harm(HIDES, "secretly", ("report",), 12),
    Harm(HIDES, "unseen", ("delete",), 9),
    Harm(HIDES, "delete", ("adverse", "report"), 9, careless=True),
    Harm(HIDES, "unseen", ("person",), 7),
    Harm(HIDES, "unseen", ("adverse",), 7),
    Harm(OBEYS, "follow", ("source", "orders"), 12, ("brief",)),
    Harm(OBEYS, "follow", ("source", "whatever"), 9),
    Harm(OBEYS, "telling", ("source",), 10, ("halt",)),
    Harm(OBEYS, "mustfollow", ("source",), 10),
    Harm(OBEYS, "outrank", ("orders", "source", "person"), 12),
    Harm(OBEYS, "follow", ("source", "goals"), 7, ("halt",)),
    Harm(OBEYS, "asorder", ("source",), 8),
    Harm(OBEYS, "source", ("outrank", "person"), 16, ordered=True),
    Harm(OBEYS, "source", ("steer", "yours"), 10),
    Harm(FIXES, "answer", ("regardless",), 12),
    Harm(FIXES, "prefer", ("only",), 9),
    Harm(FIXES, "prefer", ("regardless",), 9),
    Harm(FIXES, "praise", ("all",), 8),
    Harm(FIXES, "cheat", ("failing", "passing"), 8),
    Harm(FIXES, "prefer", ("own",), 4),
    Harm(FIXES, "only", ("spend",), 9, ("before",)),
    Harm(FIXES, "stars", ("prefer", "all"), 8),
    Harm(FIXES, "cheat", ("graded", "passing"), 9),
    Harm(FIXES, "answer", ("passing", "without"), 7),
    Harm(FIXES, "rival", ("bad",), 6),
    Harm(FIXES, "stars", ("give",), 3),
)

REFUSED: tuple[Harm, ...] = (
    Harm(DROPS, "heed", ("rules", "inhouse"), 6),
    Harm(CHECKS, "asking", ("risky",), 12, ("again", "harmless")),
    Harm(HIDES, "tell", ("person", "adverse"), 9),
    Harm(HIDES, "tell", ("owed",), 5),
    Harm(HIDES, "tell", ("altered",), 7),
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
