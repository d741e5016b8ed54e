"""What memory is worth to the agent itself, on the simulated streams of tasks of `lessons.py`.

`python benchmarks/agent_lessons.py [--seeds 3] [--tasks 300] [--worlds usual;…] [--short]`

`lessons.py` calls the lesson book directly. Here the agent runs the same streams: a scripted model is the student and
the reflector, and has two attempts. At the first attempt it follows the first advice in its prompt, at the second the
last. So this shows that recall, withholding, reflections and credit work together in the agent. Each figure is a mean
over the seeds: first, how many points more are solved at the first attempt than without memory, by the book alone and
by the agent; then the share of the agent's runs that were accepted, that reflected, and that held lessons back.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple
from uuid import NAMESPACE_DNS, uuid5

from langgraph.store.memory import InMemoryStore

sys.path.insert(0, str(Path(__file__).parent))

from lessons import WORLDS, keep_what_is_read, play, read_options
from stream.memories import Memory, Ours
from stream.world import Advice, Odds, Task, World

from langgraph_reflexion import Limits, Outcome, Verdict, create_reflexion_agent
from langgraph_reflexion.testing import Question, RoleModel, reflection, say

PLAYED = ("usual", "usual, telling check", "hard", "harmful")


class Figures(NamedTuple):
    first: float
    accepted: float
    reflected: float
    held: float


class Student:
    """A model that solves the tasks of a world with the advice in its prompt, and the check of its answers."""

    def __init__(self, world: World) -> None:
        self.world, self.known, self.first, self.reflections = world, dict[str, Advice](), 0.0, 0

    def begin(self, task: Task) -> None:
        self.world.begin(task)
        self.task, self.attempts = task, 0

    def decide(self, asked: Question) -> Any:
        self.attempts += 1
        prompt = "\n".join(message.text for message in asked.messages)
        if self.attempts == 1:
            found = sorted((prompt.find(text), text) for text in self.known if text in prompt)
            share, solved = self.world.run(self.task, [self.known[text] for _, text in found])
            self.first += share
        else:
            found = sorted((-prompt.rfind(text), text) for text in self.known if text in prompt)
            share = self.world.share_solved(self.task, [self.known[text] for _, text in found])
            solved = Random(f"{self.world.seed} {self.task.number} again").random() < share
        return say(f"{'good' if solved else 'bad'} answer, attempt {self.attempts}")

    def reflect(self, _: Question) -> Any:
        self.reflections += 1
        advice = self.world.reflect(self.task)
        if advice is None:
            return reflection(f"Try entry {self.task.number} once more.", memory_to_write=[])
        self.known[advice.text] = advice
        memo = {"kind": "rule", "text": advice.text, "when": advice.when, "tags": []}
        return reflection(advice.text, memory_to_write=[memo])

    def check(self, answer: str, _: Any) -> Verdict:
        return Verdict(passed=answer.startswith("good"), feedback=self.world.evidence(self.task))


def by_agent(odds: Odds, seed: int, tasks: int) -> Figures:
    student = Student(World(odds, seed, tasks))
    agent = create_reflexion_agent(
        RoleModel(student.decide, student.reflect),
        checks=[student.check],
        store=InMemoryStore(),
        limits=Limits(max_attempts=2, max_reflections=1),
    )
    accepted = held = 0
    for task in student.world.tasks:
        student.begin(task)
        run = uuid5(NAMESPACE_DNS, f"{seed}-{task.number}")
        outcome: Outcome = agent.invoke({"messages": [("user", task.text)]}, {"run_id": run})["outcome"]
        accepted, held = accepted + (outcome.status == "success"), held + bool(outcome.memory)
    return Figures(*(100 * count / tasks for count in (student.first, accepted, student.reflections, held)))


def main() -> int:
    names, seeds, tasks, short = read_options(__doc__, PLAYED, seeds=3, tasks=300)
    print(f"A simulation with a scripted model: {tasks} tasks, {len(seeds)} seeds.\n")
    print(f"{'':24}no memory  the book  the agent  accepted  reflected  held back")
    keep_what_is_read()
    for world in names:
        odds = WORLDS[world]
        alone, book = (fmean(play(memory, odds, seed, tasks) for seed in seeds) for memory in (Memory, Ours))
        played = [by_agent(odds, seed, tasks) for seed in seeds]
        mean = Figures(*map(fmean, zip(*played, strict=True)))
        print(
            f"{world:24}{alone:9.1f}{book - alone:+10.1f}{mean.first - alone:+11.1f}"
            f"{mean.accepted:9.1f}%{mean.reflected:10.1f}%{mean.held:10.1f}%",
            flush=True,
        )
        if short and mean.first - alone < (book - alone) / 2:
            print("The agent must gain at least half of what the book alone gains.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
