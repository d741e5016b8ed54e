"""The memories that are compared with ours, each as simple as it is usually told."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from langgraph_reflexion.memory.recall import OVERHEAD
from langgraph_reflexion.text.tokens import count_tokens
from stream.world import Advice, Task, World

WINDOW = 8_000
"""Tokens of notes that a prompt holds, where a memory has no budget of its own: the newest stay."""


@cache
def cost(advice: Advice) -> int:
    """Tokens of a note in a prompt, the marks around it counted as those of a lesson are."""
    return count_tokens(advice.text) + count_tokens(advice.when) + OVERHEAD


class Memory:
    """What a run is shown and what is kept of it. As it stands: nothing, in one attempt."""

    attempts = 1
    reflects = False

    def shown(self, task: Task) -> list[Advice]:
        """What the run is shown at its start."""
        return []

    def known(self, task: Task, failure: str) -> tuple[list[Advice], bool]:
        """What it is shown after a refusal, and whether that makes a reflection needless."""
        return [], False

    def learn(self, task: Task, failure: str, said: Advice) -> None:
        """Keep a reflection."""

    def finish(self, task: Task, accepted: bool, failures: Sequence[str]) -> None:
        """The run is over, with what the check said of its last attempt."""

    @property
    def kept(self) -> list[Advice]:
        """What it holds now and may show."""
        return []


class BlindRetry(Memory):
    """Another attempt, and nothing said."""

    attempts = 2


class LastThree(Memory):
    """The last three reflections, whatever task they were made on."""

    attempts, reflects = 2, True
    most = 3

    def __init__(self) -> None:
        self.notes: list[Advice] = []

    def shown(self, task: Task) -> list[Advice]:
        left, found = WINDOW, []
        for one in reversed(self.notes[-self.most :]):
            left -= cost(one)
            if left < 0:
                break
            found.append(one)
        return found

    def learn(self, task: Task, failure: str, said: Advice) -> None:
        self.notes.append(said)

    @property
    def kept(self) -> list[Advice]:
        return self.notes[-self.most :]


class AppendAll(LastThree):
    """Every reflection, the newest first, as far as the prompt reaches."""

    most = 1_000_000


class Nearest(LastThree):
    """The reflections of the three past tasks that are most like this one."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Words()

    def shown(self, task: Task) -> list[Advice]:
        return [self.notes[one] for one in self.index.nearest(task.text, 3)]

    def learn(self, task: Task, failure: str, said: Advice) -> None:
        super().learn(task, failure, said)
        self.index.add(self.keyed(task, said))

    def keyed(self, task: Task, said: Advice) -> str:
        return task.text

    @property
    def kept(self) -> list[Advice]:
        return self.notes


class Facts(Nearest):
    """Reflections as facts that are only added: the three whose own words are most like the task."""

    def keyed(self, task: Task, said: Advice) -> str:
        return f"{said.text} {said.when}"


class Votes(Facts):
    """The same, with votes: a model praises or blames what a run was shown, as rightly as the check that it is told of.

    Three notes of the nearest ten, those with most votes first; one voted below nothing is dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.votes: list[int] = []
        self.used: list[int] = []

    def shown(self, task: Task) -> list[Advice]:
        near = [one for one in self.index.nearest(task.text, 10) if self.votes[one] >= 0]
        self.used = sorted(near, key=lambda one: -self.votes[one])[:3]
        return [self.notes[one] for one in self.used]

    def learn(self, task: Task, failure: str, said: Advice) -> None:
        super().learn(task, failure, said)
        self.votes.append(1)

    def finish(self, task: Task, accepted: bool, failures: Sequence[str]) -> None:
        for one in self.used:
            self.votes[one] += 1 if accepted and not failures else -1

    @property
    def kept(self) -> list[Advice]:
        return [one for one, votes in zip(self.notes, self.votes, strict=True) if votes >= 0]


class AllKnowing(LastThree):
    """What reflections allow at best; nobody could build it.

    It knows of each reflection whether it is right now: it shows one that is, and pays for another only while it has
    none. `world` is its own copy of the one that the tasks are of.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def shown(self, task: Task) -> list[Advice]:
        if self.world.odds.flip and task.number == self.world.tasks // 2:
            self.world.turn_over()
        return self._right(task)

    def known(self, task: Task, failure: str) -> tuple[list[Advice], bool]:
        return [], bool(self._right(task))

    @property
    def kept(self) -> list[Advice]:
        return self.notes

    def _right(self, task: Task) -> list[Advice]:
        right = self.world.families[task.family].right
        return [one for one in self.notes if one.family == task.family and one.move == right][:1]


class Words:
    """An index of texts by their words, the rarer the heavier."""

    def __init__(self) -> None:
        self.holding: defaultdict[str, list[int]] = defaultdict(list)
        self.lengths: list[int] = []

    def add(self, text: str) -> None:
        words = _words(text)
        for word in words:
            self.holding[word].append(len(self.lengths))
        self.lengths.append(len(words))

    def nearest(self, text: str, most: int) -> list[int]:
        """The places of the texts most like this one, of equals the newest."""
        score: defaultdict[int, float] = defaultdict(float)
        for word in _words(text) & self.holding.keys():
            held = self.holding[word]
            if 2 * len(held) > len(self.lengths) + 2:
                continue
            weight = math.log(1 + len(self.lengths) / len(held))
            for one in held:
                score[one] += weight / math.sqrt(self.lengths[one])
        return sorted(score, key=lambda one: (-round(score[one], 6), -one))[:most]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower()))
