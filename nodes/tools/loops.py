"""Loops: the same calls, the same errors, or the same search in other words, again and again.

The trail is plain data of a bounded size: the last three turns by their marks, and on the newest the counts so far.
What a step costs does not grow with the run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

from langgraph_reflexion.text.words import tokens

Trail = list[dict[str, Any]]
"""The last turns, oldest first. On an empty one counting starts anew."""

LONGEST_CYCLE = 3
REWORDED = 3
"""Searches in a row, the first one included, that say the same and bring nothing new."""

ALIKE = 2 / 3
"""The share of words that two wordings of one search have in common."""

MOST_WORDS = 24
"""Arguments with more words are no search."""

LONGEST_SEARCH = 2_000
"""Nor are arguments of more characters: a file has few words where it is written without a space."""

MOST_LINES = 12
"""A longer result is compared as a whole."""

_WORD = re.compile(r"\w+")

_spelt = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class Seen:
    """A call that was answered; `error` is the fingerprint of what went wrong, if something did."""

    name: str
    args: Mapping[str, Any]
    result: str
    error: str = ""

    @cached_property
    def key(self) -> str:
        """The call's short mark."""
        return key_of(self.name, self.args)


@dataclass(frozen=True)
class Loop:
    """What keeps coming again, how many times by now, and the keys of the calls that bring it."""

    kind: Literal["same_call", "cycle", "same_error", "no_progress"]
    repeats: int
    calls: tuple[str, ...]


def canonical(name: str, args: Mapping[str, Any]) -> str:
    """Return a call's one spelling: arguments sorted at every depth, white space folded, 2.0 written as 2."""
    return _spelt([name, _folded(args, 0)])


def key_of(name: str, args: Mapping[str, Any]) -> str:
    """Return the short mark under which a `Loop` names a call."""
    return _mark(canonical(name, args))


def extend(trail: Sequence[Mapping[str, Any]], turn: Sequence[Seen]) -> Trail:
    """Return the trail with one turn more, all its calls together: their order says nothing."""
    if not turn:
        return [dict(one) for one in trail]
    last: Mapping[str, Any] = trail[-1] if trail else {}
    calls = sorted({one.key for one in turn})
    pairs = Counter(
        f"{one.key}/{_mark(one.error, 'error') if one.error else _mark(' '.join(one.result.split()))}" for one in turn
    )
    mark = _mark(*sorted(pairs))
    newest = {
        "turn": mark,
        "calls": calls,
        "again": {pair: last.get("again", {}).get(pair, 0) + count for pair, count in pairs.items()},
        "cycles": [
            last["cycles"][period - 2] + 1 if len(trail) >= period and trail[-period]["turn"] == mark else 0
            for period in range(2, LONGEST_CYCLE + 1)
        ],
        "errors": _errors(last.get("errors", {}), turn),
        "search": _search(last, turn, calls),
    }
    older = [{"turn": one["turn"], "calls": one["calls"]} for one in trail[1 - LONGEST_CYCLE :]]
    return [*older, newest]


