"""The memory commands: read and manage the lessons of a store, and export and import them."""

from __future__ import annotations

import io
import socket
import sys
from dataclasses import asdict
from functools import partial
from typing import Any, TextIO

from langgraph_reflexion import Lesson, LessonBook, LessonError
from langgraph_reflexion.cli.commands import FILTERS
from langgraph_reflexion.cli.console import WrongUse, count_of, format_value, note, shorten, wrong_use, wrong_values
from langgraph_reflexion.cli.loading import make_model
from langgraph_reflexion.cli.stores import Session, namespaces_in, run_verb
from langgraph_reflexion.memory import Change
from langgraph_reflexion.memory.evidence import LIVE
from langgraph_reflexion.memory.history import failures_for, outcome_of

LESSON_COLUMNS = ("ID", "KIND", "STATUS", "WON", "WITHOUT", "LESSON")
EVIDENCE_RUNS = 3
"""Runs whose failures are shown with a lesson: enough to see why it was written."""


class BookSession(Session):
    """A command on the lessons of one namespace."""

    @property
    def book(self) -> LessonBook:
        """The lessons."""
        return LessonBook(self.store, self.namespace)

    @property
    def filters(self) -> dict[str, Any]:
        """The filters. One that was not given is `None`."""
        return {name: getattr(self.args, name) for name in FILTERS}

    def find(self, *, live: bool = True) -> Lesson:
        """The lesson with this id, shortened id or name. Of several values of a name, the live one is meant, or if not
        `live`, the one that was removed from use last."""
        given: str = self.args.id
        lessons = {lesson.id: lesson for lesson in self.book.lessons()}
        named = [lesson for lesson in lessons.values() if lesson.name == given]
        named = [lesson for lesson in named if (lesson.status in LIVE) == live] or named
        if not live:
            named = sorted(named, key=lambda lesson: str(lesson.updated_at))[-1:]
        if len(named) > 1:
            ids = ", ".join(f"{lesson.id} ({lesson.kind}, {lesson.status})" for lesson in named)
            raise WrongUse(f"{len(named)} lessons are called {given!r}; give the id of one: {ids}")
        return named[0] if named else lessons[self.full_id(given, lessons, "lesson")]

    def show_changed(self, lesson: Lesson, done: str) -> int:
        """Show a lesson that a command has changed."""
        now = "" if done.lower() == lesson.status else f", now {lesson.status}"
        return self.show(lesson, f"{done} {lesson.id}{now}: {lesson.text}")

    # ------------------------------------------------------------ looking

    def do_list(self) -> int:
        with wrong_values():
            found = self.book.lessons(**self.filters)
        return self.show_rows(found, LESSON_COLUMNS, [_lesson_row(lesson) for lesson in found])

    def do_search(self) -> int:
        with wrong_values():
            found = self.book.search(self.args.text, self.args.limit, **self.filters)
        rows = [(f"{hit.score:.2f}", *_lesson_row(hit.lesson)) for hit in found]
        data = [{"score": round(hit.score, 4), "lesson": hit.lesson} for hit in found]
        return self.show_rows(data, ("SCORE", *LESSON_COLUMNS), rows)

    def do_show(self) -> int:
        lesson = self.find()
        runs = (self.book.episode(run) for run in lesson.sources[:EVIDENCE_RUNS])
        marks = [lesson.trigger.fingerprint] if lesson.trigger is not None and lesson.trigger.fingerprint else []
        failures = (failure for run in runs if run is not None for failure in failures_for(marks, run.failures))
        evidence = dict.fromkeys(failure.evidence for failure in failures)
        values = {
            **lesson.model_dump(exclude={"text", "wins", "losses", "withheld_wins", "withheld_losses", "version"}),
            "shown": count_of(lesson.shown, "time"),
            "won with it": _share(lesson.wins, lesson.losses, " of "),
            "won without": _share(lesson.withheld_wins, lesson.withheld_losses, " of "),
            "hidden": self.book.hidden(lesson.id),
            "evidence": "\n".join(shorten(text) for text in evidence),
        }
        return self.show(lesson, lambda: self.page.fields(values, title=lesson.text))

    def do_stats(self) -> int:
        found = self.book.stats()
        if not found["lessons"]:
            note(self.describe_empty())
        title = f"{count_of(found['lessons'], 'lesson')} in {self.place}"
        values = {name: value for name, value in found.items() if name != "lessons"}
        return self.show(found, lambda: self.page.fields(values, title=title))

    def do_history(self) -> int:
        return self._show_changes(self.book.history(self.find().id))

    def _show_changes(self, changes: list[Change]) -> int:
        data = [asdict(change) | {"at": change.at.isoformat()} for change in changes]
        rows = []
        for change in changes:
            now = f", now {change.status}" if change.status not in (None, change.action) else ""
            rows.append((change.id, format_value(change.at), f"{change.action}{now}", change.by, change.why))
        return self.show(data, lambda: self.page.table(("ID", "WHEN", "WHAT", "BY", "WHY"), rows))

    def do_runs(self) -> int:
        lessons, data, rows = self.book.lessons(), [], []
        for run in self.book.episodes(self.args.limit):
            wrote = [lesson.id for lesson in lessons if lesson.id in run.written or run.id in lesson.sources]
            data.append({**vars(run), "written": wrote})
            when, counts = format_value(run.created_at), (str(len(run.shown)), str(len(wrote)))
            rows.append((run.id, when, outcome_of(run), *counts, shorten(run.task)))
        return self.show_rows(data, ("RUN", "WHEN", "OUTCOME", "SHOWN", "WROTE", "TASK"), rows)

    def do_explain(self) -> int:
        given = self.args.id
        runs = [run.id for run in self.book.episodes(1 if given is None else None)]
        if not runs:
            raise WrongUse(self.describe_empty())
        found = self.book.explain(runs[0] if given is None else self.full_id(given, runs, "run"))
        return self.show(found, lambda: self._show_run(found))

    def _show_run(self, found: dict[str, Any]) -> None:
        failures = [
            f"{failure['signal']} at step {failure['step']}: {failure['evidence']}" for failure in found["failures"]
        ]
        written = [(id, self.book.get(id)) for id in found["written"]]
        values = {
            "run": found["run"],
            "ended": f"{found['status']}, {found['stop_reason']}",
            "failed": "\n".join(map(shorten, failures)),
            "planned": "\n".join(shorten(reflection["plan"]) for reflection in found["reflections"]),
            "shown": "\n".join(map(self._describe_shown, found["shown"])),
            "withheld": "\n".join(map(self._describe_shown, found["withheld"])),
            "wrote": "\n".join(f"{id} {lesson.text if lesson is not None else ''}" for id, lesson in written),
            "changed": "\n".join(map(format_value, found["changes"])),
        }
        self.page.fields(values, title=shorten(found["task"]))

    def _describe_shown(self, shown: dict[str, Any]) -> str:
        """A lesson that a run was shown or that was withheld from it, why, and what it comes from."""
        lesson = self.book.get(shown["lesson"])
        if lesson is None:
            return f"{shown['lesson']}, forgotten since"
        lines = [f"{lesson.id} {lesson.text} ({shown['result'] or 'not counted'}; now {lesson.status})"]
        lines.append(f"why: {'; '.join(filter(None, (shown['why'], shown['without'])))}")
        for source in shown["evidence"]:
            failed = f": {shorten(source['failure'])}" if source["failure"] else ""
            lines.append(f"from: run {source['run']}{failed}")
        return "\n".join(lines)

    def do_page(self) -> int:
        with wrong_use(ImportError, '`memory page` needs `pip install "langgraph-reflexion[page]"`'):
            from langgraph_reflexion.server.local import serve

        def announce(url: str) -> None:
            self.show({"url": url}, f"Lessons of {self.place}, until you press Ctrl-C:\n{url}")

        with wrong_use(OSError, f"--port {self.args.port}"):
            listening = socket.create_server(("127.0.0.1", self.args.port))
        with listening:
            serve(self.book, listening, announce)
        return 0

    # ------------------------------------------------------------ deciding

    @wrong_values()
    def do_approve(self) -> int:
        lesson = self.book.approve(self.find().id)
        own = [change for change in self.book.history(lesson.id) if change.lesson == lesson.id]
        note(f"The approval is for {own[-1].why}.")
        return self.show_changed(lesson, "Approved")

    @wrong_values()
    def do_retire(self) -> int:
        return self.show_changed(self.book.retire(self.find().id, self.args.why), "Retired")

    @wrong_values()
    def do_restore(self) -> int:
        return self.show_changed(self.book.restore(self.find(live=False).id), "Restored")

    @wrong_values()
    def do_forget(self) -> int:
        id, text = self.args.id, "a damaged lesson"
        is_damaged = self.book.get(id) is None and self.store.get((*self.namespace, "lessons"), id) is not None
        if not is_damaged:
            lesson = self.find()
            id, text = lesson.id, lesson.text
        self.confirm(f"{text}\nDelete it permanently?")
        self.book.forget(id)
        return self.show({"forgotten": id}, f"Forgot {id}: {text}")

    def do_clear(self) -> int:
        self.confirm(f"Delete all lessons, runs and findings of {self.place} permanently?")
        removed = self.book.clear()
        return self.show({"forgotten": removed}, f"Forgot {count_of(removed, 'lesson')} of {self.place}, and all runs.")

    @wrong_values()
    def do_undo(self) -> int:
        what, since = self.args.what, self.args.since
        if (what is None) == (since is None):
            raise WrongUse("undo takes exactly one of: the id of a change, the id of a run, or --since TIME")
        if what is not None:
            changes = [change for lesson in self.book.lessons() for change in self.book.history(lesson.id)]
            runs = [*(run.id for run in self.book.episodes()), *(change.run for change in changes if change.run)]
            ids = dict.fromkeys([*runs, *(change.id for change in changes)])
            what = self.full_id(what, ids, "change or run")
        undone = self.book.undo(what, since=since)
        note(f"{count_of(len(undone), 'change')} undone.")
        return self._show_changes(undone)

    def do_distill(self) -> int:
        patterns = self.book.distill(make_model(self.args.model, self.args.base_url))
        lines = [f"{lesson.id} summarizes {len(lesson.supersedes)} lessons: {lesson.text}" for lesson in patterns]
        return self.show(patterns, "\n".join(lines) or "There is nothing to distill.")

    # ------------------------------------------------------------ moving

    @wrong_values()
    def do_export(self) -> int:
        found, file = self.book.lessons(**self.filters), self.args.file
        if not found:
            note(self.describe_empty())
        if file == "-":
            self.book.export(_in_utf8(sys.stdout), **self.filters)
            sys.stdout.flush()
            return 0
        if not found:
            note(f"{file} was not written.")
            return 1
        with wrong_use(OSError, f"cannot write {file}"):
            self.book.export(file, **self.filters)
        return self.show({"exported": len(found), "file": file}, f"{count_of(len(found), 'lesson')} written to {file}")

    @wrong_values()
    def do_import(self) -> int:
        args, file = self.args, self.args.file
        source = _in_utf8(sys.stdin) if file == "-" else file
        try:
            with wrong_use(OSError, f"cannot read {file}"):
                loaded = self.book.load(source, strict=not args.keep_going, untrusted=args.untrusted)
        except LessonError as error:
            why = "nothing was imported. To skip such lines, pass --keep-going"
            raise LessonError(f"{file}: {error}; {why}") from error
        skipped = f", {count_of(loaded.skipped, 'invalid line')} skipped" if loaded.skipped else ""
        added = f"{count_of(loaded.added, 'lesson')} added to {self.place}"
        return self.show(loaded, f"{added}, {loaded.unchanged} already known{skipped}")

    def do_namespaces(self) -> int:
        found = ["/".join(namespace) for namespace in namespaces_in(self.store)]
        return self.show(found, "\n".join(found))


def _lesson_row(lesson: Lesson) -> tuple[str, ...]:
    won = _share(lesson.wins, lesson.losses, "/")
    without = _share(lesson.withheld_wins, lesson.withheld_losses, "/")
    return lesson.id, lesson.kind, lesson.status, won or "-", without or "-", lesson.text


def _share(wins: int, losses: int, separator: str) -> str:
    """The won runs among those that count. Empty if none counts."""
    return f"{wins}{separator}{wins + losses}" if wins + losses else ""


def _in_utf8(stream: TextIO) -> TextIO:
    """A standard stream in UTF-8, as JSON Lines require, regardless of the terminal's encoding."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # an import names the line of other bytes
    return stream


memory = partial(run_verb, BookSession)
"""The exit status of a command on a store's lessons."""
