"""Bring text to one spelling, so that comparing does not depend on width, case or spacing."""

from __future__ import annotations

import unicodedata


def normalize(text: str) -> str:
    """The text in one width (NFKC) and one case."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def fold(text: str) -> str:
    """The text as a comparison key: normalized, with single spaces and no punctuation at either end."""
    return " ".join(normalize(text).split()).strip(" .,;:!?\"'`。、，；：！？“”‘’…")


def word_set(words: str) -> frozenset[str]:
    """A set of words, written as one text with spaces between them."""
    return frozenset(words.split())
