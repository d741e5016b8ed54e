"""Under the JSON protocol every stream gives the answer, and the object that the model wrote stays out of sight."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.tools import tool

from langgraph_reflexion import Limits, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.testing import RoleModel, ScriptedModel, call, say
from model_server import ModelServer

HELLO: Any = {"messages": [("user", "When?")]}


@tool
def search(query: str) -> str:
    """Search."""
    return f"{query}: eleven is free"


def story() -> RoleModel:
    return RoleModel(lambda q: say("It is at eleven") if "eleven" in q.text else call("search", query="Tuesday"))


@pytest.mark.req("I6", "B11")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("hold", [False, True], ids=["as it comes", "held"])
@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_version_three_of_the_event_stream_gives_the_answer(protocol, hold):
    with ModelServer(story()) as server:
        agent = create_reflexion_agent(server.chat(streaming=True), [search], protocol=protocol, hold_answers=hold)
        stream = agent.stream_events(HELLO, version="v3")
        assert [str(message.text) for message in stream.messages] == ["", "It is at eleven"]


@pytest.mark.req("I6")
@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_version_three_of_the_event_stream_has_an_agent_called_in_a_tool_as_a_subgraph() -> None:
    planner = create_reflexion_agent(ScriptedModel(["It is at eleven"]), name="planner")

    @tool
    def plan(task: str) -> str:
        """Plan."""
        answer: str = planner.invoke({"messages": [("user", task)]})["messages"][-1].text
        return answer

    agent = create_reflexion_agent(ScriptedModel([call("plan", task="Plan."), "At eleven"]), [plan])
    stream = agent.stream_events(HELLO, version="v3")
    assert not hasattr(stream, "subagents")
    assert [part.graph_name for part in stream.subgraphs] == ["planner"]


@pytest.mark.req("I6", "B11")
async def test_the_models_own_events_are_tagged_where_they_are_no_answer():
    with ModelServer(story()) as server:
        agent = create_reflexion_agent(server.chat(streaming=True), [search], protocol="json")
        events = [event async for event in agent.astream_events(HELLO, version="v2")]
    tokens = [event for event in events if event["event"] == "on_chat_model_stream"]
    assert tokens
    assert all("nostream" in event["tags"] and event["name"] == "decision" for event in tokens)
    assert events[-1]["data"]["output"]["messages"][-1].text == "It is at eleven"


@pytest.mark.req("F9", "B11")
@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_the_decisions_of_a_silent_worker_count_as_its_steps(protocol):
    turns = [call("search", query=str(n)) for n in range(9)]
    worker = create_reflexion_agent(RoleModel([*turns]), [search], protocol=protocol)
    limits = Limits(max_steps=3, max_attempts=1)
    result = create_trial_graph(worker, [lambda _answer, _run: True], limits=limits).invoke(HELLO)
    assert "3 model calls" in json.dumps(result["outcome"].model_dump(mode="json"))
