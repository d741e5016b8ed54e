"""Writing: puts and deletes as rows, inside one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from langgraph_reflexion.memory.store.schema import LAST, last_seq, set_setting
from langgraph_reflexion.memory.store.values import now
from langgraph_reflexion.memory.store.work import Put

MINUTE = 60_000_000

REMEMBERED = 10_000
"""Deletes that the file remembers; a process that has missed more reads the file anew."""

PUT = f"""
INSERT INTO items (namespace, key, value, created_at, updated_at, ttl, expires_at, rule, recipe, seq, vectors)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT id FROM recipes WHERE text = ?), coalesce(?, {LAST} + 1), ?)
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, updated_at = excluded.updated_at, ttl = excluded.ttl, rule = excluded.rule,
    created_at = CASE WHEN expires_at <= excluded.updated_at THEN excluded.created_at ELSE created_at END,
    expires_at = excluded.expires_at, recipe = excluded.recipe, again = excluded.seq, vectors = excluded.vectors
"""
"""Writes one item, and is a whole transaction where no other is begun."""


def row(put: Put, vectors: Mapping[str, bytes], moment: int, seq: int | None = None) -> tuple[Any, ...]:
    """A put as `PUT` takes it; without a number it gets the next."""
    namespace, key, value, rule, recipe, texts, ttl = put
    expires = None if ttl is None else moment + int(ttl * MINUTE)
    kept = packed(texts, vectors) if texts else None
    return namespace, key, value, moment, moment, ttl, expires, rule, recipe, seq, kept


def write(connection: sqlite3.Connection, puts: Collection[Put], vectors: Mapping[str, bytes]) -> None:
    """Write items with their vectors, and delete what has no value."""
    seq, moment = last_seq(connection) + 1, now()
    rows = []
    for put in puts:
        if put.value is None:
            found = connection.execute("SELECT id FROM items WHERE namespace = ? AND key = ?", (put.namespace, put.key))
            delete(connection, [item for [item] in found.fetchall()], seq)
        else:
            rows.append(row(put, vectors, moment, seq))
    remember(connection, {put.recipe for put in puts})
    connection.executemany(PUT, rows)


def packed(texts: Sequence[str], vectors: Mapping[str, bytes]) -> bytes | None:
    """The vectors of an item's texts as its row keeps them."""
    return b"".join([vectors[text] for text in texts]) or None


def delete(connection: sqlite3.Connection, items: list[int], seq: int) -> None:
    """Delete items with their vectors, and remember that they are gone."""
    for item in items:
        connection.execute("DELETE FROM items WHERE id = ?", (item,))
        connection.execute("INSERT OR REPLACE INTO gone VALUES (?, ?)", (item, seq))
    if (items and seq % 1000 == 0) or len(items) > REMEMBERED:
        [floor] = connection.execute(
            "SELECT coalesce((SELECT seq FROM gone ORDER BY seq DESC LIMIT 1 OFFSET ?), 0)", (REMEMBERED,)
        ).fetchone()
        if floor:
            connection.execute("DELETE FROM gone WHERE seq <= ?", (floor,))
            set_setting(connection, "floor", floor)


def sweep(connection: sqlite3.Connection) -> int:
    """Delete what has expired; how many items that were."""
    rows = connection.execute("SELECT id FROM items WHERE expires_at <= ?", (now(),)).fetchall()
    if rows:
        delete(connection, [item for [item] in rows], last_seq(connection) + 1)
    return len(rows)


def refresh(connection: sqlite3.Connection, items: Iterable[int]) -> None:
    """Let the time to live of items begin anew; what has expired stays so."""
    moment = now()
    connection.executemany(
        f"UPDATE items SET expires_at = :now + CAST(ttl * {MINUTE} AS INTEGER) WHERE id = :item AND expires_at > :now",
        [{"now": moment, "item": item} for item in items],
    )


def remember(connection: sqlite3.Connection, recipes: Iterable[str | None]) -> None:
    """Let the file know these recipes, so that items may name them."""
    new = [(one,) for one in recipes if one is not None]
    connection.executemany("INSERT OR IGNORE INTO recipes (text) VALUES (?)", new)
