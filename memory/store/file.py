"""The file: SQLite connections for any number of threads and processes, and errors that name the file."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.store.schema import create, examine
from langgraph_reflexion.memory.store.settings import Durability

PATIENCE = 30.0
"""Seconds that a write waits for the other processes' writes."""

IDLE = 8
"""Connections kept open for the next readers."""

CHECKED = 16 * 1024 * 1024
"""Bytes up to which a file is checked as a whole when it is opened."""


FAULTS = (sqlite3.Error, json.JSONDecodeError)
"""What SQLite says, and what reading the file's own values does: no others are read where these are caught."""


class File:
    """One SQLite file in WAL mode, or a database in memory.

    `reading` gives a connection with one unchanging view of the data; `writing` a transaction that is kept whole or
    not at all. With the durability `process`, a write that was acknowledged outlives the process; with `power`, also
    a loss of power, as far as the disk keeps what it says it has kept.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability) -> None:
        self.in_memory = os.fspath(path) == ":memory:"
        # Connections are opened as they are needed, and the program may be in another folder by then.
        self.path = ":memory:" if self.in_memory else os.path.abspath(path)
        self._sync = "FULL" if durability == "power" else "NORMAL"
        self._closed = False
        self._inherited: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._start()
        with self.told("opened"):
            if not self.in_memory:
                self._look()
            self._writer = self._prepared()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._write = threading.RLock()
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._open: list[sqlite3.Connection] = []
        self._writer = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the file as it is now, and goes on seeing that."""
        if self.in_memory:
            with self._write, self.told("read"):
                yield self._connection()
            return
        try:
            taken = self._taken()
            try:
                taken.execute("BEGIN")
                yield taken
            finally:
                self._given_back(taken)
        except FAULTS as fault:
            raise self._said(fault, "read") from fault

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction of which all or nothing is kept."""
        self._after_a_fork()
        try:
            with self._write:
                connection = self._connection()
                _patiently(connection.execute, "BEGIN IMMEDIATE")
                try:
                    yield connection
                    _patiently(connection.execute, "COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except FAULTS as fault:
            raise self._said(fault, "written") from fault

    def write(self, statement: str, values: tuple[Any, ...]) -> None:
        """One statement that is a transaction by itself."""
        self._after_a_fork()
        try:
            with self._write:
                _patiently(self._connection().execute, statement, values)
        except FAULTS as fault:
            raise self._said(fault, "written") from fault

    def settle(self) -> None:
        """Fold the log into the file and empty it, as far as nobody reads from it at this moment."""
        self._after_a_fork()
        with self._write, self.told("written"):
            self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close every connection; one that a thread is reading from when it gives it back, as SQLite would crash else.

        The last one of all processes folds the log into the file: here they are closed one after another, as of two
        at once neither is the last.
        """
        with self._lock:
            self._closed = True
            idle, self._open, self._idle = self._idle, [], []
            if os.getpid() != self._pid:
                return
            for connection in idle:
                connection.close()
        with self._write, self._lock:
            if self._writer is not None:
                self._writer.close()
            self._writer = None

    @property
    def closed(self) -> bool:
        return self._closed

    @contextmanager
    def told(self, done: str) -> Iterator[None]:
        """Faults of SQLite as a `StoreError` that names the file and says what is wrong."""
        try:
            yield
        except FAULTS as fault:
            raise self._said(fault, done) from fault

    def _said(self, fault: Exception, done: str) -> Exception:
        if isinstance(fault, sqlite3.ProgrammingError):
            return StoreError(f"the store {self.path!r} is closed") if self._closed else fault
        why = _plainly(fault) if isinstance(fault, sqlite3.Error) else f"the file is damaged ({fault})"
        return StoreError(f"the store {self.path!r} cannot be {done}: {why}")

    def _look(self) -> None:
        """Refuse, without changing a byte, what is not a store of ours."""
        path = Path(self.path)
        if not path.parent.is_dir():
            raise StoreError(f"the store {self.path!r} cannot be opened: there is no folder {str(path.parent)!r}")
        if path.is_dir():
            raise StoreError(f"the store {self.path!r} cannot be opened: it is a folder")
        if not path.exists() or path.stat().st_size == 0:
            return
        with path.open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise StoreError(f"the store {self.path!r} cannot be opened: it is damaged or no SQLite file")
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=PATIENCE)
        try:
            examine(connection, self.path)
            if path.stat().st_size <= CHECKED:
                [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
                if found != "ok":
                    raise StoreError(f"the store {self.path!r} cannot be opened: it is damaged ({found})")
        finally:
            connection.close()

    def _prepared(self) -> sqlite3.Connection:
        connection = self._connected()
        connection.execute("PRAGMA busy_timeout = 0")
        if not self.in_memory:
            _patiently(connection.execute, "PRAGMA journal_mode = WAL")
        _patiently(connection.execute, "BEGIN IMMEDIATE")
        create(connection, self.path)
        _patiently(connection.execute, "COMMIT")
        return connection

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, timeout=PATIENCE, check_same_thread=False, cached_statements=64
        )
        connection.execute(f"PRAGMA synchronous = {self._sync}")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA cache_size = -8000")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        with self._lock:
            self._open.append(connection)
        return connection

    def _connection(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"the store {self.path!r} is closed")
        if self._writer is None:
            self._writer = self._prepared()
        return self._writer

    def _taken(self) -> sqlite3.Connection:
        self._after_a_fork()
        if self._closed:
            raise StoreError(f"the store {self.path!r} is closed")
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._connected()

    def _given_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.ProgrammingError:
            if not self._closed:
                raise
            return
        with self._lock:
            if len(self._idle) < IDLE and not self._closed:
                self._idle.append(connection)
                return
            if connection in self._open:
                self._open.remove(connection)
            connection.close()

    def _after_a_fork(self) -> None:
        """A child process opens connections of its own; the parent's are kept aside, never used nor closed."""
        if os.getpid() == self._pid:
            return
        if self.in_memory:
            raise StoreError("a store in memory cannot be used in a child process")
        self._inherited += self._open
        self._start()


def _patiently(step: Callable[..., object], *given: Any) -> None:
    """Take a step as soon as other processes let us. Short, uneven pauses leave nobody waiting for long."""
    end, pause = 0.0, 0.0002
    while True:
        try:
            step(*given)
            return
        except sqlite3.OperationalError as fault:
            end = end or time.monotonic() + PATIENCE
            if not _busy(fault) or time.monotonic() > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.3, 0.003)


def _busy(fault: sqlite3.Error) -> bool:
    return (getattr(fault, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _plainly(fault: sqlite3.Error) -> str:
    code = (getattr(fault, "sqlite_errorcode", 0) or 0) & 0xFF
    told = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_IOERR: "reading or writing the file failed, perhaps because the disk is full",
        sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
        sqlite3.SQLITE_CORRUPT: "the file is damaged",
        sqlite3.SQLITE_NOTADB: "the file is damaged or no SQLite file",
        sqlite3.SQLITE_CANTOPEN: "the file or its folder cannot be opened, or may not be written",
        sqlite3.SQLITE_BUSY: f"other processes kept it locked for {PATIENCE:g} s",
    }.get(code)
    return f"{told} ({fault})" if told else str(fault)
