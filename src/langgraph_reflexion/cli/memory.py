"""The memory commands: read and manage the lessons of a store, and export and import them."""

from __future__ import annotations

import argparse
import io
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TextIO

from langgraph.store.base import BaseStore

from langgraph_reflexion import Lesson, LessonBook, LessonError
from langgraph_reflexion.cli.commands import FILTERS
from langgraph_reflexion.cli.console import Page, WrongUse, count_of, format_value, note, shorten, summarize
from langgraph_reflexion.cli.stores import Session, may_remove, namespaces_in, open_store
from langgraph_reflexion.memory import Change
from langgraph_reflexion.memory.store import copy_store

LESSON_COLUMNS = ("ID", "KIND", "STATUS", "WON", "WITHOUT", "LESSON")
EVIDENCE_RUNS = 3
"""Runs whose failures are shown with a lesson: enough to see why it was written."""


class BookSession(Session):
    """A command on the lessons of one namespace."""

    @property
    def book(self) -> LessonBook:
        """The lessons."""
        with wrong_values():
            return LessonBook(self.store, self.namespace)

    def lessons(self) -> list[Lesson]:
        """The lessons that match the filters. If there are none, a note says so."""
        with wrong_values():
            found = self.book.lessons(**self.filters)
        if not found:
            self.note_empty(any_left=bool(self.book.lessons()))
        return found

    @property
    def filters(self) -> dict[str, Any]:
        """The filters that were given."""
        given = {name: getattr(self.args, name) for name in FILTERS}
        return {name: value for name, value in given.items() if value is not None}

    def find(self) -> Lesson:
        """The lesson with this id, shortened id or name."""
        given: str = self.args.id
        lessons = {lesson.id: lesson for lesson in self.book.lessons()}
        named = next((lesson for lesson in lessons.values() if lesson.name == given), None)
        return named or lessons[self.full_id(given, lessons, "lesson")]

    def show_changed(self, lesson: Lesson, done: str) -> int:
        """Show a lesson that a command has changed."""
        return self.show(lesson.model_dump(mode="json"), f"{done} {lesson.id}, now {lesson.status}: {lesson.text}")


Verb = Callable[[BookSession], int]