def loop_in(trail: Sequence[Mapping[str, Any]], threshold: int) -> Loop | None:
    """Return the loop that the newest turn closes, or `None`.

    A turn is the same again only with the same results, so that paging and polling are none. All of a turn must be
    known for it to be one: a new call beside an old one is progress.
    """
    if not trail:
        return None
    newest = trail[-1]
    calls = tuple(newest["calls"])
    if (repeats := min(newest["again"].values())) >= threshold:
        return Loop("same_call", repeats, calls)
    for period, matched in enumerate(newest["cycles"], start=2):
        if matched >= period * (threshold - 1):
            around = {key for one in trail[-period:] for key in one["calls"]}
            return Loop("cycle", matched // period + 1, tuple(sorted(around)))
    if (errors := max(newest["errors"].values(), default=0)) > threshold:
        return Loop("same_error", errors, calls)
    if newest["search"]["count"] >= REWORDED:
        return Loop("no_progress", newest["search"]["count"], calls)
    return None


# ---------------------------------------------------------------- errors and searches


def _errors(before: Mapping[str, int], turn: Sequence[Seen]) -> dict[str, int]:
    """Count the turns in a row that failed in the same way; one call that went well ends the row."""
    if not all(one.error for one in turn):
        return {}
    return {mark: before.get(mark, 0) + 1 for mark in {_mark(one.error) for one in turn}}


def _search(last: Mapping[str, Any], turn: Sequence[Seen], calls: list[str]) -> dict[str, Any]:
    """Count the turns in a row that ask one tool for the same in other words, and hear nothing new."""
    tools = {one.name for one in turn}
    words, names = _said(turn) if len(tools) == 1 else ([], [])
    if not words:
        return {"tool": "", "words": [], "names": [], "lines": [], "count": 0}
    lines = sorted({line for one in turn for line in _lines(one)})
    before = last.get("search", {"tool": ""})
    found = {"tool": tools.pop(), "words": words, "names": names}
    if before["tool"] != found["tool"] or not _alike(before, found):
        return {**found, "lines": lines[:MOST_LINES], "count": 1}
    count = before["count"] if last["calls"] == calls else before["count"] + 1
    fresh = set(lines) - set(before["lines"])
    known = [*fresh, *before["lines"]][:MOST_LINES]
    return {**found, "lines": sorted(known), "count": 1 if fresh else count}


def _said(turn: Sequence[Seen]) -> tuple[list[str], list[str]]:
    """Return the words of the arguments, and apart those that name one thing: numbers, names, switches."""
    words: set[str] = set()
    names: set[str] = set()
    leaves = [leaf for one in turn for leaf in _leaves(one.args, "", 0)]
    if sum(len(path) + len(str(value)) for path, value in leaves) > LONGEST_SEARCH:
        return [], []
    for path, value in leaves:
        if not isinstance(value, str):
            names.add(f"{path}={value}")
            continue
        words.update(tokens(value))
        # The first word of a sentence has its capital from there.
        told = [word for at, word in enumerate(_WORD.findall(value)) if _is_name(word, first=at == 0)]
        names.update(tokens(" ".join(told)))
    if len(words) + len(names) > MOST_WORDS:
        return [], []
    return sorted(words), sorted(names)


def _is_name(word: str, *, first: bool) -> bool:
    return any(char.isdigit() or (char.isupper() and not first) for char in word)


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two sets of words ask for the same: another name or number asks for something else."""
    mine, theirs = set(one["words"]), set(other["words"])
    if not mine or not theirs:
        return False
    apart = mine ^ theirs
    # A name that both hold may be written small in one of them.
    named = set(one["names"]) | set(other["names"])
    if apart & named or {name for name in set(one["names"]) ^ set(other["names"]) if "=" in name}:
        return False
    return mine <= theirs or theirs <= mine or len(mine & theirs) / len(mine | theirs) >= ALIKE


def _lines(one: Seen) -> set[str]:
    """Return a mark for each line of a result, less the words of the question it echoes."""
    if one.error:
        return {_short(one.error)}
    lines = [" ".join(line.split()) for line in one.result.splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        return {_short("\n".join(sorted(lines)))}
    asked = {word for _, value in _leaves(one.args, "", 0) for word in _WORD.findall(str(value).casefold())}
    told = ((line, [word for word in _WORD.findall(line.casefold()) if word not in asked]) for line in lines)
    return {_short(" ".join(rest) or line) for line, rest in told}


# ---------------------------------------------------------------- plain values

_DEEP = 50


def _folded(value: Any, depth: int) -> Any:
    if depth > _DEEP:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _folded(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_folded(one, depth + 1) for one in value]
    if isinstance(value, str):
        return " ".join(value.split())
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _leaves(value: Any, path: str, depth: int) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and depth <= _DEEP:
        return [leaf for key, one in value.items() for leaf in _leaves(one, f"{path}.{key}", depth + 1)]
    if isinstance(value, list | tuple) and depth <= _DEEP:
        return [leaf for one in value for leaf in _leaves(one, path, depth + 1)]
    return [(path, value if isinstance(value, str) else _folded(value, depth))]


def _mark(*texts: str) -> str:
    """Return a short hash, the same in every process."""
    return _hash("\x00".join(texts), 6)


def _short(text: str) -> str:
    return _hash(text, 4)


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()
