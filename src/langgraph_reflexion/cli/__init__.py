"""The command line. What it needs is imported when it is called."""

from collections.abc import Sequence

from langgraph_reflexion.cli.interrupts import begin_work, end_quietly


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    end_quietly()
    try:
        from langgraph_reflexion.cli.commands import main as commands

        return commands(argv)
    except KeyboardInterrupt:
        return 130
    finally:
        begin_work()
