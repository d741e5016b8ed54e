"""Writing: puts and deletes as rows, inside one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from langgraph_reflexion.memory.store.schema import set_setting
from langgraph_reflexion.memory.store.values import now
from langgraph_reflexion.memory.store.work import Put

Floats = NDArray[np.float32]
MINUTE = 60_000_000

REMEMBERED = 10_000
"""Deletes that the file remembers; a process that has missed more reads the file anew."""

_PUT = """
INSERT INTO items (namespace, key, value, created_at, updated_at, ttl, expires_at, rule, recipe, seq, vectors)
VALUES (:namespace, :key, :value, :now, :now, :ttl, :expires, :rule, :recipe, :seq, :vectors)
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, updated_at = excluded.updated_at, ttl = excluded.ttl, rule = excluded.rule,
    created_at = CASE WHEN expires_at <= :now THEN excluded.created_at ELSE created_at END,
    expires_at = excluded.expires_at, recipe = excluded.recipe, seq = excluded.seq, vectors = excluded.vectors
"""


def write(connection: sqlite3.Connection, puts: Iterable[Put], vectors: Mapping[str, Floats]) -> None:
    """Write items with their vectors, and delete what has no value."""
    seq, moment, recipes = next_seq(connection), now(), dict[str, int]()
    rows = []
    for put in puts:
        if put.value is None:
            found = connection.execute("SELECT id FROM items WHERE namespace = ? AND key = ?", (put.namespace, put.key))
            delete(connection, [item for [item] in found.fetchall()], seq)
            continue
        if put.recipe is not None and put.recipe not in recipes:
            recipes[put.recipe] = recipe_number(connection, put.recipe)
        rows.append(
            {
                "namespace": put.namespace,
                "key": put.key,
                "value": put.value,
                "now": moment,
                "ttl": put.ttl,
                "expires": None if put.ttl is None else moment + int(put.ttl * MINUTE),
                "rule": put.rule,
                "recipe": None if put.recipe is None else recipes[put.recipe],
                "seq": seq,
                "vectors": packed(put.texts, vectors),
            }
        )
    connection.executemany(_PUT, rows)


def packed(texts: Sequence[str], vectors: Mapping[str, Floats]) -> bytes | None:
    """The vectors of an item's texts as its row keeps them."""
    return b"".join(vectors[text].tobytes() for text in texts) or None


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
        delete(connection, [item for [item] in rows], next_seq(connection))
    return len(rows)


def refresh(connection: sqlite3.Connection, items: Iterable[int]) -> None:
    """Let the time to live of items begin anew; what has expired stays so."""
    moment = now()
    connection.executemany(
        f"UPDATE items SET expires_at = :now + CAST(ttl * {MINUTE} AS INTEGER) WHERE id = :item AND expires_at > :now",
        [{"now": moment, "item": item} for item in items],
    )


def recipe_number(connection: sqlite3.Connection, text: str) -> int:
    query = "SELECT id FROM recipes WHERE text = ?"
    row = connection.execute(query, (text,)).fetchone()
    if row is None:
        connection.execute("INSERT INTO recipes (text) VALUES (?)", (text,))
        row = connection.execute(query, (text,)).fetchone()
    return int(row[0])


def next_seq(connection: sqlite3.Connection) -> int:
    """The number of this write, one more than that of the last."""
    [[seq]] = connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'seq' RETURNING value").fetchall()
    return int(seq)
