"""Opening: the store and the namespace that a command is about, and errors that say what is there instead."""

from __future__ import annotations

import argparse
import re
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from difflib import get_close_matches
from pathlib import Path

from langgraph.store.base import BaseStore

from langgraph_reflexion.cli.wrong_use import WrongUse, sentence
from langgraph_reflexion.context import Namespace
from langgraph_reflexion.errors import StoreError
from langgraph_reflexion.memory.namespaces import label

USUAL: Namespace = ("reflexion", "reflexion_agent")
"""Where an agent without a name and a namespace of its own keeps its lessons."""
POSTGRES = ("postgresql://", "postgres://")
PACKAGES = 'pip install langgraph-checkpoint-postgres "psycopg[binary]"'
SQLITE = "langgraph-checkpoint-sqlite"
NAMED = 6
"""Namespaces that an error lists."""


def place_options() -> argparse.ArgumentParser:
    """The options of every command on a store, to be given before or after the command's name."""
    options = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("--store", metavar="FILE", help="a store's file, or postgresql://user@host/database")
    options.add_argument("--namespace", metavar="A/B", help="where in the store; may be left out where there is one")
    options.add_argument("--json", action="store_true", help="print JSON")
    return options


@contextmanager
def opened(address: str, *, create: bool | None = None) -> Iterator[BaseStore]:
    """The store at a file or address, closed afterwards. What is not there is made only under `create`; where that is
    `False` an error says that it may be asked for."""
    hint = "; --create makes a store there" if create is False else ""
    if address.startswith(POSTGRES):
        with _postgres(address, bool(create), hint) as store:
            yield store
        return
    if "://" in address:
        raise WrongUse(f"--store takes a file or postgresql://…, got {told_place(address)}")
    file = Path(address)
    if not create and not file.exists():
        raise WrongUse(f"--store {address}: there is no such file{hint}")
    if not create and file.is_file() and not file.stat().st_size:
        raise WrongUse(f"--store {address}: the file is empty{hint}")
    with _sqlite(file) if _is_sqlite_store(file) else _faiss(file) as store:
        yield store


def _faiss(file: Path) -> AbstractContextManager[BaseStore]:
    from langgraph_reflexion.memory.store import FaissStore

    try:
        return FaissStore(file)
    except StoreError as fault:
        raise WrongUse(sentence(fault)) from fault
    except OSError as fault:
        raise WrongUse(f"--store {file}: {fault.strerror or fault}") from fault


def _sqlite(file: Path) -> AbstractContextManager[BaseStore]:
    try:
        from langgraph.store.sqlite import SqliteStore
    except ImportError as fault:
        raise WrongUse(f"--store {file} is a SqliteStore, and needs `pip install {SQLITE}`") from fault
    return SqliteStore.from_conn_string(str(file))


def _is_sqlite_store(file: Path) -> bool:
    """Whether it is a file of LangGraph's SqliteStore."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            tables = connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE name IN ('store', 'store_migrations')"
            )
            return bool(tables.fetchone() == (2,))
    except sqlite3.Error:
        return False


@contextmanager
def _postgres(address: str, create: bool, hint: str) -> Iterator[BaseStore]:
    place = told_place(address)
    try:
        import psycopg
        from langgraph.store.postgres import PostgresStore
    except ImportError as fault:
        raise WrongUse(f"--store {place} needs `{PACKAGES}`") from fault
    try:
        with PostgresStore.from_conn_string(address) as store:
            if create:
                store.setup()
            yield store
    except psycopg.errors.UndefinedTable as fault:
        raise WrongUse(f"--store {place}: this database holds no LangGraph store{hint}") from fault
    except psycopg.Error as fault:
        raise StoreError(f"the store {place} cannot be used: {sentence(fault)}") from fault


def told_place(address: str) -> str:
    """An address without its password."""
    hidden = re.sub(r"^([\w+]+://[^:/@]*):[^/]*@", r"\1:***@", address)
    return re.sub(r"(?i)([?&]password=)[^&]*", r"\1***", hidden)


def namespace_of(store: BaseStore, asked: argparse.Namespace, room: str = "lessons") -> Namespace:
    """The namespace that was asked for; else the only one there is, or the usual one."""
    given: str | None = getattr(asked, "namespace", None)
    if given is not None:
        parts = given.strip("/").split("/")
        if not all(parts) or "{" in given:
            raise WrongUse(f"--namespace is labels with a slash between them, such as planner/ada, got {given!r}")
        # A label of a store holds no dot: one that does is as a user's id was, before it became a label.
        return tuple(label(part) if "." in part or part == "langgraph" else part for part in parts)
    held = namespaces_in(store, room)
    if len(held) == 1:
        return held[0]
    if not held or USUAL in held:
        return USUAL
    raise WrongUse(f"say which by --namespace: {_listed(held)}")


def namespaces_in(store: BaseStore, room: str = "lessons") -> list[Namespace]:
    """The namespaces that hold something in this room."""
    found = store.list_namespaces(suffix=(room,), limit=100_000)
    return sorted(namespace[:-1] for namespace in found if len(namespace) > 1)


def elsewhere(store: BaseStore, namespace: Namespace, room: str = "lessons") -> str:
    """What to say of a namespace in which nothing is."""
    held = [one for one in namespaces_in(store, room) if one != namespace]
    nothing = f"no {room} in {told_namespace(namespace)}"
    if not held:
        return f"{nothing}, nor anywhere else in this store"
    return f"{nothing}; there are {room} in {_listed(held, told_namespace(namespace))}"


def told_namespace(namespace: Namespace) -> str:
    """A namespace as `--namespace` takes it."""
    return "/".join(namespace)


def _listed(held: list[Namespace], wanted: str = "") -> str:
    """Some namespaces by name, those that are written alike first."""
    names = [told_namespace(one) for one in held]
    first = dict.fromkeys([*get_close_matches(wanted, names, NAMED), *names])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(list(first)[:NAMED]) + more
