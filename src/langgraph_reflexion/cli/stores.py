"""Stores: open the store and find the namespace of a command, with errors that say what exists instead."""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from langgraph.store.base import BaseStore
from pydantic_core import to_jsonable_python

from langgraph_reflexion import FaissStore, StoreError
from langgraph_reflexion.cli.console import Page, WrongUse, note, summarize, wrong_use
from langgraph_reflexion.context import Namespace
from langgraph_reflexion.memory.arguments import DEFAULT_NAMESPACE, label
from langgraph_reflexion.text.literals import hide_password

NAMESPACES_IN_ERROR = 6
"""Namespaces in a message: about two lines of a terminal."""

_LABEL = re.compile(r"[^{}\x00-\x1f\x7f\ud800-\udfff]+")
"""A label of a namespace: without fields, control characters, and bytes from the shell that are not UTF-8."""


def open_store(address: str | None, *, create: bool | None = None) -> AbstractContextManager[BaseStore]:
    """The store at an address, closed when its `with` ends. A missing one is an error, or created with `create`.

    `create` is `None` for a command without `--create`, which the error then does not suggest.
    """
    hint = "; --create makes a store there" if create is False else ""
    if address is None:
        raise WrongUse("name a store: --store FILE or --store postgresql://…")
    if address.startswith(("postgresql://", "postgres://")):
        return _open_postgres(address, bool(create), hint)
    file = Path(address).expanduser()  # no shell does it in `--store=~/lessons.db`
    if "://" in address:
        raise WrongUse(f"--store takes a file or postgresql://…, got {hide_password(address)}")
    if not create and not file.exists():
        raise WrongUse(f"--store {hide_password(address)}: there is no such file{hint}")
    if not create and file.is_file() and not file.stat().st_size:  # opening it would make it a store
        raise WrongUse(f"--store {hide_password(address)}: the file is empty{hint}")
    if _is_sqlite_store(file):
        return _open_sqlite_store(file)
    try:
        return FaissStore(file)
    except StoreError as error:
        raise WrongUse(summarize(error)) from error


@contextmanager
def _open_sqlite_store(file: Path) -> Iterator[BaseStore]:
    needed = "`pip install langgraph-checkpoint-sqlite`"
    with wrong_use(ImportError, f"--store {file} is a SqliteStore and needs {needed}"):
        from langgraph.store.sqlite import SqliteStore
    try:
        with SqliteStore.from_conn_string(str(file)) as store:
            yield store
    except sqlite3.Error as error:
        raise StoreError(f"the store {file} cannot be used: {summarize(error)}") from error


