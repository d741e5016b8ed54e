"""Which memory earns its place: ours and seven others on the same simulated stream of tasks.

`python benchmarks/lessons.py [--short] [--tasks 1000] [--seeds 2] [--first 1] [--sweep | --cell NAME] [--plot FILE]`

No model takes part. Families of tasks have hidden rules, a policy follows advice at stated rates, a reflector errs in
stated ways and a check errs as well (`stream/world.py`, `stream/reflector.py`). So this measures the mechanics of a
memory: what it keeps, shows, blames and lets go. It says nothing of a model's wit, and its figures are a simulation's.

`first` is the share of runs whose first attempt was right, which is what earlier runs can help with; `solved` counts
the second attempt too, which all but `no memory` have. `paid` is reflections for 100 runs, `tokens` those of notes in
all prompts of a run, `again` the share of kept notes that say what another says, `useful` the share of families whose
right rule is kept at the end, `back` the tasks of a family until its level is back after its rule has changed.
`all-knowing` is no memory but a bound: it is told of each reflection whether it is right.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from stream.figures import back_within, difference, half_width, percent, whole
from stream.memories import AllKnowing, AppendAll, BlindRetry, Facts, LastThree, Memory, Nearest, Votes
from stream.ours import Ours
from stream.runs import LOOKS, Record, run
from stream.world import Odds, World

from langgraph_reflexion import FaissStore, MemoryPolicy
from langgraph_reflexion.evals import draw_curves

OTHERS: Mapping[str, Callable[[], Memory]] = {
    "no memory": Memory,
    "blind retry": BlindRetry,
    "last three": LastThree,
    "append all": AppendAll,
    "votes": Votes,
    "nearest": Nearest,
    "facts": Facts,
}
STORES: Mapping[str, Callable[[], BaseStore]] = {"memory": InMemoryStore, "faiss": lambda: FaissStore(":memory:")}
USUAL = Odds()
CELLS: Mapping[str, Odds] = {
    "usual": USUAL,
    **{f"p={one}": replace(USUAL, p=one) for one in (0.6, 1.0)},
    **{f"r={one}": replace(USUAL, r=one) for one in (0.0, 0.3, 0.5)},
    **{f"e={one}": replace(USUAL, e=one) for one in (0.0, 0.1, 0.2)},
    **{f"right={one}": replace(USUAL, right=one) for one in (0.1, 0.3, 0.5, 0.8)},
    "no flip": replace(USUAL, flip=False),
    "p=0.6 r=0.3 e=0.1 right=0.4": replace(USUAL, p=0.6, r=0.3, e=0.1, right=0.4),
}
BOUND = "all-knowing"
Streams = dict[str, list[Record]]


def cell(odds: Odds, tasks: int, seeds: Sequence[int], store: str, cap: int) -> tuple[Streams, list[Ours]]:
    """Every memory on the same streams, and our books as they ended."""
    streams: Streams = {}
    books = []
    for seed in seeds:
        ours = Ours(STORES[store](), MemoryPolicy(max_kept=cap))
        books.append(ours)
        others = {name: made() for name, made in OTHERS.items()}
        for name, memory in {**others, "ours": ours, BOUND: AllKnowing(World(seed, tasks, odds))}.items():
            streams.setdefault(name, []).append(run(memory, name, seed, tasks, odds))
    return streams, books


def table(streams: Streams) -> list[str]:
    """One line a memory."""
    lines = [f"{'':12} {'first':>12} {'solved':>12} {'paid':>6} {'tokens':>7} {'kept':>5} again useful back"]
    for name, records in streams.items():
        first, solved = whole(records, "first"), whole(records, "solved")
        size = sum(one.sizes[-1] for one in records) / len(records)
        back = back_within(records)
        lines.append(
            f"{name:12} {percent(first):6.1f} ± {half_width(first):3.1f} {percent(solved):6.1f} ± "
            f"{half_width(solved):3.1f} {percent(whole(records, 'paid')):6.1f} "
            f"{percent(whole(records, 'tokens')) / 100:7.0f} {size:5.0f} {percent(one.again for one in records):4.0f}% "
            f"{percent(one.useful for one in records):5.0f}% {'-' if back is None else back:>4}"
        )
    return lines


def beaten(streams: Streams) -> list[str]:
    """Where another memory is surely better than ours, and where ours is more than a point below no memory."""
    said = []
    ours = streams["ours"]
    for field in ("first", "solved"):
        for name, records in streams.items():
            if name in ("ours", BOUND):
                continue
            apart, half = difference(whole(ours, field), whole(records, field))
            if apart + half < 0 or (name == "no memory" and apart < -1):
                said.append(f"{field}: {name} is better by {-apart:.1f} ± {half:.1f} points")
    return said


def sizes(streams: Streams) -> list[str]:
    """What is kept over time, at every fourth look."""
    return [
        f"{name:12} " + " ".join(f"{one:6d}" for one in records[0].sizes[3::4])
        for name, records in streams.items()
        if records[0].sizes[-1]
    ]


def plot(streams: Streams) -> str:
    """First attempts that were right, by twentieth of the stream."""
    lines = {}
    for name, records in streams.items():
        parts = [
            percent(
                one
                for record in records
                for one in record.first[i * record.tasks // LOOKS : (i + 1) * record.tasks // LOOKS]
            )
            for i in range(LOOKS)
        ]
        lines[name] = parts
    return draw_curves(lines, "twentieth of the stream", "% of first attempts that were right (simulated)")


def aims(streams: Streams, books: Sequence[Ours], cap: int) -> list[tuple[str, bool]]:
    """What one cell says of the promises that need no comparison with others."""
    ours, three = streams["ours"], streams["last three"]
    paid, theirs, least = (percent(whole(one, "paid")) for one in (ours, three, streams[BOUND]))
    again = percent(one.again for one in ours)
    back, soonest = back_within(ours), back_within(streams[BOUND])
    largest, budget = max(one.largest for one in books), books[0].policy.lesson_tokens
    most = max(size for one in ours for size in one.sizes)
    return [
        (
            f"reflections paid: {paid:.1f} for 100 runs, `last three` {theirs:.1f}, {BOUND} {least:.1f}",
            2 * paid <= theirs,
        ),
        (f"kept lessons that repeat another: {again:.1f} %", again < 5),
        (
            f"tasks of a family until its level is back: {back}, {BOUND} {soonest}",
            back is not None and back <= 5,
        ),
        (f"tokens of the largest block: {largest} of {budget}", largest <= budget),
        (f"lessons kept at most: {most}, the cap is {cap}", most <= cap),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a stream of 150 tasks, once")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=1, help="the first of the seeds")
    parser.add_argument("--families", type=int, default=USUAL.families)
    parser.add_argument("--cap", type=int, default=1000, help="lessons that our book may keep")
    parser.add_argument("--store", choices=STORES, default="memory")
    parser.add_argument("--cell", choices=CELLS, default="usual")
    parser.add_argument("--sweep", action="store_true", help="every cell, not this one alone")
    parser.add_argument("--plot", type=Path, help="an SVG of the cell")
    given = parser.parse_args()
    tasks, many = (150, 1) if given.short else (given.tasks, given.seeds)
    seeds = range(given.first, given.first + many)
    print("A simulation without a model: it measures the mechanics of a memory, not a model's wit.\n")
    losses: list[str] = []
    kept = []
    for name, odds in CELLS.items() if given.sweep else [(given.cell, CELLS[given.cell])]:
        began = time.perf_counter()
        streams, books = cell(replace(odds, families=given.families), tasks, seeds, given.store, given.cap)
        print(f"{name}: {tasks} tasks, {many} seeds, {given.families} families")
        print("\n".join(table(streams)))
        found = beaten(streams)
        losses += [f"{name}: {one}" for one in found]
        print("\n".join(f"  {one}" for one in found) or "  nothing is better than ours")
        for said, holds in aims(streams, books, given.cap):
            print(f"  {'ok ' if holds else 'NOT'} {said}")
            kept.append(holds or not said.startswith(("tokens", "lessons kept")))
        if name == given.cell:
            print("notes kept over time:\n" + "\n".join(sizes(streams)))
            if given.plot:
                given.plot.write_text(plot(streams), encoding="utf-8")
        print(f"  {time.perf_counter() - began:.0f} s\n", flush=True)
    print("Where ours loses:\n" + ("\n".join(f"  {one}" for one in losses) or "  nowhere"))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
