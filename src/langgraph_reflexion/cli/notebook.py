"""The notebook and profile commands: what auditors found wrong, and what is remembered under a name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from langgraph_reflexion import ErrorNotebook, Lesson
from langgraph_reflexion.cli.console import Page, WrongUse, count_of
from langgraph_reflexion.cli.memory import BookSession, wrong_values
from langgraph_reflexion.cli.stores import Session, may_remove, open_store

INTERNAL = ("order", "group")
"""Fields of a finding that only the notebook itself has a use for."""
EVERY = 1_000_000
"""More findings than a notebook keeps."""
Finding = dict[str, Any]


class NotebookSession(Session):
    """A command on the error notebook of one namespace."""

    collection = "notebook"

    @property
    def notebook(self) -> ErrorNotebook:
        """The findings."""
        return ErrorNotebook(self.store, self.namespace)


def notebook(args: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on a notebook."""
    with open_store(args) as store:
        return NOTEBOOK_VERBS[args.verb](NotebookSession.open(store, page, args))


def _list_findings(session: NotebookSession) -> int:
    args, book = session.args, session.notebook
    found = book.recent(EVERY)
    for name, search in (("session", book.by_session), ("category", book.by_category), ("tool", book.by_tool)):
        if (word := getattr(args, name)) is not None:
            with wrong_values():
                fitting = {finding["id"] for finding in search(word)}
            found = [finding for finding in found if finding["id"] in fitting]
    found = found[: args.limit]
    if not found:
        session.note_empty(any_left=bool(book.recent(1)))
    rows = [_finding_row(finding) for finding in found]
    columns = ("ID", "CATEGORY", "SEVERITY", "TOOL", "FINDING")
    return session.show([_public(finding) for finding in found], lambda: session.page.table(columns, rows))


def _finding_row(finding: Finding) -> tuple[str, ...]:
    text = finding["suggestion"] or finding["description"]
    aside = "(set aside) " if finding["status"] == "quarantined" else ""
    return finding["id"], finding["category"], finding["severity"], finding["tool"] or "-", f"{aside}{text}"


def _find(session: NotebookSession) -> Finding:
    findings = {finding["id"]: finding for finding in session.notebook.recent(EVERY)}
    return _public(findings[session.full_id(session.args.id, findings, "finding")])


def _show_finding(session: NotebookSession) -> int:
    finding = _find(session)
    values = {name: value for name, value in finding.items() if name != "description"}
    return session.show(finding, lambda: session.page.fields(values, title=finding["description"]))


def _show_statistics(session: NotebookSession) -> int:
    found = session.notebook.statistics()
    if not found["total"]:
        session.note_empty(any_left=False)
    title = f"{count_of(found['total'], 'finding')} of {count_of(found['sessions'], 'run')} in {session.place}"
    values = {name: value for name, value in found.items() if name not in ("total", "sessions")}
    return session.show(found, lambda: session.page.fields(values, title=title))


def _show_rules(session: NotebookSession) -> int:
    args = session.args
    text = session.notebook.rules_text(args.task, args.limit, args.min_repetitions)
    if not text:
        session.note_empty(any_left=bool(session.notebook.recent(1)))
    return session.show({"rules": text}, text)


def _remove(session: NotebookSession) -> int:
    args = session.args
    if (args.id is None) == (args.older_than is None):
        raise WrongUse("`notebook remove` takes the ID of a finding, or --older-than DAYS")
    if args.id is not None:
        finding = _find(session)
        if not may_remove(args, f"{finding['description']} Delete it permanently?"):
            return 1
        session.notebook.remove(finding["id"])
        return session.show({"removed": 1}, f"Removed {finding['id']}.")
    age = count_of(args.older_than, "day")
    if not may_remove(args, f"Delete the findings of {session.place} older than {age} permanently?"):
        return 1
    removed = session.notebook.remove_older(timedelta(days=args.older_than))
    return session.show({"removed": removed}, f"Removed {count_of(removed, 'finding')} older than {age}.")


