"""Decoding: the other ways to read a text, so that what is said in disguise is judged by what it says."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import string
import unicodedata
import urllib.parse
from collections.abc import Iterator

SHORTEST = 12
"""Characters of the shortest stretch that is tried as an encoding."""

_BREAKS = re.compile("[\u2028\u2029\x0b\x0c\x85]")
_SPACE = re.compile(r"\s{2,}")
_LOOKALIKES = str.maketrans(
    "аеорсухіѕԁɡɩοαενρτυκχıɪɢɴʀᴇᴀʟᴘᴠᴏᴜꜱᴛᴄᴍᴅʙʏᴡғʜᴊᴋᴢβАВЕКМНОРСТХІЅЈΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxisdgioaevptukxiignrealpvoustcmdbywfhjkzbABEKMHOPCTXISJABEZHIKMNOPTYX",
)
_LEET = str.maketrans("01345789@$!+", "oieastbgasit")
_ATBASH = str.maketrans(string.ascii_letters, string.ascii_lowercase[::-1] + string.ascii_uppercase[::-1])
_MIXED = re.compile(r"(?=[\w@$!+]*[a-z])[\w@$!+]*[01345789@$!+][\w@$!+]*", re.IGNORECASE)
_TELLING = re.compile(
    r"\b(?:ignore|instructions?|system|prompt|approve|passwords?|reveal|rules|obey|keys?|send|always|never|the|you|your|all|and|user|without|skip|delete|forget)\b",
    re.IGNORECASE,
)
"""Words of which a text that was turned round would hold one by no accident."""
_STRETCH = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST},}}={{0,2}}")
_APART = re.compile(r"\b\w(?: {1,4}\w\b){4,}|\b[^\W\d](?:[-._*|][^\W\d]\b){3,}")
_NUMBERS = re.compile(r"\b\d{2,3}(?:[ ,]{1,2}\d{2,3}){7,}\b")
_DENSE = re.compile(r"[\u3400-\u9fff]{4}")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")


def plain(text: str) -> str:
    """The text with one form of each sign, and one space for a stretch of white ones."""
    text = _BREAKS.sub("\n", unicodedata.normalize("NFKC", text))
    # What may stand in a stretch of white space must not be tried from each of its places.
    return _SPACE.sub(lambda found: "\n" if "\n" in found.group() else " ", text)


def readings(text: str) -> Iterator[str]:
    """Other readings of a plain text: lookalikes, words run together, escapes, letters exchanged, turned round."""
    alike = text if text.isascii() else _bare(text).translate(_LOOKALIKES)
    if alike != text:
        yield alike
    if _MIXED.search(alike):
        yield _MIXED.sub(lambda found: found.group().translate(_LEET), alike)
    if re.search(r"[a-z][A-Z]|\w[_/.-]\w", alike):
        yield re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\w)[_/-]+(?=\w)", " ", alike)
    if "&" in text or "\\" in text or "%" in text:
        freed = _ESCAPED.sub(lambda found: chr(int(found.group(1) or found.group(2), 16)), text)
        freed = urllib.parse.unquote(html.unescape(freed))
        if freed != text:
            yield freed
    for turned in (codecs.encode(alike, "rot13"), alike[::-1], alike.translate(_ATBASH)):
        if _TELLING.search(turned):
            yield turned


def joined(text: str) -> str:
    """The text with letters that stand apart put together again, where wider gaps part the words."""
    return _APART.sub(lambda found: re.sub(r"(?<=\w)[ ._*|-](?=\w)", "", found.group()), text)


def decoded(text: str) -> Iterator[str]:
    """What stretches in base 64, 32 or 16, or rows of character numbers, say, where they hold words."""
    for row in _NUMBERS.finditer(text):
        said = "".join(chr(int(one)) for one in row.group().replace(",", " ").split())
        if " " in said.strip() and said.isprintable():
            yield said
    for found in _STRETCH.finditer(text):
        stretch = found.group().rstrip("=")
        for read in (_base64, _base32, bytes.fromhex):
            try:
                said = read(stretch).decode("utf-8")
            except (ValueError, binascii.Error):
                continue
            if (" " in said.strip() or _DENSE.search(said)) and said.isprintable():
                yield said


def _base64(stretch: str) -> bytes:
    return base64.b64decode(stretch + "=" * (-len(stretch) % 4), altchars=b"-_" if set(stretch) & set("-_") else None)


def _base32(stretch: str) -> bytes:
    return base64.b32decode(stretch + "=" * (-len(stretch) % 8))


def _bare(text: str) -> str:
    """Without marks on letters."""
    return "".join(sign for sign in unicodedata.normalize("NFD", text) if not unicodedata.combining(sign))
