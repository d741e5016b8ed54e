"""The index: which lessons of a namespace contain which words, kept up to date by what changed in the store.

An index belongs to an open book, or to the agent that opens a book for each run (`Indexes`). It has nothing that
is not in the store: what is deleted there is removed from the index, too.
"""

from __future__ import annotations

import math
import os
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from langgraph.store.base import BaseStore, Item

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.items import TASKS, fingerprints
from langgraph_reflexion.text.literals import MAX_TASK, literals_of, mask_secrets, names_of
from langgraph_reflexion.text.task import EARLIER, LONG_TASK, own_words, says_what, sentences
from langgraph_reflexion.text.tokens import characters, function_words, tokens, tokens_of_piece, word_set

MAX_POSTINGS = 4000
"""Postings read for a query, rarest words first. Bounds a search in 100,000 lessons. No benchmark set reaches it."""

MAX_INDEXES = 1000
"""Namespaces for which an agent keeps an index, because an agent with a namespace per user has many."""

MAX_INDEXED_LESSONS = 50_000
"""Lessons in all of these indexes, some 6 kB each, and 1 to 3 kB for each task that taught it. The index of a larger
namespace is kept alone."""

ASSUMED = 20
"""Lessons that are assumed to exist in addition, so that a word does not count as common just because there are few
lessons. With more, the words of a template would count as rare: in a book for one kind of task, most of them are in
every lesson. Set on the `tune` parts of `benchmarks/recall.py`, where 10 to 50 do equally well, and on programming
exercises."""

RARITY_POWER = 1.5
"""Power of the usual rarity (inverse document frequency): above 1, common words count even less. Set on the same
parts."""

MAX_WORD_LENGTH = 40
"""Letters of the longest word of a task that is kept: a longer one is an id or encoded data."""

MAX_WORDS = 60
"""Words of a task that are kept with a lesson it taught: all of them, unless it is a document."""

ANY_REQUEST = frozenset(
    tokens("ask question task problem exercise thing something someone user answer request 时 任务 问题")
)
"""Words that the `when` of any lesson may have ("asked for …"): they say nothing about its occasion."""

ANY = word_set("all always any anything each every everything general generally none regardless whatever whenever")
"""Words that make a `when` mean any task, if all its other words are in `IN_ALL_TASKS`."""

IN_ALL_TASKS = word_set(
    """
    a across an answer answering answers applies ask asked asks at context conversation conversations for given holds in
    is it of on question questions replies reply request requests response responses run runs situation task tasks the
    time times to user users with you
    """
)

OF_THE_USER = word_set(
    """
    a an answer answering answers how in like likes of prefer preference preferences preferred prefers replies reply
    response responses s style the their to user users want wants when
    """
)
"""Words of a `when` that says only that the user prefers it."""

ANY_IN_CHINESE = re.compile(
    "(?:在|适用于|对于?)?(?:总是|始终|一直|一般|通用|无|不限|(?:任何|所有|每次|每个|一切|全部)的?"
    "(?:任务|问题|请求|回答|回复|对话|时候|情况)?[下时中]?)"
)
OF_THE_USER_IN_CHINESE = re.compile("(?:回答|回复)(?:用户)?(?:问题)?时|(?:用户的?)?(?:回答|回复)?的?(?:偏好|喜好)")


class Entry(NamedTuple):
    """A lesson's item, the words that find it, and those of its `when`."""

    item: Item
    words: frozenset[str]
    when: frozenset[str]


class IndexUpdate(NamedTuple):
    """What an index must read: changed items, removed keys, and the number of the last change."""

    items: list[Item]
    gone: Collection[str] = ()
    complete: bool = False
    """Whether these items are all there are."""
    seq: int = -1
    """The store's last write, if the store can tell what changed."""
    notes: set[str] | None = None
    """The keys of all change notes, if it cannot."""


