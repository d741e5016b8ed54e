"""Runs of every sort whose every checkpoint is written, read back and gone on from under strict serialization.

`LANGGRAPH_STRICT_MSGPACK=true python strict.py FOLDER` prints what was blocked or unknown, one line each; nothing, if
all is well.
"""

from __future__ import annotations

import logging
import operator
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_reflexion import Limits, Outcome, create_reflexion_agent
from langgraph_reflexion.testing import Question, RoleModel, ask, calls, reflection

TASK = {"messages": [("user", "Find a free hour on Tuesday.")]}
RULE = {"kind": "rule", "text": "Always give the calendar a weekday by name.", "when": "searching the calendar"}


class Room(BaseModel):
    name: str


class Plan(BaseModel):
    """The hour and the room."""

    hour: str
    room: Room


@dataclass
class Slot:
    """An hour."""

    hour: str


class Office(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    rooms: Annotated[list[Room], operator.add]


class Parent(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    outcome: Outcome | None
    structured_response: Plan | None
    rooms: Annotated[list[Room], operator.add]
    room: Room


def search(query: str) -> str:
    """Look up free hours in the calendar."""
    if any(char.isdigit() for char in query):
        raise ValueError(f"{query} is not a weekday")
    return "eleven is free"


def reserve(name: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Reserve a room."""
    said = ToolMessage("reserved", tool_call_id=tool_call_id)
    return Command(update={"rooms": [Room(name=name)], "messages": [said]})


def confirm(what: str) -> str:
    """Have a person confirm something."""
    return str(interrupt({"confirm": what}))


def hand_over(to: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand the conversation to a colleague."""
    said = ToolMessage("over", tool_call_id=tool_call_id)
    return Command(graph=Command.PARENT, goto=to, update={"room": Room(name=to), "messages": [said]})


def decide(end: str) -> Any:
    """A question, a bad reply, a failing search, a turn that needs leave and pauses, a refused answer, and `end`."""

    def decided(question: Question) -> Any:
        text = question.text
        if "too early" in text:
            return calls(("hand_over", {"to": "colleague"})) if end == "hand over" else end
        if "eleven is free" in text:
            return '{"hour": "10:00", "room": {"name": "red"}}'
        if "not a weekday" in text:
            return calls(("search", {"query": "Tuesday"}), ("reserve", {"name": "red"}), ("confirm", {"what": "it"}))
        if "palm" not in text:
            return ask("Which room?")
        return calls(("search", {"query": "2026"} if "does not fit" in text else {"day": "2026"}))

    return decided


def not_at_ten(answer: Any, _run: Any) -> str | None:
    return "that is too early" if "10" in str(answer) else None


def agent_of(saver: Any, store: Any, end: str, form: Any, **settings: Any) -> Any:
    model = RoleModel(decide=decide(end), reflect=reflection("Search by the weekday.", memory_to_write=[RULE]))
    return create_reflexion_agent(
        model,
        [search, reserve, confirm, hand_over],
        checks=[not_at_ten],
        response_format=form,
        approve=["reserve"],
        controls=["ask_user"],
        state_schema=Office,
        limits=Limits(stuck_similarity=1, max_reflections=1),
        protocol="tools",
        store=store,
        checkpointer=saver,
        **settings,
    )


def in_parent(agent: Any, saver: Any) -> Any:
    graph = StateGraph(Parent)
    graph.add_node("worker", agent, destinations=("colleague",))
    graph.add_node("colleague", lambda _state: {"messages": [AIMessage("I took over.")]})
    graph.add_edge(START, "worker")
    graph.add_edge("worker", END)
    return graph.compile(checkpointer=saver)


def reply_to(asked: Any) -> Any:
    if "question" in asked:
        return "the one with the palm"
    return {"decisions": [{"type": "approve"}]} if "action_requests" in asked else "confirmed"


def told(make: Any, file: Path, config: Any, step_by_step: bool) -> tuple[Any, Any]:
    """Run to the end on a new connection at each stop, and then read every checkpoint that was kept."""
    given: Any = TASK
    while True:
        with saver_at(file) as saver:
            agent = make(saver)
            pause = {"interrupt_before": "*"} if step_by_step else {}
            agent.invoke(given, config, durability="sync", **pause)
            state = agent.get_state(config, subgraphs=True)
            if not state.next:
                for one in agent.get_state_history(config):
                    for task in agent.get_state(one.config, subgraphs=True).tasks:
                        assert not isinstance(task.result, str), task
                return agent, state
            given = Command(resume=reply_to(state.interrupts[0].value)) if state.interrupts else None


def saver_at(file: Path) -> Any:
    return SqliteSaver.from_conn_string(str(file))


def main(folder: Path) -> None:
    register_serde_event_listener(lambda event: print(event))
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
    plan, slot = '{"hour": "11:00", "room": {"name": "red"}}', '{"hour": "11:00"}'
    store = InMemoryStore()
    alone = [("a plan", plan, Plan, True), ("a slot", slot, Slot, False), ("text", "11:00", None, False)]
    for name, end, form, step_by_step in alone:
        config = {"configurable": {"thread_id": name}}
        make = partial(agent_of, store=store, end=end, form=form)
        _, state = told(make, folder / "own.db", config, step_by_step)
        outcome = state.values["outcome"]
        assert type(outcome) is Outcome, type(outcome)
        assert outcome.status == "success", outcome
        kinds = {type(one).__name__ for one in [*outcome.failures, *outcome.reflections]}
        assert kinds == {"Failure", "Reflection"}, kinds
        assert state.values["rooms"] == [Room(name="red")], state.values["rooms"]
        assert form is None or type(state.values["structured_response"]) is form, state.values["structured_response"]
    for end, step_by_step, stop in (("hand over", True, "handed_off"), (plan, False, "accepted")):
        config = {"configurable": {"thread_id": stop}}
        within = partial(in_parent, agent_of(None, store, end, Plan, name="worker"))
        _, state = told(within, folder / "parent.db", config, step_by_step)
        outcome = state.values["outcome"]
        assert type(outcome) is Outcome, type(outcome)
        assert outcome.stop_reason == stop, outcome
        assert stop != "handed_off" or state.values["room"] == Room(name="colleague"), state.values["room"]
    print("whole")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