def _clear(session: NotebookSession) -> int:
    if not may_remove(session.args, f"Delete all findings of {session.place} permanently?"):
        return 1
    removed = session.notebook.clear()
    return session.show({"removed": removed}, f"Removed {count_of(removed, 'finding')}.")


NOTEBOOK_VERBS: dict[str, Callable[[NotebookSession], int]] = {
    "list": _list_findings,
    "show": _show_finding,
    "stats": _show_statistics,
    "rules": _show_rules,
    "remove": _remove,
    "clear": _clear,
}


def _public(finding: Finding) -> Finding:
    return {name: value for name, value in finding.items() if name not in INTERNAL}


# ------------------------------------------------------------ profile


def profile(args: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on what is remembered under a name."""
    with open_store(args) as store:
        return PROFILE_VERBS[args.verb](BookSession.open(store, page, args))


def _find_entry(session: BookSession) -> Lesson:
    entries = {str(entry.name): entry for entry in session.book.profile()}
    if session.args.name not in entries:
        names = ", ".join(entries) or "nothing"
        raise WrongUse(f"nothing is remembered under {session.args.name!r}; there is: {names}")
    return entries[session.args.name]


def _former(session: BookSession, entry: Lesson) -> list[Lesson]:
    """The values that this entry replaced, the newest first."""
    same = [lesson for lesson in session.book.lessons() if lesson.name == entry.name and lesson.id != entry.id]
    return same[::-1]


def _entry_data(entry: Lesson) -> dict[str, Any]:
    """An entry in the words of the auditor that wrote it."""
    return {
        "kind": entry.kind,
        "name": entry.name,
        "description": entry.when,
        "content": entry.text,
        "trust": entry.origin,
        "id": entry.id,
    }


def _list_entries(session: BookSession) -> int:
    entries = session.book.profile()
    if not entries:
        session.note_empty(any_left=bool(session.book.lessons()))
    rows = [(str(entry.name), entry.kind, entry.when or "-", entry.text) for entry in entries]
    data = [_entry_data(entry) for entry in entries]
    return session.show(data, lambda: session.page.table(("NAME", "KIND", "WHEN", "WHAT"), rows))


def _show_entry(session: BookSession) -> int:
    entry = _find_entry(session)
    former = [lesson.text for lesson in _former(session, entry)]
    values = {"name": entry.name, "kind": entry.kind, "when": entry.when, "since": entry.created_at}
    return session.show(
        {**_entry_data(entry), "before": former},
        lambda: session.page.fields({**values, "before": "\n".join(former)}, title=entry.text),
    )


def _edit_entry(session: BookSession) -> int:
    entry, text = _find_entry(session), session.args.text
    if not text.strip():
        raise WrongUse(f"an empty text is not kept; `profile forget {entry.name}` removes the entry")
    written = session.book.add(Lesson(kind=entry.kind, name=entry.name, when=entry.when, text=text, origin="told"))
    if written.action in ("refused", "quarantined"):
        raise WrongUse(f"{text!r} is not kept: {written.reason}")
    edited = _find_entry(session)
    return session.show(_entry_data(edited), f"{edited.name}: {edited.text}")


def _forget_entry(session: BookSession) -> int:
    entry = _find_entry(session)
    if not may_remove(session.args, f"{entry.text} Delete it permanently?"):
        return 1
    former = _former(session, entry)
    for lesson in (*former, entry):
        session.book.forget(lesson.id)
    data = {"forgotten": entry.name, "entries": len(former) + 1}
    return session.show(data, f"Forgot {entry.name}, with {count_of(len(former), 'former value')}.")


PROFILE_VERBS: dict[str, Callable[[BookSession], int]] = {
    "list": _list_entries,
    "show": _show_entry,
    "edit": _edit_entry,
    "forget": _forget_entry,
}