class Index:
    """The lessons of one namespace by their words, up to date with the write `seq` or with the change `notes`."""

    def __init__(self, store: BaseStore, namespace: Namespace) -> None:
        self.place = (id(store), namespace)
        self.lock = threading.RLock()
        self.version = 0
        """How often it was updated."""
        self._clear()
        with _LOCK:
            _OPEN.add(self)

    def _clear(self) -> None:
        """Clear the index. The next reader reads the namespace again."""
        self.version += 1
        self.seq = -1
        self.notes: set[str] | None = None
        self.items: dict[str, Item] = {}
        self.entries: dict[str, Entry] = {}
        self.noise: dict[str, float] = {}
        """How similar each lesson is to unrelated texts by the store's embedding model: measured, or an upper bound."""
        self._by_word: dict[str, set[str]] = {}
        self._by_task_word: dict[str, set[str]] = {}
        """The lessons that were taught by a task with this word."""
        self._by_failure: dict[str, set[str]] = {}
        self._by_occasion: dict[str, set[str]] = {}
        """The lessons whose `when` is this word alone."""
        self._always: set[str] = set()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock for a change. If it is interrupted, as by Ctrl-C, the half-changed index is cleared."""
        with self.lock:
            try:
                yield
            except BaseException:
                self._clear()
                raise

    def is_new(self, item: Item) -> bool:
        """Whether the index lacks this item, or has an older value of it."""
        known = self.entries.get(item.key)
        return known is None or (known.item.value is not item.value and known.item.value != item.value)

    def add(self, items: Iterable[Item]) -> None:
        """Index these items as they are now."""
        with self._changing():
            of_piece = cache(tokens_of_piece)  # a cache for these items only
            for item in items:
                if item.key in self.entries:
                    self._drop(item.key)
                text, when = searchable(item.value)
                occasion = words_of(when, of_piece)
                entry = Entry(item, occasion | words_of(text, of_piece), occasion - ANY_REQUEST)
                self.entries[item.key] = entry
                if names_any_task(item.value):
                    self._always.add(item.key)
                for table, names in self._tables(entry):
                    for name in names:
                        table.setdefault(name, set()).add(item.key)

    def apply(self, version: int, update: IndexUpdate, new: Iterable[Item], *, partly: bool) -> bool:
        """Apply an update. Its items `new` are still to be added. `False` if the index has changed since `version`.

        `partly` says that other items of the update were added already. If the index has changed since, they may
        replace newer ones, so everything must be read again.
        """
        with self._changing():
            if self.version != version:
                if partly:
                    self.seq, self.notes, self.items = -1, None, {}
                return False
            self.add(new)
            now = {item.key: item for item in update.items}
            if update.complete:
                self.remove(self.entries.keys() - now.keys())
                self.items = now
            elif now or update.gone:
                self.remove(update.gone)
                self.items = {**self.items, **now}
            self.version, self.seq, self.notes = version + 1, update.seq, update.notes
            return True

    def remove(self, keys: Iterable[str]) -> None:
        """Remove these lessons."""
        with self._changing():
            gone = set(keys)
            self.version += 1  # a reader that is about to add them must read again
            for key in gone & self.entries.keys():
                self._drop(key)
            if not gone.isdisjoint(self.items):
                self.items = {key: item for key, item in self.items.items() if key not in gone}

    def bound_to(self, fingerprint: str) -> set[str]:
        """The keys of the lessons that are bound to this failure."""
        with self.lock:
            return set(self._by_failure.get(fingerprint, ()))

    def entries_for(self, keys: Iterable[str]) -> dict[str, Entry]:
        """The entries of these lessons, without those that another thread has forgotten meanwhile."""
        return {key: entry for key in keys if (entry := self.entries.get(key)) is not None}

    def always(self) -> list[str]:
        """The keys of the lessons whose words hold for any task. `holds_always` also checks the origin."""
        with self.lock:
            return sorted(self._always)

    def sharing(self, words: Collection[str]) -> list[tuple[int, Item]]:
        """The lessons that contain at least a third of these words, with how many they contain."""
        with self.lock:
            shared = Counter(key for word in words for key in self._by_word.get(word, ()))
            return [(n, self.entries[key].item) for key, n in shared.items() if 3 * n >= len(words)]

    def rarity(self, word: str, *, of_tasks: bool = False) -> float:
        """How informative a word is: 1 if at most one lesson contains it, and less the more lessons do.

        Lessons whose `when` is this word alone count as one, or several would hide each other: if each `when` is one
        word, and people wrote the lessons, 0.8 fewer of 100 tasks are solved in six worlds of `benchmarks/natural.py`
        (± 0.8). With `of_tasks`, it counts the lessons that were taught by a task with this word.
        """
        known = len(self.entries) + ASSUMED
        holding = len((self._by_task_word if of_tasks else self._by_word).get(word, ()))
        if not of_tasks:
            holding -= max(len(self._by_occasion.get(word, ())) - 1, 0)
        holding = max(holding, 1)
        rarity = math.log(1 + (known - holding + 0.5) / (holding + 0.5)) / math.log(1 + (known - 0.5) / 1.5)
        return float(rarity**RARITY_POWER)

    def matching(self, weights: Mapping[str, float], *, of_tasks: bool = False) -> dict[str, float]:
        """The lessons that share words with a query, best first, each with the sum of weight times rarity over these
        words.

        With `of_tasks`, a lesson has the words of the tasks that taught it, without those that too many tasks share.
        """
        with self.lock:
            holding = self._by_task_word if of_tasks else self._by_word
            held = [(len(holding[word]), word) for word in weights if word in holding]
            found: dict[str, float] = {}
            looked_up = 0
            for often, word in sorted(held):
                if (looked_up or of_tasks) and looked_up + often > MAX_POSTINGS:
                    break
                looked_up += often
                weight, before = weights[word] * self.rarity(word, of_tasks=of_tasks), found.get
                for key in holding[word]:
                    found[key] = before(key, 0.0) + weight
            return {key: found[key] for key in sorted(sorted(found), key=found.__getitem__, reverse=True)}

    def _drop(self, key: str) -> None:
        entry = self.entries.pop(key)
        self._always.discard(key)
        for table, names in self._tables(entry):
            for name in names:
                keys = table.get(name, set())
                keys.discard(key)
                if not keys:
                    table.pop(name, None)

    def _tables(self, entry: Entry) -> Iterable[tuple[dict[str, set[str]], Iterable[str]]]:
        """Each table of keys, with the names under which it lists this lesson."""
        return (
            (self._by_word, entry.words),
            (self._by_task_word, {word for task in tasks_of(entry.item.value) for word in task.split()}),
            (self._by_failure, fingerprints(entry.item.value)),
            (self._by_occasion, entry.when if len(entry.when) == 1 else ()),
        )


def names_any_task(value: Mapping[str, Any]) -> bool:
    """Whether a record is a preference, a project fact or a named rule whose `when` means any task.

    A rule's `when` must say so. That of a preference or a fact must name nothing that only some tasks have.
    """
    is_fact = value.get("kind") in ("preference", "project")
    if not is_fact and not value.get("name"):
        return False
    clause = re.split("[,;.，；。]", str(value.get("when") or ""))[0].strip()  # only the first clause counts
    words = set(re.findall(r"\w+", clause.casefold()))
    if not words or clause.casefold() in ("n/a", "null") or ANY_IN_CHINESE.fullmatch(clause):
        return True
    if is_fact and (words <= OF_THE_USER or OF_THE_USER_IN_CHINESE.fullmatch(clause)):
        return True
    return not words.isdisjoint(ANY) and words <= ANY | IN_ALL_TASKS


_LOCK = threading.RLock()
_OPEN: weakref.WeakSet[Index] = weakref.WeakSet()
"""The indexes of all open books and agents, so that a lesson that one of them forgets leaves all."""


def _after_fork() -> None:
    """Start all indexes anew in a child process, because a thread of the parent may have held a lock."""
    global _LOCK
    _LOCK = threading.RLock()
    for index in list(_OPEN):
        index.lock = threading.RLock()
        index._clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def remove_everywhere(store: BaseStore, namespace: Namespace, keys: Collection[str]) -> None:
    """Remove these lessons from every index of this namespace of this store."""
    with _LOCK:
        open_here = [index for index in _OPEN if index.place == (id(store), namespace)]
    for index in open_here:
        index.remove(keys)


class Indexes:
    """The indexes of several namespaces, shared by the books of an agent's runs."""

    def __init__(self) -> None:
        self._of: weakref.WeakKeyDictionary[BaseStore, dict[Namespace, Index]] = weakref.WeakKeyDictionary()

    def __deepcopy__(self, memo: dict[int, Any]) -> Indexes:
        return Indexes()  # a copy reads the store again

    def index(self, store: BaseStore, namespace: Namespace) -> Index:
        """The index of this namespace of this store."""
        with _LOCK:
            indexes = self._of.setdefault(store, {})
            found = indexes.pop(namespace, None) or Index(store, namespace)
            indexes[namespace] = found
            lessons = sum(len(index.items) for index in indexes.values())
            while len(indexes) > 1 and (len(indexes) > MAX_INDEXES or lessons > MAX_INDEXED_LESSONS):
                lessons -= len(indexes.pop(next(iter(indexes))).items)  # the least recently used
            return found


