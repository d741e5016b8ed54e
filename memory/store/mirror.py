"""The mirror: what a process remembers of the file, so that it can rank without reading everything.

Each item has a slot. A change gives it a new slot and leaves the old one dead, so that slots only grow until they are
packed. The file's numbered writes say what has changed since the mirror last looked, whichever process did it.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.columns import Column, grown
from langgraph_reflexion.memory.store.filters import matches
from langgraph_reflexion.memory.store.lexicon import Lexicon
from langgraph_reflexion.memory.store.renewing import fresh_recipes
from langgraph_reflexion.memory.store.schema import SINCE, last_seq, setting
from langgraph_reflexion.memory.store.settings import WHOLE, Settings
from langgraph_reflexion.memory.store.snapshot import Snapshot
from langgraph_reflexion.memory.store.snapshot import load as load_snapshot
from langgraph_reflexion.memory.store.snapshot import save as save_snapshot
from langgraph_reflexion.memory.store.spaces import Spaces
from langgraph_reflexion.memory.store.values import words_of
from langgraph_reflexion.memory.store.vectors import AT_ONCE, Vectors

logger = logging.getLogger(__name__)

Slots = NDArray[np.int64]

FEW = 512
"""Items up to which a filter reads their values; for more it keeps a column of what lies under its key."""

COLUMNS = 8

_STAMP = "coalesce(again, seq), updated_at"


class Mirror:
    """The items' slots, with their vectors and words where a search has asked for them. Its user has it `alone`."""

    def __init__(self, settings: Settings, beside: Path | None = None) -> None:
        self.settings = settings
        self._beside = beside
        self._connection: sqlite3.Connection | None = None
        self._lock, self._pid = threading.Lock(), os.getpid()
        self.seq = -1
        self.with_words = False
        self._clear()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other thread use it."""
        if self._pid != os.getpid() and self._lock.locked():
            # A thread of the parent process was at work in it, and goes on with a copy of its own.
            self._lock, self.seq = threading.Lock(), -1
        self._pid = os.getpid()
        with self._lock:
            yield

    def _clear(self) -> None:
        self._kept = (0, 0)
        self.ids = np.zeros(0, np.int64)
        self.alive = np.zeros(0, bool)
        self.count = 0
        self.dead = 0
        self.slot_of: dict[int, int] = {}
        self.stale: set[int] = set()
        self.vectors = Vectors(self.settings.dims, self.settings.distance, self._blobs) if self.settings.dims else None
        self.lexicon = Lexicon() if self.with_words else None
        self._spaces = Spaces()
        self._columns: dict[str, Column] = {}

    def catch_up(self, connection: sqlite3.Connection, words: bool = False) -> bool:
        """Take in what has changed. False where the connection's view is older than what the mirror has seen."""
        now = last_seq(connection)
        self._connection = connection
        if words and not self.with_words:
            self.with_words = True
            self.seq = -1
        if now == self.seq:
            return True
        if now < self.seq:
            return False
        if self.seq < int(setting(connection, "floor") or 0) or self.dead > 1000 + self.count // 2:
            self.seq = -1
        if self.seq < 0:
            self._clear()
        else:
            self._forget(item for [item] in connection.execute("SELECT item FROM gone WHERE seq > ?", (self.seq,)))
        self._take_in(connection)
        self.seq = now
        return True

    def _take_in(self, connection: sqlite3.Connection) -> None:
        value = "value, rule" if self.lexicon or self._columns else "NULL, rule"
        snapshot = self._snapshot(connection) if self.seq < 0 else None
        vectors = "NULL" if self.vectors is None else "vectors" if snapshot is None else "length(vectors)"
        query = f"SELECT id, namespace, {value}, {vectors}, recipe, {_STAMP} FROM items"
        rows = (
            connection.execute(query)
            if self.seq < 0
            else connection.execute(f"{query} WHERE {SINCE}", {"since": self.seq})
        )
        kept = setting(connection, "fields")
        fields = self.settings.fields or (tuple(json.loads(str(kept))) if kept else WHOLE)
        fresh = fresh_recipes(connection, self.settings) if self.vectors else {}
        if self.vectors is not None and self.seq < 0:
            # No more vectors than the file has room for; memory that is not used is not taken.
            [pages] = connection.execute("PRAGMA page_count").fetchone()
            [size] = connection.execute("PRAGMA page_size").fetchone()
            self.vectors.reserve(pages * size // (4 * self.vectors.dims) + 1024, sparse=snapshot is not None)
        stamps: list[Slots] = []
        while chunk := rows.fetchmany(AT_ONCE):
            ids, namespaces, texts, rules, blobs, recipes, writes, moments = zip(*chunk, strict=True)
            self._forget(item for item in ids if item in self.slot_of)
            first = self._add(ids, namespaces)
            if self.vectors is not None:
                if snapshot is None:
                    self.vectors.add(blobs)
                else:
                    self.vectors.expect(blobs)
                    stamps.append(np.array([writes, moments]))
                if any(fresh.get(recipe, ()) is not None for recipe in set(recipes)):
                    each = zip(ids, rules, recipes, strict=True)
                    self.stale.update(i for i, by, of in each if by != "false" and fresh.get(of, ()) not in (None, by))
            if self.lexicon is None and not self._columns:
                continue
            values = [json.loads(text) for text in texts]
            for column in self._columns.values():
                column.extend(first, values)
            if self.lexicon is not None:
                self.lexicon.add(first, [words_of(one, rule, fields) for one, rule in zip(values, rules, strict=True)])
        if snapshot is not None and self.vectors is not None and self.count:
            if snapshot.give(self.vectors, self.ids[: self.count], np.concatenate(stamps, axis=1)):
                self._kept = len(snapshot.items), int(np.count_nonzero(snapshot.items >= 0))
            else:
                logger.info("The snapshot %s is of other data, or most of it out of date: made anew", self._beside)

    def _snapshot(self, connection: sqlite3.Connection) -> Snapshot | None:
        if self._beside is None or self.vectors is None:
            return None
        return load_snapshot(self._beside, self._what(connection))

    def _what(self, connection: sqlite3.Connection) -> str:
        return f"{setting(connection, 'file')} {self.settings.dims} {self.settings.distance}"

    def _blobs(self, slots: Slots) -> list[bytes | None]:
        """The vectors of slots as the file has them, `None` of those that are dead."""
        assert self._connection is not None, "`catch_up` comes first"
        ids = self.ids[slots].tolist()
        query = f"SELECT id, vectors FROM items WHERE id IN ({','.join('?' * len(ids))})"
        of = dict(self._connection.execute(query, ids).fetchall())
        return [of.get(item) if alive else None for item, alive in zip(ids, self.alive[slots].tolist(), strict=True)]

    @property
    def partly(self) -> bool:
        """Whether some vectors are still in the file alone."""
        return self.vectors is not None and self.vectors.partly

    def read_on(self) -> bool:
        """Read some more of them; False where none is left."""
        return self.vectors is not None and self.vectors.read_on()

    def save(self, connection: sqlite3.Connection) -> None:
        """Keep the codes beside the file where they have changed enough. Codes of what was deleted are not kept."""
        vectors = self.vectors
        if self._beside is None or vectors is None or self.seq < 0:
            return
        if not self.catch_up(connection) or self.vectors is not vectors or self.stale:
            return
        if not vectors.large or not self.slot_of:
            self._beside.unlink(missing_ok=True)
            return
        if vectors.codes is None:
            return
        alive = self.alive[vectors.owner[: vectors.rows]]
        live = vectors.coded().live(alive)
        count, known = self._kept
        if int(live[:count].sum()) == known and len(live) - count < 0.02 * len(live):
            return
        stamps = {item: stamp for item, *stamp in connection.execute(f"SELECT id, {_STAMP} FROM items")}
        save_snapshot(self._beside, self._what(connection), Snapshot.of(vectors, self.ids, alive, stamps))

    def _add(self, ids: Sequence[int], namespaces: Sequence[str]) -> int:
        first, need = self.count, self.count + len(ids)
        if need > len(self.ids):
            room = max(need, 2 * len(self.ids), 1024)
            self.ids, self.alive = grown(self.ids, room), grown(self.alive, room)
        self.ids[first:need] = ids
        self.alive[first:need] = True
        self.slot_of.update(zip(ids, range(first, need), strict=True))
        self._spaces.add(first, namespaces)
        self.count = need
        return first

    def _forget(self, items: Iterable[int]) -> None:
        for item in items:
            slot = self.slot_of.pop(item, None)
            self.stale.discard(item)
            if slot is not None:
                self.alive[slot] = False
                self.dead += 1

    def below(self, prefix: tuple[str, ...]) -> Slots | None:
        """The live slots under a namespace; `None` for all there are."""
        return self._spaces.below(prefix, self.alive[: self.count])

    def kept(self, connection: sqlite3.Connection, slots: Slots | None, condition: Mapping[str, Any]) -> Slots | None:
        """Those of these slots that a filter keeps."""
        if not condition:
            return slots
        if slots is None:
            slots = np.flatnonzero(self.alive[: self.count])
        if len(slots) <= FEW:
            values = self.values(connection, slots)
            return np.array([slot for slot, value in values if matches(value, condition)], np.int64)
        for key, wanted in condition.items():
            column = self._columns.pop(key, None) or self._column(connection, key)
            self._columns[key] = column
            if len(self._columns) > COLUMNS:
                self._columns.pop(next(iter(self._columns)))
            slots = column.keep(slots, wanted)
        return slots

    def values(self, connection: sqlite3.Connection, slots: Slots) -> list[tuple[int, Any]]:
        """The slots with their values as the file has them."""
        found = []
        for slot in slots.tolist():
            row = connection.execute("SELECT value FROM items WHERE id = ?", (int(self.ids[slot]),)).fetchone()
            if row is not None:
                found.append((slot, json.loads(row[0])))
        return found

    def _column(self, connection: sqlite3.Connection, key: str) -> Column:
        column = Column(key)
        of = dict(connection.execute("SELECT id, value FROM items"))
        for start in range(0, self.count, 5000):
            ids = self.ids[start : min(start + 5000, self.count)].tolist()
            column.extend(start, [json.loads(of[one]) if one in of else {} for one in ids])
        return column

    def expired(self, connection: sqlite3.Connection, now: int) -> list[int]:
        """The live slots of items whose time is over."""
        rows = connection.execute("SELECT id FROM items WHERE expires_at <= ?", (now,))
        return [self.slot_of[item] for [item] in rows if item in self.slot_of]
