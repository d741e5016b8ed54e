"""JSON as models write it: find values in running text and read them leniently, without guessing."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 100
"""Maximum nesting of objects and lists. Real decisions are far below it."""

SPARE_WORK = 10_000
"""Tokens that may be read again after one reading of the whole text. This bounds the cost of hostile nesting."""

MAX_NUMBER = 4_000
"""Digits of an integer: Python refuses to read more than 4,300."""

THINKING, THINKING_END = "<think>", "</think>"

_QUOTES = "\"'"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}

_BLANK = re.compile(r"(?:\s|//[^\n]*|#[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRINGS = {quote: re.compile(rf"{quote}([^{quote}\\]*(?:\\.[^{quote}\\]*)*){quote}", re.DOTALL) for quote in _QUOTES}
_SCORE = re.compile(r"(?:about |around |~ ?)?(-?\d+(?:\.\d+)?) ?(?:%|percent|(?:/|out of) ?([1-9]\d*))?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"([-+]?[0-9]+)(\.[0-9]*)?([eE][-+]?[0-9]+)?(?![\w.])")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_OPENING = re.compile(r"\{(?=\s*[\"'\w}/#])|\[(?=\s*[\"'\w\[{\]+-])")
_UNSEEN = re.compile(r"[^\n -~]")
_BRACE = re.compile(r"[{}]")
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Parsed:
    """A value of the text from `start` to `end`."""

    value: Any
    start: int
    end: int
    duplicate_key: str | None = None
    """A key that one of its objects has twice."""


@dataclass(frozen=True)
class Broken:
    """Text that begins like a value at `start` and cannot be read past `at`."""

    start: int
    at: int
    end: int
    """Where to read on: where its braces are closed, without regard to quotes, or after a bracket in prose."""
    why: str
    fields: dict[str, Any] = field(default_factory=dict)
    """The fields of the outermost object that were read."""
    open_key: str = ""
    """The key of the outermost object whose value could not be read."""
    depth: int = 0
    """How many objects and lists were open."""
    certain: bool = False
    """Whether a quoted key with its colon was read, so that it is not just a brace in prose."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the outermost object, including that of a value that could not be read."""
        return frozenset((*self.fields, self.open_key))


class JsonError(ValueError):
    """A reply contains no JSON value that can be read. The message, for the model, says why."""


class UnreadableError(ValueError):
    """The text takes too much work to read, is nested too deeply, or ends inside a comment or the reasoning."""


def read_json(text: str) -> Any:
    """Return the JSON value in a reply. Raises `JsonError`.

    If a reply is only one value, that value counts, whatever its type. Otherwise the largest object in a fence counts,
    else the largest object next to prose, else the largest list. A key given twice is refused.
    """
    text = valid_text(text)
    with suppress(ValueError):
        # An escape may be half a character, and neither NaN nor 1e999 is a number. The lenient parser handles these.
        # It takes fifteen times as long.
        if "\\u" not in text and text.count("[") + text.count("{") <= MAX_DEPTH:
            return json.loads(text, object_pairs_hook=unique_keys, parse_constant=int, parse_float=_finite)
    try:
        text = after_thinking(text)
        all_of_it = only_value(text)
        found = all_of_it if isinstance(all_of_it, Parsed) else None
        found = found or _largest(only_value(fence[1]) for fence in _FENCE.finditer(text))
        if found is None:
            values = list(values_in(text))
            if values and isinstance(last := values[-1], Broken) and last.certain:
                raise JsonError(f"The reply cannot be read: {last.why} ({place(text, last.at)}).")
            found = _largest(values)
    except UnreadableError as error:
        raise JsonError(f"The reply cannot be read: {error}.") from error
    if found is None:
        raise JsonError("The reply cannot be read: there is no JSON object in it.")
    if found.duplicate_key is not None:
        raise JsonError(f"The reply is ambiguous: the key `{found.duplicate_key}` is given twice in one object.")
    return found.value


def is_json(text: str) -> bool:
    """Whether a text is one JSON value."""
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


def _finite(number: str) -> float:
    if math.isinf(found := float(number)):
        raise ValueError(f"{number} is too large")
    return found


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, for `json.loads`. A key given twice is an error: one of its values would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, often in Counter(key for key, _ in pairs).items() if often > 1)
        raise ValueError(f"it has the key {twice!r} twice")
    return made


