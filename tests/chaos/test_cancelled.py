"""A run that is cancelled at any await leaves no task behind, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook

STEP = 3
"""Turns of the event loop from one cancelled run to the next: a run takes some two hundred."""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["agent", "auditors", "trial"])
@pytest.mark.req("I6", "I7")
async def test_a_run_cancelled_at_any_await_continues_and_doubles_nothing(
    which: int, workload: ModuleType, sure: Callable[..., None]
) -> None:
    turn, cancelled = 0, 0
    while True:
        turn += STEP
        store = InMemoryStore()
        graph, config = workload.graphs(InMemorySaver(), store)[which], workload.config(0)
        run = asyncio.ensure_future(graph.ainvoke(workload.asked(0), config))
        for _ in range(turn):
            await asyncio.sleep(0)
        if run.done():
            break
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        cancelled += 1
        assert len(asyncio.all_tasks()) == 1, "nothing goes on by itself"
        state = graph.get_state(config)
        ended = state.values.get("outcome") is not None and not state.next
        given = None if state.next else workload.asked(0)
        result = state.values if ended else await graph.ainvoke(given, config)
        outcome = result["outcome"]
        assert outcome.status in ("success", "unverified"), (turn, outcome)
        book = LessonBook(store, workload.NAMESPACE, workload.POLICY)
        sure(book, [result["messages"]])
        assert len(outcome.reflections) == 1, turn
        assert len(book.lessons(kind="rule")) == 1, turn
    assert cancelled > 20
