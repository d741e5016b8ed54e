"""Frames: the few shapes that orders of a stranger have, whatever their words.

Each names who would do what with which thing, in one sentence: a reader that obeys, what is private that leaves, a
safeguard that is lowered, a standing that is claimed. `a|b` is either of two meanings. `HARMS` know known wordings.
"""

from __future__ import annotations

from langgraph_reflexion.memory.trust.harms import CARRIES, CHECKS, DROPS, FIXES, HIDES, OBEYS, RIGHTS, Harm

RUNS = "it runs what a stranger gives"
STANDING = "it claims a standing of its own"
VOICE = "it speaks for a stranger"

FAR = 30
"""Words within which a frame's parts may stand: mostly anywhere in the sentence."""

HELD = "credential|records|private|own_rules"
"""What a reader holds for others, and hands to no stranger."""

FRAMES: tuple[Harm, ...] = (
    # what the reader was told no longer holds, or comes after a stranger's text
    Harm(DROPS, "forget_rules", ("past_rules|own_rules",), 12),
    Harm(DROPS, "self", ("unlimited",), 12),
    Harm(OBEYS, "obey", ("page|deixis",), FAR),
    Harm(OBEYS, "deixis", ("reader|boss|outrank|licence",), FAR),
    Harm(OBEYS, "trusting", ("page|deixis", "safe"), FAR),
    Harm(VOICE, "readers", ("mustdo",), 8),
    # what is private leaves, or the reader shows what it was told
    Harm(CARRIES, "present|expose", ("own_rules",), FAR, ("hide",)),
    Harm(CARRIES, "move|expose|spread_on", (HELD, "third|us|pointed|name|carrier"), FAR, ("hide", "place"), True),
    Harm(CARRIES, "present", ("credential",), 6, ("hide",), True),
    Harm(CARRIES, "move|expose", ("us|address",), 12),
    # a safeguard is lowered
    Harm(CHECKS, "agree", ("proxy",), 6, careless=True),
    Harm(CHECKS, "gravely", ("spared",), 12),
    Harm(CHECKS, "needless", ("guard|ask|leave",), 6),
    Harm(CHECKS, "leave", ("assumed",), 8),
    Harm(CHECKS, "danger", ("carryon",), 14),
    Harm(RIGHTS, "elevate", ("powerthing",), 8, careless=True),
    Harm(RIGHTS, "authority", ("licence", "reader"), FAR),
    Harm(RIGHTS, "authority", ("licence", HELD), FAR),
    Harm(RUNS, "launch", ("foothold|foreign_code",), FAR, careless=True),
    # a standing, or a preference, that nobody gave it
    Harm(STANDING, "lesson", ("standing",), FAR),
    Harm(STANDING, "lesson|spread_on", ("lasting",), 6),
    Harm(STANDING, "erase", ("others", "lesson"), 8),
    Harm(FIXES, "commend", ("name", "universal"), FAR),
    Harm(FIXES, "voice", ("name", "opinion"), FAR),
    Harm(VOICE, "us", ("self|commend|reader",), FAR),
    Harm(HIDES, "concealed", (), FAR),
)  # fmt: skip
"""What is harm where nothing in its clause warns of it."""

REFUSALS: tuple[Harm, ...] = (
    Harm(CHECKS, "ask", ("asked",), 6, ("again", "harmless")),
    Harm(HIDES, "say", ("silent_of",), FAR),
)
"""What is harm where it is told not to be done."""
