"""A provider's rate limits slow the calls down together, and fail none."""

from __future__ import annotations

import asyncio

import pytest

from langgraph_reflexion.evals import Pace, PacedModel
from langgraph_reflexion.testing import ScriptedModel, call, say
from model_server import ModelServer


async def test_a_storm_of_429_is_waited_out_and_every_call_is_answered_once():
    moods = ["rate_limited" if number % 3 else None for number in range(45)]
    with ModelServer(lambda question: say(question.last.text), moods, retry_after=0.01) as server:
        pace = Pace()
        model = PacedModel(server.chat(max_retries=0), pace)
        found = await asyncio.gather(*(model.ainvoke(f"number {n}") for n in range(15)))
        assert [one.text for one in found] == [f"number {n}" for n in range(15)]
        assert pace.refusals > 0
        assert len(server.asked) == 15 + pace.refusals


async def test_any_other_error_is_raised_at_once():
    model = PacedModel(ScriptedModel([ConnectionError("gone")]), Pace())
    with pytest.raises(ConnectionError):
        await model.ainvoke("hello")


async def test_an_account_without_money_is_not_retried():
    fault = RuntimeError("no money")
    fault.status_code, fault.code = 429, "insufficient_quota"  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="no money"):
        await PacedModel(ScriptedModel([fault]), Pace()).ainvoke("hello")


async def test_tools_are_bound_in_the_form_of_the_model_within():
    inner = ScriptedModel([call("look", page=1)])

    def look(page: int) -> str:
        """Look."""
        return str(page)

    reply = await PacedModel(inner, Pace()).bind_tools([look]).ainvoke("look")
    assert reply.tool_calls[0]["args"] == {"page": 1}
    assert inner.asked[0].tools == ["look"]
