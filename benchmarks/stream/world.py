"""Simulated worlds: kinds of task with hidden rules, a student who takes advice, a reflector and a check that err."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


def _listed(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(",")]


NOUNS = _listed(
    """
    invoice, shipment, payroll, mortgage, prescription, itinerary, subscription, warranty, tenancy, auction,
    dividend, manuscript, greenhouse, turbine, telescope, vineyard, ferry, archive, beehive, orchestra,
    pipeline, glacier, harbour, satellite
    """
)
CONDITIONS = _listed(
    """
    from abroad, under appeal, without a signature, in arrears, past its deadline, paid in advance, marked
    confidential, for a minor, with a missing page, during a strike, after a merger, with two owners, in a
    foreign currency
    """
)
MOVES = _listed(
    """
    convert the totals to dollars, attach the customs form, ask the registrar for a stamp, round down to whole
    units, read the appendix first, split the amount by quarter, use the net weight, sort the entries by
    arrival, quote the older tariff, leave the surcharge out, count business days only, notify the insurer,
    add the regional levy, take the median reading, copy the serial number, use metric lengths, verify the
    second signature, merge both ledgers, apply the winter rate, drop the duplicate rows, request a fresh
    sample, archive the previous version
    """
)
TASKS = (
    "Write a Python script for the {kind} of {name}, entry {number}.",
    "Analyze the {kind} of {name}, entry {number}.",
    "Draft a letter about the {kind} of {name}, entry {number}.",
    "Find out who signed the {kind} of {name}, entry {number}.",
)
"""A task of each topic."""
WORDINGS = ("{Move} for a {kind}.", "Always {move} when you handle a {kind}.", "For each {kind}, {move} first.")
NAMES = _listed(
    """
    Okafor, Lindqvist, Moreau, Tanaka, Duarte, Novak, Haddad, Petrov, Silva, Keller
    """
)


@dataclass(frozen=True)
class Odds:
    """The settings of a world."""

    name: str
    kinds: int = 12
    """Kinds of task, in four topics; two kinds share a noun."""
    easy: tuple[float, float] = (0.2, 0.8)
    """Share of tasks solved without advice, in the hardest kind and in the easiest."""
    right: float = 0.55
    """How often the reflector is right; then how often harmful, useless, too broad; else it says nothing."""
    harmful: float = 0.15
    useless: float = 0.2
    broad: float = 0.1
    gain: float = 0.75
    """Share of the unsolved tasks that right advice mends."""
    harm: float = 0.5
    """What harmful or outdated advice leaves of the share solved."""
    student: str = "one"
    """`one` follows the first piece of advice, `weigh` any of them alike, `vote` what most of them say."""
    follow: float = 0.85
    changes: int = 1
    """How often the rules of half of the kinds change."""
    fades: float = 0.0
    """By how much the student gets worse over the stream."""
    errors: float = 0.03
    """How often the check says the opposite."""
    telling: bool = False
    """Whether the check names the kind of task; else it says the same of each refusal."""


@dataclass(frozen=True)
class Advice:
    """What a lesson tells a student to do: a move, for one kind of task or for all."""

    text: str
    when: str
    kind: int | None
    move: str


@dataclass(frozen=True)
class Task:
    """One task of the stream."""

    number: int
    kind: int
    text: str
    topic: int


class World:
    """A stream of tasks, whose chance is the same for each memory under one seed."""

    def __init__(self, odds: Odds, seed: int, tasks: int = 1000) -> None:
        self.odds, self.seed = odds, seed
        random = Random(f"{seed} {odds.name}")
        low, high = odds.easy
        steps = max(odds.kinds - 1, 1)
        self.solved_alone = [low + (high - low) * i / steps for i in range(odds.kinds)]
        random.shuffle(self.solved_alone)
        self.names, self.moves = [], []
        for kind in range(odds.kinds):
            if kind % 2 == 0:
                pair = random.sample(CONDITIONS, 2)
            self.names.append(f"{NOUNS[kind // 2 % len(NOUNS)]} {pair[kind % 2]}")
            self.moves.append(random.sample(MOVES, 10))
        self.version = [0] * odds.kinds
        weights = [1 / (i + 1) ** 0.6 for i in range(odds.kinds)]
        random.shuffle(weights)
        self.tasks = [self._task(random, i, random.choices(range(odds.kinds), weights)[0]) for i in range(tasks)]
        self._turns = {
            tasks * (i + 1) // (odds.changes + 1): set(random.sample(range(odds.kinds), odds.kinds // 2))
            for i in range(odds.changes)
        }

    def begin(self, task: Task) -> None:
        """Change the rules whose time has come."""
        for kind in self._turns.get(task.number, ()):
            self.version[kind] += 1

    def share_solved(self, task: Task, shown: Sequence[Advice]) -> float:
        """How probable it is that the student solves a task with this advice."""
        odds = self.odds
        alone = max(self.solved_alone[task.kind] - odds.fades * task.number / len(self.tasks), 0.02)
        about = [advice for advice in shown if advice.kind in (None, task.kind)]
        if not about:
            return alone
        if odds.student == "one":
            about = about[:1]
        elif odds.student == "vote":
            votes = Counter(advice.move for advice in about)
            about = [advice for advice in about if votes[advice.move] == max(votes.values())]
        effects = [self.effect(task.kind, advice, alone) for advice in about]
        followed = 1 - (1 - odds.follow) ** (1 if odds.student == "one" else min(len(about), 3))
        return followed * sum(effects) / len(effects) + (1 - followed) * alone

    def effect(self, kind: int, advice: Advice, alone: float) -> float:
        """The share solved by one who follows this advice."""
        if advice.kind is None and advice.move not in self.moves[kind]:
            return alone * (1 + self.odds.harm) / 2
        place = self.moves[kind].index(advice.move) if advice.move in self.moves[kind] else 9
        if place == self.version[kind] % 6:
            return alone + (1 - alone) * self.odds.gain
        return alone if place == 9 else alone * self.odds.harm

    def run(self, task: Task, shown: Sequence[Advice]) -> tuple[float, bool]:
        """How probable the right answer was, and what the check says of the one that came."""
        random = Random(f"{self.seed} {task.number} run")
        drawn, wrong = random.random(), random.random() < self.odds.errors
        share = self.share_solved(task, shown)
        return share, (drawn < share) != wrong

    def reflect(self, task: Task) -> Advice | None:
        """What the reflector says of a refused answer."""
        odds, random = self.odds, Random(f"{self.seed} {task.number} reflection")
        drawn, wording = random.random(), random.choice(WORDINGS)
        moves, kind = self.moves[task.kind], self.names[task.kind]
        right = moves[self.version[task.kind] % 6]
        for sort, share in (("right", odds.right), ("harmful", odds.harmful), ("useless", odds.useless)):
            if drawn < share:
                move = {"right": right, "harmful": random.choice(moves[6:9]), "useless": moves[9]}[sort]
                text = wording.format(move=move, Move=move.capitalize(), kind=kind)
                return Advice(text, f"handling a {kind}", task.kind, move)
            drawn -= share
        if drawn < odds.broad:
            return Advice(f"Always {right}, whatever the entry.", "", None, right)
        return None

    def evidence(self, task: Task) -> str:
        """What the check says of a refused answer."""
        return f"The {self.names[task.kind]} does not balance." if self.odds.telling else "The answer was refused."

    def _task(self, random: Random, number: int, kind: int) -> Task:
        topic = kind % len(TASKS)
        literal, name = f"{random.randrange(10_000, 99_999)}", random.choice(NAMES)
        return Task(number, kind, TASKS[topic].format(kind=self.names[kind], name=name, number=literal), topic)
