"""Wrong use: what a person at the command line has to say otherwise, and exceptions as one sentence."""

from __future__ import annotations

from pydantic import ValidationError

LONGEST = 400


class WrongUse(Exception):  # noqa: N818 — it is the user's, not the program's
    """The command cannot be carried out as it was given. Its text says why, and the way out."""


def sentence(fault: BaseException) -> str:
    """An exception in one line: what a validator says, else the first paragraph."""
    inner = fault if isinstance(fault, ValidationError) else fault.__cause__
    if isinstance(inner, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}".lstrip(": ") for one in inner.errors())
    said = " ".join(str(fault).strip().split("\n\n")[0].split())
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"
