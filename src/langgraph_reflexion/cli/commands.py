"""The options of each command, and the function that runs it. Heavy imports wait until they are needed."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

NAME = "langgraph-reflexion"
MAX_TRIALS = 50
"""Maximum attempts at a task, so that the table has room for them."""
MAX_AGE = 36_500
"""Days that a date can be counted back: a hundred years."""
FILTERS = ("kind", "status", "topic", "tag", "origin")
"""The filters of a `LessonBook`, which takes long to import."""
UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EIO)
"""Errors of the standard output."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 success, 1 failure, 2 wrong usage."""
    sys.stdin = sys.stdin or io.StringIO()  # closed by the shell, as `<&-` does
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 — as long as the process
    try:
        args = build_parser().parse_args(argv)
        if args.run is not None:
            return _run(args)
        args.parser.print_help(sys.stderr)
        return 2
    except SystemExit as end:
        if not isinstance(end.code, int):  # a user's module ends with a message, which Python prints
            raise
        return end.code


def _run(args: argparse.Namespace) -> int:
    """Run the command, with its errors as one line."""
    from langgraph_reflexion.cli.console import Page, WrongUse
    from langgraph_reflexion.errors import ReflexionError

    module, function = args.run.split(".")
    try:
        command: Callable[..., int] = getattr(import_module(f"langgraph_reflexion.cli.{module}"), function)
        return command(args, Page(sys.stdout))
    except WrongUse as error:
        message, status = str(error), 2
    except ReflexionError as error:
        message, status = str(error), 1
    except OSError as error:
        if error.filename is None and error.errno not in UNWRITABLE:
            raise
        place = "the output cannot be written" if error.filename is None else error.filename
        message, status = f"{place}: {error.strerror}", 1
        if error.filename is None:  # Python would complain again when it flushes at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # the reader of a pipe may close it, as `head` does
            return status
    Page(sys.stderr).line(f"{NAME}: {message}")
    return status


# ------------------------------------------------------------ options


class Parser(argparse.ArgumentParser):
    """A parser that accepts no abbreviated option, so that a new option never breaks a script."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)


@cache
def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. `run` is the module and function of a command, imported only to run it."""
    parser = Parser(
        prog=NAME,
        description="LangGraph agents that learn from their own failures.",
        epilog="Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.",
    )
    parser.set_defaults(run=None, parser=parser, store=None, namespace=None, json=False, create=None)
    parser.add_argument("--version", action="version", version=f"{NAME} {version(NAME)}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _add_command(
        commands,
        "demo",
        "demo.demo",
        "watch an agent fail, learn, and succeed; needs no key and no network",
        "Two runs of an agent with a scripted model: the first fails and learns, the second succeeds.",
    )
    for add_command in (_add_run, _add_eval, _add_compare, _add_memory, _add_notebook, _add_profile):
        add_command(commands)
    return parser


def _add_command(
    commands: Any, name: str, run: str, help: str, description: str, example: str = ""
) -> argparse.ArgumentParser:
    """A command without verbs, to which options are added."""
    epilog = f"For example: {NAME} {example}" if example else None
    command: argparse.ArgumentParser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    command.set_defaults(run=run)
    return command


def _add_run(commands: Any) -> None:
    add = _add_command(
        commands,
        "run",
        "run.run",
        "give a task to an agent with a real model, and watch it work",
        "Give a task to an agent and watch it work. The model's key is read from its own variable, such as "
        "OPENAI_API_KEY.",
        'run "Which hour is free?" --model openai:gpt-4o-mini --tools office:TOOLS',
    ).add_argument
    add("task", metavar="TASK", help="what to do")
    add("--model", metavar="NAME", required=True, help="provider:name, such as openai:gpt-4o-mini")
    add("--base-url", metavar="URL", type=url, help="the address of an OpenAI-compatible server")
    add("--tools", metavar="MODULE:NAME", help="a list of tools in your own module")
    add("--protocol", choices=("auto", "tools", "json"), default="auto", help="how the model calls tools")
    add("--store", metavar="FILE", help="keep lessons in this file, or at a postgresql:// address")


