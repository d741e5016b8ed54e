"""The command line. What it needs is imported when it is called, so that Ctrl-C is quiet from the first moment."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 it went wrong, 2 wrong use, 130 interrupted."""
    try:
        from langgraph_reflexion.cli.commands import main as commands

        return commands(argv)
    except KeyboardInterrupt:
        return 130
