"""Interrupts: until a command begins its work, Ctrl-C ends it at once and quietly."""

import os
import signal
import threading


def end_quietly() -> None:
    """From now on Ctrl-C ends the process: imports of compiled modules lose or print a KeyboardInterrupt."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def begin_work() -> None:
    """From now on Ctrl-C is an exception, so that what is done can be kept."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os._exit(130)
