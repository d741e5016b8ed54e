"""Situations: what sort of task a lesson was learned on, as the words that other tasks of the sort have too."""

from __future__ import annotations

import re
from collections.abc import Collection

from langgraph_reflexion.text.literals import literals_of as literals
from langgraph_reflexion.text.literals import names_of as names
from langgraph_reflexion.text.secrets import mask_secrets
from langgraph_reflexion.text.words import tokens, weight

SIDE = 300
"""Characters at each end of a long task that are looked at: what it is about stands first or last."""

MOST = 60
"""Words of a task that are kept."""

LEAST = 3
"""Words that two tasks must share to be alike; one less will do where neither has more."""

ALIKE = 0.6
"""Share of the longer one's words, by what each says, that makes two tasks alike."""

DAYS = frozenset(
    tokens(
        "monday tuesday wednesday thursday friday saturday sunday today tomorrow yesterday "
        "january february march april june july august september october november december"
    )
)
"""Details of a task that are no names."""

_DAY = "(?:星期|礼拜|周)[一二三四五六日天末]|[今明后昨]天"
"""The same in Chinese, where no space tells them apart."""


def situation_of(task: str) -> str:
    """The words of a task without its details, each once."""
    some = mask_secrets(task if len(task) <= 2 * SIDE else f"{task[:SIDE]}\n{task[-SIDE:]}")
    details = "|".join([*map(re.escape, sorted([*literals(some), *names(some)], key=len, reverse=True)), _DAY])
    bare = re.sub(rf"(?<![A-Za-z0-9_])(?:{details})(?![A-Za-z0-9_])", " ", some)
    found = (word for word in tokens(bare) if word not in DAYS and not any(map(str.isdigit, word)))
    return " ".join(list(dict.fromkeys(found))[:MOST])


def nearness(one: Collection[str], other: Collection[str]) -> float:
    """How much of the larger of two sets of words is shared: 0 where that makes them no tasks of one sort."""
    shared = set(one) & set(other)
    if len(shared) < (LEAST if max(len(one), len(other)) > LEAST else LEAST - 1):
        return 0.0
    share = _weight(shared) / max(_weight(one), _weight(other))
    return share if share >= ALIKE else 0.0


def _weight(words: Collection[str]) -> float:
    return sum(map(weight, words))
