"""Turns: what the conversation says of the run: its task, its last turn, and the decision that waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_reflexion.state.fields import About, Waiting


def task_in(state: Mapping[str, Any]) -> str:
    """The task of this run, whatever the user has said since."""
    about: About = state["about"]
    if about["task"]:
        return about["task"]
    for message in state["messages"]:
        if message.id == about["task_id"]:
            return str(message.text)
    return task_of(state["messages"])


def shown_in(state: Mapping[str, Any]) -> list[AnyMessage]:
    """What was said and done up to now: the conversation, and in a trial the work of the last attempt behind it."""
    return [*state["messages"], *(state.get("work") or [])]


def task_of(messages: Sequence[AnyMessage]) -> str:
    """The last thing the user said, whatever hand-over messages follow it."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.text
    return messages[-1].text if messages else ""


def last_turn(messages: Sequence[AnyMessage]) -> tuple[AIMessage | None, list[ToolMessage]]:
    """The last AIMessage, if nothing but answers to its calls follows it, and those answers."""
    answers: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answers.append(message)
        elif isinstance(message, AIMessage):
            return message, answers[::-1]
        else:
            break
    return None, []


def last_id(state: Mapping[str, Any]) -> str | None:
    """The id of the conversation's last message."""
    return state["messages"][-1].id if state["messages"] else None


def edited_in(state: Mapping[str, Any]) -> AIMessage | None:
    """The decision that a person put in the model's place with no call left to run in it, if one did.

    `decide` itself ends with no such message: an answer of the model waits in `decision`.
    """
    turn, answers = last_turn(state["messages"])
    if turn is None or answers or turn.tool_calls or turn.id == state["asked_on"]:
        return None
    waiting: Waiting | None = state["decision"]
    asks = waiting is not None and waiting["action"] == "ask_user" and waiting["text"] == turn.text
    return None if asks else turn


def waiting_in(state: Mapping[str, Any]) -> Waiting | None:
    """The decision that waits outside the messages, unless a person put another in its place."""
    waiting: Waiting | None = state["decision"]
    if waiting is None or edited_in(state) is not None:
        return None
    turn, answers = last_turn(state["messages"])
    if turn is None or answers or not turn.tool_calls:
        return waiting
    asks = waiting["action"] == "ask_user" and any(call["name"] == "ask_user" for call in turn.tool_calls)
    return waiting if asks else None
