"""Whole agents drawn from a seed: options, tools, the replies of their models, and what people say."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import interrupt
from pydantic import BaseModel, PrivateAttr

from langgraph_reflexion import Limits, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.checks import human_review
from langgraph_reflexion.testing import RoleModel, ask, call, calls, reflection, replan, say

SECRET = "sk-proj-Abc123def456Ghi789jkl"
QUERIES = ["Tuesday", "Monday", "2026-03-03", "2027-02-11"]
ANSWERS = ["11:00", "10:00", "Eleven is free.", '{"hour": 11}', '{"hour": 10}', '{"hour": "eleven"}']
RULES = ["Always give the calendar a weekday by name.", "Never repeat a failed search.", f"Log in with {SECRET}."]
CUT_ANSWER = AIMessage("Eleven is", response_metadata={"finish_reason": "length"})
TASKS = ["Find a free hour on Tuesday.", "Find a free hour on Monday."]


class Slot(BaseModel):
    """A free hour."""

    hour: int


@tool
def search(query: str) -> str:
    """Look up free hours."""
    if query[0].isdigit():
        raise ValueError(f"{query} is not a weekday")
    return f"eleven is free on {query}"


@tool
def log_in(query: str) -> str:
    """Log in to the calendar."""
    return f"the key for {query} is {SECRET}"


@tool
def confirm(query: str) -> str:
    """Have a person confirm something."""
    return f"they said {interrupt({'confirm': query})}"


@tool(return_direct=True)
def show(query: str) -> str:
    """Show the calendar to the user."""
    return f"the calendar of {query}"


TOOLS = {each.name: each for each in (search, log_in, confirm, show)}


def is_late_enough(answer: Any, _run: Any) -> str | float:
    return f"{answer} is too early" if "10" in str(answer) else 90.0


class CountingModel(RoleModel):
    """A double that counts the tokens of its replies."""

    _tokens: int = PrivateAttr(default=0)

    def _make_answer(self, *given: Any) -> AIMessage:
        message = super()._make_answer(*given)
        self._tokens += message.usage_metadata["total_tokens"] if message.usage_metadata else 0
        return message


@dataclass(frozen=True)
class Drawn:
    """What was drawn, in plain view."""

    seed: int
    tools: list[str]
    settings: dict[str, Any]
    scripts: dict[str, dict[str, Any]]
    """The policies of each model: `model`, and perhaps `backup` (of `with_fallbacks`) and `fallback`."""
    tasks: list[str]

    def agent(self, models: dict[str, Any], **settings: Any) -> Any:
        """A new agent object on these models."""
        model, backup = models["model"], models.get("backup")
        return create_reflexion_agent(
            model if backup is None else model.with_fallbacks([backup]),
            [TOOLS[name] for name in self.tools],
            fallback=models.get("fallback"),
            memory=MemoryPolicy(control_share=0),
            **self.settings,
            **settings,
        )

    def reply_of_a_person(self, asked: Any) -> Any:
        """The same for the same question, however often it is asked."""
        dice = random.Random(f"{self.seed} {asked}")
        if "action_requests" in asked:
            edited = {"name": dice.choice(self.tools), "args": {"query": "Friday"}}
            edit, reject = {"type": "edit", "edited_action": edited}, {"type": "reject", "message": "No."}
            return {"decisions": [dice.choice([{"type": "approve"}, edit, reject]) for _ in asked["action_requests"]]}
        if "answer" in asked:
            return dice.choice([True, True, {"refuse": "It is taken."}, {"edit": '{"hour": 12}'}])
        return "the one with the palm"


def draw(seed: int) -> Drawn:
    """The agent of this seed. It never waits before it calls something again."""
    dice = random.Random(seed)
    tools = ["search", *dice.sample(["log_in", "confirm", "show"], dice.randint(0, 2))]
    limits = Limits(
        max_steps=dice.choice([4, 8, 12]),
        max_attempts=dice.choice([1, 1, 2, 3]),
        max_reflections=dice.choice([0, 3, 3]),
        decision_retries=dice.choice([0, 1]),
        loop_threshold=dice.choice([2, 3]),
        token_budget=dice.choice([None, None, None, None, 90]),
        inline_every=2,
        model_retries=0,
        tool_retries=0,
    )
    settings = {
        "limits": limits,
        "protocol": dice.choice(["tools", "tools", "json"]),
        "prompt": dice.choice([None, "You plan meetings."]),
        "checks": dice.choice([[], [is_late_enough], [human_review()], [is_late_enough, human_review()]]),
        "response_format": dice.choice([None, Slot]),
        "controls": dice.choice([[], ["replan", "ask_user"]]),
        "approve": [name for name in tools if dice.random() < 0.2],
        "hold_answers": dice.choice([False, True]),
        "self_reflection": dice.choice(["off", "off", "inline"]),
    }
    values = [{"hour": dice.choice([11, 12, 10, "eleven"])} for _ in range(4)]  # of answers in another form
    shared = {"reflect": [_reflection(dice) for _ in range(3)], "other": values}
    decisions = {"model": [_decision(dice, tools, settings) for _ in range(dice.randint(2, 8))]}
    if dice.random() < 0.3:
        decisions["backup"] = [say("11:00")]
    if dice.random() < 0.7:
        decisions["fallback"] = [dice.choice(["Perhaps 11:00.", CUT_ANSWER, CUT_ANSWER, ConnectionError])]
    scripts = {name: {"decide": script, **shared} for name, script in decisions.items()}
    return Drawn(seed, tools, settings, scripts, TASKS[: dice.randint(1, 2)])


def _decision(dice: random.Random, tools: list[str], settings: dict[str, Any]) -> Any:
    """One reply of the model: a call, an answer, or something that a model should not say."""
    (name, other), query = dice.choices(tools, k=2), dice.choice(QUERIES)
    native, controls = settings["protocol"] == "tools", len(settings["controls"])
    unreadable = {"name": name, "args": '{"query": "Tues', "id": "unreadable", "error": None}
    weighted = [
        (8, call(name, query=query)),
        (6 * native, calls((name, {"query": query}), (other, {"query": dice.choice(QUERIES)}))),
        (8, say(dice.choice(ANSWERS))),
        (controls, replan("Search by weekday.")),
        (controls, ask("Which room?")),
        (1, call("nowhere", query=query)),
        (1, call(name, day=query)),
        (1, AIMessage("", invalid_tool_calls=[unreadable])),
        (1, AIMessage("")),
        (1, AIMessage("", additional_kwargs={"refusal": "I cannot help with that."})),
        (1, CUT_ANSWER),
        (2, ConnectionError),
    ]
    return dice.choices([reply for _, reply in weighted], [weight for weight, _ in weighted])[0]


def _reflection(dice: random.Random) -> Any:
    memo = {"kind": "rule", "text": dice.choice(RULES), "when": "finding a free hour"}
    patch = dice.choice(["Search by the weekday.", "Read the calendar before you answer.", ""])
    return dice.choice([*[reflection(patch, memory_to_write=[memo])] * 3, "I do not know.", ConnectionError])
