"""Arguments: what a text on the command line must be, and the value it stands for."""

from __future__ import annotations

import argparse
import math
from datetime import datetime

MOST_TRIALS = 50


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def trials(text: str) -> int:
    """A number of attempts that a table has columns for."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_TRIALS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST_TRIALS}, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """A length of time."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not (math.isfinite(found) and found > 0):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return found


def time(text: str) -> datetime:
    """A moment; without a zone it is this machine's."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a time such as 2031-03-04T12:00+01:00, got {text!r}") from None
    return found.astimezone()


def url(text: str) -> str:
    """An address on the web."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"must begin with http:// or https://, got {text!r}")
    return text


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name for name in text.replace(",", " ").split())


def price(text: str) -> tuple[float, float]:
    """Dollars for a million tokens, given and got."""
    try:
        given, got = (float(part) for part in text.split(","))
    except ValueError:
        given = got = -1.0
    if not (math.isfinite(given + got) and min(given, got) >= 0):
        raise argparse.ArgumentTypeError(f"must be two amounts of dollars such as 0.15,0.60, got {text!r}")
    return given, got
