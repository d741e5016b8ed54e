"""What an answer was refused for is in front of the model until it gives another."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, say


@tool
def look(day: str) -> str:
    """Look up a day."""
    return f"{day} is free from eleven"


@pytest.mark.req("E8", "F11")
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_a_complaint_is_shown_until_the_next_answer_also_across_calls(protocol):
    model = RoleModel(
        decide=[say("10:00"), call("look", day="Monday"), call("look", day="Friday"), say("11:00"), say("x")]
    )
    refuse = ["The dentist comes at ten.", None]
    agent = create_reflexion_agent(
        model, [look], checks=[lambda _answer, _run: refuse.pop(0)], limits=Limits(max_reflections=0), protocol=protocol
    )
    result = agent.invoke({"messages": [("user", "When can we meet?")]})
    assert result["outcome"].answer == "11:00"
    told = ["The dentist comes at ten." in question.text for question in model.asked]
    assert told == [False, True, True, True]
    assert all("10:00" in question.text for question in model.asked[1:])
    assert "10:00" not in "".join(message.text for message in result["messages"])
