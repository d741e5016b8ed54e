"""The index: which lessons of a namespace hold which words, caught up by what has changed."""

from __future__ import annotations

import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from langgraph.store.base import BaseStore, Item

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.records import fingerprints
from langgraph_reflexion.text.forms import Forms
from langgraph_reflexion.text.situations import nearness
from langgraph_reflexion.text.topics import TOPICS
from langgraph_reflexion.text.words import Words, weight

LOOKED_UP = 4000
"""Places of words that are looked up for a query, the rarest words' first: common ones add little, and take long."""

SPELLED = 64
"""Words of a task whose other spellings are looked for."""

NEAR = 50
"""Lessons whose own tasks are compared with the one at hand, those that share most words with it."""

KEPT = 64
"""Namespaces that a reader remembers."""

KNOWN = 100
"""Lessons that are imagined beside those there are, so that a word is not common because few lessons are kept."""


class Entry(NamedTuple):
    """A lesson's item, and what it is about."""

    item: Item
    text: str
    when: str
    words: Words
    situation: frozenset[str]


class Index:
    """The lessons of one namespace by their words. `seq` is the store's write that it has seen, where a store tells.

    `items` are those it knows by key, in a dictionary that is put in place whole and never changed. What an `elder`
    knows of a text is not found out again.
    """

    def __init__(self, elder: Index | None = None) -> None:
        self.lock = threading.RLock()
        self.seq = -1
        self.items: dict[str, Item] = {}
        self.entries: dict[str, Entry] = {}
        self._elders = elder.entries if elder is not None else {}
        self._holding: dict[str, dict[str, int]] = {}
        self._learned: dict[str, set[str]] = {}
        self._forms = Forms()
        self._bound: dict[str, set[str]] = {}
        self._named: set[str] = set()

    def knows(self, item: Item) -> bool:
        """Whether it knows this item as it is."""
        known = self.entries.get(item.key)
        return known is not None and (known.item.value is item.value or known.item.value == item.value)

    def catch_up(self, since: int, seq: int, items: dict[str, Item], new: Iterable[Item]) -> bool:
        """Know just these items, of which so many are new; False where another was quicker."""
        with self.lock:
            if self.seq != since:
                return False
            for item in new:
                self.take(item)
            if items is not self.items and self.entries.keys() != items.keys():
                for key in [one for one in self.entries if one not in items]:
                    self._drop(key)
            self.seq, self.items = seq, items
            return True

    def become(self, since: int, seq: int, fresh: Index) -> bool:
        """Know what another knows; False where a third was quicker."""
        with self.lock:
            if self.seq != since:
                return False
            self.items, self.entries, self._named, self._bound = fresh.items, fresh.entries, fresh._named, fresh._bound
            self._holding, self._forms, self._learned = fresh._holding, fresh._forms, fresh._learned
            self.seq = seq
            return True

    def take(self, item: Item) -> None:
        """Know this item as it is now."""
        text, when = found_by(item.value)
        known = self.entries.get(item.key)
        seen = known or self._elders.get(item.key)
        words = seen.words if seen is not None and (seen.text, seen.when) == (text, when) else Words.of(text, when)
        if known is not None:
            self._drop(item.key)
        said = item.value.get("situation")
        situation = frozenset(said.split()) if isinstance(said, str) else frozenset()
        self.entries[item.key] = Entry(item, text, when, words, situation)
        for word in situation:
            self._learned.setdefault(word, set()).add(item.key)
        if item.value.get("name"):
            self._named.add(item.key)
        for one in fingerprints(item.value):
            self._bound.setdefault(one, set()).add(item.key)
        for word, count in words.counts.items():
            if word not in self._holding:
                self._holding[word] = {}
                self._forms.add(word)
            self._holding[word][item.key] = count

    @property
    def named(self) -> set[str]:
        """The keys of those that have a name."""
        with self.lock:
            return set(self._named)

    def bound_to(self, fingerprint: str) -> set[str]:
        """The lessons bound to this failure."""
        with self.lock:
            return set(self._bound.get(fingerprint, ()))

    def sharing(self, words: Words, least: int) -> list[tuple[int, Item]]:
        """The lessons that hold so many of these words, with how many."""
        with self.lock:
            shared = Counter(key for word in words.counts for key in self._holding.get(word, ()))
            return [(n, self.entries[key].item) for key, n in shared.items() if n >= least]

    def learned_on(self, situation: Collection[str]) -> dict[str, float]:
        """The lessons learned on a task like this one, with how alike the two are."""
        with self.lock:
            found: Counter[str] = Counter()
            looked_up = 0
            for known in sorted((self._learned[word] for word in situation if word in self._learned), key=len):
                if looked_up and looked_up + len(known) > LOOKED_UP:
                    break
                looked_up += len(known)
                found.update(known)
            near = {key: nearness(situation, self.entries[key].situation) for key, _ in found.most_common(NEAR)}
        return {key: share for key, share in near.items() if share}

    def forms(self, words: Collection[str]) -> dict[str, Mapping[str, float]]:
        """The words of the lessons that each of these stands for, with how alike they are.

        Of many words other spellings are looked for where the fewest lessons hold them.
        """
        rarest = sorted(words, key=lambda word: len(self._holding.get(word, ())) or len(self.entries))
        other = set(rarest[SPELLED:])
        return {word: self._forms.known(word) if word in other else self._forms.of(word) for word in words}

    def rarity(self, word: str) -> float:
        """How much it says that a lesson holds this word: 1 where no other does."""
        return rarity(len(self._holding.get(word, ())), len(self.entries))

    def candidates(
        self, forms: Mapping[str, Mapping[str, float]], usable: Callable[[Item], bool], near: Collection[str], most: int
    ) -> list[str]:
        """The usable lessons that hold most of the telling words, and those that are near by vectors."""
        rough: dict[str, float] = dict.fromkeys((key for key in near if key in self.entries), 0.0)
        found = [(len(self._holding[form]), form, alike) for of in forms.values() for form, alike in of.items()]
        looked_up = 0
        for often, form, alike in sorted(found):
            if looked_up and looked_up + often > LOOKED_UP:
                break
            looked_up += often
            gain = alike * weight(form) * self.rarity(form)
            for key in self._holding[form]:
                rough[key] = rough.get(key, 0.0) + gain
        least = sorted(rough.values())[-4 * most :][:1]  # numbers alone are sorted in a tenth of the time
        ordered = sorted((key for key in rough if rough[key] >= least[0]), key=lambda key: (rough[key], key))[::-1]
        best = list(islice((key for key in ordered if usable(self.entries[key].item)), most))
        return list(dict.fromkeys([*best, *(key for key in near if key in rough and usable(self.entries[key].item))]))

    def _drop(self, key: str) -> None:
        entry = self.entries.pop(key)
        self._named.discard(key)
        for one in fingerprints(entry.item.value):
            self._bound.get(one, set()).discard(key)
        for word in entry.situation:
            self._learned[word].discard(key)
            if not self._learned[word]:
                del self._learned[word]
        for word in entry.words.counts:
            holding = self._holding[word]
            del holding[key]
            if not holding:
                del self._holding[word]
                self._forms.drop(word)


