"""Threads for as many calls as there are at a time, used again."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from langgraph_reflexion.nodes import calling as threads
from langgraph_reflexion.nodes.calling import Threads


def test_no_call_waits_for_another_to_end():
    many = Threads()
    together = threading.Barrier(30)
    assert not wait([many.begun(lambda: together.wait(timeout=30)) for _ in range(30)], timeout=30).not_done


def test_one_call_after_another_needs_one_thread_and_brings_its_fault_back():
    many, seen = Threads(), set()
    free = many._free

    def fail() -> None:
        seen.add(threading.get_ident())
        raise StopIteration("no more")

    for _ in range(20):
        with pytest.raises(StopIteration, match="no more"):
            many.begun(fail).result(timeout=30)
        assert free.acquire(timeout=30)  # the thread is done with it
        free.release()
    assert len(seen) == 1


def test_a_thread_with_nothing_to_do_ends_and_the_next_call_has_another(monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 0.01)
    many = Threads()
    first = many.begun(threading.current_thread).result(timeout=30)
    first.join(timeout=30)
    assert not first.is_alive()
    assert many.begun(lambda: 2).result(timeout=30) == 2
