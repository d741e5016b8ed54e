"""The options of the command line, and what carries out each command; heavy imports wait until they are needed."""

from __future__ import annotations

import argparse
import errno
import io
import math
import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langgraph_reflexion.cli.interrupts import begin_work

NAME = "langgraph-reflexion"
COMMANDS = {
    "demo": ("demo", "demo"),
    "run": ("run", "run"),
    "eval": ("evaluate", "evaluate"),
    "compare": ("compare", "compare"),
    "memory": ("memory", "memory"),
    "notebook": ("notebook", "notebook"),
    "profile": ("notebook", "profile"),
}
"""The module and function of each command."""
ASYNC = ("run", "eval")
MAX_TRIALS = 50
"""Maximum attempts at a task, so that the table has room for them."""
MAX_AGE = 36_500
"""Days that a date can be counted back: a hundred years."""
FILTERS = ("kind", "status", "topic", "tag", "origin")
"""The filters for lists of lessons."""
UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EIO)
"""Errors of the standard output."""
Commands = Any
"""What argparse's `add_subparsers` gives; its type is private."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    parser = build_parser()
    sys.stdin = sys.stdin or io.StringIO()  # closed by the shell, as `<&-` does
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 — as long as the process
    try:
        asked = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    if asked.command is None or getattr(asked, "verb", "") is None:
        getattr(asked, "parser", parser).print_help(sys.stderr)
        return 2
    from langgraph_reflexion.cli.console import Page, WrongUse
    from langgraph_reflexion.errors import ReflexionError

    try:
        return _carry_out(asked, Page(sys.stderr) if asked.trace_to_stderr and asked.json else Page(sys.stdout))
    except (WrongUse, ReflexionError) as error:
        Page(sys.stderr).command(f"{NAME}: {error}")
        return 2 if isinstance(error, WrongUse) else 1
    except KeyboardInterrupt:
        Page(sys.stderr).line(f"{NAME}: interrupted")
        return 130
    except OSError as error:
        if error.filename is not None:
            Page(sys.stderr).command(f"{NAME}: {error.filename}: {error.strerror}")
            return 1
        if error.errno not in UNWRITABLE:
            raise
        if error.errno != errno.EPIPE:  # the reader of a pipe may close it, as `head` does
            Page(sys.stderr).command(f"{NAME}: the output cannot be written: {error.strerror}")
        # Python would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _carry_out(asked: argparse.Namespace, page: Any) -> int:
    """Import the command's module, and call its function with the options and a page to write to."""
    module, function = COMMANDS[asked.command]
    command: Callable[..., int] = getattr(import_module(f"langgraph_reflexion.cli.{module}"), function)
    if asked.command not in ASYNC:  # those import more, and begin with their event loop
        begin_work()
    return command(asked, page)


