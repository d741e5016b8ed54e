"""Normalize text, and decode disguised text.

Comparing does not depend on width, case or spacing, and text is judged by what it says, however it is encoded.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import string
import unicodedata
import urllib.parse
from collections.abc import Iterable, Iterator

from langgraph_reflexion.text import lazy_pattern


def normalize(text: str) -> str:
    """The text in one width (NFKC) and one case."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def fold(text: str) -> str:
    """The text as a comparison key: normalized, with single spaces and no punctuation at either end."""
    return " ".join(normalize(text).split()).strip(" .,;:!?\"'`。、，；：！？“”‘’…")


def known_word(word: object, words: Iterable[str]) -> str | None:
    """The word of a closed set, in any case and spelling ("Tool misuse"). None if there is none."""
    if not isinstance(word, str):
        return None
    folded = re.sub(r"[^a-z]+", "_", word.lower()).strip("_")
    return next((known for known in words if folded in (known, f"{known}s")), None)


def word_set(words: str) -> frozenset[str]:
    """A set of words, written as one text with spaces between them."""
    return frozenset(words.split())


# ---------------------------------------------------------------- text in disguise

INVISIBLE = lazy_pattern(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
    "|[\U000e0100-\U000e01ef]{2,}|(?<![\u3400-\u9fff])[\U000e0100-\U000e01ef]"
    "|[\u200c\u200d](?=[A-Za-z0-9\u4e00-\u9fff ])|(?<=[A-Za-z0-9\u4e00-\u9fff ])[\u200c\u200d]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
"""Characters that no reader sees. Joiners are left where a script or an emoji needs them."""

_LOOKALIKES = str.maketrans(
    "аеорсухіѕԁɡɩοαενρτυκχıɪɢɴʀᴇᴀʟᴘᴠᴏᴜꜱᴛᴄᴍᴅʙʏᴡғʜᴊᴋᴢβАВЕКМНОРСТХІЅЈΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxisdgioaevptukxiignrealpvoustcmdbywfhjkzbABEKMHOPCTXISJABEZHIKMNOPTYX",
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_DIGITS_FOR_LETTERS = str.maketrans("01345789@$!+", "oieastbgasit")
_LETTER = re.compile(r"[^\W\d_]")
_MIXED = lazy_pattern(r"[\w@$!+]+")
_SPELLED_OUT = lazy_pattern(r"\b\w(?: {1,4}\w\b){4,}|\b[^\W\d](?:[-._*|][^\W\d]\b){3,}")
_ENCODED = lazy_pattern(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_CHARACTER_CODES = lazy_pattern(r"\b\d{2,3}(?:[ ,]{1,2}\d{2,3}){7,}\b")
_ESCAPED = lazy_pattern(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_UNSPACED = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{4}")
_ATBASH = str.maketrans(string.ascii_letters, string.ascii_lowercase[::-1] + string.ascii_uppercase[::-1])


def visible(text: str) -> str:
    """The text as a reader sees it: one width, nothing invisible, Latin letters in place of their lookalikes."""
    text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return text if text.isascii() else _NOT_ASCII.sub(lambda found: _bare(found.group()), text)


def _bare(text: str) -> str:
    """Letters without their marks, Latin ones in place of their lookalikes."""
    bare = "".join(sign for sign in unicodedata.normalize("NFD", text) if not unicodedata.combining(sign))
    return unicodedata.normalize("NFC", bare).translate(_LOOKALIKES)


def decoded(text: str) -> Iterator[str]:
    """What stretches in base 64, 32 or 16, and rows of character codes, say where they hold words."""
    for codes in _CHARACTER_CODES.finditer(text):
        read = "".join(chr(int(code)) for code in codes.group().replace(",", " ").split())
        if " " in read.strip() and read.isprintable():
            yield read
    for stretch in _ENCODED.finditer(text):
        encoded = stretch.group().rstrip("=")
        for decode in (_base64, _base32, bytes.fromhex):
            try:
                read = decode(encoded).decode("utf-8")
            except (ValueError, binascii.Error):
                continue
            if (" " in read.strip() or _UNSPACED.search(read)) and read.replace("\n", " ").isprintable():
                yield read


def readings(text: str) -> Iterator[str]:
    """Other ways to read a visible text: unescaped, spelled out, digits for letters, shifted letters, backwards."""
    unescaped = _ESCAPED.sub(lambda found: chr(int(found.group(1) or found.group(2), 16)), text)
    unescaped = urllib.parse.unquote(html.unescape(unescaped))
    spelled = _SPELLED_OUT.sub(lambda found: re.sub(r"(?<=\w)[ ._*|-](?=\w)", "", found.group()), text)
    # A number stays; in a word, digits and signs may stand for letters.
    letters = _MIXED.sub(
        lambda found: found[0].translate(_DIGITS_FOR_LETTERS) if _LETTER.search(found[0]) else found[0], text
    )
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\w)[_/-]+(?=\w)", " ", text)
    others = (unescaped, spelled, letters, apart, codecs.encode(text, "rot13"), text[::-1], text.translate(_ATBASH))
    yield from (other for other in dict.fromkeys(others) if other != text)


def _base64(encoded: str) -> bytes:
    altchars = b"-_" if set(encoded) & set("-_") else None
    return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=altchars)


def _base32(encoded: str) -> bytes:
    return base64.b32decode(encoded + "=" * (-len(encoded) % 8))