def _largest(found: Iterable[Parsed | Broken]) -> Parsed | None:
    """Return the longest object, else the longest list."""
    values = (value for value in found if isinstance(value, Parsed) and isinstance(value.value, dict | list))
    return max(values, key=lambda value: (isinstance(value.value, dict), value.end - value.start), default=None)


def values_in(text: str) -> Iterator[Parsed | Broken]:
    """Yield the objects and lists that stand side by side in the text, whatever prose is around them.

    A value inside another, or inside a string of another, is not yielded. Nothing is read after a `Broken` value that
    is certainly meant as one, because it is unclear where it should end. Raises `UnreadableError`.
    """
    reader, at = _Reader(text), 0
    while opening := _OPENING.search(text, at):
        found = reader.value_at(opening.start())
        yield found
        if isinstance(found, Broken) and found.certain:
            return
        at = found.end


def only_value(text: str) -> Parsed | Broken:
    """Return the value if the whole text is one, which may be a number or a string. Raises `UnreadableError`."""
    found = _Reader(text).value_at(0)
    if isinstance(found, Parsed) and (end := _blank_end(text, found.end)) < len(text):
        return Broken(found.start, end, len(text), "something follows the value")
    return found


def valid_text(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates, which no provider takes, replaced."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def score_in(value: Any) -> float | None:
    """A score out of 100, given as 85, "85", "85%", "about 85 percent", "8/10" or "8 out of 10"."""
    if isinstance(value, str) and (found := _SCORE.fullmatch(" ".join(value.split()))):
        value = float(found[1]) * (100 / float(found[2]) if found[2] else 1)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):  # of any number of digits
        value = min(max(value, -1_000), 1_000)
    return float(value) if math.isfinite(value) else None


def texts_in(value: Any) -> list[str]:
    """The texts in a JSON value, at any depth, without blank ones."""
    return [leaf for leaf in _leaves(value) if isinstance(leaf, str) and leaf.strip()]