def _add_eval(commands: Any) -> None:
    add = _add_command(
        commands,
        "eval",
        "evaluate.evaluate",
        "measure on a file of tasks what reflections and lessons add",
        "Run a file of tasks under several set-ups, which are ways to work on a task with or without reflections. Each "
        "finished task is saved at once: repeat the command to continue after an interruption.",
        "eval shipped --setups cot,cot+reflexion --model openai:gpt-4o-mini",
    ).add_argument
    add("tasks", metavar="TASKS.jsonl", help="a file of tasks in our format or HotpotQA's, or `shipped`")
    add("--setups", metavar="A,B", type=names, default=("all",), help="set-ups by name; all by default")
    add("--model", metavar="NAME", required=True, help="provider:name, such as openai:gpt-4o-mini")
    add(
        "--judge",
        metavar="NAME",
        help="a model that judges the answers; by default they are compared with the right ones",
    )
    add("--check", metavar="MODULE:NAME", help="your own check for every answer, a function of (answer, run)")
    add("--reflector", metavar="NAME", help="a model for the reflections; by default --model")
    add("--base-url", metavar="URL", type=url, help="the address of an OpenAI-compatible server")
    for role in ("judge", "reflector"):
        add(f"--{role}-base-url", metavar="URL", type=url, help=f"the {role}'s server; by default --base-url")
    add("--temperature", metavar="T", type=float, help="the model's temperature")
    add("--protocol", choices=("auto", "tools", "json"), default="auto", help="how ReAct set-ups call tools")
    add("--tools", metavar="MODULE:NAME", help="tools for the ReAct set-ups; by default a search over the passages")
    add(
        "--context",
        choices=("supporting", "all"),
        default="supporting",
        help="which passages set-ups with context are shown",
    )
    add("--reflection", choices=("structured", "free"), default="structured", help="the format of a reflection")
    add("--repeats", metavar="N", type=positive, default=1, help="how often each task is run, to see the spread (1)")
    add("--trials", metavar="N", type=whole(1, MAX_TRIALS), default=5, help="maximum attempts at a task (5)")
    add("--steps", metavar="N", type=positive, default=5, help="maximum steps of a ReAct attempt (5)")
    add("--reflections", metavar="N", type=positive, default=4, help="maximum reflections on a task (4)")
    add("--concurrency", metavar="N", type=positive, default=20, help="tasks at once (20)")
    add("--limit", metavar="N", type=positive, help="only the first N tasks")
    add("--no-run-memory", dest="run_memory", action="store_false", help="show a trial nothing from earlier trials")
    add("--lessons", action="store_true", help="keep lessons from task to task, separately for each set-up")
    add("--out", metavar="FOLDER", type=Path, help="the folder for the results (eval-TASKS)")
    add("--dry-run", action="store_true", help="only say how much there is to do")
    add("--json", action="store_true", help="print the figures as JSON, and the table on stderr")


def _add_compare(commands: Any) -> None:
    add = _add_command(
        commands,
        "compare",
        "compare.compare",
        "compare two runs of eval, task by task",
        "Compare two runs of eval, paired by task, with a confidence interval.",
    ).add_argument
    add("first", metavar="A", type=Path, help="the folder of a run")
    add("second", metavar="B", type=Path, help="the folder of another run")
    add("--setups", metavar="A,B", type=names, help="a set-up of the first and one of the second")
    add("--json", action="store_true", help="print the figures as JSON")


def _add_memory(commands: Any) -> None:
    memory = commands.add_parser(
        "memory",
        help="list, show, search, approve, retire, forget, export and import lessons",
        description="Read and manage the lessons that agents save in a store.",
        epilog="An ID may be shortened if it stays unique. "
        f"For example: {NAME} memory list --store lessons.db --status candidate",
    )
    verb = _add_verbs(memory, "memory.memory")
    _add_filters(verb("list", "list the lessons, the oldest first"))
    verb("show", "show everything about a lesson", "ID")
    search = verb("search", "find the lessons most similar to a text, whatever their status", "TEXT")
    search.add_argument("--limit", metavar="N", type=positive, default=10, help="at most this many (10)")
    _add_filters(search)
    verb("namespaces", "list the namespaces that have lessons")
    verb("stats", "count the lessons and their results")
    verb("history", "show what happened to a lesson", "ID")
    runs = verb("runs", "list the recorded runs, the newest first: task, outcome, lessons shown and written")
    runs.add_argument("--limit", metavar="N", type=positive, default=20, help="at most this many (20)")
    explain = verb("explain", "show which lessons a run was shown and why, what it wrote, and how it ended")
    explain.add_argument("id", metavar="RUN", nargs="?", help="the run's id; by default the latest")
    page = verb(
        "page", "show lessons and runs in a browser on this machine, with buttons to manage them; runs until Ctrl-C"
    )
    page.add_argument("--port", metavar="N", type=whole(0, 65535), default=0, help="a port; by default any free one")
    verb("approve", "make a lesson active; later losses do not change that", "ID")
    retire = verb("retire", "stop showing a lesson, but keep it", "ID")
    retire.add_argument("--why", metavar="TEXT", default="", help="the reason, which the history shows")
    verb("restore", "bring back a lesson that is retired, superseded or quarantined", "ID")
    _add_yes(verb("forget", "delete a lesson with its vectors, evidence and history permanently", "ID"))
    _add_yes(verb("clear", "delete all lessons, runs and findings permanently"))
    undo = verb("undo", "undo a change, everything a run changed, or everything since a time")
    undo.add_argument("what", metavar="CHANGE|RUN", nargs="?", help="the id of a change (see `history`) or of a run")
    undo.add_argument("--since", metavar="TIME", type=time, help="such as 2031-03-04T12:00+01:00")
    distill = verb("distill", "summarize similar lessons in one pattern; the lessons stay")
    distill.add_argument("--model", metavar="NAME", help="writes the patterns; by default the best wording is used")
    distill.add_argument("--base-url", metavar="URL", type=url, help="the address of an OpenAI-compatible server")
    export = verb("export", "write lessons as JSON Lines that can be read, compared and edited")
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="the file to write, else standard output")
    _add_filters(export)
    load = verb("import", "import the new lessons of a file; if a line is invalid, nothing is imported", "FILE")
    load.add_argument("--keep-going", action="store_true", help="skip invalid lines, and count them")
    load.add_argument(
        "--untrusted", action="store_true", help="import all lessons as new candidates, quarantined ones as quarantined"
    )
    load.add_argument("--create", action="store_true", help="create the store if there is none")


