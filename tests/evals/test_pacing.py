"""A provider's rate limits slow the calls down together, and fail none."""

from __future__ import annotations

import asyncio

import pytest

from langgraph_reflexion.evals.pacing import Pace, PacedModel, is_rate_limit
from langgraph_reflexion.testing import ScriptedModel, call, say
from model_server import ModelServer


async def test_a_storm_of_429_is_waited_out_and_every_call_is_answered_once():
    moods = ["rate_limited" if number % 3 else None for number in range(45)]
    with ModelServer(lambda question: say(question.last.text), moods, retry_after=0.01) as server:
        pace = Pace(8)
        model = PacedModel(server.chat(max_retries=0), pace)
        found = await asyncio.gather(*(model.ainvoke(f"number {n}") for n in range(15)))
        assert [one.text for one in found] == [f"number {n}" for n in range(15)]
        assert pace.refusals > 0
        assert len(server.asked) == 15 + pace.refusals


async def test_a_refusal_halves_the_calls_at_once_and_success_lets_them_grow_again():
    pace = Pace(8)
    fault = _refusal()
    pace.refused(fault)
    pace.refused(fault)  # under way together with the first
    assert pace.width == 4
    for _ in range(100):
        pace.went_well()
    assert pace.width == 8


async def test_no_more_calls_are_under_way_than_the_pace_allows():
    pace, under_way, most = Pace(3), 0, 0

    async def work() -> None:
        nonlocal under_way, most
        async with pace.turn():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.001)
            under_way -= 1

    await asyncio.gather(*(work() for _ in range(20)))
    assert most == 3


async def test_any_other_error_is_raised_at_once():
    model = PacedModel(ScriptedModel([ConnectionError("gone")]), Pace(2))
    with pytest.raises(ConnectionError):
        await model.ainvoke("hello")


def test_an_account_without_money_is_no_matter_of_time():
    fault = _refusal()
    assert is_rate_limit(fault)
    fault.code = "insufficient_quota"  # type: ignore[attr-defined]
    assert not is_rate_limit(fault)


async def test_tools_are_bound_in_the_form_of_the_model_within():
    inner = ScriptedModel([call("look", page=1)])

    def look(page: int) -> str:
        """Look."""
        return str(page)

    reply = await PacedModel(inner, Pace(2)).bind_tools([look]).ainvoke("look")
    assert reply.tool_calls[0]["args"] == {"page": 1}
    assert inner.asked[0].tools == ["look"]


def _refusal() -> Exception:
    fault = RuntimeError("slow down")
    fault.status_code = 429  # type: ignore[attr-defined]
    fault.retry_after = 0.01  # type: ignore[attr-defined]
    return fault
