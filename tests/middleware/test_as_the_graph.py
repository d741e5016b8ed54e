"""The same random replies of a model lead to the same run under the middleware as in the graph."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

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


def decision(seed: int, name: str, args: dict[str, Any], times: int) -> dict[str, Any]:
    """What a person decides on a call that they are asked about for the nth time."""
    random = Random(f"{seed} {name} {args} {times}")
    edited = {"day": random.choice(["Tuesday", "2028"])} if name == "search" else {"hour": random.choice([8, 10])}
    return random.choice(
        [
            {"type": "approve"},
            {"type": "reject", "message": random.choice(["No.", "Never."])},
            {"type": "edit", "edited_action": {"name": name, "args": edited}},
            {"type": "respond", "message": random.choice(["Eleven is free.", "Nothing."])},
        ]
    )


def decided_by_a_person(agent: Any, seed: int) -> dict[str, Any]:
    """The result of a run whose calls all need an approval."""
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": 300}
    result, asked = agent.invoke({"messages": [("user", "Plan one hour for the team.")]}, config), list[Any]()
    while "__interrupt__" in result:
        decisions = []
        for request in result["__interrupt__"][0].value["action_requests"]:
            this = request["name"], request["args"]
            decisions.append(decision(seed, *this, asked.count(this)))
            asked.append(this)
        result = agent.invoke(Command(resume={"decisions": decisions}), config)
    return cast("dict[str, Any]", result)


@pytest.mark.slow
@pytest.mark.req("M1", "A6")
@pytest.mark.parametrize("seed", range(60))
def test_what_a_person_decides_leads_to_the_failures_and_the_end_of_the_graph(seed):
    random, seen = Random(seed), []
    replies = [
        call("search", day=random.choice(["2026", "Tuesday"])),
        call("book", hour=random.choice([8, 10])),
        say(random.choice(["10:00", "11:00"])),
    ][: random.randint(1, 3)]
    script = [random.choice(replies) for _ in range(random.randrange(4, 16))]
    settings: Any = {
        "checks": [lambda answer, _: "Ten is taken." if "10:00" in answer else None],
        "limits": Limits(max_steps=25, tool_retries=0, model_retries=0),
        "memory": MemoryPolicy(control_share=0),
    }
    allowed = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
    approve: Any = {"search": allowed, "book": allowed}
    for make in ("graph", "middleware"):
        model = RoleModel([*script, *[say("11:00")] * 30], [reflection(plan, memory_to_write=[RULE]) for plan in PLANS])
        if make == "graph":
            agent: Any = create_reflexion_agent(
                model, [search, book], approve=approve, checkpointer=InMemorySaver(), **settings
            )
        else:
            person = HumanInTheLoopMiddleware(interrupt_on=approve)
            middleware = [ReflexionMiddleware(**settings), person]
            agent = create_agent(model, [search, book], middleware=middleware, checkpointer=InMemorySaver())
        outcome = decided_by_a_person(agent, seed)["outcome"]
        failures = [(failure.signal, failure.tool, failure.step) for failure in outcome.failures]
        seen.append((outcome.status, outcome.stop_reason, outcome.answer, failures))
    assert seen[0] == seen[1]
