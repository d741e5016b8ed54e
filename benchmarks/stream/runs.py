"""Runs: a stream of tasks through one memory, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from stream.memories import Memory, cost
from stream.reflector import Reflector
from stream.world import Odds, World

LOOKS = 20
"""How often the size of a memory is looked at."""


@dataclass
class Record:
    """What came of a stream."""

    memory: str
    tasks: int
    families: list[int] = field(default_factory=list)
    flipped: set[int] = field(default_factory=set)
    first: list[bool] = field(default_factory=list)
    """Whether the first attempt was right, in truth: what memory of earlier tasks brings."""
    solved: list[bool] = field(default_factory=list)
    """Whether the last attempt was."""
    tokens: list[int] = field(default_factory=list)
    paid: list[bool] = field(default_factory=list)
    """Whether a reflection was paid for."""
    sizes: list[int] = field(default_factory=list)
    again: float = 0.0
    """Share of what is kept at the end that says what another kept one says."""
    useful: float = 0.0
    """Share of the families whose right move is kept at the end."""


def run(memory: Memory, name: str, seed: int, tasks: int, odds: Odds) -> Record:
    """The same tasks, chance and faults for every memory under one seed."""
    world = World(seed, tasks, odds)
    reflector = Reflector(world)
    found = Record(name, tasks, flipped=world.flipped)
    for task in world.stream():
        if odds.flip and task.number == tasks // 2:
            world.turn_over()
        shown = memory.shown(task)
        spent, paid = 0, False
        failures: list[str] = []
        tried: set[str] = set()
        solved = accepted = False
        for attempt in range(memory.attempts):
            spent += sum(map(cost, shown))
            move, solved = world.moved(task, attempt, shown, tried)
            accepted = world.accepts(task, attempt, solved)
            if attempt == 0:
                found.first.append(solved)
            if accepted:
                break
            tried.add(move)
            failure = f"Entry {task.literal}: the ledger of the {world.families[task.family].noun} does not balance."
            failures.append(failure)
            if attempt + 1 == memory.attempts:
                break
            more, known = memory.known(task, failure)
            if memory.reflects and not known:
                paid = True
                said = reflector.said(task, attempt, move)
                if said is not None:
                    memory.learn(task, failure, said)
                    more = [said, *more]
            shown = [*more, *shown]
        memory.finish(task, accepted, failures)
        found.families.append(task.family)
        found.solved.append(solved)
        found.tokens.append(spent)
        found.paid.append(paid)
        if (task.number + 1) % max(tasks // LOOKS, 1) == 0:
            found.sizes.append(len(memory.kept))
    kept = [(one.family, one.move) for one in memory.kept]
    found.again = 1 - len(set(kept)) / len(kept) if kept else 0.0
    rights = {(number, one.right) for number, one in enumerate(world.families)}
    found.useful = len(rights & set(kept)) / len(rights)
    return found