def _add_notebook(commands: Any) -> None:
    notebook = commands.add_parser(
        "notebook",
        help="list, show and count the auditors' findings, and read the rules made from them",
        description="Read the error notebook that auditors keep about finished runs.",
    )
    verb = _add_verbs(notebook, "notebook.notebook")
    listing = verb("list", "list the findings, the newest first")
    listing.add_argument("--limit", metavar="N", type=positive, default=20, help="at most this many (20)")
    listing.add_argument("--category", metavar="WORD", help="only findings of this category, such as tool_misuse")
    listing.add_argument("--tool", metavar="NAME", help="only findings about this tool")
    listing.add_argument("--session", metavar="ID", help="only findings of this run")
    verb("show", "show everything about a finding", "ID")
    verb("stats", "count the findings, and say whether runs get better")
    rules = verb("rules", "print the rules as text for a prompt")
    rules.add_argument("task", metavar="TASK", nargs="?", default="", help="the task that the rules are for")
    rules.add_argument("--limit", metavar="N", type=positive, default=10, help="maximum number of lines (10)")
    repeated = "only mistakes repeated at least this often (1)"
    rules.add_argument("--min-repetitions", metavar="N", type=positive, default=1, help=repeated)
    remove = verb("remove", "delete a finding permanently, or all findings older than a number of days")
    remove.add_argument("id", metavar="ID", nargs="?", help="the finding's id, which may be shortened")
    remove.add_argument("--older-than", metavar="DAYS", type=whole(1, MAX_AGE), help="all findings made before then")
    _add_yes(remove)
    _add_yes(verb("clear", "delete all findings permanently"))


def _add_profile(commands: Any) -> None:
    profile = commands.add_parser(
        "profile",
        help="read, edit and delete what is remembered about you and your project",
        description="The named memories of a user and a project: rules, facts and preferences.",
    )
    verb = _add_verbs(profile, "notebook.profile")
    verb("list", "list what is remembered")
    verb("show", "show an entry and its former values", "NAME")
    verb("edit", "replace the text of an entry", "NAME", "TEXT")
    _add_yes(verb("forget", "delete an entry and its former values permanently", "NAME"))


def _add_verbs(command: argparse.ArgumentParser, run: str) -> Callable[..., argparse.ArgumentParser]:
    """Add the options of a command on a store. Returns a function that adds verbs: name, help text, arguments."""
    # The options of a store may stand before the verb or after it.
    place = argparse.ArgumentParser(add_help=False)
    for parser in (place, command):
        add = partial(parser.add_argument, default=argparse.SUPPRESS)
        add("--store", metavar="FILE", help="a store's file, or postgresql://user@host/database")
        add("--namespace", metavar="A/B", help="the namespace; optional if the store has only one")
        add("--json", action="store_true", help="print JSON")
    command.set_defaults(parser=command)
    verbs = command.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def verb(name: str, help: str, *arguments: str) -> argparse.ArgumentParser:
        parser = verbs.add_parser(name, parents=[place], help=help, description=f"{help[0].upper()}{help[1:]}.")
        parser.set_defaults(run=run)
        for argument in arguments:
            parser.add_argument(argument.lower(), metavar=argument)
        return parser

    return verb


def _add_filters(parser: argparse.ArgumentParser) -> None:
    for name in FILTERS:
        help = f"only lessons with this {name}; can be repeated"
        parser.add_argument(f"--{name}", metavar="WORD", action="append", help=help)


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation; required without a terminal")


# ------------------------------------------------------------ values


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A whole number within these bounds."""
    bounds = f"from {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"must be a whole number {bounds}, got {text!r}")
        return int(text)

    return read


positive = whole(1)


def time(text: str) -> datetime:
    """A time. Without a zone, it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):  # it is before the year 1 in another zone
        raise argparse.ArgumentTypeError(f"must be a time such as 2031-03-04T12:00+01:00, got {text!r}") from None


def url(text: str) -> str:
    """An address on the web."""
    address = urlsplit(text)
    if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
        raise argparse.ArgumentTypeError(f"must begin with http:// or https://, got {text!r}")
    return text


def names(text: str) -> tuple[str, ...]:
    """Comma-separated names."""
    return tuple(text.replace(",", " ").split())
