"""Waiting for what is not ours: threads, time limits, and errors that no future can carry."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from concurrent.futures import wait

import pytest

from langgraph_reflexion.driver import NeedsAsyncError, OutOfTimeError, Wait, accepts, in_thread, start_thread


def test_no_call_waits_for_another_to_end():
    together = threading.Barrier(30)
    assert not wait([start_thread(lambda: together.wait(timeout=30)) for _ in range(30)], timeout=30).not_done


@pytest.mark.req("A5")
def test_a_call_past_its_time_raises_and_runs_on_in_its_thread():
    go_on, ended = threading.Event(), threading.Event()

    def slow() -> None:
        go_on.wait(timeout=30)
        ended.set()

    with pytest.raises(OutOfTimeError, match="may still be running"):
        Wait(slow, lambda: None).within(0.01).call()
    go_on.set()
    assert ended.wait(timeout=30)


def test_a_builtin_without_a_signature_may_be_called_with_anything():
    assert accepts(str, None)
    assert not accepts(lambda: None, None)


async def test_stop_iteration_of_a_callers_function_reaches_the_loop_as_an_error():
    def fail() -> None:
        raise StopIteration("no more")

    for own in (False, True):
        with pytest.raises(RuntimeError, match="no more"):
            await in_thread(fail, own=own).acall()


@pytest.mark.req("A5")
@pytest.mark.parametrize("seconds", [float("inf"), 1e300, threading.TIMEOUT_MAX * 2])
async def test_a_timeout_longer_than_any_clock_is_accepted(seconds):
    async def later() -> str:
        return "async"

    wait_for = Wait(lambda: "sync", later).within(seconds)
    assert (wait_for.call(), await wait_for.acall()) == ("sync", "async")


@pytest.mark.req("I6")
async def test_a_cancelled_call_cleans_up_before_its_run_ends_with_a_time_limit_too():
    began, left = asyncio.Event(), []

    async def slow() -> None:
        try:
            began.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            left.append("cleaned up")

    work = asyncio.ensure_future(Wait(lambda: None, slow).within(60).acall())
    await began.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert left == ["cleaned up"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.req("A5", "I6")
@pytest.mark.parametrize("ending", ["cancelled", "past its time"])
async def test_what_a_call_raises_that_nobody_waits_for_is_not_reported_as_lost(ending):
    began, reported = asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["message"]))

    async def fails_at_the_end() -> None:
        try:
            began.set()
            await asyncio.sleep(60)
        finally:
            raise ValueError("the connection was gone")

    within = Wait(lambda: None, fails_at_the_end).within(0.01 if ending == "past its time" else 60)
    work = asyncio.ensure_future(within.acall())
    await began.wait()
    if ending == "cancelled":
        work.cancel()
    with pytest.raises((asyncio.CancelledError, OutOfTimeError)):
        await work
    await asyncio.sleep(0.01)
    del work  # its traceback holds the call
    gc.collect()
    assert reported == []


def test_an_error_says_the_same_after_it_has_crossed_to_another_process():
    error = NeedsAsyncError("The check 'free'")
    assert repr(pickle.loads(pickle.dumps(error))) == repr(error)
    assert "use `ainvoke`" in repr(error), "a checkpoint shows this form"
