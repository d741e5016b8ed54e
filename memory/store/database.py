"""The SQLite file of a store: its tables, connections for any number of threads and processes, and clear errors."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store.settings import Durability

VERSION = 5
"""The version of the file format."""

APPLICATION_ID = 0x4C524658
"""The application id of this package's SQLite files."""

REMEMBERED = 10_000
"""Writes for which deletes are remembered. A reader that is further behind reads all items again, which takes about as
long as catching up with so many writes."""

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE items (
        id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, ttl REAL, expires_at INTEGER,
        fields TEXT, seq INTEGER NOT NULL, UNIQUE (namespace, key)
    )""",
    "CREATE INDEX items_by_seq ON items (seq)",
    "CREATE INDEX items_by_end ON items (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, fields TEXT NOT NULL, data BLOB NOT NULL)",
    "CREATE TABLE gone (seq INTEGER PRIMARY KEY, id INTEGER NOT NULL)",
    "CREATE TRIGGER item_changed AFTER UPDATE OF value ON items BEGIN DELETE FROM vectors WHERE id = old.id; END",
    f"""CREATE TRIGGER item_deleted AFTER DELETE ON items BEGIN
        DELETE FROM vectors WHERE id = old.id;
        INSERT INTO gone VALUES (
            1 + max(old.seq, coalesce((SELECT max(seq) FROM items), 0), coalesce((SELECT max(seq) FROM gone), 0)),
            old.id
        );
        DELETE FROM gone WHERE seq < (SELECT max(seq) FROM gone) - {REMEMBERED};
    END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
"""Every write takes the next number: an item's `seq` is that of its last change, `gone` has one for every delete.
A reader that remembers a number can read what changed since, whichever process changed it. `fields` are the paths
that a put named for itself; `vectors` keeps one or more float32 vectors of an item and the paths that they come from.
"""

LAST_SEQ = "max(coalesce((SELECT max(seq) FROM items), 0), coalesce((SELECT max(seq) FROM gone), 0))"
"""SQL that reads the number of the last write."""

WAIT_SECONDS = 30.0
"""How long a write waits for other processes: longer than any of our batches, but not so long that it seems to hang."""

CHECK_BYTES = 16 * 1024 * 1024
"""Largest file that is checked completely when it is opened. At this size, it takes about 20 ms."""


