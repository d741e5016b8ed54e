"""The same random replies of a model lead to the same run under the middleware as in the graph."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook, Limits, MemoryPolicy, ReflexionMiddleware, create_reflexion_agent
from langgraph_reflexion.testing import RoleModel, call, calls, reflection, say

PLANS = ("Ask for Tuesday.", "Take the free hour, eleven.", "Look at the calendar of Ann.", "Ask for Tuesday.", "")
RULE = {"kind": "rule", "text": "Name the weekday in each search.", "when": "planning an hour"}


@tool
def search(day: str) -> str:
    """Look up free hours."""
    if day[0].isdigit():
        raise ValueError(f"{day} is not a weekday")
    return f"eleven is free on {day}"


@tool
def book(hour: int) -> str:
    """Book an hour."""
    return "Error: closed" if hour < 9 else f"booked {hour}"


@tool(return_direct=True)
def choose(hour: int) -> str:
    """Choose the hour."""
    return f"{hour}:00"


REPLIES: tuple[Callable[[Random], Any], ...] = (
    lambda random: call("search", day=random.choice(["2026", "Tuesday", "Monday"])),
    lambda random: call("book", hour=random.choice([8, 10, "x"])),
    lambda random: call("choose", hour=random.choice([10, 11])),
    lambda _: calls(("search", {"day": "2026"}), ("search", {"day": "2027"})),
    lambda random: calls(("search", {"day": "2026"}), ("book", {"hour": random.choice([8, 10])})),
    lambda _: call("missing"),
    lambda random: say(random.choice(["10:00", "11:00", ""])),
)


def scripted(seed: int) -> RoleModel:
    random = Random(seed)
    replies = [random.choice(REPLIES)(random) for _ in range(random.randrange(2, 9))]
    advice = [reflection(random.choice(PLANS), memory_to_write=[RULE]) for _ in range(6)]
    return RoleModel([*replies, *[say("11:00")] * 30], advice)


def summary(result: dict[str, Any], model: RoleModel, store: InMemoryStore) -> list[Any]:
    """Everything but ids and times."""
    outcome, lessons = result["outcome"], LessonBook(store, ("n",)).lessons()

    def shown(messages: list[BaseMessage]) -> list[Any]:
        return [
            (message.type, message.text, [(made["name"], made["args"]) for made in getattr(message, "tool_calls", [])])
            for message in messages
        ]

    return [
        (outcome.status, outcome.stop_reason, outcome.answer, outcome.reason, outcome.usage.calls),
        [failure.model_dump() for failure in outcome.failures],
        [(attempt.answer, attempt.score, attempt.verdicts) for attempt in outcome.attempts],
        shown(result["messages"]),
        [(question.role, shown(question.messages)) for question in model.asked],
        [(lesson.kind, lesson.text, lesson.origin) for lesson in lessons],
    ]


@pytest.mark.slow
@pytest.mark.req("M1")
@pytest.mark.parametrize("seed", range(40))
def test_failures_advice_attempts_prompts_messages_and_lessons_are_the_graphs(seed):
    random, seen = Random(seed), []
    limits = Limits(
        max_steps=random.choice([4, 8, 25]),
        max_reflections=random.choice([0, 1, 3]),
        max_attempts=random.choice([1, 2, 3]),
        decision_retries=random.choice([0, 1]),
        tool_retries=0,
        model_retries=0,
    )
    for make in ("graph", "middleware"):
        model, store = scripted(seed), InMemoryStore()
        settings: Any = {
            "checks": [lambda answer, _: "Ten is taken." if "10:00" in answer else None],
            "limits": limits,
            "memory": MemoryPolicy(namespace=("n",), control_share=0),
            "store": store,
        }
        if make == "graph":
            agent: Any = create_reflexion_agent(model, [search, book, choose], **settings)
        else:
            agent = create_agent(model, [search, book, choose], middleware=[ReflexionMiddleware(**settings)])
        seen.append(summary(agent.invoke({"messages": [("user", "Plan one hour for the team.")]}), model, store))
    assert seen[0] == seen[1]
