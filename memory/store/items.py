"""Items in the file: get, list, search, write and sweep them, within a connection's view or transaction."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, SearchItem, SearchOp

from langgraph_reflexion.memory.store.database import LAST_SEQ, REMEMBERED, last_seq
from langgraph_reflexion.memory.store.filters import filter_sql
from langgraph_reflexion.memory.store.operations import Put, Scored

if TYPE_CHECKING:
    from langgraph_reflexion.memory.store.vectors import VectorIndex
    from langgraph_reflexion.memory.store.words import WordIndex

MINUTE = 60_000_000
"""Microseconds of a minute."""

FEW_ITEMS = 250
"""A namespace with at most this many items is compared as a whole, in 0.5 ms. For others the index proposes some."""

FUSED_DEPTH = 256
"""Places of each ranking that are fused, or four, sixteen … times as many if a page is further down, so that a page and
the next one come from the same fused ranking."""

FUSED_PLACE = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""

_COLUMNS = "id, namespace, key, value, created_at, updated_at, ttl, expires_at"
_LIVE = "(expires_at IS NULL OR expires_at > ?)"
_THESE = "(SELECT value AS wanted FROM json_each(?)) CROSS JOIN items ON items.id = wanted"
"""SQL for the items of a JSON list of ids; a cross join has SQLite begin with the list, not with a namespace."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PUT = f"""
INSERT INTO items (namespace, key, value, created_at, updated_at, ttl, expires_at, fields, seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, {LAST_SEQ} + 1))
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, updated_at = excluded.updated_at, ttl = excluded.ttl, fields = excluded.fields,
    created_at = CASE WHEN expires_at <= excluded.updated_at THEN excluded.created_at ELSE created_at END,
    expires_at = excluded.expires_at, seq = excluded.seq
