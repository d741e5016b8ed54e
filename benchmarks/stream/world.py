"""The world of the simulation: families of tasks with hidden rules, a policy that takes advice, a check that errs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random


def _listed(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split(",")]


NOUNS = _listed(
    """
    invoice, shipment, payroll, mortgage, prescription, itinerary, subscription, warranty, tenancy, auction,
    dividend, manuscript, greenhouse, turbine, telescope, vineyard, ferry, archive, beehive, orchestra, pipeline,
    glacier, harbour, satellite, tannery, bakery, library, stadium, reactor, quarry
    """
)
CONDITIONS = _listed(
    """
    from abroad, under appeal, without a signature, in arrears, past its deadline, paid in advance, split between
    partners, marked confidential, for a minor, with a missing page, on weekends, during a strike, after a merger,
    with two owners, in a foreign currency, sold at a discount
    """
)
MOVES = _listed(
    """
    convert the totals to dollars, attach the customs form, ask the registrar for a stamp, round down to whole
    units, read the appendix first, split the amount by quarter, use the net weight, sort the entries by arrival,
    quote the older tariff, leave the surcharge out, count business days only, notify the insurer, add the regional
    levy, take the median reading, copy the serial number, use metric lengths, verify the second signature, merge
    both ledgers, apply the winter rate, drop the duplicate rows, request a fresh sample, archive the previous
    version, use the sender's timezone, translate the cover sheet, weigh the empty container, photograph the seal,
    halve the deposit, escalate to the auditor, reset the meter, label the fragile parts
    """
)
NAMES = _listed(
    """
    Okafor, Lindqvist, Moreau, Tanaka, Duarte, Novak, Haddad, Petrov, Silva, Keller, Nguyen, Rossi
    """
)
MOVES_OF_A_FAMILY = 5
SLIP = 0.05
"""How often the right move is made badly."""


@dataclass(frozen=True)
class Advice:
    """What a note tells a policy to do, and for which family; no family is a note that claims all of them."""

    text: str
    move: str
    family: int | None = None
    when: str = ""
    sort: str = "right"


@dataclass(frozen=True)
class Task:
    """One task of the stream. Its number stands for all chance that is not a memory's doing."""

    number: int
    family: int
    text: str
    literal: str


@dataclass
class Family:
    """A sort of task: what it is called, the moves one could make, and which of them is right now."""

    noun: str
    condition: str
    moves: list[str]
    right: str

    @property
    def said(self) -> str:
        return f"{self.noun} {self.condition}"


@dataclass(frozen=True)
class Odds:
    """The rates of the simulation."""

    p: float = 0.85
    """How often advice for this very family is followed, right or wrong."""
    r: float = 0.15
    """How often any other advice in the prompt is followed."""
    base: float = 0.35
    """How often the policy is right by itself."""
    e: float = 0.03
    """How often the check says the opposite of the truth."""
    right: float = 0.6
    """How often the reflector is right; its faults share the rest as `FAULTS` says."""
    flip: bool = True
    """Whether the rules of half of the families change midway."""
    families: int = 40


@dataclass
class World:
    """A stream of so many tasks. Two conditions of each noun are two families, with different rules."""

    seed: int
    tasks: int
    odds: Odds
    families: list[Family] = field(init=False)
    flipped: set[int] = field(init=False)

    def __post_init__(self) -> None:
        random = Random(f"{self.seed} world")
        self.families = []
        for number in range(self.odds.families):
            if number % 2 == 0:
                pair = random.sample(CONDITIONS, 2)
            moves = random.sample(MOVES, MOVES_OF_A_FAMILY)
            noun = NOUNS[number // 2 % len(NOUNS)]
            self.families.append(Family(noun, pair[number % 2], moves, moves[0]))
        self.flipped = set(random.sample(range(self.odds.families), self.odds.families // 2))

    def stream(self) -> list[Task]:
        """The tasks in their order."""
        random = Random(f"{self.seed} stream")
        made = []
        for number in range(self.tasks):
            family = random.randrange(self.odds.families)
            name, literal = random.choice(NAMES), f"{random.randrange(10_000, 99_999)}"
            noun, condition = self.families[family].noun, self.families[family].condition
            text = random.choice(
                (
                    f"Please handle the {noun} {condition} for {name}, entry {literal}.",
                    f"Entry {literal}: {name} sent us a {noun} {condition}. What is the outcome?",
                    f"Work out entry {literal}, which is a {noun} {condition}, and tell {name}.",
                )
            )
            made.append(Task(number, family, text, literal))
        return made

    def turn_over(self) -> None:
        """Change the rules of half of the families."""
        for number in self.flipped:
            self.families[number].right = self.families[number].moves[1]

    def moved(self, task: Task, attempt: int, advices: Sequence[Advice], tried: Collection[str]) -> tuple[str, bool]:
        """The move a policy makes, and whether it solves the task.

        Advice is looked at in the order in which it is shown, what says the same only once. What was followed in this
        run already and refused is not followed again.
        """
        family, odds = self.families[task.family], self.odds
        random = Random(f"{self.seed} {task.number} {attempt} move")
        guess, slip, other = random.random(), random.random(), random.choice(family.moves)
        move = family.right if guess < odds.base else other if other != family.right else "nothing that helps"
        looked_at: set[tuple[int | None, str]] = set()
        for one in advices:
            if (one.family, one.move) in looked_at or one.move in tried:
                continue
            looked_at.add((one.family, one.move))
            if random.random() < (odds.p if one.family == task.family else odds.r):
                move = one.move
                break
        return move, move == family.right and slip >= SLIP

    def accepts(self, task: Task, attempt: int, solved: bool) -> bool:
        """What the check says of it."""
        return solved != (Random(f"{self.seed} {task.number} {attempt} check").random() < self.odds.e)
