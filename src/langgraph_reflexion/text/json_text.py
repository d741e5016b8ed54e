"""JSON as models write it: values found in running text, read leniently, and never by a guess."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

DEPTH = 100
"""Objects and lists inside one another; what lies deeper is refused."""

SPARE_WORK = 10_000
"""What may be read more than once, beyond one reading of the whole text."""

QUOTES = "\"'"
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}

_THINKING = re.compile(r"^\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_BLANK = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_STRING = re.compile(r"\"((?:[^\"\\]++|\\.)*+)\"|'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_NUMBER = re.compile(r"([-+]?[0-9]++)(\.[0-9]*+)?([eE][-+]?[0-9]++)?(?![\w.])")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_OPENING = re.compile(r"\{(?=\s*+[\"'\w}/#])|\[(?=\s*+[\"'\w\[{\]+-])")
_BRACE = re.compile(r"[{}]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


@dataclass(frozen=True)
class Whole:
    """A value that stands in the text from `start` to `end`; `twice` is a key that one of its objects gives twice."""

    value: Any
    start: int
    end: int
    twice: str | None = None


@dataclass(frozen=True)
class Torn:
    """Something that opens like a value at `start` and cannot be read past `at`.

    `end` is where its braces close by count, quotes aside. `keys` are those of the outermost object; `certain` says
    that a quoted key with its colon was read, so that it is no mere brace in prose.
    """

    start: int
    at: int
    end: int
    why: str
    keys: frozenset[str] = frozenset()
    certain: bool = False


class TangledError(ValueError):
    """The text takes more work than a reply is worth, or nests too deep."""


def whole(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates, which no provider takes, replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("\ufffd", _PAIR.sub(lambda pair: join(*pair[0]), text))


def without_thinking(text: str) -> str:
    """Return what follows the reasoning that some models write first; where it has no end, nothing does."""
    return _THINKING.sub("", text).strip()


def join(high: str, low: str) -> str:
    """Return the one character that two surrogates stand for."""
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))


def values_in(text: str) -> Iterator[Whole | Torn]:
    """Yield the objects and lists that stand side by side in the text, whatever prose is around them.

    A value inside another, or inside a string of another, is not yielded. After something `Torn` that is certainly
    meant as a value the text is not read on, because nobody can say where it was to end. Raises `TangledError`.
    """
    reader, at = _Reader(text), 0
    while opening := _OPENING.search(text, at):
        one = reader.value_at(opening.start())
        yield one
        if isinstance(one, Torn) and one.certain:
            return
        # A bracket in prose hides nothing; code in braces is passed over as a whole.
        at = one.end if isinstance(one, Whole) or one.keys else opening.end()


def only_value(text: str) -> Whole | Torn:
    """Return the value that is the whole of the text, of any shape; a number or a string too. Raises `TangledError`."""
    one = _Reader(text).value_at(0)
    if isinstance(one, Whole) and (end := blank_end(text, one.end)) < len(text):
        return Torn(one.start, end, len(text), "something follows the value")
    return one


def blank_end(text: str, at: int) -> int:
    """Return where the white space and the comments at `at` end."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def place(text: str, at: int) -> str:
    """Return a position as a person counts it, with the words that stand there."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    near = " ".join(text[at : at + 30].split())
    return f"line {line}, column {column}" + (f", near {near!r}" if near else ", the end of the text")


@dataclass
class _Frame:
    """An object or a list that is still open."""

    made: dict[str, Any] | list[Any]
    key: str = ""

    def put(self, value: Any) -> None:
        if isinstance(self.made, dict):
            self.made[self.key] = value
        else:
            self.made.append(value)


class _StopError(Exception):
    def __init__(self, at: int, why: str) -> None:
        self.at, self.why = at, why


@dataclass
class _Reader:
    """Reads values without recursion, and with a bound on all the work together."""

    text: str
    work: int = 0
    frames: list[_Frame] = field(default_factory=list)
    outer: _Frame | None = None
    twice: str | None = None
    certain: bool = False

    def value_at(self, start: int) -> Whole | Torn:
        self.frames, self.outer, self.twice, self.certain = [], None, None, False
        self.work += 10
        try:
            value, end = self._read(start)
        except _StopError as stop:
            keys = self._outer_keys()
            end = _closing(self.text, start) if keys else start + 1
            return Torn(start, stop.at, end, stop.why, keys, self.certain)
        return Whole(value, start, end, self.twice)

    def _outer_keys(self) -> frozenset[str]:
        outer = self.outer
        if outer is None or isinstance(outer.made, list):
            return frozenset()
        # A key whose value could not be read is not in the object yet, and counts all the same.
        return frozenset(key for key in (*outer.made, outer.key) if key)

    def _read(self, at: int) -> tuple[Any, int]:
        due = "value"
        while True:
            at, char = self._next(at)
            if due == "key" and char != "}":
                at, due = self._key(at), "value"
                continue
            if due == "comma" and char == ",":
                at, due = at + 1, "key" if isinstance(self.frames[-1].made, dict) else "item"
                continue
            value: Any
            if due != "value" and char == ("}" if isinstance(self.frames[-1].made, dict) else "]"):
                value, at = self.frames.pop().made, at + 1
            elif due == "comma":
                raise _StopError(at, "a comma or the end of the object or list is missing")
            elif char in "{[":
                self._open({} if char == "{" else [])
                at, due = at + 1, "key" if char == "{" else "item"
                continue
            else:
                value, at = self._scalar(at)
            if not self.frames:
                return value, at
            self.frames[-1].put(value)
            due = "comma"

    def _next(self, at: int) -> tuple[int, str]:
        end = blank_end(self.text, at)
        self.work += 1 + (end - at) // 50
        if self.work > len(self.text) + SPARE_WORK:
            raise TangledError("the text is too tangled to find one object in it")
        if end >= len(self.text):
            raise _StopError(end, "it ends before it is closed")
        if self.text.startswith("/*", end):
            raise TangledError("a comment is not closed")
        return end, self.text[end]

    def _open(self, made: dict[str, Any] | list[Any]) -> None:
        if len(self.frames) >= DEPTH:
            raise TangledError(f"objects and lists are nested more than {DEPTH} deep")
        self.frames.append(_Frame(made))
        self.outer = self.outer or self.frames[0]

    def _key(self, at: int) -> int:
        quoted = self.text[at] in QUOTES
        if quoted:
            key, end = self._string(at)
        elif name := _NAME.match(self.text, at):
            key, end = name[0], name.end()
        else:
            raise _StopError(at, "a key in quotes is missing")
        end, char = self._next(end)
        if char != ":":
            raise _StopError(end, "a colon after the key is missing")
        frame = self.frames[-1]
        if key in frame.made and self.twice is None:
            self.twice = key
        frame.key = key
        self.certain = self.certain or quoted
        return end + 1

    def _scalar(self, at: int) -> tuple[Any, int]:
        if self.text[at] in QUOTES:
            return self._string(at)
        if name := _NAME.match(self.text, at):
            if name[0] in _WORDS:
                return _WORDS[name[0]], name.end()
        elif number := _NUMBER.match(self.text, at):
            return _number(number, at), number.end()
        raise _StopError(at, "a value is missing")

    def _string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if not found:
            raise _StopError(at, "a string is not closed")
        inner = found[1] if found[1] is not None else found[2]
        return (whole(_ESCAPE.sub(_unescaped, inner)) if "\\" in inner else inner), found.end()


def _closing(text: str, start: int) -> int:
    """Return where the brace that opens at `start` is closed, or the end of the text."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(text)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    # An escape that JSON does not know, as in a regular expression, stands for itself.
    return ESCAPES.get(escape[2], escape[0])


def _number(number: re.Match[str], at: int) -> int | float:
    digits = number[1].lstrip("+-")
    # 007 may be a name as well as a number, and endless digits are neither.
    if (len(digits) > 1 and digits[0] == "0") or len(digits) > 300:
        raise _StopError(at, "a number is badly written")
    if number[2] is None and number[3] is None:
        return int(number[1])
    value = float(number[0])
    if not math.isfinite(value):
        raise _StopError(at, "a number is too large")
    return value
