"""Loops: the same calls, errors or results again and again, and reworded searches that find nothing new.

The trail is plain data of a bounded size: the last three turns by their hashes, and on the newest the counts so far.
The cost of a step does not grow with the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NotRequired

from typing_extensions import TypedDict

from langgraph_reflexion.schemas import Signal
from langgraph_reflexion.text.tokens import whole_words


class Search(TypedDict):
    """The search of a turn, and how many turns in a row asked for the same without new results."""

    tool: str
    words: list[str]
    names: list[str]
    lines: list[str]
    count: int


class Results(TypedDict):
    """The calls that returned each recent result, and how many turns returned this one with other calls."""

    seen: dict[str, list[str]]
    failed: int
    same: int
    empty: bool


class Turn(TypedDict):
    """The hashes of a turn, and the counts up to it. Older turns have no counts."""

    turn: str
    calls: list[str]
    again: NotRequired[dict[str, int]]
    cycles: NotRequired[list[int]]
    errors: NotRequired[dict[str, int]]
    search: NotRequired[Search]
    results: NotRequired[Results]


Trail = list[Turn]
"""The last turns, oldest first. With an empty trail, counting starts again."""

KINDS: Mapping[str, tuple[Signal, str]] = MappingProxyType(
    {
        "same_call": ("loop", "The same call was made again, with the same result"),
        "cycle": ("loop", "The same calls were made in turn, with the same results"),
        "same_error": ("loop", "The same error happened again"),
        "reworded": ("no_progress", "Reworded searches find nothing new"),
        "same_result": ("no_progress", "Different calls return the same result"),
        "failed_in_words": ("no_progress", "Results say again and again that the call failed"),
    }
)
"""Each kind of loop: the signal of its failure, and the first sentence of the evidence.

