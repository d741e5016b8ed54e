"""Checkpoints hold plain data: a checkpointer that was never told of our types restores a run whole."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Outcome, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, reflection, say


class Deaf(InMemorySaver):
    """A saver that is not to be told of more types."""

    def with_allowlist(self, extra_allowlist: object) -> Deaf:
        return self


@tool
def search(query: str) -> str:
    """Look up free hours."""
    if query[0].isdigit():
        raise ValueError(f"{query} is not a weekday")
    return "eleven is free"


@pytest.mark.req("I7", "A10")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("types", [(), True], ids=["strict", "as it comes"])
def test_a_run_stopped_at_every_step_ends_on_a_checkpointer_that_knows_none_of_our_types(types):
    answers = [
        call("search", query="2026-03-03"),
        call("search", query="Tuesday"),
        say("10:00"),
        say("11:00"),
        say("12:00"),
    ]
    model = RoleModel(answers, [reflection("Search by weekday."), reflection("Name the hour that is free.")] * 2)
    agent = create_reflexion_agent(
        model, [search], checks=[lambda answer, _run: answer != "10:00" or "Ten is taken."], store=InMemoryStore()
    )
    agent.checkpointer = Deaf(serde=JsonPlusSerializer(allowed_msgpack_modules=types))
    config = {"configurable": {"thread_id": "t"}}
    unknown = []
    stop_listening = register_serde_event_listener(unknown.append)
    result = agent.invoke({"messages": [("user", "When?")]}, config, interrupt_before="*")
    while agent.get_state(config).next:
        result = agent.invoke(None, config, interrupt_before="*")
    assert result["messages"][-1].text == "11:00"
    assert isinstance(agent.get_state(config).values["outcome"], Outcome)
    assert len(list(agent.get_state_history(config))) > 8, "each checkpoint was read"
    told = {"messages": [("user", "Again, please.")], "feedback": "that was wrong"}
    assert agent.invoke(told, config)["outcome"].failures[0].signal == "feedback"
    stop_listening()
    assert not unknown, "LangGraph logs each of these types"
