"""Fingerprints: the same mistake on another instance is recognised by what is left when its literals are masked."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from langgraph_reflexion.text.masking import MAIL

LOOKED_AT = 1_500
"""Characters of a text that a fingerprint is made of."""

LENGTH = 120
"""Characters of a fingerprint that stay readable; what follows is hashed."""

_MASKS = (
    (re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://[^\s'\"<>)\]]+", re.IGNORECASE), "<url>"),
    (re.compile(r"\bwww\.[^\s'\"<>)\]]+", re.IGNORECASE), "<url>"),
    (re.compile(MAIL), "<mail>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"(?<![\w'])'(?:[^'\\\n]|\\.)*'(?!\w)|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]*`"), "<str>"),
    (re.compile(r"“[^”\n]*”|‘[^’\n]*’|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》|«[^»\n]*»"), "<str>"),
    (
        re.compile(
            r"\b[A-Za-z]:\\[^\s'\"<>]+|(?<![\w/<])(?:~|\.{1,2})?/[\w.@%+~-]+(?:/[\w.@%+~-]*)*|\b[\w.-]+(?:/[\w.@%+-]+){2,}/?|\b[\w-]+(?:/[\w-]+)+\.\w+"
        ),
        "<path>",
    ),
    (
        re.compile(
            r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b(?!\.\d)"
            r"|\b(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|cn|de|uk|fr|eu|jp|local|internal|example)\b(?::\d+)?(?!\.?\w)",
            re.IGNORECASE,
        ),
        "<host>",
    ),
    (
        re.compile(r"\b\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b"),
        "<date>",
    ),
    (re.compile(r"\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\d{4}年\d{1,2}月\d{1,2}[日号]?"), "<date>"),
    (re.compile(r"\b\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\b"), "<time>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)+\b"), "<id>"),
    (re.compile(r"\b(?=\w*\d)[A-Za-z]+\d\w*\b|\b(?!\d+[eE]\d+\b)\d+(?:[A-Za-z]{3,}|[A-Za-z]+\d)\w*\b"), "<id>"),
    (re.compile(r"(?<![\w<])[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?%?(?=\D|$)", re.IGNORECASE), "<n>"),
)


def fingerprint(signal: str, tool: str | None, text: str, literals: Iterable[str] = ()) -> str:
    """The same text for the same mistake, whatever instance it was made on, in every process.

    It reads `signal|tool|what went wrong`, with numbers, ids, quoted text, paths, links and dates masked;
    `literals` are further values to mask, such as the arguments of the call.
    """
    said = masked(_last_word(text), literals)
    if len(said) > LENGTH:
        said = f"{said[:LENGTH]}#{hashlib.sha256(said.encode()).hexdigest()[:8]}"
    return f"{signal}|{tool or ''}|{said}"


def masked(text: str, literals: Iterable[str] = ()) -> str:
    """The text in small letters with every literal replaced by a word for its sort."""
    plain = unicodedata.normalize("NFKC", text).encode("utf-8", "replace").decode()
    for literal in sorted({one for one in literals if len(one) > 1}, key=lambda one: (-len(one), one)):
        if literal in plain:  # first looked for as it is: a pattern of a whole file takes seconds to compile
            plain = re.sub(rf"(?<!\w){re.escape(literal)}(?!\w)", "<str>", plain)
    for pattern, word in _MASKS:
        plain = pattern.sub(word, plain)
    plain = re.sub(r"(<\w+>)(?:\s*[,;、]\s*\1)+", r"\1", plain)
    return " ".join(plain.split()).lower().rstrip(" .!。")


def _last_word(text: str) -> str:
    """Of a traceback, its last line: the frames above it say where, not what."""
    if "Traceback (most recent call last)" in text:
        lines = [line for line in text.strip().splitlines() if line.strip()]
        return lines[-1][:LOOKED_AT] if lines else ""
    return text[:LOOKED_AT]
