"""The commands: see the agent learn, offline; run one with a model of your own; look into what it learned."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langgraph_reflexion.cli.arguments import count, seconds, url
from langgraph_reflexion.cli.experiments import add_compare, add_eval
from langgraph_reflexion.cli.memory import add_memory, memory
from langgraph_reflexion.cli.notebook import add_notebook, notebook
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.profile import add_profile, profile
from langgraph_reflexion.cli.wrong_use import WrongUse
from langgraph_reflexion.errors import ReflexionError

NAME = "langgraph-reflexion"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 it went wrong, 2 wrong use, 130 interrupted."""
    given = sys.argv[1:] if argv is None else list(argv)
    parser = _parser(given[0] if given else "")
    try:
        asked = parser.parse_args(given)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    try:
        if asked.command is None or getattr(asked, "verb", "") is None:
            getattr(asked, "parser", parser).print_help(sys.stderr)
            return 2
        _, command = COMMANDS[asked.command]
        return command(asked, Page(sys.stdout))
    except (WrongUse, ReflexionError) as fault:
        Page(sys.stderr).line(f"{NAME}: {fault}", fold=False)
        return 2 if isinstance(fault, WrongUse) else 1
    except KeyboardInterrupt:
        Page(sys.stderr).line(f"{NAME}: interrupted", indent="")
        return 130
    except BrokenPipeError:
        # Whoever read the output has left, as `head` does. Python would complain again when it ends and flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _demo(_: argparse.Namespace, page: Page) -> int:
    from langgraph_reflexion.cli.demo import demo

    return demo(page)


def _run(asked: argparse.Namespace, page: Page) -> int:
    from langgraph_reflexion.cli.run import Wish, run

    return run(Wish(**_given(asked)), Page(sys.stderr) if asked.json else page)


def _eval(asked: argparse.Namespace, page: Page) -> int:
    from langgraph_reflexion.cli.evaluate import Wanted, evaluate

    return evaluate(Wanted(**_given(asked)), Page(sys.stderr) if asked.json else page)


def _compare(asked: argparse.Namespace, page: Page) -> int:
    from langgraph_reflexion.cli.comparing import compare

    return compare(asked.first, asked.second, asked.setups, asked.json, page)


def _given(asked: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(asked).items() if name != "command"}


def _parser(command: str) -> argparse.ArgumentParser:
    """Of the whole, or, where a command is named, of that one alone: to lay out all takes longer than some commands."""
    parser = argparse.ArgumentParser(
        NAME,
        description="LangGraph agents that learn from their own failures.",
        epilog="Exit status: 0 done, 1 it went wrong, 2 wrong use, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{NAME} {version(NAME)}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for add, _ in [COMMANDS[command]] if command in COMMANDS else COMMANDS.values():
        add(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands.add_parser(
        "demo",
        help="watch an agent fail, learn, and not fail again: no key, no network",
        description="Two runs of an agent with a scripted model: the first fails and learns, the second knows.",
        allow_abbrev=False,
    )


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="give a task to an agent with a real model, and watch it work",
        description="Give a task to an agent and watch it work. The model's key is read from its own variable, "
        "such as OPENAI_API_KEY.",
        epilog=f'For example: {NAME} run "Which hour is free?" --model openai:gpt-4o-mini --tools office:TOOLS',
        allow_abbrev=False,
    )
    run.add_argument("task", metavar="TASK", nargs="?", help="what to do; or the answer to what a thread has asked")
    run.add_argument("--model", metavar="NAME", required=True, help="provider:name, such as openai:gpt-4o-mini")
    run.add_argument("--base-url", metavar="URL", type=url, help="a server that speaks OpenAI's protocol")
    run.add_argument("--tools", metavar="MODULE:NAME", help="a list of tools in a module of yours")
    run.add_argument("--protocol", choices=("auto", "tools", "json"), default="auto", help="how calls are made")
    run.add_argument("--max-steps", metavar="N", type=count, help="decisions at most")
    run.add_argument("--deadline", metavar="SECONDS", type=seconds, help="time at most")
    run.add_argument("--store", metavar="FILE", help="keep lessons in this file, or at a postgresql:// address")
    run.add_argument("--state", metavar="FILE", type=Path, help="keep the run in this SQLite file, to go on with it")
    run.add_argument("--thread", metavar="ID", help="which run of --state; without TASK, it goes on where it stopped")
    run.add_argument("--json", action="store_true", help="print the outcome as JSON, and the trace on stderr")


COMMANDS: dict[str, tuple[Callable[[Any], None], Callable[[argparse.Namespace, Page], int]]] = {
    "demo": (_add_demo, _demo),
    "run": (_add_run, _run),
    "eval": (add_eval, _eval),
    "compare": (add_compare, _compare),
    "memory": (add_memory, memory),
    "notebook": (add_notebook, notebook),
    "profile": (add_profile, profile),
}
"""What adds a command's options to the parser of the whole, and what does it."""