class Database:
    """One SQLite file in WAL mode, or an in-memory database for `":memory:"`.

    With the durability `process`, an acknowledged write outlives the process; with `power`, also a loss of power as far
    as the disk keeps what it acknowledged.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability) -> None:
        self.in_memory = os.fspath(path) == ":memory:"
        # Connections are opened later, when the program may be in another folder.
        self.path = ":memory:" if self.in_memory else os.path.abspath(path)
        self.closed = False
        self._synchronous = "FULL" if durability == "power" else "NORMAL"
        self._inherited: list[sqlite3.Connection | None] = []
        self._start()
        with self._errors("opened"):
            if not self.in_memory:
                self._check_file()
            self._get_writer()
            self._file = self._find_file()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._read_lock, self._write_lock = threading.RLock(), threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection with a consistent view of the current data. Threads take turns."""
        self._check_process()
        with self._errors("read"), self._write_lock if self.in_memory else self._read_lock:
            self._check_open()
            if self.in_memory:
                yield self._get_writer()
                return
            connection = self._reader = self._reader or self._open()
            try:
                with _transaction(connection, "BEGIN"):
                    yield connection
            except BaseException:  # while its traceback holds a cursor, the connection would not see later writes
                self._reader = None
                connection.close()
                raise

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is committed completely or not at all."""
        self._check_process()
        with self._errors("written"), self._write_lock:
            self._check_open()
            connection = self._get_writer()
            with _transaction(connection, "BEGIN IMMEDIATE"):
                yield connection

    def empty_log(self) -> None:
        """Write the file anew, then move the log into it and empty it, unless it is being read.

        `secure_delete` overwrites a deleted row, but not the copy that SQLite leaves when it moves a row to another
        page. To write 100,000 items anew takes 0.8 s. If the disk has no room for that, the log is still emptied.
        """
        self._check_process()
        with self._errors("written"), self._write_lock:
            self._check_open()
            try:
                self._get_writer().execute("VACUUM")
            finally:
                self._get_writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close both connections when their threads are done. The last connection moves the log into the file."""
        if os.getpid() != self._pid:
            self.closed = True
            return
        with self._read_lock, self._write_lock:
            self.closed = True
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()

    def _check_file(self) -> None:
        """Refuse a file that is not a store, without changing it."""
        path = Path(self.path)
        if not path.parent.is_dir():
            raise self._refuse(f"there is no folder {str(path.parent)!r}")
        if path.is_dir():
            raise self._refuse("it is a folder")
        if not path.exists() or path.stat().st_size == 0:
            return
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")  # one view of the file, because another process may be creating its tables
            self._has_tables(connection)
            if path.stat().st_size <= CHECK_BYTES:
                [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
                if found != "ok":
                    raise self._refuse(f"it is damaged ({found})")

    def _has_tables(self, connection: sqlite3.Connection) -> bool:
        """Whether the tables are there. A file of another program or version is refused."""
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables and application in (0, APPLICATION_ID):
            return False
        if application != APPLICATION_ID:
            raise self._refuse("it is an SQLite file of another program")
        if version != VERSION:
            advice = "upgrade the package" if version > VERSION else "export its lessons with the release that wrote it"
            raise self._refuse(f"its version is {version}, this release reads {VERSION}: {advice}")
        return True

    def _refuse(self, why: str) -> StoreError:
        return StoreError(f"the store {self.path!r} cannot be opened: {why}")

    def _open(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA secure_delete = ON")  # deleted data is overwritten
        connection.execute("PRAGMA temp_store = MEMORY")  # no other file ever holds a copy
        connection.execute("PRAGMA cache_size = -8000")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")  # at 16 MB: copying the log stops writers for a moment
        return connection

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=WAIT_SECONDS, check_same_thread=False)

    def _find_file(self) -> tuple[int, int] | None:
        """What distinguishes a file from another one with the same name."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:  # a store in memory has none
            return None
        return found.st_dev, found.st_ino

    def _get_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            connection = self._open()
            try:
                if not self.in_memory:
                    _use_log(connection)
                with _transaction(connection, "BEGIN IMMEDIATE"):
                    for statement in () if self._has_tables(connection) else TABLES:
                        connection.execute(statement)
            except BaseException:  # nobody else could close it
                connection.close()
                raise
            self._writer = connection
        return self._writer

    def _check_open(self) -> None:
        if self.closed:
            raise StoreError(f"the store {self.path!r} is closed")
        if self._file is not None and self._find_file() != self._file:
            raise StoreError(
                f"the store {self.path!r} was removed or replaced while it was open: open its path again to use "
                "what is there now"
            )

    def _check_process(self) -> None:
        """After a fork, the child opens its own connections. It never uses or closes those of its parent."""
        if os.getpid() == self._pid:
            return
        if self.in_memory:
            raise StoreError("a store in memory cannot be used in a child process")
        self._inherited += [self._reader, self._writer]
        self._start()

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Raise errors of SQLite and of damaged values as a `StoreError` that names the file."""
        try:
            yield
        except (sqlite3.Error, json.JSONDecodeError) as error:
            why = error if isinstance(error, sqlite3.Error) else f"a value in it is damaged ({error})"
            raise StoreError(f"the store {self.path!r} cannot be {action}: {why}") from error


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """A transaction that is committed completely or not at all, even if Ctrl-C arrives while it begins or ends."""
    try:
        connection.execute(begin)
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def last_seq(connection: sqlite3.Connection) -> int:
    """The number of the last write."""
    return int(connection.execute(f"SELECT {LAST_SEQ}").fetchone()[0])


def read_meta(connection: sqlite3.Connection, name: str) -> Any:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode. If two processes open a new file together, SQLite refuses one of them at once."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.002)
