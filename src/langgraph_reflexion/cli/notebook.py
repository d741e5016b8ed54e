"""The notebook and profile commands: what auditors found wrong, and what is remembered under a name."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from langgraph_reflexion import ErrorNotebook, Lesson
from langgraph_reflexion.cli.console import WrongUse, count_of, note, wrong_values
from langgraph_reflexion.cli.memory import BookSession
from langgraph_reflexion.cli.stores import Session, run_verb
from langgraph_reflexion.memory.evidence import LIVE

INTERNAL = {"order", "group"}
"""Fields of a finding that only the notebook itself uses."""
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

    def findings(self) -> list[Finding]:
        """All findings, the newest first."""
        found = self.notebook.recent(EVERY)
        return [{name: finding[name] for name in finding if name not in INTERNAL} for finding in found]

    def do_list(self) -> int:
        args, book, session = self.args, self.notebook, self.args.session
        found = self.findings()
        runs = dict.fromkeys(finding["session"] for finding in found)  # the newest first
        if session and any(run.startswith(session) for run in runs):
            session = self.full_id(session, runs, "run")
        for word, search in ((session, book.by_session), (args.category, book.by_category), (args.tool, book.by_tool)):
            if word is not None:
                with wrong_values():
                    fitting = {finding["id"] for finding in search(word)}
                found = [finding for finding in found if finding["id"] in fitting]
        found = found[: args.limit]
        rows = [_finding_row(finding) for finding in found]
        columns = ("ID", "CATEGORY", "SEVERITY", "TOOL", "FINDING")
        return self.show_rows(found, columns, rows)

    def _find(self) -> Finding:
        findings = {finding["id"]: finding for finding in self.findings()}
        return findings[self.full_id(self.args.id, findings, "finding")]

    def do_show(self) -> int:
        finding = self._find()
        values = {name: value for name, value in finding.items() if name != "description"}
        return self.show(finding, lambda: self.page.fields(values, title=finding["description"]))

    def do_stats(self) -> int:
        found = self.notebook.statistics()
        if not found["total"]:
            note(self.describe_empty())
        title = f"{count_of(found['total'], 'finding')} of {count_of(found['sessions'], 'run')} in {self.place}"
        values = {name: value for name, value in found.items() if name not in ("total", "sessions")}
        return self.show(found, lambda: self.page.fields(values, title=title))

    def do_rules(self) -> int:
        args = self.args
        text = self.notebook.rules_text(args.task, args.limit, args.min_repetitions)
        if not text:
            note(self.describe_empty())
        return self.show({"rules": text}, text)

    @wrong_values()
    def do_remove(self) -> int:
        args = self.args
        if (args.id is None) == (args.older_than is None):
            raise WrongUse("`notebook remove` takes the ID of a finding, or --older-than DAYS")
        if args.id is not None:
            finding = self._find()
            self.confirm(f"{finding['description']} Delete it permanently?")
            self.notebook.remove(finding["id"])
            return self.show({"removed": 1}, f"Removed {finding['id']}.")
        age = count_of(args.older_than, "day")
        self.confirm(f"Delete the findings of {self.place} older than {age} permanently?")
        removed = self.notebook.remove_older(timedelta(days=args.older_than))
        return self.show({"removed": removed}, f"Removed {count_of(removed, 'finding')} older than {age}.")

    def do_clear(self) -> int:
        self.confirm(f"Delete all findings of {self.place} permanently?")
        removed = self.notebook.clear()
        return self.show({"removed": removed}, f"Removed {count_of(removed, 'finding')}.")


def _finding_row(finding: Finding) -> tuple[str, ...]:
    text = finding["suggestion"] or finding["description"]
    aside = "(quarantined) " if finding["status"] == "quarantined" else ""
    return finding["id"], finding["category"], finding["severity"], finding["tool"] or "-", f"{aside}{text}"


# ------------------------------------------------------------ profile


class ProfileSession(BookSession):
    """A command on what is remembered under a name, in one namespace."""

    def _find_entry(self) -> Lesson:
        entries, given = self.book.profile(), self.args.name
        found = [entry for entry in entries if entry.name == given]
        found = found or [entry for entry in entries if given and entry.id.startswith(given)]
        if len(found) != 1:  # a name is unique only among entries of its kind
            names = ", ".join(f"{entry.name} ({entry.kind}, {entry.id})" for entry in entries) or "there is none"
            raise WrongUse(f"{len(found) or 'no'} entries are called {given!r}; give the name or id of one: {names}")
        return found[0]

    def _former(self, entry: Lesson) -> list[Lesson]:
        """The values that this entry replaced, and quarantined ones, the newest first."""
        same = [lesson for lesson in self.book.lessons(kind=entry.kind) if lesson.name == entry.name]
        return [lesson for lesson in reversed(same) if lesson.id != entry.id]

    def do_list(self) -> int:
        entries = self.book.profile()
        rows = [(str(entry.name), entry.kind, entry.when or "-", entry.text) for entry in entries]
        return self.show_rows(entries, ("NAME", "KIND", "WHEN", "WHAT"), rows)

    def do_show(self) -> int:
        entry = self._find_entry()
        former = [lesson.text for lesson in self._former(entry) if lesson.status != "quarantined"]
        values = {"name": entry.name, "kind": entry.kind, "when": entry.when, "since": entry.created_at}
        return self.show(
            {**entry.model_dump(mode="json"), "before": former},
            lambda: self.page.fields({**values, "before": "\n".join(former)}, title=entry.text),
        )

    @wrong_values()
    def do_edit(self) -> int:
        entry, text = self._find_entry(), self.args.text
        written = self.book.add(Lesson(kind=entry.kind, name=entry.name, when=entry.when, text=text, origin="told"))
        edited = written.kept
        if edited is None:
            raise WrongUse(f"{text!r} is {written.action}: {written.reason}")
        if edited.status not in LIVE:  # a former value that a person retired
            edited = self.book.restore(edited.id)
        return self.show(edited, f"{edited.name}: {edited.text}")

    @wrong_values()
    def do_forget(self) -> int:
        entry = self._find_entry()
        self.confirm(f"{entry.text} Delete it permanently?")
        former = self._former(entry)
        for lesson in (*former, entry):
            self.book.forget(lesson.id)
        data = {"forgotten": entry.name, "entries": len(former) + 1}
        return self.show(data, f"Forgot {entry.name}, with {count_of(len(former), 'former value')}.")


notebook = partial(run_verb, NotebookSession)
"""The exit status of a command on a notebook."""
profile = partial(run_verb, ProfileSession)
"""The exit status of a command on what is remembered under a name."""