def texts_and_numbers_in(value: Any) -> list[str]:
    """The texts and the numbers in a JSON value, at any depth, as texts."""
    return [str(leaf) for leaf in _leaves(value) if leaf is not None and not isinstance(leaf, bool)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def fields_in(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """The fields of an object that have one of these names, in any spelling. The exact name takes precedence."""
    known = {fold_key(name): name for name in names}
    given = value if isinstance(value, dict) else {}
    folded = {known[fold_key(key)]: item for key, item in given.items() if fold_key(key) in known}
    return folded | {name: given[name] for name in known.values() if name in given}


def fold_key(key: str) -> str:
    """The key without case, `_` and `-`: `isSatisfactory` is `is_satisfactory`."""
    return re.sub(r"[\W_]", "", key).lower()


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with each text in it changed, at any depth, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_texts(key, change): map_texts(inner, change) for key, inner in value.items()}
    return [map_texts(inner, change) for inner in value] if isinstance(value, list) else value


def escape_invisible(json_text: str) -> str:
    """JSON with its invisible and control characters as escapes."""
    return _UNSEEN.sub(lambda found: found[0] if _is_visible(found[0]) else json.dumps(found[0])[1:-1], json_text)


def _is_visible(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def unescape(inner: str) -> str:
    """Return the text between the quotes of a string. An escape that JSON does not know is kept as it is."""
    return valid_text(_ESCAPE.sub(_unescaped, inner) if "\\" in inner else inner)


def after_thinking(text: str) -> str:
    """Return the text after the reasoning that some models write first. A decision drafted there does not count."""
    if not text.lstrip().startswith(THINKING):
        return text
    _, end, rest = text.partition(THINKING_END)
    if not end:
        raise UnreadableError(f"it ends inside {THINKING}")
    return rest


def without_thinking(text: str) -> str:
    """Return the same text, or an empty one if the reasoning has no end."""
    with suppress(UnreadableError):
        return after_thinking(text).strip()
    return ""


def place(text: str, at: int) -> str:
    """Return a position as line and column, with the words at that place."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    near = " ".join(text[at : at + 30].split())
    return f"line {line}, column {column}" + (f", near {near!r}" if near else ", the end of the text")


class _StopError(Exception):
    """The value cannot be read further. The message says why."""


class _Reader:
    """Reads values one after another, with one limit on the work for all of them. `at` is the place it has reached."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.work = 0

    def value_at(self, start: int) -> Parsed | Broken:
        self.at = start
        self.depth = 0
        self.outer: dict[str, Any] = {}
        self.open_key = ""
        self.duplicate_key: str | None = None
        self.certain = False
        self.work += 10
        try:
            return Parsed(self._value(), start, self.at, self.duplicate_key)
        except _StopError as stop:
            keys = bool(self.outer or self.open_key)
            end = _closing(self.text, start) if keys else start + 1
            return Broken(start, self.at, end, str(stop), self.outer, self.open_key, self.depth, self.certain)

    def _value(self) -> Any:
        char = self._next()
        if char not in "{[":
            return self._scalar(char)
        if self.depth >= MAX_DEPTH:
            raise UnreadableError(f"objects and lists are nested more than {MAX_DEPTH} deep")
        self.depth += 1
        made = self._object() if char == "{" else [self._value() for _ in self._items("]")]
        self.depth -= 1
        return made

    def _object(self) -> dict[str, Any]:
        is_outer = self.depth == 1
        made: dict[str, Any] = self.outer if is_outer else {}
        for char in self._items("}"):
            key = self._key(char)
            if key in made and self.duplicate_key is None:
                self.duplicate_key = key
            if is_outer:
                self.open_key = key
            made[key] = self._value()
            if is_outer:
                self.open_key = ""
        return made

    def _items(self, closing: str) -> Iterator[str]:
        """Stop at each item of an object or list, and yield its first character. A trailing comma is allowed."""
        self.at += 1
        char = self._next()
        while char != closing:
            yield char
            char = self._next()
            if char == ",":
                self.at += 1
                char = self._next()
            elif char != closing:
                raise _StopError("a comma or the end of the object or list is missing")
        self.at += 1

    def _next(self) -> str:
        """Skip white space and comments, and return the character that follows."""
        start, self.at = self.at, _blank_end(self.text, self.at)
        self.work += 1 + (self.at - start) // 50
        if self.work > 2 * len(self.text) + SPARE_WORK:  # `,1` is three steps
            raise UnreadableError("the text is too tangled to find one object in it")
        if self.at >= len(self.text):
            raise _StopError("it ends before it is closed")
        if self.text.startswith("/*", self.at):
            raise UnreadableError("a comment is not closed")
        return self.text[self.at]

    def _key(self, char: str) -> str:
        if char in _QUOTES:
            key = self._string(char)
        elif name := _NAME.match(self.text, self.at):
            key, self.at = name[0], name.end()
        else:
            raise _StopError("a key in quotes is missing")
        if self._next() != ":":
            raise _StopError("a colon after the key is missing")
        self.certain = self.certain or char in _QUOTES
        self.at += 1
        return key

    def _scalar(self, char: str) -> Any:
        value: Any
        if char in _QUOTES:
            return self._string(char)
        if (name := _NAME.match(self.text, self.at)) and name[0] in _WORDS:
            value, self.at = _WORDS[name[0]], name.end()
        elif number := _NUMBER.match(self.text, self.at):
            value, self.at = _number(number), number.end()
        else:
            raise _StopError("a value is missing")
        return value

    def _string(self, quote: str) -> str:
        found = _STRINGS[quote].match(self.text, self.at)
        if not found:
            raise _StopError("a string is not closed")
        self.at = found.end()
        return unescape(found[1])


def _blank_end(text: str, at: int) -> int:
    """Return where the white space and the comments at `at` end."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _closing(text: str, start: int) -> int:
    """Return where the brace that opens at `start` is closed, or the end of the text."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(text)


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _ESCAPES.get(escape[2], escape[0])


def _number(number: re.Match[str]) -> int | float:
    digits = number[1].lstrip("+-")
    # 007 may be a name as well as a number, and endless digits are neither.
    if (len(digits) > 1 and digits[0] == "0") or len(digits) > MAX_NUMBER:
        raise _StopError("a number is not valid")
    if number[2] is None and number[3] is None:
        return int(number[1])
    value = float(number[0])
    if not math.isfinite(value):
        raise _StopError("a number is too large")
    return value