def _is_sqlite_store(file: Path) -> bool:
    """Whether it is a file of LangGraph's SqliteStore."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            query = "SELECT count(*) FROM sqlite_master WHERE name IN ('store', 'store_migrations')"
            return bool(connection.execute(query).fetchone() == (2,))
    except sqlite3.Error:
        return False


@contextmanager
def _open_postgres(address: str, create: bool, hint: str) -> Iterator[BaseStore]:
    place = hide_password(address)
    with wrong_use(ImportError, f'--store {place} needs `pip install langgraph-checkpoint-postgres "psycopg[binary]"`'):
        import psycopg
        from langgraph.store.postgres import PoolConfig, PostgresStore
        from psycopg_pool import ConnectionPool
    try:
        psycopg.connect(address).close()  # if it fails, a pool would not say why
        # The page and `eval` run for hours, so a connection that was lost is replaced.
        pool = cast("PoolConfig", {"check": ConnectionPool.check_connection, "timeout": 5})
        with PostgresStore.from_conn_string(address, pool_config=pool) as store:
            if create:
                store.setup()
            yield store
    except psycopg.errors.UndefinedTable as error:
        raise WrongUse(f"--store {place}: this database has no LangGraph store{hint}") from error
    except psycopg.Error as error:
        raise StoreError(f"the store {place} cannot be used: {summarize(error)}") from error


# ------------------------------------------------------------ a command on a store


def run_verb(session: Callable[[BaseStore, argparse.Namespace, Page], Session], args: Any, page: Page) -> int:
    """Run the verb of a command on the store that the options name. Returns the exit status."""
    with open_store(args.store, create=args.create) as store:
        verb: Callable[[], int] = getattr(session(store, args, page), f"do_{args.verb}")
        return verb()


class Session:
    """A command on one namespace of an opened store. Each verb is a method `do_…`, which returns the exit status."""

    collection = "lessons"
    """The last label of the namespaces that such a command is about."""

    def __init__(self, store: BaseStore, args: argparse.Namespace, page: Page) -> None:
        self.store = store
        self.args = args
        self.page = page

    @cached_property
    def namespace(self) -> Namespace:
        """The given namespace, else the only one with data, else the default one."""
        given: str | None = self.args.namespace
        if given is not None:
            parts = given.strip("/").split("/")
            if not all(map(_LABEL.fullmatch, parts)):
                raise WrongUse(f"--namespace takes labels separated by slashes, such as planner/ada, got {given!r}")
            # As in a run, the dots of a user's id are escaped.
            return tuple(label(part) if "." in part or part == "langgraph" else part for part in parts)
        held = namespaces_in(self.store, self.collection) or namespaces_in(self.store, "episodes")
        if len(held) == 1:
            return held[0]
        if held and DEFAULT_NAMESPACE not in held:
            raise WrongUse(f"choose one with --namespace: {_list_namespaces(held)}")
        if held:
            held.remove(DEFAULT_NAMESPACE)
            note(f"Showing {'/'.join(DEFAULT_NAMESPACE)}; there is also {_list_namespaces(held)}")
        return DEFAULT_NAMESPACE

    @property
    def place(self) -> str:
        """The namespace, as `--namespace` takes it."""
        return "/".join(self.namespace)

    def show(self, data: Any, text: str | Callable[[], object]) -> int:
        """Print the data, which may contain models, as JSON or as the text. Returns the exit status."""
        if self.args.json:
            self.page.data(to_jsonable_python(data))
        elif not isinstance(text, str):
            text()
        elif text:
            self.page.line(text)
        return 0

    def show_rows(self, data: Sequence[Any], head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
        """Print a table, or the data as JSON. If there are no rows, a note says so."""
        if not rows:
            note(self.describe_empty())
        return self.show(data, lambda: self.page.table(head, rows))

    def full_id(self, given: str, ids: Collection[str], thing: str) -> str:
        """The only id that begins with `given`. None or several are an error."""
        meant = [given] if given in ids else [id for id in ids if given and id.startswith(given)]
        if len(meant) > 1:
            raise WrongUse(f"{len(meant)} ids begin with {given!r}: {', '.join(meant[:3])}")
        if not meant:
            raise WrongUse(f"there is no {thing} {given!r} in {self.place}")
        return meant[0]

    def describe_empty(self) -> str:
        """A note that nothing was found, and which namespaces have something of this kind."""
        held = namespaces_in(self.store, self.collection)
        kept = "findings" if self.collection == "notebook" else self.collection
        return f"Nothing found in {self.place}. Namespaces with {kept}: {_list_namespaces(held) or 'none'}."

    def confirm(self, question: str) -> None:
        """End the command unless the user allows a permanent deletion, with `--yes` or at the terminal."""
        if self.args.yes:
            return
        if not sys.stdin.isatty():
            raise WrongUse("this deletes permanently, and there is no terminal to confirm it: add --yes")
        Page(sys.stderr).line(f"{question} [y/N]")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            note("Nothing was removed.")
            raise SystemExit(1)


def namespaces_in(store: BaseStore, collection: str = "lessons") -> list[Namespace]:
    """The namespaces that have something in this collection."""
    found = store.list_namespaces(suffix=(collection,), limit=100_000)
    return sorted(namespace[:-1] for namespace in found if len(namespace) > 1)


def _list_namespaces(held: list[Namespace]) -> str:
    names = ["/".join(namespace) for namespace in held[:NAMESPACES_IN_ERROR]]
    more = f" and {len(held) - len(names)} more" if len(held) > len(names) else ""
    return ", ".join(names) + more