class Indexes:
    """The indexes of the namespaces that were read: books that are made anew for each run share them.

    Each follows from what its store holds, so any number of books and threads may do so.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of: weakref.WeakKeyDictionary[BaseStore, dict[Namespace, Index]] = weakref.WeakKeyDictionary()

    def index(self, store: BaseStore, namespace: Namespace) -> Index:
        """The index of this namespace of this store."""
        with self._lock:
            try:
                of_store = self._of.setdefault(store, {})
            except TypeError:  # a store that cannot be remembered
                return Index()
            found = of_store.pop(namespace, None) or Index()
            of_store[namespace] = found
            if len(of_store) > self._most:
                of_store.pop(next(iter(of_store)))
            return found


@lru_cache(maxsize=10_000)
def rarity(holding: int, lessons: int) -> float:
    """How much a word says that so many of the lessons hold: 1 for one, less for each more."""
    known = lessons + KNOWN
    return math.log(1 + (known - holding + 0.5) / (holding + 0.5)) / math.log(1 + (known - 0.5) / 1.5)


def found_by(value: Mapping[str, object]) -> tuple[str, str]:
    """What a search looks at in a record: its text, tags, a topic of the user's own, and when it holds."""
    tags, topic = value.get("tags"), value.get("topic")
    own = None if topic in TOPICS else topic  # `search` or `coding` is a drawer, not something the lesson says
    parts = [value.get("text"), own, *(tags if isinstance(tags, list) else [])]
    when = value.get("when")
    said = "\n".join(part for part in parts if isinstance(part, str))
    return said, when if isinstance(when, str) else ""
