"""Additions: a namespace to which many writers only add, held in mind so that looking again costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import uuid4

from langgraph.store.base import GetOp, Item, Op, SearchOp

from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.access import GIVE_WAY, SPELL, Plan, below, put

Place = tuple[Namespace, str]
AT_ONCE = 10 * SPELL
MARK = "latest"
"""The key of the item that changes with every write: one look at it says whether there is anything new."""


class Additions:
    """What was read of a namespace so far; `look` reads what has come to it since, whoever wrote it.

    A store does not say what is new, nor in which order it gives items: the newest last, as one in memory does, or
    first. So the end is looked at, and where more has come, both ends are; what fits neither is read anew.
    """

    def __init__(self, namespace: Namespace, take: Callable[[Item], None], forget: Callable[[], None]) -> None:
        self._namespace = namespace
        self._take = take
        self._forget = forget
        self._seen: set[Place] = set()
        self._mark: str | None = None

    def look(self) -> Plan[None]:
        """Know all that is there now."""
        mark: Item | None
        [mark] = yield [GetOp(self._namespace, MARK)]
        said = str(mark.value.get("is")) if mark is not None else None
        if said is not None and said == self._mark:
            return
        yield from self._look()
        self._mark = said

    def marked(self, ops: list[Op]) -> list[Op]:
        """These writes, and the mark that tells others of them."""
        self._mark = uuid4().hex
        self._seen.add((self._namespace, MARK))
        return [*ops, put(self._namespace, MARK, {"type": MARK, "is": self._mark})]

    def _look(self) -> Plan[None]:
        known = len(self._seen)
        [end] = yield [SearchOp(self._namespace, None, 2, max(known - 1, 0))]
        if not known and not end:
            return
        if known and len(end) == 1 and _place(end[0]) in self._seen:
            return
        if known and len(end) == 2:
            [more] = yield [SearchOp(self._namespace, None, 1000, known)]
            [head] = yield [SearchOp(self._namespace, None, len(more), 0)]
            fresh = [item for item in (*head, *more) if _place(item) not in self._seen]
            if len({_place(item) for item in fresh}) == len(more) < 1000:
                yield from self._read(fresh)
                return
        self.drop()
        found = yield from below(self._namespace)
        yield from self._read(found)

    def wrote(self, key: str) -> None:
        """Count an item of one's own, so that it is not read back."""
        self._seen.add((self._namespace, key))

    def lost(self, keys: Iterable[str]) -> None:
        """Count items that were removed."""
        self._seen -= {(self._namespace, key) for key in keys}

    def drop(self) -> None:
        """Forget all that was read."""
        self._seen, self._mark = set(), None
        self._forget()

    def _read(self, items: Iterable[Item]) -> Plan[None]:
        for i, item in enumerate(items, 1):
            if _place(item) not in self._seen:
                self._seen.add(_place(item))
                if item.namespace == self._namespace and item.key != MARK:
                    self._take(item)
            if i % AT_ONCE == 0:
                yield GIVE_WAY


def _place(item: Item) -> Place:
    return tuple(item.namespace), item.key
