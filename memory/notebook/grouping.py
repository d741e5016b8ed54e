"""Grouping: which findings tell of the same mistake, on whatever instance and in whatever words."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from langgraph_reflexion.text.likeness import likeness, opposed
from langgraph_reflexion.text.literals import fingerprint
from langgraph_reflexion.text.words import tokens, weight

Record = dict[str, Any]

CLOSE_LOOKS = 4
"""Groups that a new finding is compared with word by word."""
RAREST = 8
TOO_COMMON = 400
"""A word that so many groups hold does not tell them apart."""
MOST_WORDS = 40


@dataclass
class Group:
    """Findings of one mistake: the one that opened it, the latest, how many, and the words it is found by."""

    first: Record
    latest: Record
    words: frozenset[str]
    count: int = 0
    sessions: set[str] = field(default_factory=set)


class Groups:
    """The groups of one notebook. A finding that was set aside opens or joins one, and is not counted in it."""

    def __init__(self) -> None:
        self._known: dict[str, Group] = {}
        self._by_word: dict[str, list[str]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._known)

    def take(self, record: Record) -> None:
        """Know a finding that has its group."""
        group = self._known.get(record["group"])
        if group is None:
            group = self._known[record["group"]] = Group(record, record, frozenset(record["words"]))
            for word in group.words:
                self._by_word[word].append(record["group"])
        if record["status"] == "kept":
            group.count += 1
            group.sessions.add(record["session"] or record["id"])
            if not group.latest["order"] > record["order"]:
                group.latest = record

    def place(self, finding: Record) -> str:
        """The group of a new finding: the same fingerprint, or the same meaning in other words, or one of its own."""
        own = fingerprint("finding", finding["tool"], finding["description"])
        if own in self._known:
            return own
        words = frozenset(finding["words"])
        shared: Counter[str] = Counter()
        rare = sorted((len(self._by_word.get(word, ())), word) for word in words)
        for common, word in rare[:RAREST]:
            if 0 < common <= TOO_COMMON:
                shared.update(self._by_word[word])
        for name, _ in shared.most_common(CLOSE_LOOKS):
            group = self._known[name]
            enough = 3 * len(words & group.words) >= min(len(words), len(group.words))
            if enough and _means_the_same(group.first, finding):
                return name
        return own

    def often(self, times: int) -> list[Group]:
        """The groups found in so many sessions or more."""
        return [group for group in self._known.values() if len(group.sessions) >= times]

    def most_repeated(self, least: int, many: int) -> list[Group]:
        """The groups with the most findings, at least so many, the later first among equals."""
        enough = (group for group in self._known.values() if group.count >= max(least, 1))
        return heapq.nlargest(many, enough, key=lambda group: (group.count, group.latest["order"]))

    def sharing(self, words: Iterable[str], least: int) -> list[Group]:
        """The groups that hold a telling one of these words."""
        names = {name for word in words if weight(word) == 1 for name in self._by_word.get(word, ())[-TOO_COMMON:]}
        return [group for group in map(self._known.__getitem__, names) if group.count >= max(least, 1)]


def words_of(description: str, suggestion: str) -> list[str]:
    """The words by which a finding is found and compared."""
    return list(dict.fromkeys(tokens(f"{description}\n{suggestion}")))[:MOST_WORDS]


def _means_the_same(known: Record, finding: Record) -> bool:
    """Alike in what went wrong, or in what to do about it, where tool and sort do not speak against it."""
    if known["tool"] is not None and finding["tool"] is not None and known["tool"] != finding["tool"]:
        return False
    if any(opposed(known[name], finding[name]) for name in ("description", "suggestion")):
        return False
    wrong = likeness(known["description"], finding["description"])
    if known["category"] != finding["category"] or wrong >= 0.75 or not known["suggestion"]:
        return wrong >= 0.75
    advice = likeness(known["suggestion"], finding["suggestion"])
    return advice >= 0.75 or (wrong >= 0.4 and advice >= 0.4)
