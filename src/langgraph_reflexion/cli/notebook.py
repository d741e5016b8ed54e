"""Notebook: the options of the commands on the error notebook, and what each tells."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langgraph_reflexion.cli.arguments import count
from langgraph_reflexion.cli.on_store import add_command, may_remove, note, store_of
from langgraph_reflexion.cli.opening import elsewhere, namespace_of, told_namespace
from langgraph_reflexion.cli.page import Page, told
from langgraph_reflexion.cli.wrong_use import WrongUse
from langgraph_reflexion.memory import ErrorNotebook
from langgraph_reflexion.memory.notebook.findings import CATEGORIES
from langgraph_reflexion.memory.notebook.known import Finding

CARD = ("id", "category", "severity", "tool", "cause", "suggestion", "session", "score", "at", "status", "why")
HEAD = ("ID", "CATEGORY", "SEVERITY", "TOOL", "FINDING")


@dataclass(frozen=True)
class Opened:
    """What a command is done with."""

    notebook: ErrorNotebook
    page: Page
    asked: argparse.Namespace

    @property
    def json(self) -> bool:
        """Whether what is found is printed as JSON."""
        return hasattr(self.asked, "json")

    @property
    def place(self) -> str:
        """The namespace of the notebook, as `--namespace` takes it."""
        return told_namespace(self.notebook.namespace)


def add_notebook(commands: Any) -> None:
    """Its options, for the parser of the whole."""
    verb = add_command(
        commands,
        "notebook",
        help="list, show and count what auditors found wrong, and read the rules made of it",
        description="Look into the error notebook that auditors keep of finished runs.",
    )
    listing = verb("list", "list the findings, the newest first")
    listing.add_argument("--limit", metavar="N", type=count, default=20, help="at most so many (20)")
    listing.add_argument("--category", choices=CATEGORIES, metavar="WORD", help=f"one of {', '.join(CATEGORIES)}")
    listing.add_argument("--tool", metavar="NAME", help="about this tool")
    listing.add_argument("--session", metavar="ID", help="of this run")
    verb("show", "show all that is known of a finding", "ID")
    verb("stats", "count the findings, and tell which way it goes")
    rules = verb("rules", "print the rules text, as a prompt is given it")
    rules.add_argument("task", metavar="TASK", nargs="?", default="", help="what it should fit")
    rules.add_argument("--limit", metavar="N", type=count, default=10, help="at most so many lines (10)")
    rules.add_argument("--min-repetitions", metavar="N", type=count, default=1, help="made so often or more (1)")
    verb("clear", "remove every finding for good").add_argument("--yes", action="store_true", help="do not ask")


def notebook(asked: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on a notebook."""
    with store_of(asked, "the notebook is") as store:
        return VERBS[asked.verb](Opened(ErrorNotebook(store, namespace_of(store, asked, "notebook")), page, asked))


def _list(given: Opened) -> int:
    asked = given.asked
    found = given.notebook.by_session(asked.session) if asked.session else given.notebook.recent(1_000_000)
    if asked.tool:
        about = {one["id"] for one in given.notebook.by_tool(asked.tool)}
        found = [one for one in found if one["id"] in about]
    found = [one for one in found if asked.category in (None, one["category"])][: asked.limit]
    if given.json:
        given.page.data([_plain(one) for one in found])
    elif found:
        given.page.table(HEAD, [_row(one) for one in found])
    if not found:
        _nothing(given)
    return 0


def _show(given: Opened) -> int:
    meant = [one for one in given.notebook.recent(1_000_000) if one["id"].startswith(given.asked.id)]
    if len(meant) != 1:
        many = f"{told(len(meant), 'finding')} begin with" if meant else "there is no finding"
        raise WrongUse(f"{many} {given.asked.id!r} in {given.place}")
    (found,) = meant
    if given.json:
        given.page.data(_plain(found))
        return 0
    given.page.line(found["description"], "bold")
    for name in CARD:
        if found[name] not in (None, ""):
            given.page.line(str(found[name]), lead=f"  {name + ':':<12}")
    if found["evidence"]:
        given.page.line(", ".join(found["evidence"]), lead=f"  {'evidence:':<12}")
    return 0


def _stats(given: Opened) -> int:
    found = given.notebook.statistics()
    if given.json:
        given.page.data(found)
        return 0
    given.page.line(f"{told(found['total'], 'finding')} of {told(found['sessions'], 'run')} in {given.place}", "bold")
    for name in ("by_category", "by_severity", "by_tool"):
        if found[name]:
            counts = ", ".join(f"{word} {number}" for word, number in found[name].items())
            given.page.line(counts, lead=f"  {name.replace('_', ' ') + ':':<14}")
    given.page.line(f"{found['groups']}, {found['repeated']} of them repeated", lead=f"  {'mistakes:':<14}")
    if found["mean_score"] is not None:
        given.page.line(f"{found['mean_score']:g}, {found['trend']['direction']} lately", lead=f"  {'mean score:':<14}")
    if not found["total"]:
        _nothing(given)
    return 0


def _rules(given: Opened) -> int:
    asked = given.asked
    text = given.notebook.rules_text(asked.task, asked.limit, asked.min_repetitions)
    if given.json:
        given.page.data({"rules": text})
    elif text:
        for line in text.splitlines():
            given.page.line(line, fold=False)
    else:
        _nothing(given)
    return 0


def _clear(given: Opened) -> int:
    if not may_remove(given.asked, f"Remove all findings of {given.place} for good?"):
        return 1
    removed = given.notebook.clear()
    if given.json:
        given.page.data({"removed": removed})
    else:
        given.page.line(f"Removed {told(removed, 'finding')}.")
    return 0


VERBS: dict[str, Callable[[Opened], int]] = {
    "list": _list,
    "show": _show,
    "stats": _stats,
    "rules": _rules,
    "clear": _clear,
}


def _nothing(given: Opened) -> None:
    notebook = given.notebook
    if notebook.recent(1):
        note(f"No finding in {given.place} fits.")
    else:
        there = elsewhere(notebook.store, notebook.namespace, "notebook")
        note(f"There is {there}.")


def _row(found: Finding) -> tuple[str, ...]:
    said = found["suggestion"] or found["description"]
    aside = "(set aside) " if found["status"] == "quarantined" else ""
    return found["id"], found["category"], found["severity"], found["tool"] or "-", f"{aside}{said}"


def _plain(found: Finding) -> Finding:
    """A finding without what only the notebook has a use for."""
    return {name: value for name, value in found.items() if name not in ("order", "words", "group")}
