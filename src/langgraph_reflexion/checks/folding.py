"""Folding: the same answer however it is written, and never two different ones.

As HotpotQA compares answers: case, articles, punctuation and space do not count. What its way would lose is kept:
signs and dots inside numbers and names (3.5 is not 35, C++ is not C), and an answer never folds to nothing.
"""

from __future__ import annotations

import re
import unicodedata

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹣－"), "-") | dict.fromkeys(map(ord, "‘’‛ʼ"), "'")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_ARTICLE = re.compile(r"\b(?:a|an|the)\s+(?=\w)")
_INITIALS = re.compile(r"\b[^\W\d_](?:\.[^\W\d_])+\b")
_OPERATION = re.compile(r"(?<!\S)(?:\w|[\d.]+) [-+*/=<>] (?:\S*\d\S*|\w)(?!\S)")
_AT_END = "+#"
_BETWEEN_LETTERS = ".+*^=<>#@&"


def folded(text: str) -> str:
    """The text as it is compared with others."""
    plain = " ".join(unicodedata.normalize("NFKC", text).translate(_DASHES).casefold().split())
    whole = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), plain)
    whole = _INITIALS.sub(lambda found: found[0].replace(".", ""), whole)
    kept = "".join(one if _counts(whole, i) else "" for i, one in enumerate(whole))
    bare = " ".join(kept.split())
    return " ".join(_ARTICLE.sub("", bare).split()) or bare or plain


def _counts(text: str, at: int) -> bool:
    """Whether the character is part of what is said, and no punctuation around it."""
    one = text[at]
    if one.isalnum() or one.isspace() or unicodedata.category(one)[0] not in "PS":
        return True
    if not one.isascii():
        return unicodedata.category(one)[0] == "S"  # ° and € say something; dots and quotes of any script do not
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if before.isdigit() and after.isdigit():
        return True
    if one in "-+*/=<>" and _OPERATION.search(text, max(0, at - 8), at + 12) and before + after == "  ":
        return True
    if after.isdigit() and one in "-+.":
        return not before.isalnum()
    if one in _AT_END and _ends_a_word(text, at):
        return True
    return one in _BETWEEN_LETTERS and before.isalnum() and after.isalnum()


def _ends_a_word(text: str, at: int) -> bool:
    """Whether only such signs stand between this one and the word it ends: the second plus of C++."""
    return bool(re.search(r"\w[+#]*$", text[:at]))
