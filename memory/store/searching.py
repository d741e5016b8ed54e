"""Searching: get, search and list what the file holds, as one view of it shows them."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, SearchItem, SearchOp
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.filters import matches
from langgraph_reflexion.memory.store.mirror import Mirror
from langgraph_reflexion.memory.store.schema import SINCE, last_seq, setting
from langgraph_reflexion.memory.store.values import item_of, now

Floats = NDArray[np.float32]
Slots = NDArray[np.int64]

_ROW = "namespace, key, value, created_at, updated_at, id, ttl, expires_at"
_LIVE = "(expires_at IS NULL OR expires_at > ?)"
AT_ONCE = 500
"""Rows that are fetched by one statement."""

PLACE = 20
"""How slowly a place in one ranking loses its weight when two are fused."""


class Changes(NamedTuple):
    """What has changed in a namespace from one write to another; since -1 it is all there is.

    `keys` are those it has now, told where something was deleted.
    """

    since: int
    seq: int
    items: list[Item]
    keys: set[str] | None = None


def changes(connection: sqlite3.Connection, namespace: tuple[str, ...], since: int) -> Changes | None:
    """What was written to exactly this namespace after `since`, or `None` where items expire by themselves."""
    seq, floor = last_seq(connection), int(setting(connection, "floor") or 0)
    if connection.execute("SELECT 1 FROM items WHERE expires_at IS NOT NULL LIMIT 1").fetchone():
        return None
    if since == seq:
        return Changes(since, seq, [])
    name = ".".join(namespace)
    if since < max(floor, 0) or since > seq:
        rows = connection.execute(f"SELECT {_ROW} FROM items WHERE namespace = ?", (name,))
        return Changes(-1, seq, [item_of(row) for row in rows])
    new = f"SELECT {_ROW} FROM items WHERE {SINCE} AND +namespace = :name"
    rows = connection.execute(new, {"since": since, "name": name})
    items: list[Item] = [item_of(row) for row in rows]
    if not connection.execute("SELECT 1 FROM gone WHERE seq > ? LIMIT 1", (since,)).fetchone():
        return Changes(since, seq, items)
    keys = {key for [key] in connection.execute("SELECT key FROM items WHERE namespace = ?", (name,))}
    return Changes(since, seq, items, keys)


class Reader:
    """One view of the file; `used` collects the items whose time to live begins anew."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.now = now()
        self.used: list[int] = []

    def get(self, op: GetOp) -> Item | None:
        row = self.connection.execute(
            f"SELECT {_ROW} FROM items WHERE namespace = ? AND key = ? AND {_LIVE}",
            (".".join(op.namespace), str(op.key), self.now),
        ).fetchone()
        if row is None:
            return None
        one = self._item(row, op.refresh_ttl)
        return Item(
            value=one.value, key=one.key, namespace=one.namespace, created_at=one.created_at, updated_at=one.updated_at
        )

    def listed(self, op: SearchOp) -> list[SearchItem]:
        """Items in the order in which they were first written."""
        prefix, values = _under(op.namespace_prefix)
        rows: Iterable[tuple[Any, ...]]
        if not op.filter:
            inner = f"SELECT id FROM items WHERE {prefix} AND {_LIVE} ORDER BY +id LIMIT ? OFFSET ?"
            if not op.namespace_prefix:
                inner = inner.replace("+id", "id")
            rows = self.connection.execute(
                f"SELECT {_ROW} FROM items WHERE id IN ({inner}) ORDER BY id", (*values, self.now, op.limit, op.offset)
            )
            return [self._item(row, op.refresh_ttl) for row in rows]
        narrow, hints = _narrowed(op.filter)
        rows = self.connection.execute(
            f"SELECT {_ROW} FROM items WHERE {prefix} AND {_LIVE}{narrow} ORDER BY id", (*values, self.now, *hints)
        )
        found: list[SearchItem] = []
        skip = op.offset
        for row in rows:
            if len(found) == op.limit:
                break
            if not matches(json.loads(row[2]), op.filter):
                continue
            if skip:
                skip -= 1
            else:
                found.append(self._item(row, op.refresh_ttl))
        return found

    def ranked(self, op: SearchOp, mirror: Mirror, query: Floats | None) -> tuple[Slots, Floats]:
        """The slots of a page, the best first, with their similarities, or NaN. The caller holds the mirror."""
        end = op.offset + op.limit
        alive = mirror.alive[: mirror.count]
        expired = mirror.expired(self.connection, self.now)
        if expired:
            alive = alive.copy()
            alive[expired] = False
        slots = mirror.kept(self.connection, mirror.below(op.namespace_prefix), op.filter or {})
        if slots is not None:
            slots = slots[alive[slots]]
        order, scores = _rank(mirror, op.query or "", query, slots, alive, end)
        if len(order) < end and mirror.settings.by_vectors and (slots is None or len(order) < len(slots)):
            # As in LangGraph's own store in memory: what is not indexed fills the last page and has no score.
            rest = np.setdiff1d(np.flatnonzero(alive) if slots is None else slots, order)
            rest = rest[np.argsort(mirror.ids[rest])]
            order, scores = np.concatenate([order, rest]), np.pad(scores, (0, len(rest)), constant_values=np.nan)
        return order[op.offset : end], scores[op.offset : end]

    def page(self, ids: list[int], scores: list[float], refresh_ttl: bool) -> list[SearchItem]:
        rows: dict[int, tuple[Any, ...]] = {}
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            found = self.connection.execute(f"SELECT {_ROW} FROM items WHERE id IN ({marks})", some)
            rows.update([(row[5], row) for row in found])
        return [
            self._item(rows[item], refresh_ttl, None if math.isnan(score) else score)
            for item, score in zip(ids, scores, strict=True)
        ]

    def namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        over = self.connection.execute("SELECT 1 FROM items WHERE expires_at <= ? LIMIT 1", (self.now,)).fetchone()
        if over:
            rows = self.connection.execute(f"SELECT DISTINCT namespace FROM items WHERE {_LIVE}", (self.now,))
        else:  # from one namespace to the next, without a look at the items between
            rows = self.connection.execute(
                "WITH RECURSIVE each (namespace) AS (SELECT min(namespace) FROM items UNION ALL SELECT "
                "(SELECT min(namespace) FROM items WHERE namespace > each.namespace) FROM each "
                "WHERE each.namespace IS NOT NULL) SELECT namespace FROM each WHERE namespace IS NOT NULL"
            )
        found = (tuple(row[0].split(".")) for row in rows)
        kept = {one[: op.max_depth] for one in found if all(_fits(one, fit) for fit in op.match_conditions or ())}
        return sorted(kept)[op.offset : op.offset + op.limit]

    def _item(self, row: tuple[Any, ...], refresh_ttl: bool, score: float | None = None) -> SearchItem:
        # A write for every read would be dear: a time that has hardly run is left as it is.
        if refresh_ttl and row[6] is not None and row[7] - self.now < 0.99 * row[6] * 60_000_000:
            self.used.append(row[5])
        return item_of(row, score)