# ------------------------------------------------------------ options


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        NAME,
        description="LangGraph agents that learn from their own failures.",
        epilog="Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{NAME} {version(NAME)}")
    parser.set_defaults(trace_to_stderr=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for add in (_add_demo, _add_run, _add_eval, _add_compare, _add_memory, _add_notebook, _add_profile):
        add(commands)
    return parser


def _add_demo(commands: Commands) -> None:
    commands.add_parser(
        "demo",
        help="watch an agent fail, learn, and succeed; needs no key and no network",
        description="Two runs of an agent with a scripted model: the first fails and learns, the second succeeds.",
        allow_abbrev=False,
    )


def _add_run(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        help="give a task to an agent with a real model, and watch it work",
        description="Give a task to an agent and watch it work. The model's key is read from its own variable, "
        "such as OPENAI_API_KEY.",
        epilog=f'For example: {NAME} run "Which hour is free?" --model openai:gpt-4o-mini --tools office:TOOLS',
        allow_abbrev=False,
    )
    run.set_defaults(trace_to_stderr=True)
    run.add_argument("task", metavar="TASK", nargs="?", help="what to do, or the answer to a thread's question")
    run.add_argument("--model", metavar="NAME", required=True, help="provider:name, such as openai:gpt-4o-mini")
    run.add_argument("--base-url", metavar="URL", type=url, help="a server that speaks OpenAI's protocol")
    run.add_argument("--tools", metavar="MODULE:NAME", help="a list of tools in your own module")
    run.add_argument("--protocol", choices=("auto", "tools", "json"), default="auto", help="how calls are made")
    run.add_argument("--max-steps", metavar="N", type=positive, help="maximum number of decisions")
    run.add_argument("--deadline", metavar="SECONDS", type=seconds, help="maximum time")
    run.add_argument("--store", metavar="FILE", help="keep lessons in this file, or at a postgresql:// address")
    run.add_argument("--state", metavar="FILE", type=Path, help="keep the run in this SQLite file, to resume it")
    run.add_argument("--thread", metavar="ID", help="which run of --state; without TASK it continues where it stopped")
    run.add_argument("--json", action="store_true", help="print the outcome as JSON, and the trace on stderr")


def _add_eval(commands: Commands) -> None:
    eval_ = commands.add_parser(
        "eval",
        help="run set-ups on a file of tasks, and compare their accuracy",
        description="Try set-ups on a file of tasks. Each finished task is kept at once: "
        "repeat the command to continue after an interruption.",
        epilog=f"For example: {NAME} eval shipped --setups cot,cot+reflexion --model openai:gpt-4o-mini",
        allow_abbrev=False,
    )
    add = eval_.add_argument
    eval_.set_defaults(trace_to_stderr=True)
    add("tasks", metavar="TASKS.jsonl", help="a file of tasks in our format or HotpotQA's, or `shipped`")
    add("--setups", metavar="A,B", type=names, default=("all",), help="set-ups by name; all by default")
    add("--model", metavar="NAME", required=True, help="provider:name, such as openai:gpt-4o-mini")
    add("--judge", metavar="NAME", help="a model that judges the answers; by default they are compared")
    add("--check", metavar="MODULE:NAME", help="your own check for every answer, a function of (answer, run)")
    add("--reflector", metavar="NAME", help="a model for the reflections; by default the same")
    for role in ("", "judge-", "reflector-"):
        server = (
            f"the {role.rstrip('-')}'s server, else --base-url" if role else "a server that speaks OpenAI's protocol"
        )
        add(f"--{role}base-url", metavar="URL", type=url, help=server)
    add("--temperature", metavar="T", type=float, help="the model's temperature")
    add("--protocol", choices=("auto", "tools", "json"), default="auto", help="how ReAct set-ups make calls")
    add(
        "--tools",
        metavar="MODULE:NAME",
        help="tools of the ReAct set-ups; by default a search over each task's passages",
    )
    add("--context", choices=("supporting", "all"), default="supporting", help="passages for set-ups with context")
    add("--reflection", choices=("structured", "free"), default="structured", help="the format of a reflection")
    add("--repeats", metavar="N", type=positive, default=1, help="how often each task is run, to see the spread (1)")
    add("--trials", metavar="N", type=whole(1, MAX_TRIALS), default=5, help="maximum attempts at a task (5)")
    add("--steps", metavar="N", type=positive, default=5, help="maximum steps of a ReAct attempt (5)")
    add("--reflections", metavar="N", type=positive, default=4, help="maximum reflections on a task (4)")
    add("--concurrency", metavar="N", type=positive, default=20, help="tasks at once (20)")
    add("--limit", metavar="N", type=positive, help="only the first N tasks")
    add("--no-run-memory", dest="run_memory", action="store_false", help="show a trial nothing from earlier trials")
    add("--lessons", action="store_true", help="keep lessons from task to task, separately for each set-up")
    add("--price", metavar="IN,OUT", type=price, help="dollars per million tokens, to print the cost")
    add("--out", metavar="FOLDER", type=Path, help="the folder for the results (eval-TASKS)")
    add("--dry-run", action="store_true", help="estimate the calls and tokens, without making a call")
    add("--json", action="store_true", help="print the figures as JSON, and the table on stderr")


def _add_compare(commands: Commands) -> None:
    both = commands.add_parser(
        "compare",
        help="compare two runs of eval, task by task",
        description="Compare two runs of eval, paired by task, with an interval.",
        allow_abbrev=False,
    )
    both.add_argument("first", metavar="A", type=Path, help="the folder of a run")
    both.add_argument("second", metavar="B", type=Path, help="the folder of another")
    both.add_argument("--setups", metavar="A,B", type=names, help="a set-up of the first and one of the second")
    both.add_argument("--json", action="store_true", help="print the figures as JSON")


def _add_memory(commands: Commands) -> None:
    verb = _add_store_command(
        commands,
        "memory",
        help="list, show, search, approve, retire, forget, export and import lessons",
        description="Read and manage the lessons that agents save in a store.",
        epilog="An ID may be shortened if it stays unique. "
        "For example: langgraph-reflexion memory list --store lessons.db --status candidate",
    )
    _add_filters(verb("list", "list the lessons, the oldest first"))
    verb("show", "show all that is known of a lesson", "ID")
    search = verb("search", "find the lessons most similar to a text, with any status", "TEXT")
    search.add_argument("--limit", metavar="N", type=positive, default=10, help="at most this many (10)")
    _add_filters(search)
    verb("namespaces", "name the namespaces that hold lessons")
    verb("stats", "count the lessons, and how they did")
    verb("history", "show what happened to a lesson", "ID")
    runs = verb("runs", "list the recorded runs, the newest first: task, outcome, lessons shown and written")
    runs.add_argument("--limit", metavar="N", type=positive, default=20, help="at most this many (20)")
    explain = verb("explain", "say which lessons a run was shown and why, what it wrote, and how it ended")
    explain.add_argument("run", metavar="RUN", nargs="?", help="the run's id; by default the latest")
    page = verb("page", "show lessons and runs in a browser, and decide there: on this machine alone, until Ctrl-C")
    page.add_argument("--port", metavar="N", type=whole(0, 65535), default=0, help="a port; by default any free one")
    verb("approve", "make a lesson active, so that no later loss takes it back", "ID")
    verb("retire", "stop showing a lesson, and keep it", "ID").add_argument("--why", metavar="TEXT", default="")
    verb("restore", "bring back a lesson that is retired, superseded or quarantined", "ID")
    _add_yes(verb("forget", "delete a lesson with its vectors, evidence and history permanently", "ID"))
    undo = verb("undo", "undo a change, all that a run changed, or all since a time")
    undo.add_argument("what", metavar="CHANGE|RUN", nargs="?", help="an id that `history` shows, or a run's")
    undo.add_argument("--since", metavar="TIME", type=time, help="such as 2031-03-04T12:00+01:00")
    distill = verb("distill", "summarize similar lessons in one pattern; they stay")
    distill.add_argument(
        "--model", metavar="NAME", help="a model that writes the patterns; by default the best wording is used"
    )
    distill.add_argument("--base-url", metavar="URL", type=url, help="the address of your own openai:<name>")
    verb("sweep", "compact the records of old runs and remove the oldest episodes; runs do most of this themselves")
    export = verb("export", "write lessons as JSON Lines that can be read, compared and edited")
    export.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the file to write; by default standard output"
    )
    _add_filters(export)
    copy = verb("copy", "copy everything into another store: namespaces, runs, evidence, history; repeat it to resume")
    copy.add_argument("--to", metavar="FILE", required=True, help="the target store, created if it is missing")
    load = verb("import", "import the new lessons of such a file; if a line is invalid, nothing is imported", "FILE")
    load.add_argument("--keep-going", action="store_true", help="skip invalid lines, and count them")
    load.add_argument("--untrusted", action="store_true", help="import all lessons as new candidates")
    load.add_argument("--update", action="store_true", help="give known lessons the text in the file")
    load.add_argument("--create", action="store_true", help="create the store if there is none")


