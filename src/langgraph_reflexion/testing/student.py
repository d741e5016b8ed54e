"""A simulated student: it errs at rates one sets, and listens to reflections and to its failed trials at others."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from pydantic import Field

from langgraph_reflexion.testing.models import Double
from langgraph_reflexion.testing.questions import Question
from langgraph_reflexion.testing.replies import call, reflection, say

PLANS = (
    "Write down what is given and what is asked, in two columns.",
    "Test the answer by putting it back into the question.",
    "Take the smallest case first, and look for the rule behind it.",
    "Name the unit of each number, and convert all of them to one.",
    "Read the sentence with the word `not` once more, aloud.",
    "Draw a line for the time, and mark every event on it.",
    "Split the question into two, and settle the second half first.",
    "List three answers, and strike out those that break a condition.",
)
"""What it tells itself after a failure, the first plan first; no two are alike."""
GUESS = re.compile(r"\bguess (\d+)\b")


class Student(Double):
    """A simulation, and no model: it knows every answer, and its luck decides whether it says it.

    Its luck is a hash of seed, task and what it was told, so the same question gets the same answer, and a prompt that
    tells it nothing new helps nothing. `answers` gives the right answer by the task's text.
    """

    answers: Mapping[str, str]
    skill: float = Field(default=0.3, description="Chance to know an answer at once.")
    reading: float = Field(default=0.4, description="What it adds to be shown what is known, or to look it up.")
    hears_plan: float = Field(default=0.5, description="Chance that a plan of its own puts it right.")
    hears_trial: float = Field(default=0.3, description="Chance that the sight of its failed trial puts it right.")
    seed: int = 0
    known: Mapping[str, str] = Field(default_factory=dict, description="By the task's text, a text that tells more.")

    def solves(self, task: str, *, shown: bool = False, plans: int = 0, trials: int = 0) -> bool:
        """Whether it is right, after so many plans and failed trials."""
        chances = [("start", self.skill + (self.reading if shown else 0.0))]
        chances += [(f"plan {number}", self.hears_plan) for number in range(plans)]
        chances += [(f"trial {number}", self.hears_trial) for number in range(trials)]
        return any(self._luck(task, what) < chance for what, chance in chances)

    def _luck(self, task: str, what: str) -> float:
        digest = hashlib.sha256(f"{self.seed}\n{task}\n{what}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    def _reply(self, question: Question) -> Any:
        text = question.text
        task = max((one for one in self.answers if one in text), key=len, default=None)
        if task is None:
            return "I was not taught this."
        plans = max((number for number, plan in enumerate(PLANS, 1) if plan in text), default=0)
        if question.role == "reflect":
            return reflection(PLANS[plans % len(PLANS)], failure_signal="check_failed", root_cause="bad_plan")
        looked = any(isinstance(message, ToolMessage) for message in question.messages)
        if "search" in question.tools and not looked:
            return call("search", query=task[:80])
        guesses = max((int(found) + 1 for found in GUESS.findall(text)), default=0)
        shown = looked or self.known.get(task, "\0") in text
        right = self.solves(task, shown=shown, plans=plans, trials=guesses)
        return say(f"I think it over. Answer: {self.answers[task] if right else f'guess {plans + guesses}'}")