def _rank(
    mirror: Mirror, text: str, query: Floats | None, slots: Slots | None, alive: NDArray[np.bool_], end: int
) -> tuple[Slots, Floats]:
    settings = mirror.settings
    nearest: tuple[Slots, Floats] | None = None
    if query is not None and mirror.vectors is not None:
        if slots is None and not settings.by_words:
            nearest = mirror.vectors.nearest(query, alive, end)
        if nearest is None:
            nearest = mirror.vectors.scores(query, slots)
        if slots is None and not alive.all():
            live = alive[nearest[0]]
            nearest = nearest[0][live], nearest[1][live]
    if not settings.by_words or mirror.lexicon is None:
        return _best(mirror, *nearest, end) if nearest else (np.zeros(0, np.int64), np.zeros(0, np.float32))
    ranks, held = mirror.lexicon.scores(text, alive)
    found = np.flatnonzero(ranks > 0) if slots is None else slots[ranks[slots] > 0]
    if nearest is None:
        by_words, _ = _best(mirror, found, ranks[found], end)
        return by_words, held[by_words]
    return _fused(mirror, nearest, found, ranks, held, end)


def _fused(
    mirror: Mirror, nearest: tuple[Slots, Floats], found: Slots, ranks: Floats, held: Floats, end: int
) -> tuple[Slots, Floats]:
    """Both rankings as one: what is high in either is high. Scores are the similarities of whichever is there."""
    fused = np.zeros(mirror.count, np.float32)
    similar = held.copy()
    similar[nearest[0]] = nearest[1]
    for slots, scores in (nearest, (found, ranks[found])):
        order, _ = _best(mirror, slots, scores, len(slots))
        fused[order] += 1 / (PLACE + np.arange(len(order), dtype=np.float32))
    order, _ = _best(mirror, *(lambda one: (one, fused[one]))(np.flatnonzero(fused)), end)
    return order, similar[order]


def _best(mirror: Mirror, slots: Slots, scores: Floats, end: int) -> tuple[Slots, Floats]:
    """The first `end` by score; what is alike stands in the order in which it was first written."""
    if 0 < end < len(scores):
        least = np.partition(scores, len(scores) - end)[len(scores) - end]
        kept = np.flatnonzero(scores >= least)
        slots, scores = slots[kept], scores[kept]
    order = np.lexsort((mirror.ids[slots], -scores))[:end]
    return slots[order], scores[order]


def _under(prefix: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if not prefix:
        return "1", ()
    name = ".".join(prefix)
    # `/` follows `.`: between them lies everything below, and some neighbours that the second half drops.
    return (
        "namespace >= ? AND namespace < ? AND (namespace = ? OR substr(namespace, 1, ?) = ?)",
        (name, f"{name}/", name, len(name) + 1, f"{name}."),  # type: ignore[return-value]
    )


def _narrowed(condition: Mapping[str, Any]) -> tuple[str, list[str]]:
    """SQL that drops most rows which a filter on texts would; what is left is decided exactly."""
    hints = [
        f"{json.dumps(key, ensure_ascii=False)}:{json.dumps(wanted, ensure_ascii=False)}"
        for key, wanted in condition.items()
        if isinstance(wanted, str) and "." not in key and f"{key}{wanted}".isascii() and f"{key}{wanted}".isprintable()
    ]
    return " AND instr(value, ?)" * len(hints), hints


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"a match is a prefix or a suffix, got {condition.match_type!r}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
