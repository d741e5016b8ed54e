"""The schema: the tables of a store's file, their version, and what may be opened."""

from __future__ import annotations

import sqlite3
import uuid

from langgraph_reflexion.errors import StoreError

VERSION = 4
MARK = 0x4C524658
"""SQLite's `application_id` of our files."""

_ITEMS = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ttl REAL,
    expires_at INTEGER,
    rule TEXT,
    recipe INTEGER,
    seq INTEGER NOT NULL,
    again INTEGER,
    vectors BLOB,
    UNIQUE (namespace, key)
);
CREATE INDEX items_by_again ON items (again) WHERE again IS NOT NULL;
CREATE INDEX items_by_end ON items (expires_at) WHERE expires_at IS NOT NULL;
"""
TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
{_ITEMS}
CREATE TABLE recipes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE gone (item INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE INDEX gone_by_seq ON gone (seq);
"""
"""An item's `seq` is the number of the write that made it, `again` that of the last write that changed it since;
`gone` has the number of every delete.

The last number is the highest of all, so that a put writes its item and nothing else. Items lie in the order in which
they were made, so that those of the latest writes are the last of the table, and need no index. Whoever remembers the
last number seen can read what has changed since. `rule` is what the put said of indexing: nothing, `false`, or a list
of paths; `recipe` is what the item's vectors were made from. They lie in the item's own row, so that neither can be
without the other.
"""

LAST = """max(
    coalesce((SELECT seq FROM items ORDER BY id DESC LIMIT 1), 0),
    coalesce((SELECT max(again) FROM items WHERE again IS NOT NULL), 0),
    coalesce((SELECT max(seq) FROM gone), 0), (SELECT value FROM meta WHERE name = 'floor')
)"""
"""SQL for the number of the last write. Deletes up to `floor` are no longer remembered."""

SINCE = """(
    id > coalesce((SELECT id FROM items WHERE seq <= :since ORDER BY id DESC LIMIT 1), 0) OR again > :since
)"""
"""SQL for the items that were made or changed after a write."""

MIGRATIONS = {
    1: """
ALTER TABLE items ADD COLUMN vectors BLOB;
UPDATE items SET vectors = (SELECT data FROM vectors WHERE item = id);
DROP TABLE vectors;
""",
    2: """
UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'seq') WHERE name = 'floor';
DELETE FROM meta WHERE name = 'seq';
""",
    3: f"""
ALTER TABLE items RENAME TO before;
DROP INDEX items_by_seq;
DROP INDEX items_by_end;
{_ITEMS}
INSERT INTO items SELECT id, namespace, key, value, created_at, updated_at, ttl, expires_at, rule, recipe, 0, seq,
    vectors FROM before ORDER BY id;
DROP TABLE before;
""",
}
"""SQL that brings a file of one version to the next, by the version it starts from."""


def examine(connection: sqlite3.Connection, path: str) -> int:
    """The version of the file; 0 for an empty one. What is not ours, or newer than we are, is a `StoreError`."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [mark] = connection.execute("PRAGMA application_id").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and mark in (0, MARK):
        return 0
    if mark != MARK:
        raise StoreError(f"the store {path!r} cannot be opened: it is an SQLite file of another program")
    if version > VERSION:
        raise StoreError(f"the store {path!r} cannot be opened: its version is {version}, this release knows {VERSION}")
    return int(version)


def create(connection: sqlite3.Connection, path: str) -> None:
    """Bring the file to our version, inside the caller's transaction."""
    version = examine(connection, path)
    if version == VERSION:
        return
    for statement in (TABLES if version == 0 else MIGRATIONS[version]).split(";"):
        if statement.strip():
            connection.execute(statement)
    if version == 0:
        connection.execute(f"PRAGMA application_id = {MARK}")
        rows = [("file", uuid.uuid4().hex), ("floor", 0)]
        connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        version = VERSION
    else:
        version += 1
    connection.execute(f"PRAGMA user_version = {version}")
    create(connection, path)


def last_seq(connection: sqlite3.Connection) -> int:
    """The number of the last write."""
    return int(connection.execute(f"SELECT {LAST}").fetchone()[0])


def setting(connection: sqlite3.Connection, name: str) -> str | int | None:
    """What the file says of itself under this name."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def set_setting(connection: sqlite3.Connection, name: str, value: str | int) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
