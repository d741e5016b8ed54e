"""Ahead: what the first answer did not need is read meanwhile, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from langgraph_reflexion.errors import StoreError

logger = logging.getLogger(__name__)

PAUSE = 0.001
"""Seconds between two steps, in which searches find their turn."""


class Ahead:
    """Takes one step after the other until it says that nothing is left, or is told to stop."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, step: Callable[[], bool]) -> None:
        """Begin, where it has not begun; in a child process that is once more."""
        if self._stopped.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(target=self._go_on, args=(step,), name="faiss-store-ahead", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when it has ended."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _go_on(self, step: Callable[[], bool]) -> None:
        try:
            while step():
                if self._stopped.wait(PAUSE):
                    return
        except StoreError as fault:  # whoever searches next is told
            logger.info("Not all was read ahead: %s", fault)
