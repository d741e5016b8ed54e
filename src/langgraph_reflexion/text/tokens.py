"""Normalize text and split it into tokens, in any language: stems, and bigrams where a script has no spaces."""

from __future__ import annotations

import html
import math
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable

from langgraph_reflexion.text import lazy_pattern


def word_set(words: str) -> frozenset[str]:
    """A set of words, written as one text with spaces between them."""
    return frozenset(words.split())


STOP_WORDS = word_set(
    """
    a about above after again all also always an and any are as at be because been before being below between both
    but by can cannot could did do does doing don done down during each either else ever every few for from further
    get given gives gets had has have having he her here hers him his how i if in into is it its itself just let
    like may me might mine more most much must my need needs never no nor not now of off on once one only onto or
    other our out over own per please shall she should since so some such than that the their them then there these
    they this those through thus to too under until up upon us use used uses using very via want was we were what
    when where whether which while who whom whose why will with within without would yes yet you your yours
    """
)
"""English function words, which say nothing about the subject of a text. The package has no other stop words."""

PARTICLES = frozenset("的了是在和与及或把被将也都就而但之于吧吗呢啊这那其很更们我你他她它您又只")
"""Chinese function characters."""

STOP_BIGRAMS = word_set(
    """
    可以 应该 需要 一个 一次 一下 如果 时候 以前 以后 所有 必须 不要 不能 总是 已经 没有 然后 因为 所以 进行 使用
    通过 任何 每个 每次 以及 或者 什么 怎么 这个 那个 一定 不得 不可 之前 之后 下来 起来 出来 还是 还有 为了 关于
    直到 一直 继续
    """
)
"""Chinese function words of two characters."""

UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean characters, which are written without spaces or nearly so."""

LETTERS = r"A-Za-z0-9_\u00c0-\u0dff\u10a0-\u177f\u1800-\u1fff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"
"""What words consist of in the other scripts. The ranges are read faster than `\\w` without the characters above."""

_OTHER_SCRIPT = r"[^\W\x00-\u024f]"
EDGE = rf"(?-i:\b|(?<={_OTHER_SCRIPT})(?=[0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?={_OTHER_SCRIPT}))"
"""The edge of a word, also beside a letter of another script, where `\\b` does not match."""


class EdgePattern:
    """A regular expression in which `\\b` stands for `EDGE`.

    A text in ASCII has no other scripts, and `re.ASCII` reads it four times as fast.
    """

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._ascii = lazy_pattern(pattern, flags | re.ASCII)
        self._any = lazy_pattern(pattern.replace(r"\b", EDGE), flags)

    def for_text(self, text: str) -> re.Pattern[str]:
        """The faster of the two patterns that find the same in this text."""
        if not text.isascii() or "\x1c" in text or "\x1d" in text or "\x1e" in text or "\x1f" in text:
            return self._any  # to `re.ASCII`, these four are no white space
        return self._ascii


STEM_LETTERS = 4
"""How many letters count of a word with letters that English does not have: in most languages, they stay the same in
all its forms.

Of 78 tasks in Russian, Ukrainian, Greek, Arabic and Hebrew, on which it was not chosen (`alphabets` in
`benchmarks/recall.py`), 69 % are shown the right lesson first. If five letters count, it is 56 %, and 13 % if all do.
No task that fits no lesson is shown one.
"""

MARKS = r"\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u0652\u0900-\u0963\u0966-\u0dff"
"""Accents, the points of Hebrew and Arabic, and the scripts of India with their vowel signs, which `\\w` leaves out."""

_PIECE = re.compile(rf"[a-z]\+\+|[a-z]#|[\w{MARKS}]+(?:['’][a-z]+)?", re.IGNORECASE)
_SEAM = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NO_SPACES = re.compile(f"[{UNSPACED}]+")
_CONTRACTION = re.compile(r"['’](?:s|d|ll|re|ve|m|t)$")
_PUNCTUATION = re.compile(r"[^\w\s]")
_WIDE_LETTERS = re.compile(r"[^\W\d_\x00-\u024f]+")
_ARTICLE = re.compile(r"^(?:[وفبك]?ال|لل)(?=\w{3})")
"""The Arabic article, with the prepositions that are written together with it."""
_START = re.compile(rf"[\x00-\x7f]{{{STEM_LETTERS},}}.|.{{{STEM_LETTERS}}}")
"""Four letters, or more up to the first that English does not have: `canc` of `Cancún` would be an English word."""
_VOWEL = re.compile(r"[aeiouy]")
_ESCAPED = lazy_pattern(r"\\{1,8}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt])")
"""Escapes of JSON, also of JSON within JSON."""
_ENTITY = lazy_pattern(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,31});?")
"""HTML's escapes. A longer number is not one: `html.unescape` fails on thousands of digits."""
_INITIALS = lazy_pattern(r"\b[^\W\d_](?:\.[^\W\d_])+\b")
_TAG_CHARACTER = lazy_pattern("[\U000e0020-\U000e007e]")


def tokens_of_piece(piece: str) -> list[str]:
    """The tokens of a run of letters and digits."""
    if piece.isalnum() and (piece.islower() or piece[1:].islower() or piece.isdecimal()):
        return _tokens_of_part(piece.casefold())
    parts = _SEAM.sub(" ", piece).split()
    found = [piece.casefold()] if len(parts) > 1 else []
    for part in parts:
        found += _tokens_of_part(part.casefold())
    return found


