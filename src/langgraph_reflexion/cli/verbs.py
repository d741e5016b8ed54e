"""Verbs: what can be done with the lessons of a book, each told as a table, a few lines, or JSON."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from langgraph.store.base import BaseStore

from langgraph_reflexion.cli import cards
from langgraph_reflexion.cli.desk import Desk
from langgraph_reflexion.cli.on_store import may_remove
from langgraph_reflexion.cli.opening import elsewhere, namespaces_in, told_namespace
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.trace import told
from langgraph_reflexion.cli.wrong_use import WrongUse, sentence
from langgraph_reflexion.errors import LessonError
from langgraph_reflexion.memory.exchange import write_lines

SHOWN = 3
"""Runs of which the evidence is shown beside a lesson."""

# ---------------------------------------------------------------- looking


def _list(desk: Desk) -> int:
    found = desk.book.lessons(**desk.filters)
    if desk.json:
        desk.page.data([one.model_dump(mode="json") for one in found])
    elif found:
        desk.page.table(cards.HEAD, [cards.row(one) for one in found])
    if not found:
        desk.nothing()
    return 0


def _search(desk: Desk) -> int:
    found = desk.book.search(desk.asked.text, desk.asked.limit, **desk.filters)
    if desk.json:
        desk.page.data([{"score": round(one.score, 4), "lesson": one.lesson.model_dump(mode="json")} for one in found])
    elif found:
        desk.page.table(("SCORE", *cards.HEAD), [(f"{one.score:.2f}", *cards.row(one.lesson)) for one in found])
    if not found:
        desk.nothing()
    return 0


def _show(desk: Desk) -> int:
    lesson = desk.lesson()
    if desk.json:
        desk.page.data(lesson.model_dump(mode="json"))
    else:
        runs = [desk.book.episode(one) for one in lesson.sources[:SHOWN]]
        cards.card(desk.page, lesson, [failure.evidence for run in runs if run is not None for failure in run.failures])
    return 0


def _stats(desk: Desk) -> int:
    found = desk.book.stats()
    if desk.json:
        desk.page.data(found)
    else:
        cards.counts(desk.page, told_namespace(desk.book.namespace), found)
    if not found["lessons"]:
        desk.note(f"There are {elsewhere(desk.book.store, desk.book.namespace)}.")
    return 0


def _distill(desk: Desk) -> int:
    made = desk.book.distill()
    if desk.json:
        desk.page.data([one.model_dump(mode="json") for one in made])
        return 0
    for one in made:
        desk.page.line(f"{one.id} speaks for {len(one.supersedes)} lessons: {one.text}")
    if not made:
        desk.page.line("There is nothing to distil.")
    return 0


def namespaces(store: BaseStore, page: Page, *, json: bool) -> int:
    """Name the namespaces that hold lessons, a line each, as `--namespace` takes them."""
    found = [told_namespace(one) for one in namespaces_in(store)]
    if json:
        page.data(found)
    else:
        for one in found:
            page.line(one, fold=False)
    return 0


def _history(desk: Desk) -> int:
    changes = desk.book.history(desk.lesson().id)
    if desk.json:
        desk.page.data([_plain(asdict(one)) for one in changes])
    else:
        desk.page.table(cards.CHANGES, [cards.change(one) for one in changes])
    return 0


def _explain(desk: Desk) -> int:
    with _known("run", desk.asked.run):
        found = desk.book.explain(desk.asked.run)
    if desk.json:
        desk.page.data(found)
    else:
        written = {one: desk.book.get(one) for one in found["written"]}
        cards.run(desk.page, found, {one: lesson.text for one, lesson in written.items() if lesson is not None})
    return 0


# ---------------------------------------------------------------- deciding


def _approve(desk: Desk) -> int:
    return desk.changed(desk.book.approve(desk.lesson().id), "Approved")


def _retire(desk: Desk) -> int:
    return desk.changed(desk.book.retire(desk.lesson().id, desk.asked.why), "Retired")


def _restore(desk: Desk) -> int:
    lesson = desk.lesson()
    try:
        return desk.changed(desk.book.restore(lesson.id), "Restored")
    except ValueError as fault:
        raise WrongUse(sentence(fault).replace("`restore`", "restore")) from fault


def _forget(desk: Desk) -> int:
    id, text = desk.asked.id, "a lesson that is damaged"
    if not desk.damaged(id):
        lesson = desk.lesson()
        id, text = lesson.id, lesson.text
    if not may_remove(desk.asked, "Remove it for good?", of=text):
        return 1
    desk.book.forget(id)
    if desk.json:
        desk.page.data({"forgotten": id})
    else:
        desk.page.line(f"Forgot {id}: {text}")
    return 0


def _undo(desk: Desk) -> int:
    what, since = desk.asked.what, desk.asked.since
    if (what is None) == (since is None):
        raise WrongUse("say what to undo: the id of a change, that of a run, or --since TIME")
    with _known("change or run", what):
        undone = desk.book.undo(what, since=since)
    if desk.json:
        desk.page.data([_plain(asdict(one)) for one in undone])
    elif undone:
        desk.page.table(cards.CHANGES, [cards.change(one) for one in undone])
    desk.note(f"{told(len(undone), 'change')} taken back.")
    return 0


# ---------------------------------------------------------------- carrying


def _export(desk: Desk) -> int:
    found, file = desk.book.lessons(**desk.filters), desk.asked.file
    if not found:
        desk.nothing()
    if file == "-":
        write_lines(found, in_utf8(sys.stdout))
        sys.stdout.flush()
        return 0
    if not found:
        desk.note(f"{file} was not written.")
        return 1
    try:
        if _is_database(file):
            raise WrongUse(f"{file} is a database, and lines in its place would be the end of it")
        write_lines(found, file)
    except OSError as fault:
        raise WrongUse(f"cannot write {file}: {fault.strerror or fault}") from fault
    _counted(desk, f"{told(len(found), 'lesson')} written to {file}", {"exported": len(found), "file": file})
    return 0


def _is_database(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    with path.open("rb") as opened:
        return opened.read(16) == b"SQLite format 3\0"


def _import(desk: Desk) -> int:
    file, strict, update = desk.asked.file, not desk.asked.keep_going, desk.asked.update
    try:
        loaded = desk.book.load(in_utf8(sys.stdin) if file == "-" else file, strict=strict, update=update)
    except OSError as fault:
        raise WrongUse(f"cannot read {file}: {fault.strerror or fault}") from fault
    except UnicodeDecodeError as fault:
        raise LessonError(f"{file} is no UTF-8 text; nothing was imported") from fault
    except LessonError as fault:
        raise LessonError(f"{file}: {fault}; nothing was imported, --keep-going skips such lines") from fault
    changed = f", {loaded.changed} reworded" if loaded.changed else ""
    skipped = f", {told(loaded.skipped, 'bad line')} skipped" if loaded.skipped else ""
    place = told_namespace(desk.book.namespace)
    said = f"{told(loaded.added, 'lesson')} added to {place}{changed}, {loaded.unchanged} known already{skipped}"
    _counted(desk, said, asdict(loaded))
    if loaded.otherwise:
        way = "its words look like a trick" if update else "--update takes the words of the file"
        desk.note(
            f"{told(loaded.otherwise, 'lesson')} in {file} with other words than here, where nothing changed: {way}."
        )
    return 0


def _counted(desk: Desk, said: str, counts: dict[str, Any]) -> None:
    if desk.json:
        desk.page.data(counts)
    else:
        desk.page.line(said)


def in_utf8(stream: TextIO) -> TextIO:
    """A standard stream as lines of JSON want it, whatever the terminal's encoding."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream


@contextmanager
def _known(what: str, id: str | None) -> Iterator[None]:
    try:
        yield
    except KeyError as fault:
        raise WrongUse(f"there is no {what} {id!r}") from fault


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return {name: one.isoformat() if isinstance(one, datetime) else one for name, one in value.items()}


VERBS: dict[str, Callable[[Desk], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "stats": _stats,
    "history": _history,
    "explain": _explain,
    "approve": _approve,
    "retire": _retire,
    "restore": _restore,
    "forget": _forget,
    "undo": _undo,
    "distill": _distill,
    "export": _export,
    "import": _import,
}
