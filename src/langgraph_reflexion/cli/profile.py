"""Profile: what is remembered of a user and a project, for them to read, edit and have forgotten."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langgraph_reflexion.cli.opening import elsewhere, namespace_of, opened, place_options, told_namespace
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.trace import told
from langgraph_reflexion.cli.wrong_use import WrongUse
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Lesson

HEAD = ("NAME", "KIND", "WHEN", "WHAT")


@dataclass(frozen=True)
class Opened:
    """What a command is done with."""

    book: LessonBook
    page: Page
    asked: argparse.Namespace
    json: bool

    def entry(self) -> Lesson:
        """The entry that a name means."""
        held = self.book.profile()
        meant = [one for one in held if one.name == self.asked.name]
        if not meant:
            names = ", ".join(str(one.name) for one in held) or "nothing"
            raise WrongUse(f"nothing is remembered under {self.asked.name!r}; there is: {names}")
        return meant[-1]


def add_profile(commands: Any) -> None:
    """Its options, for the parser of the whole."""
    place = place_options()
    parser = commands.add_parser(
        "profile",
        parents=[place],
        help="read what is remembered of you and your project, edit it, have it forgotten",
        description="What is remembered of a user and a project under a name: rules, facts and preferences.",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def verb(name: str, help: str, *positionals: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = verbs.add_parser(
            name, parents=[place], help=help, description=f"{help[0].upper()}{help[1:]}.", allow_abbrev=False
        )
        for one in positionals:
            made.add_argument(one.lower(), metavar=one)
        return made

    verb("list", "list what is remembered")
    verb("show", "show an entry, and what held before it", "NAME")
    verb("edit", "put a text in the place of what is remembered", "NAME", "TEXT")
    verb("forget", "remove an entry and its former values, for good", "NAME").add_argument(
        "--yes", action="store_true", help="do not ask"
    )
    parser.set_defaults(parser=parser)


def profile(asked: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on a profile."""
    if asked.verb is None:
        asked.parser.print_help(sys.stderr)
        return 2
    if not hasattr(asked, "store"):
        raise WrongUse("say where it is remembered, by --store FILE or --store postgresql://…")
    with opened(asked.store) as store:
        book = LessonBook(store, namespace_of(store, getattr(asked, "namespace", None)))
        return VERBS[asked.verb](Opened(book, page, asked, hasattr(asked, "json")))


def _list(given: Opened) -> int:
    held = given.book.profile()
    if given.json:
        given.page.data([_plain(one) for one in held])
    elif held:
        given.page.table(HEAD, [(str(one.name), one.kind, one.when or "-", one.text) for one in held])
    elif given.book.lessons():
        Page(sys.stderr).line(f"Nothing is remembered under a name in {told_namespace(given.book.namespace)}.", "dim")
    else:
        Page(sys.stderr).line(f"There are {elsewhere(given.book.store, given.book.namespace)}.", "dim")
    return 0


def _show(given: Opened) -> int:
    entry = given.entry()
    changes = given.book.history(entry.id)
    before = [given.book.get(one) for one in dict.fromkeys(change.lesson for change in changes) if one != entry.id]
    former = [one.text for one in before if one is not None][::-1]
    if given.json:
        given.page.data({**_plain(entry), "before": former})
        return 0
    given.page.line(entry.text, "bold")
    since = entry.created_at.astimezone().strftime("%Y-%m-%d %H:%M") if entry.created_at else ""
    for name, text in (("name", entry.name), ("kind", entry.kind), ("when", entry.when), ("since", since)):
        if text:
            given.page.line(text, lead=f"  {name + ':':<10}")
    for text in former:
        given.page.line(text, "dim", lead=f"  {'before:':<10}")
    return 0


def _edit(given: Opened) -> int:
    entry = given.entry()
    if not given.asked.text.strip():
        raise WrongUse(f"an empty text is not kept; `profile forget {entry.name}` removes the entry")
    written = given.book.add(
        Lesson(kind=entry.kind, name=entry.name, when=entry.when, text=given.asked.text, origin="told")
    )
    if written.action in ("refused", "quarantined"):
        raise WrongUse(f"{given.asked.text!r} is not kept: {written.reason}")
    if given.json:
        given.page.data(_plain(given.entry()))
    else:
        given.page.line(f"{entry.name}: {given.entry().text}")
    return 0


def _forget(given: Opened) -> int:
    entry = given.entry()
    if not given.asked.yes and sys.stdin.isatty():
        Page(sys.stderr).lead(f"{entry.text} Remove it for good? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            Page(sys.stderr).line("Nothing was removed.", "dim")
            return 1
    removed = given.book.forget_named(str(entry.name))
    if given.json:
        given.page.data({"forgotten": entry.name, "entries": removed})
    else:
        given.page.line(f"Forgot {entry.name}, with {told(removed - 1, 'former value')}.")
    return 0


VERBS: dict[str, Callable[[Opened], int]] = {"list": _list, "show": _show, "edit": _edit, "forget": _forget}


def _plain(entry: Lesson) -> dict[str, Any]:
    """An entry in the words of the auditor that wrote it."""
    return {
        "kind": entry.kind,
        "name": entry.name,
        "description": entry.when,
        "content": entry.text,
        "trust": entry.origin,
        "id": entry.id,
    }
