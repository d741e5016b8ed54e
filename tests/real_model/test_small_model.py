"""The whole chain with a real small model on a real server: runs end in an outcome, messages stay valid, nothing hangs.

What such a small model answers is no matter here. `benchmarks/real_model.py` says how well it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, convert_to_openai_messages
from pydantic import BaseModel, Field

from langgraph_reflexion import Limits, Outcome, create_reflexion_agent
from langgraph_reflexion.graph.demo import TASK, busy_times, is_free
from model_server.strictness import fault_in_request
from small_model import DECISION_FORM, missing_packages, small_model, small_model_server

pytestmark = [
    pytest.mark.external,
    pytest.mark.req("L11"),
    pytest.mark.timeout(600),  # a few tokens a second on a machine that has other work
    pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}"),
]
AT_ONCE = 8
one_loop = pytest.mark.asyncio(loop_scope="module")  # OpenAI's client keeps its connections for the next call
FEW = Limits(max_steps=3, max_attempts=2, max_reflections=1)
FEWEST = Limits(max_steps=2, max_attempts=1, max_reflections=0, decision_retries=0)


class Town(BaseModel):
    """A town."""

    name: str = Field(max_length=20)
    people: int = Field(ge=0, le=10_000_000)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with small_model_server(parallel=AT_ONCE, context=2048) as found:
        yield found


def ended(result: dict[str, Any]) -> Outcome:
    """The outcome of a run that left messages every provider takes."""
    outcome = result["outcome"]
    assert isinstance(outcome, Outcome)
    assert outcome.usage.calls > 0
    sent = {"model": "any", "messages": convert_to_openai_messages(result["messages"])}
    assert fault_in_request(sent) is None
    return outcome


def ask(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


@one_loop
async def test_an_answer_is_streamed_as_it_is_written(address: str):
    agent = create_reflexion_agent(small_model(address, max_tokens=40), limits=FEWEST)
    pieces, last = [], {}
    async for mode, event in agent.astream(ask("Name three fruits."), stream_mode=["messages", "values"]):
        if mode == "messages" and isinstance(event[0], AIMessageChunk):
            pieces.append(event[0].text)
        elif mode == "values":
            last = event
    outcome = ended(last)
    assert len(pieces) > 3
    assert outcome.stop_reason in ("unchecked", "invalid_decisions"), outcome
    if outcome.status == "unverified":
        assert "".join(pieces) == last["messages"][-1].text


@pytest.mark.parametrize("enforced", [True, False], ids=["by the server", "in words"])
def test_a_schema_is_kept_or_the_run_says_that_it_was_not(address: str, enforced: bool):
    profile = {"structured_output": True} if enforced else None
    model = small_model(address, max_tokens=100, profile=profile)
    result = create_reflexion_agent(model, response_format=Town, limits=FEW).invoke(ask("Tell me about Oslo."))
    outcome = ended(result)
    if outcome.status == "unverified":
        assert Town.model_validate(outcome.structured) == result["structured_response"]
    else:
        assert not enforced, outcome
        assert outcome.failures


@pytest.mark.parametrize("enforced", [True, False], ids=["a schema", "text"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "invoked"])
def test_a_reply_cut_by_the_length_limit_is_not_an_answer(address: str, enforced: bool, streamed: bool):
    profile = {"structured_output": True} if enforced else None
    model = small_model(address, max_tokens=4, profile=profile)
    agent = create_reflexion_agent(model, response_format=Town if enforced else None, limits=FEWEST)
    task = ask("Write a long story about a dog.")
    result = [*agent.stream(task, stream_mode=["messages", "values"])][-1][1] if streamed else agent.invoke(task)
    outcome = ended(result)
    assert outcome.status == "failure"
    assert outcome.stop_reason == "invalid_decisions", outcome.reason
    assert "length limit" in outcome.failures[0].evidence
    assert outcome.usage.output > 0 or streamed, "OpenAI's client counts no tokens of a streamed reply that is cut"


@one_loop
@pytest.mark.parametrize("protocol", ["tools", "json", "json with its grammar"])
async def test_the_demos_task_ends_under_each_protocol(address: str, protocol: str):
    model: Any = small_model(address, max_tokens=80)
    if protocol == "json with its grammar":
        model = model.bind(response_format=DECISION_FORM)
    agent = create_reflexion_agent(
        model,
        [busy_times],
        checks=[is_free],
        protocol="tools" if protocol == "tools" else "json",
        limits=FEW,
    )
    outcome = ended(await agent.ainvoke(ask(TASK)))
    assert outcome.stop_reason != "model_error", outcome.reason
    assert outcome.status == "success" or outcome.failures
    if protocol == "json with its grammar":
        cut = "the reply was cut off"
        assert all(failure.signal != "parse_error" or cut in failure.evidence for failure in outcome.failures)


@one_loop
async def test_eight_runs_at_once_mix_nothing(address: str):
    agent = create_reflexion_agent(small_model(address, max_tokens=30), limits=FEWEST)
    tasks = [f"Say the number {number}." for number in range(AT_ONCE)]
    results = await agent.abatch([ask(task) for task in tasks])
    assert [result["messages"][0].text for result in results] == tasks
    assert len({ended(result).run_id for result in results}) == AT_ONCE


def test_a_prompt_that_is_too_long_for_the_model_ends_in_an_outcome(address: str):
    agent = create_reflexion_agent(small_model(address, max_tokens=10), limits=FEWEST)
    result = agent.invoke(ask("word " * 4_000))
    outcome = result["outcome"]
    assert outcome.stop_reason == "model_error"
