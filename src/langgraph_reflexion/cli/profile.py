"""Profile: what is remembered of a user and a project, for them to read, edit and have forgotten."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from langgraph_reflexion.cli.desk import Desk, desk_on
from langgraph_reflexion.cli.on_store import add_command, may_remove, note, store_of
from langgraph_reflexion.cli.page import Page, told
from langgraph_reflexion.cli.wrong_use import WrongUse
from langgraph_reflexion.schemas import Lesson

HEAD = ("NAME", "KIND", "WHEN", "WHAT")


def add_profile(commands: Any) -> None:
    """Its options, for the parser of the whole."""
    verb = add_command(
        commands,
        "profile",
        help="read what is remembered of you and your project, edit it, have it forgotten",
        description="What is remembered of a user and a project under a name: rules, facts and preferences.",
    )
    verb("list", "list what is remembered")
    verb("show", "show an entry, and what held before it", "NAME")
    verb("edit", "put a text in the place of what is remembered", "NAME", "TEXT")
    verb("forget", "remove an entry and its former values, for good", "NAME").add_argument(
        "--yes", action="store_true", help="do not ask"
    )


def profile(asked: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on a profile."""
    with store_of(asked, "it is remembered") as store:
        return VERBS[asked.verb](desk_on(store, asked, page))


def _list(desk: Desk) -> int:
    held = desk.book.profile()
    if desk.json:
        desk.page.data([_plain(one) for one in held])
    elif held:
        desk.page.table(HEAD, [(str(one.name), one.kind, one.when or "-", one.text) for one in held])
    elif desk.book.lessons():
        note(f"Nothing is remembered under a name in {desk.place}.")
    else:
        note(f"There are {desk.elsewhere}.")
    return 0


def _show(desk: Desk) -> int:
    entry = _entry(desk)
    changes = desk.book.history(entry.id)
    before = [desk.book.get(one) for one in dict.fromkeys(change.lesson for change in changes) if one != entry.id]
    former = [one.text for one in before if one is not None][::-1]
    if desk.json:
        desk.page.data({**_plain(entry), "before": former})
        return 0
    desk.page.line(entry.text, "bold")
    since = entry.created_at.astimezone().strftime("%Y-%m-%d %H:%M") if entry.created_at else ""
    for name, text in (("name", entry.name), ("kind", entry.kind), ("when", entry.when), ("since", since)):
        if text:
            desk.page.line(text, lead=f"  {name + ':':<10}")
    for text in former:
        desk.page.line(text, "dim", lead=f"  {'before:':<10}")
    return 0


def _edit(desk: Desk) -> int:
    entry = _entry(desk)
    if not desk.asked.text.strip():
        raise WrongUse(f"an empty text is not kept; `profile forget {entry.name}` removes the entry")
    written = desk.book.add(
        Lesson(kind=entry.kind, name=entry.name, when=entry.when, text=desk.asked.text, origin="told")
    )
    if written.action in ("refused", "quarantined"):
        raise WrongUse(f"{desk.asked.text!r} is not kept: {written.reason}")
    if desk.json:
        desk.page.data(_plain(_entry(desk)))
    else:
        desk.page.line(f"{entry.name}: {_entry(desk).text}")
    return 0


def _forget(desk: Desk) -> int:
    entry = _entry(desk)
    if not may_remove(desk.asked, f"{entry.text} Remove it for good?"):
        return 1
    removed = desk.book.forget_named(str(entry.name))
    if desk.json:
        desk.page.data({"forgotten": entry.name, "entries": removed})
    else:
        desk.page.line(f"Forgot {entry.name}, with {told(removed - 1, 'former value')}.")
    return 0


VERBS: dict[str, Callable[[Desk], int]] = {"list": _list, "show": _show, "edit": _edit, "forget": _forget}


def _entry(desk: Desk) -> Lesson:
    """The entry that a name means."""
    held = desk.book.profile()
    meant = [one for one in held if one.name == desk.asked.name]
    if not meant:
        names = ", ".join(str(one.name) for one in held) or "nothing"
        raise WrongUse(f"nothing is remembered under {desk.asked.name!r}; there is: {names}")
    return meant[-1]


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
