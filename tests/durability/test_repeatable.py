"""Nodes leave the state as they found it, and the same story with the same replies is the same run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langgraph_reflexion import Limits, create_reflexion_agent
from langgraph_reflexion.nodes.models.transcript import is_paired
from langgraph_reflexion.testing import Question, RoleModel, ask, call, calls, reflection, replan, say

Make = Callable[..., tuple[Any, Any]]
Thread = Callable[[], dict[str, Any]]
ASKED = {"messages": [("user", "Find a free hour on Tuesday.")]}
RUN = UUID("00000000-0000-4000-8000-000000000001")


class Watched(Runnable[Any, Any]):
    """A node that is looked at: what it was given must be the same when it is done."""

    def __init__(self, node: Any, changed: list[str]) -> None:
        self.node, self.changed, self.name = node, changed, node.name

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        before = copy.deepcopy(input)
        given = self.node.invoke(input, config, **kwargs)
        if input != before:
            self.changed.append(str(self.name))
        return given


def search(query: str) -> str:
    """Look up free hours in the calendar."""
    if any(char.isdigit() for char in query):
        raise ValueError(f"{query} is not a weekday")
    return "eleven is free"


def book(room: str) -> str:
    """Book a room."""
    return f"{room} is booked"


def a_bit_of_everything(protocol: str) -> Any:
    """A script of bad replies, a plan, a question, calls that fail, that repeat, that need leave, and two answers."""
    turns = [
        call("search", day="Tuesday"),
        call("search", query="2026-03-03"),
        replan("Search by weekday."),
        ask("Which room?"),
        call("search", query="Tuesday"),
        call("search", query="Tuesday"),
        call("book", room="red"),
        say("10:00"),
        say("11:00"),
    ]
    if protocol == "tools":
        turns[4] = calls(("search", {"query": "Tuesday"}), ("book", {"room": "blue"}))
    return turns


def story(protocol: str, wrap: Callable[[Any], Any] = lambda agent: agent, config: Any = None) -> Any:
    """Tell it from the beginning, with a clock of its own."""
    moments = (datetime(2026, 3, 3, tzinfo=UTC) + timedelta(seconds=second) for second in range(10_000))

    def reflect(question: Question) -> Any:
        rule = {"kind": "rule", "text": "Always give the calendar a weekday.", "when": "searching"}
        patch = "Name the hour that is free." if "10:00 is" in question.text else "Do not search the same twice."
        return reflection(patch if "not a weekday" not in question.text else "Use the weekday.", memory_to_write=[rule])

    agent = create_reflexion_agent(
        RoleModel(decide=a_bit_of_everything(protocol), reflect=reflect),
        [search, book],
        checks=[lambda answer, _run: 90 if answer == "11:00" else "10:00 is too early"],
        approve=["book"],
        controls=["replan", "ask_user"],
        limits=Limits(stuck_similarity=1),
        protocol=protocol,
        store=InMemoryStore(),
        checkpointer=InMemorySaver(),
        clock=lambda: next(moments),
    )
    agent = wrap(agent)
    return to_the_end(agent, ASKED, {"configurable": {"thread_id": "one"}, **(config or {})})


def to_the_end(agent: Any, given: Any, config: Any) -> Any:
    """Run, and say yes to whatever is asked."""
    result = agent.invoke(given, config)
    while "__interrupt__" in result:
        asked = result["__interrupt__"][0].value
        edit = {"type": "edit", "edited_action": {"name": "book", "args": {"room": "green"}}}
        said = {"decisions": [edit]} if "action_requests" in asked else "the one with the palm"
        result = agent.invoke(Command(resume=said), config)
    return result


@pytest.mark.req("I10")
def test_nodes_never_change_the_state_they_were_given(protocol: str) -> None:
    changed: list[str] = []

    def watched(agent: Any) -> Any:
        builder = agent.builder
        for name, spec in list(builder.nodes.items()):
            builder.nodes[name] = replace(spec, runnable=Watched(spec.runnable, changed))
        return builder.compile(checkpointer=agent.checkpointer, store=agent.store)

    outcome = story(protocol, watched)["outcome"]
    assert outcome.status == "success"
    assert {one.signal for one in outcome.failures} >= {"schema_error", "tool_error", "check_failed"}
    assert changed == []


@pytest.mark.req("I5", "I7")
def test_the_same_replies_run_id_and_clock_are_the_same_run(protocol: str) -> None:
    def lasting(result: Any) -> Any:
        messages = [message.model_dump(exclude={"id"}) for message in result["messages"]]
        return result["outcome"].model_dump(), messages

    one, other = (lasting(story(protocol, config={"run_id": RUN})) for _ in range(2))
    assert one == other
    assert one[0]["run_id"] == str(RUN)


@pytest.mark.slow
@pytest.mark.req("I7", "K8")
def test_every_checkpoint_of_a_long_story_leads_to_an_end(protocol: str) -> None:
    agents: list[Any] = []

    def held(agent: Any) -> Any:
        agents.append(agent)
        return agent

    story(protocol, held)
    (agent,) = agents
    config = {"configurable": {"thread_id": "one"}}
    begun = [state for state in agent.get_state_history(config) if state.values.get("run")]
    assert len(begun) > 30
    for state in begun:
        for start in (state.config, agent.update_state(state.config, None)):
            result = to_the_end(agent, None, start)
            assert result["outcome"].stop_reason in ("accepted", "max_attempts", "invalid_decisions"), state.next
            assert is_paired(result["messages"]), state.next
    lessons = [item.value["text"] for item in agent.store.search(("reflexion", "reflexion_agent", "lessons"))]
    assert len(lessons) == len(set(lessons))


@pytest.mark.req("K8")
def test_an_edit_of_one_turn_is_not_taken_for_the_next_where_a_server_gives_the_same_ids(make: Make) -> None:
    from langchain_core.messages import AIMessage

    ran: list[str] = []

    def book(room: str) -> str:
        """Book a room."""
        ran.append(f"book {room}")
        return "booked"

    def look(day: str) -> str:
        """Look up a day."""
        ran.append(f"look {day}")
        return "free"

    def turn(name: str, **args: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "call_0"}])

    _, agent = make([turn("book", room="red"), turn("look", day="Friday"), "Done."], [book, look], approve=["book"])
    config = {"configurable": {"thread_id": "ids"}}
    agent.invoke(ASKED, config)
    edit = {"type": "edit", "edited_action": {"name": "book", "args": {"room": "blue"}}}
    agent.invoke(Command(resume={"decisions": [edit]}), config)
    assert ran == ["book blue", "look Friday"]
