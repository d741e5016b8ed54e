"""What `eval` and `compare` take from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from langgraph_reflexion.cli.arguments import count, names, price, trials, url

NAME = "langgraph-reflexion"


def add_eval(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`eval TASKS`: try set-ups on a file of tasks."""
    trial = commands.add_parser(
        "eval",
        help="try set-ups on a file of tasks, and see what each is worth",
        description="Try set-ups on a file of tasks. Each finished task is kept at once: "
        "the same command again goes on where the last one stopped.",
        epilog=f"For example: {NAME} eval shipped --setups cot,cot+reflexion --model openai:gpt-4o-mini",
        allow_abbrev=False,
    )
    trial.add_argument("tasks", metavar="TASKS.jsonl", help="tasks in our form or HotpotQA's; or the word `shipped`")
    trial.add_argument("--setups", metavar="A,B", type=names, default=("all",), help="set-ups by name; all by default")
    trial.add_argument("--model", metavar="NAME", required=True, help="provider:name, such as openai:gpt-4o-mini")
    trial.add_argument("--judge", metavar="NAME", help="a model that judges the answers; else they are compared")
    trial.add_argument("--check", metavar="MODULE:NAME", help="a check of yours for every answer, of (answer, run)")
    trial.add_argument("--reflector", metavar="NAME", help="a model for the reflections; else the same")
    trial.add_argument("--base-url", metavar="URL", type=url, help="a server that speaks OpenAI's protocol")
    trial.add_argument("--trials", metavar="N", type=trials, default=5, help="attempts at a task at most (5)")
    trial.add_argument("--steps", metavar="N", type=count, default=5, help="steps of a ReAct attempt at most (5)")
    trial.add_argument("--reflections", metavar="N", type=count, default=4, help="reflections on a task at most (4)")
    trial.add_argument("--concurrency", metavar="N", type=count, default=20, help="tasks at once (20)")
    trial.add_argument("--limit", metavar="N", type=count, help="the first N tasks only")
    trial.add_argument(
        "--no-run-memory", dest="run_memory", action="store_false", help="tell no trial of those before it"
    )
    trial.add_argument("--lessons", action="store_true", help="keep lessons from task to task, apart for each set-up")
    trial.add_argument("--price", metavar="IN,OUT", type=price, help="dollars for a million tokens, to tell the cost")
    trial.add_argument("--out", metavar="FOLDER", type=Path, help="where the results are kept (eval-TASKS)")
    trial.add_argument("--dry-run", action="store_true", help="say how many calls it would make, and make none")
    trial.add_argument("--json", action="store_true", help="print the figures as JSON, and the table on stderr")


def add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`compare A B`: tell two runs apart."""
    both = commands.add_parser(
        "compare",
        help="tell two runs of eval apart, task by task",
        description="Tell two runs of eval apart, paired by task, with an interval.",
        allow_abbrev=False,
    )
    both.add_argument("first", metavar="A", type=Path, help="the folder of a run")
    both.add_argument("second", metavar="B", type=Path, help="the folder of another")
    both.add_argument("--setups", metavar="A,B", type=names, help="this set-up of the first and that one of the second")
    both.add_argument("--json", action="store_true", help="print the figures as JSON")