Of the 32 failing and 27 clean runs in tests/nodes/tools/data, 18 and 2 are found: without `failed_in_words` 6 and 1,
without `same_result` 15 and 2, without `reworded` 17 and 1.
"""

MAX_CYCLE = 3
"""Calls in a cycle: a repeat within three calls is a loop, a longer one may be a plan."""
REWORDED = 3
"""Searches in a row, including the first, for the same thing without new results: one rewording is normal."""
SAME_RESULT = 3
"""Turns with other calls and the same result, including the first: looking at a page twice is harmless."""
FAILED_IN_WORDS = 2
"""Turns with a result whose text says that the call failed. The second shows that nothing was changed."""
SAYS_NOTHING = 5
"""Turns with the same short "nothing found" result: checking a few days or rooms is not a failure."""
LEAST_RESULT = 20
"""Characters. Shorter results (`ok`, `stored`) are the answer to many different calls."""
MAX_RESULTS = 5
"""Results to remember. The trail is in each checkpoint, and repetitions usually come within five results."""
ALIKE = 2 / 3
"""The share of common words in two wordings of the same search: one changed word in three is still the same."""
MAX_WORDS = 24
"""Arguments with more words are not a search: real queries have fewer than ten."""
MAX_SEARCH = 2_000
"""Arguments with more characters are not a search either: a file without spaces has few words."""
MAX_LINES = 12
"""A longer result is compared as a whole, so that the trail stays short."""
MAX_DEPTH = 50
"""Depth to which arguments are read: Python recurses to 1,000, and JSON parsers allow far less."""

_WORD = re.compile(r"\w+")
_FAILED = re.compile(
    r"""[\W_]*(?:(?:sorry|抱歉|[45]\d\d)[\W_]*)?(?:
        [\w.]*(?:error|exception)
          (?:(?!")[\W_]*$|[*_`]*\s*[]>:!.,(\[\d-]|\ (?:occurred|in|while|code|executing|calling)\b)
        | (?:there\ was\ )?an\ (?:\w+\ )?(?:error|exception)(?:\ occurred\b|\s*:)
        | \w+\ (?:failed|error|not\ found)\s*:(?!\s*-?\d) | \w+\ failed\ with\ (?:status|code|error)\b
        | (?:traceback|failed|invalid|illegal|unknown|unsupported|unauthorized|forbidden|time(?:d\ |-)?out)\b
          (?!\ (?-i:[A-Z])\w+\ (?:is|was|by)\b)
        | failure\b(?!\ (?!(?:to|in|of|at|while|during)\b)\w)
        | (?:cannot|unable\ to|no\ (?:such|results)|nothing\ happens|bad\ request|(?:permission|access)\ denied)\b
        | not\ (?:found|allowed|available|permitted|possible|supported)\b
        | (?:(?:(?:i|we|it)\ )?(?:could|can|did|does)|(?:i|we)\ do)(?:\ not|n['’]t)\b
        | (?:errors?|error_message)"\s*:(?!\s*(?:null|false|""|\[\s*\]|\{\s*\}|0\b))
        | (?:success|ok)"\s*:\s*false | status"\s*:\s*"(?:error|fail)
        | 错误 | 失败 | \w{1,4}失败\s*[:：] | 无法 | 找不到 | 未找到 | 不存在
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How results of tools that return errors as text begin: an error's name, a refusal in words, or a JSON field of it.

A title such as `Forbidden City is ...` and a figure such as `Standard error: 0.2` begin alike and do not match.
"""

_NOTHING_THERE = re.compile(
    r"\s*\[\s*\]\s*$|[\W_]*(?:there (?:is|are) )?(?:nothing|nobody|no|not|empty|zero|0|n/a)\b|[\W_]*(?:没有|未|无)",
    re.IGNORECASE,
)
"""How a short result says that nothing was found. `null`, the result of a function without one, does not count."""

_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class ObservedCall:
    """An answered call as the detector sees it. `error` is the fingerprint of its error, if any."""

    name: str
    args: Mapping[str, Any]
    result: str
    error: str = ""

    @cached_property
    def key(self) -> str:
        """The call's hash."""
        return key_of(self.name, self.args)

    @cached_property
    def result_hash(self) -> str:
        """The result's hash. White space does not matter."""
        return _hash(" ".join(self.result.split()))


@dataclass(frozen=True)
class Loop:
    """What repeats, how often, and the keys of the calls that cause it."""

    kind: str
    """One of `KINDS`."""
    repeats: int
    calls: tuple[str, ...]


def key_of(name: str, args: Mapping[str, Any]) -> str:
    """Return the hash of a call, of its canonical form: arguments sorted, white space folded, 2.0 written as 2."""
    return _hash(_encode([name, _canonical_value(args, 0)]))


def reads_as_failed(result: str) -> bool:
    """Whether the text of a normal result says that the call failed."""
    return _FAILED.match(result[:200]) is not None


def extend(trail: Sequence[Turn], turn: Sequence[ObservedCall]) -> Trail:
    """Return the trail with one more turn. The order of its calls does not matter."""
    last: Turn = trail[-1] if trail else {"turn": "", "calls": []}
    calls = sorted({seen.key for seen in turn})
    pairs = [f"{seen.key}/{_hash(seen.error, 'error') if seen.error else seen.result_hash}" for seen in turn]
    turn_hash = _hash(*sorted(set(pairs)))
    newest: Turn = {
        "turn": turn_hash,
        "calls": calls,
        "again": {pair: last.get("again", {}).get(pair, 0) + pairs.count(pair) for pair in pairs},
        "cycles": [
            last["cycles"][period - 2] + 1 if len(trail) >= period and trail[-period]["turn"] == turn_hash else 0
            for period in range(2, MAX_CYCLE + 1)
        ],
        "errors": _errors(last.get("errors", {}), turn),
        "search": _search(last, turn, calls),
        "results": _results(last["results"]["seen"] if "results" in last else {}, turn),
    }
    older: Trail = [{"turn": entry["turn"], "calls": entry["calls"]} for entry in trail[1 - MAX_CYCLE :]]
    return [*older, newest]


def loop_in(trail: Sequence[Turn], threshold: int) -> Loop | None:
    """Return the loop that the newest turn closes, or None.

    A turn repeats only if its results repeat too: a page or a state that is new each time is progress. All its calls
    must repeat, because a new call next to an old one is progress, too.
    """
    if not trail:
        return None
    newest = trail[-1]
    calls = tuple(newest["calls"])
    if (repeats := min(newest["again"].values())) >= threshold:
        return Loop("same_call", repeats, calls)
    for period, matched in enumerate(newest["cycles"], start=2):
        if matched >= period * (threshold - 1):
            around = {key for entry in trail[-period:] for key in entry["calls"]}
            return Loop("cycle", matched // period + 1, tuple(sorted(around)))
    if (errors := max(newest["errors"].values(), default=0)) > threshold:
        return Loop("same_error", errors, calls)
    if newest["search"]["count"] >= REWORDED:
        return Loop("reworded", newest["search"]["count"], calls)
    if newest["results"]["failed"] >= FAILED_IN_WORDS:
        return Loop("failed_in_words", newest["results"]["failed"], calls)
    if newest["results"]["same"] >= (SAYS_NOTHING if newest["results"]["empty"] else SAME_RESULT):
        return Loop("same_result", newest["results"]["same"], calls)
    return None


# ---------------------------------------------------------------- errors and results


def _errors(before: Mapping[str, int], turn: Sequence[ObservedCall]) -> dict[str, int]:
    """Count the turns in a row that failed in the same way. A successful call ends the row."""
    if not all(seen.error for seen in turn):
        return {}
    return {error: before.get(error, 0) + 1 for error in {_hash(seen.error) for seen in turn}}


def _results(before: Mapping[str, list[str]], turn: Sequence[ObservedCall]) -> Results:
    """Count the turns in which different calls returned the same result, or a result that says that the call failed.

    Repeats of the same calls count as a loop instead. A turn with any new result is progress.
    """
    seen = dict(before)
    failed = all(reads_as_failed(call.result) for call in turn)
    short = max(len(call.result) for call in turn) < LEAST_RESULT
    empty = short and all(_NOTHING_THERE.match(call.result) for call in turn)
    if any(call.error for call in turn) or (short and not failed and not empty):
        return {"seen": seen, "failed": 0, "same": 0, "empty": False}
    result = "failed" if failed else _hash(*sorted({call.result_hash for call in turn}), size=4)
    turns, calls = seen.pop(result, []), _hash(*sorted({call.key for call in turn}), size=4)
    is_new = calls not in turns
    seen[result] = [*turns, calls][-SAYS_NOTHING:] if is_new else turns
    count = len(seen[result]) if is_new else 0
    recent = dict(list(seen.items())[-MAX_RESULTS:])
    return {"seen": recent, "failed": count if failed else 0, "same": 0 if failed else count, "empty": empty}


# ---------------------------------------------------------------- reworded searches


def _search(last: Turn, turn: Sequence[ObservedCall], calls: list[str]) -> Search:
    """Count the turns in a row that ask one tool for the same in other words, without new results."""
    tools = {seen.name for seen in turn}
    words, names = _query(turn) if len(tools) == 1 else ([], [])
    if not words:
        return {"tool": "", "words": [], "names": [], "lines": [], "count": 0}
    lines = sorted({line for seen in turn for line in _lines(seen)})
    found: Search = {"tool": tools.pop(), "words": words, "names": names, "lines": lines[:MAX_LINES], "count": 1}
    before = last.get("search")
    if before is None or before["tool"] != found["tool"] or not _alike(before, found):
        return found
    count = before["count"] if last["calls"] == calls else before["count"] + 1
    fresh = set(lines) - set(before["lines"])
    known = [*fresh, *before["lines"]][:MAX_LINES]
    return {**found, "lines": sorted(known), "count": 1 if fresh else count}


def _query(turn: Sequence[ObservedCall]) -> tuple[list[str], list[str]]:
    """Return the words of the arguments, and separately those that name something: numbers, names, switches."""
    words: set[str] = set()
    names: set[str] = set()
    leaves = [leaf for seen in turn for leaf in _leaves(seen.args, "", 0)]
    if sum(len(path) + len(str(value)) for path, value in leaves) > MAX_SEARCH:
        return [], []
    for path, value in leaves:
        if not isinstance(value, str):
            names.add(f"{path}={value}")
            continue
        words.update(whole_words(value))
        # The first word of a sentence has a capital anyway.
        for at, word in enumerate(_WORD.findall(value)):
            if any(char.isdigit() or (char.isupper() and at > 0) for char in word):
                names.update(whole_words(word))
    if len(words) + len(names) > MAX_WORDS:
        return [], []
    return sorted(words), sorted(names)


def _alike(query: Search, other: Search) -> bool:
    """Return whether two sets of words ask for the same. Another name or number asks for something else."""
    words, other_words = set(query["words"]), set(other["words"])
    # A common name may be in lower case in one of them.
    named = set(query["names"]) | set(other["names"])
    switches = {name for name in set(query["names"]) ^ set(other["names"]) if "=" in name}
    if (words ^ other_words) & named or switches:
        return False
    return words <= other_words or other_words <= words or len(words & other_words) / len(words | other_words) >= ALIKE


def _lines(seen: ObservedCall) -> set[str]:
    """Return a hash for each line of a result, without words that repeat the question."""
    if seen.error:
        return {_hash(seen.error, size=4)}
    lines = [" ".join(line.split()) for line in seen.result.splitlines() if line.strip()]
    if len(lines) > MAX_LINES:
        return {_hash("\n".join(sorted(lines)), size=4)}
    asked = {word for _, value in _leaves(seen.args, "", 0) for word in _WORD.findall(str(value).casefold())}
    rest = ((line, [word for word in _WORD.findall(line.casefold()) if word not in asked]) for line in lines)
    return {_hash(" ".join(words) or line, size=4) for line, words in rest}


# ---------------------------------------------------------------- plain values


def _canonical_value(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _canonical_value(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical_value(inner, depth + 1) for inner in value]
    if isinstance(value, str):
        return " ".join(value.split())
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _leaves(value: Any, path: str, depth: int) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and depth <= MAX_DEPTH:
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, f"{path}.{key}", depth + 1)]
    if isinstance(value, list | tuple) and depth <= MAX_DEPTH:
        return [leaf for inner in value for leaf in _leaves(inner, path, depth + 1)]
    return [(path, value if isinstance(value, str) else _canonical_value(value, depth))]


def _hash(*texts: str, size: int = 6) -> str:
    """Return a short hash, the same in every process."""
    return blake2b("\x00".join(texts).encode("utf-8", "replace"), digest_size=size).hexdigest()
