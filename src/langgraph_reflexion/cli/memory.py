"""Memory: the options of the commands on lessons, and the store and book that each is given."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from langgraph_reflexion.cli import carrying, decisions, lookups
from langgraph_reflexion.cli.arguments import count, time, url
from langgraph_reflexion.cli.desk import Desk, desk_on
from langgraph_reflexion.cli.on_store import add_command, store_of
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.memory.book.opened import FILTERS

VERBS: dict[str, Callable[[Desk], int]] = {
    "list": lookups.list_lessons,
    "show": lookups.show,
    "search": lookups.search,
    "stats": lookups.stats,
    "history": lookups.history,
    "explain": lookups.explain,
    "approve": decisions.approve,
    "retire": decisions.retire,
    "restore": decisions.restore,
    "forget": decisions.forget,
    "undo": decisions.undo,
    "distill": decisions.distill,
    "export": carrying.export,
    "import": carrying.load,
}


def add_memory(commands: Any) -> None:
    """Its options, for the parser of the whole."""
    verb = add_command(
        commands,
        "memory",
        help="list, show, search, approve, retire, forget, export and import lessons",
        description="Look into the lessons that agents keep in a store, and decide over them.",
        epilog="An ID may be cut short as long as it says which. "
        "For example: langgraph-reflexion memory list --store lessons.db --status candidate",
    )
    _filters(verb("list", "list the lessons, the oldest first"))
    verb("show", "show all that is known of a lesson", "ID")
    search = verb("search", "find the lessons nearest to a text, in whatever status", "TEXT")
    search.add_argument("--limit", metavar="N", type=count, default=10, help="at most so many (10)")
    _filters(search)
    verb("namespaces", "name the namespaces that hold lessons")
    verb("stats", "count the lessons, and how they did")
    verb("history", "tell what happened to a lesson", "ID")
    explain = verb("explain", "tell what a run was shown, why, from which evidence, what it wrote, and what came of it")
    explain.add_argument("run", metavar="RUN", nargs="?", help="the run's id, as in its outcome; without it the latest")
    verb("approve", "make a lesson active, so that no later loss takes it back", "ID")
    verb("retire", "show a lesson no more, and keep it", "ID").add_argument("--why", metavar="TEXT", default="")
    verb("restore", "bring back a lesson that is retired, superseded or quarantined", "ID")
    forget = verb("forget", "remove a lesson with its vectors, evidence and history, for good", "ID")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    undo = verb("undo", "take back a change, all that a run changed, or all since a time")
    undo.add_argument("what", metavar="CHANGE|RUN", nargs="?", help="an id that `history` shows, or a run's")
    undo.add_argument("--since", metavar="TIME", type=time, help="such as 2031-03-04T12:00+01:00")
    distill = verb("distill", "give lessons that say much the same one pattern that speaks for them; they stay")
    distill.add_argument("--model", metavar="NAME", help="who words the patterns: provider:name; else the best wording")
    distill.add_argument("--base-url", metavar="URL", type=url, help="where an openai:<name> of your own is served")
    export = verb("export", "write lessons as JSON Lines that one can read, compare and edit")
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to; standard output without it")
    _filters(export)
    load = verb("import", "keep the lessons of such a file that are new here: all, or none where a line is bad", "FILE")
    load.add_argument("--keep-going", action="store_true", help="skip bad lines, and count them")
    load.add_argument("--update", action="store_true", help="give known lessons the words that the file has for them")
    load.add_argument("--create", action="store_true", help="make the store where there is none yet")


def memory(asked: argparse.Namespace, page: Page) -> int:
    """The exit status of one command on a store's lessons."""
    with store_of(asked, "the lessons are", create=getattr(asked, "create", None)) as store:
        if asked.verb == "namespaces":
            return lookups.namespaces(store, page, json=hasattr(asked, "json"))
        return VERBS[asked.verb](desk_on(store, asked, page))


def _filters(parser: argparse.ArgumentParser) -> None:
    for name, words in FILTERS.items():
        told_words = f"one of {', '.join(words)}" if words else f"with this {name}"
        parser.add_argument(
            f"--{name}",
            metavar="WORD",
            action="append",
            choices=words or None,
            help=f"{told_words}; may be given again",
        )