RETURNING id
"""

Ranked = list[tuple[int, float | None]]
"""Ids of items, best first, with their scores if they have one."""


class Changes(NamedTuple):
    """What was written to a namespace after the write `since` up to the write `seq`. -1 means everything.

    `keys` are its current keys, given if something was deleted.
    """

    since: int
    seq: int
    items: list[Item]
    keys: set[str] | None = None


class Reader:
    """Reads in one view of the file. `used` collects the items whose time to live restarts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.used: list[int] = []
        self._now = now()

    def get(self, op: GetOp) -> Item | None:
        rows = self._select(f"namespace = ? AND key = ? AND {_LIVE}", ".".join(op.namespace), str(op.key), self._now)
        return Item(**self._fields(rows[0], op.refresh_ttl)) if rows else None

    def list_items(self, op: SearchOp) -> list[SearchItem]:
        """Items in the order in which they were first written."""
        where, values = self._where(op)
        order = "+id" if op.namespace_prefix else "id"  # the plus sign makes SQLite look up the namespace first
        page = f"SELECT id FROM items WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
        rows = self._select(f"id IN ({page}) ORDER BY id", *values, op.limit, op.offset)
        return [SearchItem(**self._fields(row, op.refresh_ttl)) for row in rows]

    def search(
        self, op: SearchOp, vectors: VectorIndex | None, query: bytes | None, words: WordIndex | None
    ) -> list[SearchItem]:
        """Items ranked by vectors, by words or by both. No other thread may use the indexes meanwhile."""
        end = op.offset + op.limit
        if vectors is None or query is None:
            ranked = [] if words is None else self._by_words(op, words, end)
        elif words is None:
            scored, rest = self._by_vectors(op, vectors, query, end)
            ranked = [*scored, *((item, None) for item in rest)]
        else:
            ranked = self._fused(op, vectors, query, words, end)
        page = ranked[op.offset : end]
        rows = self._select("id IN (SELECT value FROM json_each(?))", json.dumps([item for item, _ in page]))
        found = {row[0]: row for row in rows}
        return [SearchItem(**self._fields(found[item], op.refresh_ttl), score=score) for item, score in page]

    def list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        live = "SELECT DISTINCT namespace FROM items WHERE id NOT IN (SELECT id FROM items WHERE expires_at <= ?)"
        found = (tuple(name.split(".")) for [name] in self.connection.execute(live, (self._now,)))
        conditions = op.match_conditions or ()
        kept = {name[: op.max_depth] for name in found if all(_matches_namespace(name, each) for each in conditions)}
        return sorted(kept)[op.offset : op.offset + op.limit]

    def changes(self, namespace: tuple[str, ...], since: int) -> Changes | None:
        """What was written to exactly this namespace after `since`. `None` if items can expire, which is not noted."""
        if self.connection.execute("SELECT 1 FROM items WHERE expires_at IS NOT NULL LIMIT 1").fetchone():
            return None
        last, name = last_seq(self.connection), ".".join(namespace)
        if not max(0, last - REMEMBERED) <= since <= last:
            return Changes(-1, last, [Item(**self._fields(row)) for row in self._select("namespace = ?", name)])
        items = [Item(**self._fields(row)) for row in self._select("seq > ? AND +namespace = ?", since, name)]
        if not self.connection.execute("SELECT 1 FROM gone WHERE seq > ?", (since,)).fetchone():
            return Changes(since, last, items)
        keys = {key for [key] in self.connection.execute("SELECT key FROM items WHERE namespace = ?", (name,))}
        return Changes(since, last, items, keys)

    def _by_vectors(self, op: SearchOp, index: VectorIndex, query: bytes, end: int) -> tuple[Scored, list[int]]:
        """Items by similarity and, if fewer than `end` have a vector, the ids of the rest."""
        where, values = self._where(op)
        vectors = f"LEFT JOIN vectors ON vectors.id = items.id WHERE {where}"
        prepared = index.prepare(query)
        if not self._is_few(op.namespace_prefix):
            near = index.nearest(prepared, end, narrowed=bool(op.namespace_prefix or op.filter))
            some = f"SELECT items.id, data FROM {_THESE} {vectors}"
            scored, _ = index.rank(self.connection.execute(some, (json.dumps(near), *values)), prepared)
            if len(scored) >= end:
                return scored, []
        every = f"SELECT items.id, data FROM items {vectors}"
        return index.rank(self.connection.execute(every, values), prepared)

    def _by_words(self, op: SearchOp, index: WordIndex, end: int) -> Ranked:
        terms = index.terms_of(op.query or "")
        page = [item for item, _ in self._words_ranked(op, index, terms, end)[:end]]
        shares = index.shares(terms, page)
        return [(item, shares[item]) for item in page]

    def _words_ranked(self, op: SearchOp, index: WordIndex, terms: list[list[str]], end: int) -> Scored:
        """Items by BM25, at least `end` of them if there are that many."""
        where, values = self._where(op)
        kept = f"SELECT items.id FROM {_THESE} WHERE {where}"
        limit = min(max(FUSED_DEPTH, 4 * end), 2**40)  # SQLite counts to 2**63
        while True:
            best = index.best(terms, limit)
            rows = self.connection.execute(kept, (json.dumps([item for item, _ in best]), *values))
            passed = {item for [item] in rows}
            ranked = [(item, score) for item, score in best if item in passed]
            if len(ranked) >= end or len(best) < limit:
                return ranked
            limit *= 16

    def _fused(self, op: SearchOp, vectors: VectorIndex, query: bytes, words: WordIndex, end: int) -> Ranked:
        """Both rankings fused: a high rank in either counts. The score is the similarity that is available."""
        depth = FUSED_DEPTH
        while depth < end:
            depth *= 4
        near, rest = self._by_vectors(op, vectors, query, depth)
        terms = words.terms_of(op.query or "")
        worded = self._words_ranked(op, words, terms, depth)[:depth]
        places: dict[int, float] = {}
        for ranking in (near[:depth], worded):
            place, last = 0, None
            for count, (item, score) in enumerate(ranking, 1):
                if score != last:  # equal scores share a rank, regardless of which item was written first
                    place, last = count, score
                places[item] = places.get(item, 0.0) + 1 / (FUSED_PLACE + place)
        similar: dict[int, float | None] = {**words.shares(terms, [item for item, _ in worded]), **dict(near)}
        order = sorted(places, key=lambda item: (-places[item], -(similar[item] or 0), item))
        return [*((item, similar[item]) for item in order), *((item, None) for item in rest if item not in places)]

    def _where(self, op: SearchOp) -> tuple[str, list[Any]]:
        """SQL for the items that a search may return, regardless of its query."""
        prefix, values = _under(op.namespace_prefix)
        condition, wanted = filter_sql(self.connection, op.filter)
        return f"{prefix} AND {_LIVE}{condition}", [*values, self._now, *wanted]

    def _is_few(self, prefix: tuple[str, ...]) -> bool:
        if not prefix:
            return False
        under, values = _under(prefix)
        count = f"SELECT count(*) FROM (SELECT 1 FROM items WHERE {under} LIMIT {FEW_ITEMS + 1})"
        return bool(self.connection.execute(count, values).fetchone()[0] <= FEW_ITEMS)

    def _select(self, where: str, *values: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT {_COLUMNS} FROM items WHERE {where}", values).fetchall()

    def _fields(self, row: tuple[Any, ...], refresh_ttl: bool = False) -> dict[str, Any]:
        """An item's fields as LangGraph names them."""
        item, namespace, key, value, created, updated, ttl, expires = row
        # A write for each read would be slow, so a time to live is not restarted before a hundredth of it is over.
        if refresh_ttl and ttl is not None and expires - self._now < 0.99 * ttl * MINUTE:
            self.used.append(item)
        times = {"created_at": _moment(created), "updated_at": _moment(updated)}
        return {"namespace": tuple(namespace.split(".")), "key": key, "value": json.loads(value), **times}


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def write_items(connection: sqlite3.Connection, puts: Collection[Put], vectors: Mapping[str, bytes]) -> None:
    """Write items with their vectors, and delete items without a value."""
    moment = now()
    seq = None if len(puts) == 1 else last_seq(connection) + 1
    for namespace, key, value, fields, embedded, texts, ttl in puts:
        if value is None:
            connection.execute("DELETE FROM items WHERE namespace = ? AND key = ?", (namespace, key))
            continue
        expires = None if ttl is None else moment + int(ttl * MINUTE)
        row = (namespace, key, value, moment, moment, ttl, expires, fields, seq)
        [[item]] = connection.execute(_PUT, row).fetchall()
        if embedded is not None:
            write_vectors(connection, item, embedded, (vectors[text] for text in texts))


def write_vectors(connection: sqlite3.Connection, item: int, fields: str, vectors: Iterable[bytes]) -> None:
    """Keep an item's vectors with the fields that they were made from."""
    connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (item, fields, b"".join(vectors)))


def sweep(connection: sqlite3.Connection) -> int:
    """Delete expired items and return their number."""
    return connection.execute("DELETE FROM items WHERE expires_at <= ?", (now(),)).rowcount


def refresh_ttl(connection: sqlite3.Connection, items: Iterable[int]) -> None:
    """Restart the time to live of items, except those that have expired meanwhile."""
    connection.executemany(
        f"UPDATE items SET expires_at = :now + CAST(ttl * {MINUTE} AS INTEGER) WHERE id = :item AND expires_at > :now",
        [{"now": now(), "item": item} for item in items],
    )


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _under(prefix: tuple[str, ...]) -> tuple[str, list[str]]:
    """SQL for a namespace and those below it, which lie between `a.b.` and `a.b/`: a slash follows the dot."""
    if not prefix:
        return "1", []
    name = ".".join(prefix)
    return "(namespace = ? OR namespace >= ? AND namespace < ?)", [name, f"{name}.", f"{name}/"]


def _matches_namespace(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