def words_of(text: str, of_piece: Callable[[str], list[str]] = tokens_of_piece) -> frozenset[str]:
    """The words by which a text is found. For scripts without spaces: bigrams and single characters."""
    return frozenset(tokens(text, of_piece)) | characters(text)


def task_words(task: str, earlier: Sequence[str]) -> str:
    """The words of a task's request, without its names, numbers and other details as far as they are recognized.

    A long task has none without `earlier` tasks, because its request cannot be told from a template around it. Several
    brief messages have none, because a command among them cannot be told from the user's name or password.
    """
    if len(task) >= LONG_TASK and len(earlier) < EARLIER:
        return ""
    parts = task[:MAX_TASK].split("\n\n")
    asks = next((i for i in range(len(parts), 0, -1) if says_what(parts[i - 1])), None)
    if asks is None and sum(bool(own_words(part)) for part in parts) > 1:
        return ""
    task = "\n\n".join(parts[:asks])  # brief follow-ups at its end (`request_of`) add nothing
    request = " ".join(text for text, share in sentences(mask_secrets(task), earlier) if share == 1)
    # In JSON, a text between quotation marks may have line breaks.
    line = request.replace("\n", " ") if '":' in request else request
    details = words_of(" ".join([*literals_of(line), *names_of(request)]))
    words = dict.fromkeys([*tokens(request), *sorted(characters(request)), *sorted(function_words(request))])
    kept = [word for word in words if word not in details and not word.isdecimal() and len(word) <= MAX_WORD_LENGTH]
    return " ".join(kept[:MAX_WORDS])


def tasks_of(value: Mapping[str, Any]) -> list[str]:
    """The tasks that taught the lesson of a record, each as its words."""
    tasks = value.get(TASKS)
    return [task for task in tasks if isinstance(task, str)] if isinstance(tasks, list) else []


def searchable(value: Mapping[str, object]) -> tuple[str, str]:
    """What a search reads of a record: its text with its tags, and its `when`."""
    tags, when = value.get("tags"), value.get("when")
    parts = [value.get("text"), *(tags if isinstance(tags, list) else [])]
    text = "\n".join(part for part in parts if isinstance(part, str))
    return text, when if isinstance(when, str) else ""
