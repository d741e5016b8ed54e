"""Under the packages people build with: a supervisor, a swarm, a deep agent, and the tools of an MCP server."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from agents import WAYS, make_agent
from free_hours import search
from langgraph_reflexion import ReflexionMiddleware, create_reflexion_agent
from langgraph_reflexion.testing import Question, RoleModel, call, calls, reflection, say

THREAD: Any = {"configurable": {"thread_id": "1"}}
TASK = "Find a free hour on Tuesday."

pytestmark = pytest.mark.external

# The supervisor still builds on an agent that LangGraph has moved; the warning is for its authors.
of_the_supervisor = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


@of_the_supervisor
@pytest.mark.req("G1", "M4")
@pytest.mark.parametrize("history", ["full_history", "last_message"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_it_works_under_a_supervisor_and_its_task_is_what_the_user_said(
    history: Any, way: str, learning: Callable[..., Any], valid: Callable[[Any], None]
) -> None:
    supervised = pytest.importorskip("langgraph_supervisor")
    chief = RoleModel([call("transfer_to_planner"), "It is 11:00."])
    store = InMemoryStore()
    workflow = supervised.create_supervisor([learning(name="planner")], model=chief, output_mode=history)
    app = workflow.compile(store=store, checkpointer=InMemorySaver())
    asked = {"messages": [("user", TASK)]}
    result = app.invoke(asked, THREAD) if way == "invoke" else await app.ainvoke(asked, THREAD)
    assert result["messages"][-1].text == "It is 11:00."
    assert set(result) == {"messages"}
    valid(result["messages"])
    (episode,) = store.search(("reflexion", "planner", "episodes"))
    assert episode.value["task"] == TASK, "whatever hand-over messages follow it"
    assert len(store.search(("reflexion", "planner", "lessons"))) == 1


@of_the_supervisor
@pytest.mark.req("G1", "D4")
def test_a_lesson_learned_under_a_supervisor_is_known_the_next_time(learning: Callable[..., Any], lesson: str) -> None:
    supervised = pytest.importorskip("langgraph_supervisor")
    chief = RoleModel([call("transfer_to_planner"), "11:00.", call("transfer_to_planner"), "11:00 again."])
    agent, store = learning(name="planner"), InMemoryStore()
    app = supervised.create_supervisor([agent], model=chief, output_mode="full_history").compile(store=store)
    first = app.invoke({"messages": [("user", TASK)]})
    second = app.invoke({"messages": [("user", TASK)]})
    failed = [
        [message for message in result["messages"] if isinstance(message, ToolMessage) and message.status == "error"]
        for result in (first, second)
    ]
    assert [len(one) for one in failed] == [1, 0]
    assert lesson not in str(second["messages"])


@pytest.mark.req("G1")
async def test_in_a_swarm_it_hands_over_and_back_across_turns(valid: Callable[[Any], None]) -> None:
    swarm = pytest.importorskip("langgraph_swarm")
    ann = RoleModel([call("transfer_to_bob"), say("Ann again.")])
    bob = RoleModel([say("Bob here."), call("transfer_to_ann")])
    agents = [
        create_reflexion_agent(ann, [swarm.create_handoff_tool(agent_name="bob")], name="ann"),
        create_reflexion_agent(bob, [swarm.create_handoff_tool(agent_name="ann")], name="bob"),
    ]
    app = swarm.create_swarm(agents, default_active_agent="ann").compile(checkpointer=InMemorySaver())
    first = app.invoke({"messages": [("user", "Bob, please.")]}, THREAD)
    assert (first["messages"][-1].text, first["active_agent"]) == ("Bob here.", "bob")
    second = await app.ainvoke({"messages": [("user", "Ann, please.")]}, THREAD)
    assert (second["messages"][-1].text, second["active_agent"]) == ("Ann again.", "ann")
    valid(second["messages"])
    for question in [*ann.asked, *bob.asked]:
        valid(question.messages)


@pytest.mark.req("G1", "M4")
def test_in_a_swarm_it_works_next_to_a_plain_agent(learning: Callable[..., Any], valid: Callable[[Any], None]) -> None:
    swarm = pytest.importorskip("langgraph_swarm")
    over = swarm.create_handoff_tool(agent_name="planner")
    front = create_agent(RoleModel(call("transfer_to_planner")), [over], name="front")
    app = swarm.create_swarm([front, learning(name="planner")], default_active_agent="front").compile()
    result = app.invoke({"messages": [("user", TASK)]})
    assert result["messages"][-1].text == "11:00"
    valid(result["messages"])


@pytest.mark.req("G1", "M4")
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_it_is_a_subagent_of_a_deep_agent(
    way: str, learning: Callable[..., Any], valid: Callable[[Any], None]
) -> None:
    deepagents = pytest.importorskip("deepagents")
    planner = {"name": "planner", "description": "Finds free hours.", "runnable": learning(name="planner")}
    chief = RoleModel([call("task", description=TASK, subagent_type="planner"), "It is 11:00."])
    store = InMemoryStore()
    app = deepagents.create_deep_agent(model=chief, subagents=[planner], store=store, checkpointer=InMemorySaver())
    asked = {"messages": [("user", "Plan my week.")]}
    result = app.invoke(asked, THREAD) if way == "invoke" else await app.ainvoke(asked, THREAD)
    assert [message.text for message in result["messages"][-2:]] == ["11:00", "It is 11:00."]
    assert "outcome" not in result
    valid(result["messages"])
    (episode,) = store.search(("reflexion", "planner", "episodes"))
    assert episode.value["task"] == TASK


def deep_agent(store: InMemoryStore) -> tuple[Any, RoleModel]:
    """A deep agent that learns, with two sub-agents that learn, at work at the same time."""
    deepagents = pytest.importorskip("deepagents")

    def decide(question: Question) -> Any:
        if "eleven is free" in question.text:
            return say("11:00")
        return call("search", query="Tuesday" if "weekday" in question.text else "2026")

    memo = {"kind": "rule", "text": "Search by weekday, never by date.", "when": "finding a free hour"}
    workers = [
        {
            "name": name,
            "description": "Finds free hours.",
            "system_prompt": "You find free hours.",
            "tools": [search],
            "model": RoleModel(decide, reflection("Search by weekday.", memory_to_write=[memo])),
            "middleware": [ReflexionMiddleware(store=store, name=name)],
        }
        for name in ("ann", "bob")
    ]
    hand_out = [("task", {"description": TASK, "subagent_type": name}) for name in ("ann", "bob")]
    write = call("write_file", file_path="/plan.txt", content="11:00")
    chief = RoleModel([calls(*hand_out), write, say("10:00"), say("11:00")], reflection("Take eleven."))
    ours = ReflexionMiddleware(store=store, name="chief", checks=[lambda answer, _: answer != "10:00" or "Taken."])
    app = deepagents.create_deep_agent(model=chief, subagents=workers, middleware=[ours], checkpointer=InMemorySaver())
    return app, chief


@pytest.mark.req("M4")
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_deep_agent_and_its_subagents_learn_at_the_same_time_each_for_itself(
    way: str, valid: Callable[[Any], None]
) -> None:
    store = InMemoryStore()
    app, _ = deep_agent(store)
    asked = {"messages": [("user", "Plan my week.")]}
    result = app.invoke(asked, THREAD) if way == "invoke" else await app.ainvoke(asked, THREAD)
    assert result["messages"][-1].text == "11:00"
    assert [failure.signal for failure in result["outcome"].failures] == ["check_failed"]
    assert list(result["files"]) == ["/plan.txt"]
    valid(result["messages"])
    for name in ("ann", "bob"):
        (episode,) = store.search(("reflexion", name, "episodes"))
        assert episode.value["task"] == TASK
        assert len(store.search(("reflexion", name, "lessons"))) == 1
    (episode,) = store.search(("reflexion", "chief", "episodes"))
    assert episode.value["task"] == "Plan my week."


SERVER = '''
from mcp.server.fastmcp import FastMCP

server = FastMCP("calendar")


@server.tool()
def free_hours(weekday: str, most: int = 3) -> str:
    """Look up the free hours of a weekday."""
    if not weekday.isalpha():
        raise ValueError(f"{weekday!r} is not a weekday")
    return f"{weekday}: 11:00"


server.run()
'''


@pytest.mark.req("G1", "M4")
@pytest.mark.parametrize("made_by", WAYS)
async def test_it_works_with_the_tools_of_an_mcp_server(
    made_by: str, tmp_path: Path, valid: Callable[[Any], None]
) -> None:
    clients = pytest.importorskip("langchain_mcp_adapters.client")
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)
    here = {"transport": "stdio", "command": sys.executable, "args": [str(tmp_path / "server.py")]}
    tools = await clients.MultiServerMCPClient({"calendar": here}).get_tools()

    def decide(question: Question) -> Any:
        if "11:00" in question.text:
            return say("11:00")
        return call("free_hours", weekday="Tuesday" if "weekday alone" in question.text else "2026-03-03")

    model = RoleModel(decide, reflection("Give the weekday alone, as a word."))
    result = await make_agent(made_by, model, tools).ainvoke({"messages": [("user", TASK)]})
    assert result["outcome"].answer == "11:00"
    assert [failure.signal for failure in result["outcome"].failures] == ["tool_error"]
    assert "not a weekday" in result["outcome"].failures[0].evidence
    valid(result["messages"])


@pytest.mark.req("B5")
async def test_arguments_that_do_not_fit_an_mcp_tools_schema_never_reach_its_server(tmp_path: Path) -> None:
    clients = pytest.importorskip("langchain_mcp_adapters.client")
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)
    here = {"transport": "stdio", "command": sys.executable, "args": [str(tmp_path / "server.py")]}
    tools = await clients.MultiServerMCPClient({"calendar": here}).get_tools()
    model = RoleModel([call("free_hours", most="many"), call("free_hours", weekday="Tuesday"), say("11:00")])
    result = await create_reflexion_agent(model, tools).ainvoke({"messages": [("user", TASK)]})
    assert [failure.signal for failure in result["outcome"].failures] == ["schema_error"]
    assert "weekday" in result["outcome"].failures[0].evidence
    assert result["outcome"].answer == "11:00"
