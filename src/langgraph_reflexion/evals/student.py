"""A simulated student in place of a model, to try an experiment without a key."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from pydantic import Field, PrivateAttr

from langgraph_reflexion.evals.tasks import Task
from langgraph_reflexion.testing import Question, RoleModel, call, reflection, say

NAME = "simulated"
SIMULATED = "simulated student"
"""The name that its figures carry."""
SIMULATION = (
    "A simulated student: it makes mistakes and follows advice at fixed rates. "
    "The figures show that the machinery works, and say nothing about any model."
)
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
"""Its plans after a failure, in order. No two are similar."""
GUESS = re.compile(r"\bguess (\d+)\b")
RATES = ("skill", "reading", "hears_plan", "hears_trial", "again")


class Student(RoleModel):
    """A simulation, not a model: it knows every answer, and luck decides whether it gives it.

    Its luck is a hash of seed, task and what it was told, so an experiment is repeatable. `answers` gives the right
    answer by the task's text.
    """

    answers: Mapping[str, str]
    known: Mapping[str, str] = Field(default_factory=dict, description="Background by the task's text.")
    seed: int = 0
    skill: float = Field(default=0.3, description="Chance to know an answer at once.")
    reading: float = Field(default=0.4, description="Added chance if it was shown the background or looked it up.")
    hears_plan: float = Field(default=0.5, description="Chance that its own plan leads to the answer.")
    hears_trial: float = Field(default=0.3, description="Chance that a failed trial leads to the answer.")
    again: float = Field(default=0.0, description="Chance that the same request again leads to the answer.")
    _asked_before: Counter[str] = PrivateAttr(default_factory=Counter)

    def __init__(self, answers: Mapping[str, str], **settings: Any) -> None:
        name = f"{SIMULATED}, seed {settings.get('seed', 0)}"
        super().__init__(**{"answers": answers, "usage": None, "model_name": name, **settings})
        self.decide = self.reflect = self.other = self._act

    def for_job(self, repeat: int) -> Student:
        """The student for one job, with a memory of its own. Each repeat has its own luck."""
        if repeat == 1 and not self.again:
            return self
        rates = {name: getattr(self, name) for name in RATES}
        return Student(self.answers, known=self.known, seed=self.seed + 1_000_003 * (repeat - 1), **rates)

    def solves(self, task: str, *, shown: bool = False, plans: int = 0, trials: int = 0, times: int = 0) -> bool:
        """Whether it is right after a number of plans, failed trials, and repeated identical requests."""
        chances = [("start", self.skill + (self.reading if shown else 0.0))]
        chances += [(f"plan {number}", self.hears_plan) for number in range(plans)]
        chances += [(f"trial {number}", self.hears_trial) for number in range(trials)]
        chances += [(f"again {number}", self.again) for number in range(times)]
        return any(self._luck(task, what) < chance for what, chance in chances)

    def _luck(self, task: str, what: str) -> float:
        digest = hashlib.sha256(f"{self.seed}\n{task}\n{what}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    def _act(self, question: Question) -> Any:
        text = question.text
        task = max((known for known in self.answers if known in text), key=len, default=None)
        if task is None:
            return "I was not taught this."
        plans = max((number for number, plan in enumerate(PLANS, 1) if plan in text), default=0)
        if question.role == "reflect":
            return reflection(PLANS[plans % len(PLANS)], failure_signal="check_failed", root_cause="bad_plan")
        looked_up = any(isinstance(message, ToolMessage) for message in question.messages)
        if "search" in question.tools and not looked_up:
            return call("search", query=task[:80])
        guesses = max((int(found) + 1 for found in GUESS.findall(text)), default=0)
        shown = looked_up or self.known.get(task, "\0") in text
        times = self._asked_before[text]
        self._asked_before[text] += 1
        right = self.solves(task, shown=shown, plans=plans, trials=guesses, times=times)
        return say(f"I think it over. Answer: {self.answers[task] if right else f'guess {plans + guesses}'}")


def is_simulated(name: str) -> bool:
    """Whether this is `simulated`, or `simulated:SEED`."""
    return name.partition(":")[0] == NAME


def make_student(tasks: Sequence[Task], name: str = NAME) -> Student:
    """A student that was taught these tasks. The same request again leads to the answer one time in ten."""
    seed = name.partition(":")[2] or "0"
    if not seed.isdecimal():
        raise ValueError(f"the seed in `{NAME}:SEED` must be a whole number, got {name!r}")
    answers = {task.task: task.answer for task in tasks if task.answer is not None}
    known = {task.task: task.context[0].text for task in tasks if task.context}
    return Student(answers, known=known, seed=int(seed), again=0.1)