def memory(args: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on a store's lessons."""
    with open_store(args, create=getattr(args, "create", None)) as store:
        if args.verb == "copy":
            if hasattr(args, "namespace"):
                raise WrongUse("copy takes every namespace of the store; for one, use export and import")
            with open_store(args, create=True, option="to") as target:
                return _copy(BookSession(store, (), page, args), target)
        if args.verb == "namespaces":
            session = BookSession(store, (), page, args)
            found = ["/".join(namespace) for namespace in namespaces_in(store)]
            return session.show(found, "\n".join(found))
        return VERBS[args.verb](BookSession.open(store, page, args))


@contextmanager
def wrong_values() -> Iterator[None]:
    """Report a value that the book refuses as wrong use."""
    try:
        yield
    except ValueError as error:
        raise WrongUse(summarize(error).replace("`restore`", "restore")) from error


# ------------------------------------------------------------ looking


def _list(session: BookSession) -> int:
    found = session.lessons()
    rows = [_lesson_row(lesson) for lesson in found]
    data = [lesson.model_dump(mode="json") for lesson in found]
    return session.show(data, lambda: session.page.table(LESSON_COLUMNS, rows))


def _search(session: BookSession) -> int:
    with wrong_values():
        found = session.book.search(session.args.text, session.args.limit, **session.filters)
    if not found:
        session.note_empty(any_left=bool(session.book.lessons()))
    rows = [(f"{hit.score:.2f}", *_lesson_row(hit.lesson)) for hit in found]
    data = [{"score": round(hit.score, 4), "lesson": hit.lesson.model_dump(mode="json")} for hit in found]
    return session.show(data, lambda: session.page.table(("SCORE", *LESSON_COLUMNS), rows))


def _lesson_row(lesson: Lesson) -> tuple[str, ...]:
    won = _share(lesson.wins, lesson.losses, "/")
    without = _share(lesson.withheld_wins, lesson.withheld_losses, "/")
    return lesson.id, lesson.kind, lesson.status, won or "-", without or "-", lesson.text


def _share(wins: int, losses: int, separator: str) -> str:
    """The won runs among those that count. Empty if none counts."""
    return f"{wins}{separator}{wins + losses}" if wins + losses else ""


def _show(session: BookSession) -> int:
    lesson = session.find()
    runs = (session.book.episode(run) for run in lesson.sources[:EVIDENCE_RUNS])
    evidence = dict.fromkeys(failure.evidence for run in runs if run is not None for failure in run.failures)
    values = {
        **lesson.model_dump(exclude={"text", "wins", "losses", "withheld_wins", "withheld_losses", "version"}),
        "shown": count_of(lesson.shown, "time"),
        "won with it": _share(lesson.wins, lesson.losses, " of "),
        "won without": _share(lesson.withheld_wins, lesson.withheld_losses, " of "),
        "hidden": session.book.hidden(lesson.id),
        "evidence": "\n".join(shorten(text) for text in evidence),
    }
    return session.show(lesson.model_dump(mode="json"), lambda: session.page.fields(values, title=lesson.text))


def _stats(session: BookSession) -> int:
    found = session.book.stats()
    if not found["lessons"]:
        session.note_empty(any_left=False)
    title = f"{count_of(found['lessons'], 'lesson')} in {session.place}"
    values = {name: value for name, value in found.items() if name != "lessons"}
    return session.show(found, lambda: session.page.fields(values, title=title))


def _history(session: BookSession) -> int:
    return _show_changes(session, session.book.history(session.find().id))


def _show_changes(session: BookSession, changes: list[Change]) -> int:
    data = [asdict(change) | {"at": change.at.isoformat()} for change in changes]
    rows = [
        (
            change.id,
            format_value(change.at),
            f"{change.action}, now {change.status}" if change.status not in (None, change.action) else change.action,
            change.by,
            change.why,
        )
        for change in changes
    ]
    return session.show(data, lambda: session.page.table(("ID", "WHEN", "WHAT", "BY", "WHY"), rows))


def _runs(session: BookSession) -> int:
    runs, lessons = session.book.episodes(), session.book.lessons()
    if not runs:
        session.note_empty(any_left=False, collection="episodes")
    written = {run.id: [lesson.id for lesson in lessons if run.id in lesson.sources] for run in runs}
    newest = runs[: session.args.limit]
    rows = [
        (
            run.id,
            format_value(run.created_at),
            run.status if run.success is None else "success" if run.success else "failure",
            f"{len(run.shown)}",
            f"{len(written[run.id])}",
            run.task,
        )
        for run in newest
    ]
    data = [run.model_dump(mode="json") | {"written": written[run.id]} for run in newest]
    return session.show(data, lambda: session.page.table(("RUN", "WHEN", "OUTCOME", "SHOWN", "WROTE", "TASK"), rows))


def _explain(session: BookSession) -> int:
    given = session.args.id
    runs = [run.id for run in session.book.episodes(1 if given is None else None)]
    if not runs:
        raise WrongUse(f"there are {session.describe_empty('episodes')}")
    found = session.book.explain(runs[0] if given is None else session.full_id(given, runs, "run"))
    return session.show(found, lambda: _show_run(session, found))


def _show_run(session: BookSession, found: dict[str, Any]) -> None:
    lines: list[tuple[str, str]] = [("run", found["run"]), ("ended", f"{found['status']}, {found['stop_reason']}")]
    for failure in found["failures"]:
        lines.append(("failed", f"{failure['signal']} at step {failure['step']}: {shorten(failure['evidence'])}"))
    lines += [("planned", shorten(reflection["plan"])) for reflection in found["reflections"]]
    for name in ("shown", "withheld"):
        for lesson in found[name]:
            now = session.book.get(lesson["lesson"])
            if now is None:
                lines.append((name, f"{lesson['lesson']}, forgotten since"))
                continue
            result = f"{lesson['result'] or 'not counted'}; now {now.status}"
            lines.append((name, f"{now.id} {now.text} ({result})"))
            lines.append(("  why", "; ".join(filter(None, (lesson["why"], lesson["without"])))))
            for source in lesson["evidence"]:
                failed = f": {shorten(source['failure'])}" if source["failure"] else ""
                lines.append(("  from", f"run {source['run']}{failed}"))
    for id in found["written"]:
        written = session.book.get(id)
        lines.append(("wrote", f"{id} {written.text if written is not None else ''}"))
    lines += [("changed", format_value(change)) for change in found["changes"]]
    session.page.line(found["task"], "bold")
    for name, text in lines:
        session.page.line(text, lead=f"  {name + ':':<10}")


def _page(session: BookSession) -> int:
    try:
        from langgraph_reflexion.server.local import serve
    except ImportError as error:
        raise WrongUse('`memory page` needs `pip install "langgraph-reflexion[page]"`') from error

    def announce(url: str) -> None:
        session.show({"url": url}, f"Lessons of {session.place}, until you press Ctrl-C:\n{url}")

    try:
        listening = socket.create_server(("127.0.0.1", session.args.port))
    except OSError as error:
        raise WrongUse(f"--port {session.args.port}: {error.strerror or error}") from error
    with listening:
        serve(session.book, listening, announce)
    return 0


# ------------------------------------------------------------ deciding


def _approve(session: BookSession) -> int:
    lesson = session.book.approve(session.find().id)
    if why := session.book.history(lesson.id)[-1].why:
        note(f"The approval is for {why}.")
    return session.show_changed(lesson, "Approved")


def _retire(session: BookSession) -> int:
    return session.show_changed(session.book.retire(session.find().id, session.args.why), "Retired")


def _restore(session: BookSession) -> int:
    with wrong_values():
        return session.show_changed(session.book.restore(session.find().id), "Restored")


def _forget(session: BookSession) -> int:
    id, text = session.args.id, "a damaged lesson"
    is_damaged = session.book.get(id) is None and session.store.get((*session.namespace, "lessons"), id) is not None
    if not is_damaged:
        lesson = session.find()
        id, text = lesson.id, lesson.text
    if not may_remove(session.args, "Delete it permanently?", what=text):
        return 1
    session.book.forget(id)
    return session.show({"forgotten": id}, f"Forgot {id}: {text}")


def _undo(session: BookSession) -> int:
    what, since = session.args.what, session.args.since
    if (what is None) == (since is None):
        raise WrongUse("say what to undo: the id of a change, the id of a run, or --since TIME")
    if what is not None:
        ids = [run.id for run in session.book.episodes()]
        if not any(id.startswith(what) for id in ids):
            ids = [change.id for lesson in session.book.lessons() for change in session.book.history(lesson.id)]
        what = session.full_id(what, ids, "change or run")
    with wrong_values():
        undone = session.book.undo(what, since=since)
    note(f"{count_of(len(undone), 'change')} undone.")
    return _show_changes(session, undone)


def _distill(session: BookSession) -> int:
    args, model = session.args, None
    if args.base_url is not None and args.model is None:
        raise WrongUse("--base-url needs --model openai:<name>")
    if args.model is not None:
        from langgraph_reflexion.cli.parts import make_model

        model = make_model(args.model, args.base_url)
    made = session.book.distill(model)
    lines = [f"{lesson.id} stands for {len(lesson.supersedes)} lessons: {lesson.text}" for lesson in made]
    data = [lesson.model_dump(mode="json") for lesson in made]
    return session.show(data, "\n".join(lines) or "There is nothing to distill.")


# ------------------------------------------------------------ moving


def _export(session: BookSession) -> int:
    found, file = session.lessons(), session.args.file
    if file == "-":
        session.book.export(_in_utf8(sys.stdout), **session.filters)
        sys.stdout.flush()
        return 0
    if not found:
        note(f"{file} was not written.")
        return 1
    try:
        session.book.export(file, **session.filters)
    except OSError as error:
        raise WrongUse(f"cannot write {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise WrongUse(str(error)) from error
    return session.show({"exported": len(found), "file": file}, f"{count_of(len(found), 'lesson')} written to {file}")


def _import(session: BookSession) -> int:
    args, file = session.args, session.args.file
    try:
        source = _in_utf8(sys.stdin) if file == "-" else file
        loaded = session.book.load(source, strict=not args.keep_going, untrusted=args.untrusted)
    except OSError as error:
        raise WrongUse(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise LessonError(f"{file} is not UTF-8 text; nothing was imported") from error
    except LessonError as error:
        raise LessonError(f"{file}: {error}; nothing was imported, --keep-going skips such lines") from error
    text = f"{count_of(loaded.added, 'lesson')} added to {session.place}"
    text += f", {loaded.unchanged} known already"
    text += f", {count_of(loaded.skipped, 'bad line')} skipped" if loaded.skipped else ""
    return session.show(asdict(loaded), text)


def _copy(session: BookSession, target: BaseStore) -> int:
    # Of a lesson these fields are embedded, of other records none.
    copied = copy_store(
        session.store, target, index=lambda item: ["text", "when"] if item.namespace[-1] == "lessons" else False
    )
    text = f"{count_of(copied.items, 'item')} in {count_of(copied.namespaces, 'namespace')} copied"
    return session.show(copied._asdict(), text)


def _in_utf8(stream: TextIO) -> TextIO:
    """A standard stream in UTF-8, as JSON Lines require, regardless of the terminal's encoding."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream


VERBS: dict[str, Verb] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "stats": _stats,
    "history": _history,
    "runs": _runs,
    "explain": _explain,
    "page": _page,
    "approve": _approve,
    "retire": _retire,
    "restore": _restore,
    "forget": _forget,
    "undo": _undo,
    "distill": _distill,
    "export": _export,
    "import": _import,
}
