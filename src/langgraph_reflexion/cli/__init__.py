"""The command line. Until a command begins its work, Ctrl-C ends it at once and quietly."""

import os
import signal
import threading
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, 1 it went wrong, 2 wrong use, 130 interrupted."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # A KeyboardInterrupt would be lost in the imports of compiled modules, or be printed by them.
        signal.signal(signal.SIGINT, _exit)
    try:
        from langgraph_reflexion.cli.commands import main as commands

        return commands(argv)
    except KeyboardInterrupt:
        return 130
    finally:
        begin_work()


def begin_work() -> None:
    """From now on Ctrl-C is an exception, so that what is done can be kept."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os._exit(130)
