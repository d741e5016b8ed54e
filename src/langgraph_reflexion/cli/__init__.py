"""The command line. What it needs is imported when it is called."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    try:
        from langgraph_reflexion.cli.commands import main as commands

        return commands(argv)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
