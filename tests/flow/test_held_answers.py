"""With `hold_answers` nobody hears an answer before it is accepted."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool

from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, reflection, say

ASKED = {"messages": [("user", "Which hour?")]}


@tool
def search(query: str) -> str:
    """Search the calendar."""
    return f"{query}: eleven is free"


def agent(protocol="tools", **settings):
    model = RoleModel([call("search", query="x"), say("10:00"), say("11:00")], reflection("Take the free hour."))
    return create_reflexion_agent(
        model, [search], checks=[lambda answer, _: answer == "11:00"], protocol=protocol, **settings
    )


def chunks(parts):
    return [message.text for message, _ in parts if isinstance(message, AIMessageChunk) and message.text]


@pytest.mark.req("I6", "A7")
@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_refused_answer_is_never_streamed_and_an_accepted_one_is(protocol):
    held = agent(protocol, hold_answers=True)
    for parts in (
        list(held.stream(ASKED, stream_mode="messages")),
        [part async for part in agent(protocol, hold_answers=True).astream(ASKED, stream_mode="messages")],
    ):
        assert "".join(chunks(parts)) == "11:00"
        assert not any("10:00" in message.text for message, _ in parts)


def test_without_it_tokens_come_as_the_model_says_them():
    assert "10:00" in "".join(chunks(agent().stream(ASKED, stream_mode="messages")))


def test_it_must_be_true_or_false():
    with pytest.raises(ValueError, match="`hold_answers` must be a bool, got 'yes'"):
        agent(hold_answers="yes")