def _add_notebook(commands: Commands) -> None:
    verb = _add_store_command(
        commands,
        "notebook",
        help="list, show and count the auditors' findings, and read the rules made from them",
        description="Read the error notebook that auditors keep about finished runs.",
    )
    listing = verb("list", "list the findings, the newest first")
    listing.add_argument("--limit", metavar="N", type=positive, default=20, help="at most this many (20)")
    listing.add_argument("--category", metavar="WORD", help="of this category, such as tool_misuse")
    listing.add_argument("--tool", metavar="NAME", help="about this tool")
    listing.add_argument("--session", metavar="ID", help="of this run")
    verb("show", "show all that is known of a finding", "ID")
    verb("stats", "count the findings, and say whether runs get better")
    rules = verb("rules", "print the rules text, as a prompt is given it")
    rules.add_argument("task", metavar="TASK", nargs="?", default="", help="the task that the rules are for")
    rules.add_argument("--limit", metavar="N", type=positive, default=10, help="maximum number of lines (10)")
    rules.add_argument(
        "--min-repetitions",
        metavar="N",
        type=positive,
        default=1,
        help="only mistakes repeated at least this often (1)",
    )
    remove = verb("remove", "delete a finding permanently, or all findings older than a number of days")
    remove.add_argument("id", metavar="ID", nargs="?", help="the finding's id, which may be shortened")
    remove.add_argument("--older-than", metavar="DAYS", type=whole(1, MAX_AGE), help="all findings made before then")
    _add_yes(remove)
    _add_yes(verb("clear", "delete all findings permanently"))


