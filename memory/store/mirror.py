"""The mirror: what a process remembers of the file, so that it can rank without reading everything.

Each item has a slot. A change gives it a new slot and leaves the old one dead, so that slots only grow until they are
packed. The file's numbered writes say what has changed since the mirror last looked, whichever process did it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.filters import found_at, holds, matches
from langgraph_reflexion.memory.store.lexicon import Lexicon
from langgraph_reflexion.memory.store.quantized import Quantized
from langgraph_reflexion.memory.store.schema import setting
from langgraph_reflexion.memory.store.settings import WHOLE, Settings
from langgraph_reflexion.memory.store.snapshot import Snapshot, check, ordered
from langgraph_reflexion.memory.store.snapshot import load as load_snapshot
from langgraph_reflexion.memory.store.snapshot import save as save_snapshot
from langgraph_reflexion.memory.store.values import words_of
from langgraph_reflexion.memory.store.vectors import Vectors

logger = logging.getLogger(__name__)

Slots = NDArray[np.int64]

FEW = 512
"""Items up to which a filter reads their values; for more it keeps a column of what lies under its key."""

COLUMNS = 8


class Mirror:
    """The items' slots, with their vectors and words where a search has asked for them. Its user holds a lock."""

    def __init__(self, settings: Settings, beside: Path | None = None) -> None:
        self.settings = settings
        self._beside = beside
        self._saved = 0
        self._what = ""
        self.seq = -1
        self.with_words = False
        self._clear()

    def _clear(self) -> None:
        self.ids = np.zeros(0, np.int64)
        self.spaces = np.zeros(0, np.int32)
        self.alive = np.zeros(0, bool)
        self.count = 0
        self.dead = 0
        self.slot_of: dict[int, int] = {}
        self.stale: set[int] = set()
        self.vectors = Vectors(self.settings.dims, self.settings.distance) if self.settings.dims else None
        self.lexicon = Lexicon() if self.with_words else None
        self._space_of: dict[str, int] = {}
        self._in_space: list[list[int]] = []
        self._below: dict[str, list[int]] = {}
        self._columns: dict[str, _Column] = {}

    def catch_up(self, connection: sqlite3.Connection, words: bool = False) -> bool:
        """Take in what has changed. False where the connection's view is older than what the mirror has seen."""
        now = int(setting(connection, "seq") or 0)
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
        data = "data, recipe" if self.vectors else "NULL, recipe"
        query = f"SELECT id, namespace, {value}, {data} FROM items LEFT JOIN vectors ON item = id"
        since = "" if self.seq < 0 else f" WHERE seq > {self.seq}"
        rows = connection.execute(query + since)
        kept = setting(connection, "fields")
        fields = self.settings.fields or (tuple(json.loads(str(kept))) if kept else WHOLE)
        fresh = self._fresh(connection) if self.vectors else {}
        if self.vectors is not None and self.seq < 0:
            # No more vectors than the file has room for; memory that is not used is not taken.
            [pages] = connection.execute("PRAGMA page_count").fetchone()
            [size] = connection.execute("PRAGMA page_size").fetchone()
            self.vectors.reserve(pages * size // (4 * self.vectors.dims) + 1024)
        for chunk in self._chunks(connection, rows):
            self._forget(row[0] for row in chunk if row[0] in self.slot_of)
            first = self._add([row[0] for row in chunk], [row[1] for row in chunk])
            if self.vectors is not None:
                self.vectors.add([row[4] for row in chunk])
                self.stale.update(
                    row[0] for row in chunk if row[3] != "false" and fresh.get(row[5], ()) not in (None, row[3])
                )
            if self.lexicon is None and not self._columns:
                continue
            values = [json.loads(row[2]) for row in chunk]
            for column in self._columns.values():
                column.extend(first, values)
            if self.lexicon is not None:
                self.lexicon.add(first, [_words(one, row[3], fields) for one, row in zip(values, chunk, strict=True)])

    def _chunks(self, connection: sqlite3.Connection, rows: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
        """The rows in portions, those that a snapshot has codes for first and in its order."""
        snapshot: Snapshot | None = None
        if self.seq < 0 and self._beside is not None and self.vectors is not None:
            self._what = f"{setting(connection, 'file')} {self.vectors.dims} {self.vectors.distance}"
            snapshot = load_snapshot(self._beside, self._what)
        if snapshot is None or self.vectors is None:
            while chunk := rows.fetchmany(5000):
                yield chunk
            return
        everything = rows.fetchall()
        codes = Quantized(self.vectors.dims, self.vectors.distance)
        arranged = ordered(snapshot, everything, self.vectors.dims)
        if arranged is not None and codes.restored(snapshot.codes) and codes.coded == int(snapshot.counts.sum()):
            self.vectors.codes, self._saved = codes, codes.coded
            everything = arranged
        for start in range(0, len(everything), 5000):
            yield everything[start : start + 5000]

    def save(self, connection: sqlite3.Connection) -> None:
        """Keep the codes beside the file where they have changed enough. Codes of what was deleted are not kept."""
        vectors = self.vectors
        if self._beside is None or vectors is None or vectors.codes is None or not vectors.large:
            return
        if not self.catch_up(connection) or self.vectors is not vectors or self.stale:
            return
        changed = vectors.codes.coded - self._saved + self.dead
        if not self.dead and changed < 0.02 * vectors.rows and self._saved:
            return
        starts = np.array([*vectors.starts, vectors.rows])
        live = np.flatnonzero(self.alive[: self.count])
        matrix, counts = vectors.matrix[: vectors.rows], np.diff(starts).astype(np.int32)
        if self.dead or vectors.codes.coded < vectors.rows:
            logger.info("Making the codes of %d vectors anew", vectors.rows)
            matrix = matrix[self.alive[vectors.owner[: vectors.rows]]]
            vectors.codes = Quantized(vectors.dims, vectors.distance)
            vectors.codes.extend(matrix)
        items, counts = self.ids[live].copy(), counts[live]
        of = {item: check(data) for item, data in connection.execute("SELECT item, data FROM vectors")}
        sums = np.array([of.get(item, 0) for item in items.tolist()], np.uint32)
        save_snapshot(self._beside, self._what, Snapshot(items, counts, sums, vectors.codes.kept()))

    def _fresh(self, connection: sqlite3.Connection) -> dict[int | None, str | None]:
        """The recipes by which an item counts as embedded, with the rule they suit; `None` suits every item by rule."""
        found: dict[int | None, str | None] = {}
        default = self.settings.recipe(self.settings.fields or WHOLE)
        for number, text in connection.execute("SELECT id, text FROM recipes"):
            maker, *paths = text.split("\n")
            if text == default:
                found[number] = None
            elif maker == self.settings.maker:
                found[number] = json.dumps(paths)
        return found

    def _add(self, ids: Sequence[int], namespaces: Sequence[str]) -> int:
        first, need = self.count, self.count + len(ids)
        if need > len(self.ids):
            room = max(need, 2 * len(self.ids), 1024)
            self.ids, self.spaces, self.alive = (_grown(one, room) for one in (self.ids, self.spaces, self.alive))
        spaces = [self._space(one) for one in namespaces]
        self.ids[first:need] = ids
        self.spaces[first:need] = spaces
        self.alive[first:need] = True
        for slot, (item, space) in enumerate(zip(ids, spaces, strict=True), first):
            if item < 0:
                self.alive[slot] = False
                self.dead += 1
                continue
            self.slot_of[item] = slot
            self._in_space[space].append(slot)
        self.count = need
        return first

    def _space(self, namespace: str) -> int:
        number = self._space_of.get(namespace)
        if number is None:
            number = self._space_of[namespace] = len(self._in_space)
            self._in_space.append([])
            labels = namespace.split(".")
            for depth in range(len(labels)):
                self._below.setdefault(".".join(labels[: depth + 1]), []).append(number)
        return number

    def _forget(self, items: Iterable[int]) -> None:
        for item in items:
            slot = self.slot_of.pop(item, None)
            self.stale.discard(item)
            if slot is not None:
                self.alive[slot] = False
                self.dead += 1

    def below(self, prefix: tuple[str, ...]) -> Slots | None:
        """The live slots under a namespace; `None` for all there are."""
        if not prefix:
            return None
        spaces = self._below.get(".".join(prefix), [])
        if len(spaces) == len(self._in_space):
            return None
        if sum(len(self._in_space[one]) for one in spaces) <= 4 * FEW:
            slots = np.array([slot for one in spaces for slot in self._in_space[one]], np.int64)
            return slots[self.alive[slots]] if len(slots) else slots
        wanted = np.zeros(len(self._in_space), bool)
        wanted[spaces] = True
        return np.flatnonzero(wanted[self.spaces[: self.count]] & self.alive[: self.count])

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

    def _column(self, connection: sqlite3.Connection, key: str) -> _Column:
        column = _Column(key)
        of = dict(connection.execute("SELECT id, value FROM items"))
        for start in range(0, self.count, 5000):
            ids = self.ids[start : min(start + 5000, self.count)].tolist()
            column.extend(start, [json.loads(of[one]) if one in of else {} for one in ids])
        return column

    def expired(self, connection: sqlite3.Connection, now: int) -> list[int]:
        """The live slots of items whose time is over."""
        rows = connection.execute("SELECT id FROM items WHERE expires_at <= ?", (now,))
        return [self.slot_of[item] for [item] in rows if item in self.slot_of]


class _Column:
    """What lies under one key, slot by slot, each different value once."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.codes = np.zeros(0, np.int32)
        self.values: list[Any] = []
        self._code_of: dict[Any, int] = {}

    def extend(self, first: int, values: Sequence[Any]) -> None:
        need = first + len(values)
        if need > len(self.codes):
            self.codes = _grown(self.codes, max(need, 2 * len(self.codes), 1024))
        self.codes[first:need] = [self._code(found_at(value, self.key)) for value in values]

    def keep(self, slots: Slots, wanted: Any) -> Slots:
        if isinstance(wanted, str | int) and not isinstance(wanted, bool):
            # Equality is asked for most, and needs no look at the other values: a number has two forms at the most.
            forms = (str,) if isinstance(wanted, str) else (int, float)
            codes = [self._code_of.get((form, wanted), -1) for form in forms]
            return np.asarray(slots[np.isin(self.codes[slots], codes)], np.int64)
        good = np.fromiter((holds(value, wanted) for value in self.values), bool, len(self.values))
        return np.asarray(slots[good[self.codes[slots]]], np.int64)

    def _code(self, value: Any) -> int:
        plain = value is None or isinstance(value, str | int | float)
        known = (type(value), value) if plain else (dict, json.dumps(value, sort_keys=True))
        code = self._code_of.get(known)
        if code is None:
            code = self._code_of[known] = len(self.values)
            self.values.append(value)
        return code


def _words(value: Any, rule: str | None, fields: tuple[str, ...]) -> str:
    if rule == "false":
        return ""
    return words_of(value, tuple(json.loads(rule)) if rule else fields)


def _grown(old: NDArray[Any], room: int) -> NDArray[Any]:
    new = np.zeros(room, old.dtype)
    new[: len(old)] = old
    return new
