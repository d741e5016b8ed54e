"""Commands on a store: the verbs they have, the store they are about, and leave to remove something for good."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from langgraph.store.base import BaseStore

from langgraph_reflexion.cli.opening import opened, place_options
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.wrong_use import WrongUse

Verb = Callable[..., argparse.ArgumentParser]
"""Adds a verb to a command: its name, what it does, and the names of what it must be given."""


def add_command(commands: Any, name: str, help: str, description: str, epilog: str | None = None) -> Verb:
    """Add a command to the parser of the whole; what is given back adds its verbs."""
    place = place_options()
    command = commands.add_parser(
        name, parents=[place], help=help, description=description, epilog=epilog, allow_abbrev=False
    )
    command.set_defaults(parser=command)
    verbs = command.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def verb(name: str, help: str, *positionals: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(
            name, parents=[place], help=help, description=f"{help[0].upper()}{help[1:]}.", allow_abbrev=False
        )
        for one in positionals:
            parser.add_argument(one.lower(), metavar=one)
        return parser

    return verb


def store_of(asked: argparse.Namespace, what: str, *, create: bool | None = None) -> AbstractContextManager[BaseStore]:
    """The store that a command is about; `what` says of which thing it has to be told."""
    if not hasattr(asked, "store"):
        raise WrongUse(f"say where {what}, by --store FILE or --store postgresql://…")
    return opened(asked.store, create=create)


def note(text: str) -> None:
    """Say something beside what was asked for."""
    Page(sys.stderr).line(text, "dim")


def may_remove(asked: argparse.Namespace, question: str, *, of: str = "") -> bool:
    """Whether something may go for good: by `--yes`, by a yes at the terminal, or where there is none to ask at."""
    if asked.yes or not sys.stdin.isatty():
        return True
    page = Page(sys.stderr)
    if of:
        page.line(of, "yellow")
    page.lead(f"{question} [y/N] ")
    sure = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not sure:
        note("Nothing was removed.")
    return sure