def tokens(text: str, of_piece: Callable[[str], list[str]] = tokens_of_piece) -> list[str]:
    """The content words of a text, in order, folded and lightly stemmed; stop words are dropped.

    An identifier (`get_user`, `parseDate`) counts whole and by its parts. Scripts written without spaces give
    bigrams; a character without a neighbor stands alone. To read thousands of texts at once, pass
    `cache(tokens_of_piece)` as `of_piece`: most of their words are the same.
    """
    found: list[str] = []
    for piece in _PIECE.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)):
        found += of_piece(piece)
    return found


def whole_words(text: str) -> list[str]:
    """The tokens of a text with all letters of foreign words, to tell apart two that only begin alike."""
    return tokens(text, _whole_piece)


def function_words(text: str) -> frozenset[str]:
    """The English function words in a text."""
    return STOP_WORDS.intersection(re.findall(r"[a-z]+", text.lower()))


def characters(text: str) -> set[str]:
    """The content characters of scripts written without spaces."""
    return {character for run in _NO_SPACES.findall(text) for character in run if character not in PARTICLES}


def normalize(text: str) -> str:
    """The text in one width (NFKC) and one case."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def join_initials(text: str) -> str:
    """The text with `USA` for `U.S.A.`."""
    return _INITIALS.sub(lambda found: found[0].replace(".", ""), text)


def unescaped(text: str) -> str:
    """The text with its escapes read, as JSON, HTML and addresses write them, and with tag characters as letters."""
    text = _TAG_CHARACTER.sub(lambda found: chr(ord(found[0]) - 0xE0000), text)
    text = _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)) if found[1] or found[2] else "\n", text)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # JSON writes a wide character as two
    return urllib.parse.unquote(_ENTITY.sub(lambda found: html.unescape(found[0]), text))


def fold(text: str) -> str:
    """The text as a comparison key: normalized, with single spaces and no punctuation at either end."""
    return " ".join(normalize(text).split()).strip(" .,;:!?\"'`。、，；：！？“”‘’…")


def known_word(word: object, words: Iterable[str]) -> str | None:
    """The word of a closed set, in any case and spelling ("Tool misuse", "ToolMisuse"). None if there is none."""
    if not isinstance(word, str):
        return None
    folded = re.sub(r"[^a-z]+", "_", _SEAM.sub(" ", word).lower()).strip("_")
    return next((known for known in words if folded in (known, f"{known}s", f"{known}_error")), None)


def stem(word: str) -> str:
    """The word without the most common English endings: the same for nearly all forms of a word."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word[-1] == "s" and word[-2] not in "sui":
        word = word[:-1]
    if word[-1] in "gd" and word.endswith(("ing", "ed")) and not word.endswith("eed"):
        root = word[:-3] if word[-1] == "g" else word[:-2]
        if len(root) >= 3 and _VOWEL.search(root):
            word = root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz" else root
    if word[-1] == "e" and len(word) > 3:
        word = word[:-1]
    return word[:-1] + "i" if word[-1] == "y" and len(word) > 3 else word


def count_tokens(text: str) -> int:
    """An estimate of how many tokens a model reads, in any script. It is rather too high than too low.

    The factors were fitted to the tokenizers of common models: 4.5 letters of a spaced script are a token, a
    character of an unspaced one is 1.2.
    """
    words = text.split()
    marks = len(_PUNCTUATION.findall(text))
    unspaced = wide = 0
    if not text.isascii():
        unspaced = sum(map(len, _NO_SPACES.findall(text)))
        wide = sum(map(len, _WIDE_LETTERS.findall(text))) - unspaced
    letters = sum(map(len, words)) - marks - unspaced
    return math.ceil(max(len(words), letters / 4.5) + 1.2 * unspaced + 0.6 * marks + 0.3 * wide)


def _whole_piece(piece: str) -> list[str]:
    return tokens_of_piece(piece) if piece.isascii() or _NO_SPACES.search(piece) else [piece.casefold()]


def _tokens_of_part(part: str) -> list[str]:
    if part.isascii():
        return _token_of(part)
    found, start = [], 0
    for run in _NO_SPACES.finditer(part):
        found += _token_of(part[start : run.start()]) + _bigrams(run.group())
        start = run.end()
    return found + _token_of(part[start:])


def _token_of(word: str) -> list[str]:
    if not word.isalnum():
        word = _CONTRACTION.sub("", word)
    if not word or word in STOP_WORDS or (len(word) == 1 and word.isalpha() and word.isascii()):
        return []
    if word.isascii() or word.isdecimal():
        return [stem(word)]
    word = _ARTICLE.sub("", word)
    start = _START.match(word)
    return [start[0] if start else word]


def _bigrams(run: str) -> list[str]:
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    content = [pair for pair in pairs if pair not in STOP_BIGRAMS and not PARTICLES & set(pair)]
    edge = {"", *PARTICLES}
    alone = [sign for i, sign in enumerate(run) if sign not in edge and {run[i - 1 : i], run[i + 1 : i + 2]} <= edge]
    return content + alone