def _add_profile(commands: Commands) -> None:
    verb = _add_store_command(
        commands,
        "profile",
        help="read, edit and delete what is remembered about you and your project",
        description="The named memories of a user and a project: rules, facts and preferences.",
    )
    verb("list", "list what is remembered")
    verb("show", "show an entry, and what held before it", "NAME")
    verb("edit", "replace what is remembered by a text", "NAME", "TEXT")
    _add_yes(verb("forget", "delete an entry and its former values permanently", "NAME"))


def _add_store_command(
    commands: Commands, name: str, help: str, description: str, epilog: str | None = None
) -> Callable[..., argparse.ArgumentParser]:
    """Add a command on a store. Returns a function that adds verbs: name, help text, names of arguments."""
    # The options of a store may stand before the verb or after it.
    place = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    place.add_argument("--store", metavar="FILE", help="a store's file, or postgresql://user@host/database")
    place.add_argument("--namespace", metavar="A/B", help="the namespace; optional if the store has only one")
    place.add_argument("--json", action="store_true", help="print JSON")
    command = commands.add_parser(
        name, parents=[place], help=help, description=description, epilog=epilog, allow_abbrev=False
    )
    command.set_defaults(parser=command)
    verbs = command.add_subparsers(dest="verb", metavar="VERB", title="verbs")

    def verb(name: str, help: str, *arguments: str) -> argparse.ArgumentParser:
        description = f"{help[0].upper()}{help[1:]}."
        parser: argparse.ArgumentParser = verbs.add_parser(
            name, parents=[place], help=help, description=description, allow_abbrev=False
        )
        for argument in arguments:
            parser.add_argument(argument.lower(), metavar=argument)
        return parser

    return verb


def _add_filters(parser: argparse.ArgumentParser) -> None:
    for name in FILTERS:
        help = f"with this {name}; may be given again"
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


def seconds(text: str) -> float:
    """A length of time."""
    value = _numbers(text)[0]
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return value


def price(text: str) -> tuple[float, float]:
    """Dollars per million tokens, input and output."""
    values = _numbers(text)
    if len(values) != 2 or min(values) < 0:
        raise argparse.ArgumentTypeError(f"must be two amounts of dollars such as 0.15,0.60, got {text!r}")
    return values[0], values[1]


def _numbers(text: str) -> list[float]:
    """Comma-separated numbers; -1 for anything else."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return [-1.0]
    return values if all(math.isfinite(value) for value in values) else [-1.0]


def time(text: str) -> datetime:
    """A time. Without a zone, it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a time such as 2031-03-04T12:00+01:00, got {text!r}") from None


def url(text: str) -> str:
    """An address on the web."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"must begin with http:// or https://, got {text!r}")
    return text


def names(text: str) -> tuple[str, ...]:
    """Comma-separated names."""
    return tuple(text.replace(",", " ").split())
