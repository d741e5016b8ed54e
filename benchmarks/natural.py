"""What memory is worth on simulated streams of tasks as people write them, compared with simple memories.

`python benchmarks/natural.py [--worlds usual,far] [--drawn 24] [--seeds 3] [--tasks 400] [--short]`

No model takes part. A student solves a task with a set probability, which right or harmful advice changes. After each
failure a reflector writes one reflection, which is right, useless, harmful or too broad. Tasks of a kind come in five
or six phrasings with other names, things and numbers, or as JSON with other fields (`data/natural.txt`).
All memories get the same tasks and random numbers. Each figure is the mean share of tasks solved at the first attempt,
in percent. The differences are paired, with 95 % intervals over the seeds. Of the package's constants, `LIKE_TASK`,
`LIKE_BEST` and `SAME_KIND` in `memory/recall.py` were compared here, and two values of `MIN_WHEN_SHARE`, which do
equally well, on other seeds. Recall uses the tasks that taught a lesson because of a result here.
"""

from __future__ import annotations

import argparse
import math
import re
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Failure, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.memory import withheld
from langgraph_reflexion.schemas import Signal, Trigger
from langgraph_reflexion.text.literals import fingerprint
from langgraph_reflexion.text.task import request_of, topic_of


@dataclass(frozen=True)
class World:
    """How tasks come, what the reflector writes, and what the student makes of it."""

    name: str
    language: str = "en"
    kinds: int = 12
    zipf: float = 0.0  # how unequally often the kinds come: 0 for equally
    base: tuple[float, float] = (0.2, 0.8)  # success without advice, from the hardest kind to the easiest
    gain: float = 0.75  # the share of failures that right advice prevents
    harm: float = 0.6  # the share of successes that wrong advice destroys
    stray: float = 0.1  # the probability that the student follows advice for another kind
    right: float = 0.55
    useless: float = 0.25
    harmful: float = 0.1  # what is left to 1 is right, but claims to hold for every task
    when: float = 0.7  # the share of reflections with a good `when`
    echo: float = 0.5  # the share of these that repeat the task's words, without its details
    literal: float = 0.3  # the share of reflections that are wrapped in details of the task
    obeys: float = 0.85  # the probability that the student regards advice at all
    follows: str = "majority"  # or "first", "last", "all"
    evidence: str = "telling"  # or "generic", "tool": what the check or the tool says of a failure
    fresh: bool = False  # each sixth of the stream has a phrasing of its own
    follow_ups: float = 0.0  # the share of tasks that come with a brief message in a later turn of a conversation
    commands: bool = False  # a task is a command of one or two words
    flips: int = 0  # the rule of a kind changes after this many of its tasks


SOME_HARMFUL = World("", harmful=0.2, right=0.45)
WORLDS = {
    world.name: world
    for world in (
        World("usual"),
        World("far", echo=0.0),
        World("fresh", fresh=True),
        World("generic", evidence="generic"),
        World("tool", evidence="tool"),
        replace(SOME_HARMFUL, name="first", follows="first"),
        replace(SOME_HARMFUL, name="last", follows="last"),
        replace(SOME_HARMFUL, name="all", follows="all"),
        World("easy", base=(0.85, 0.98), harmful=0.3, right=0.3),
        World("hard", base=(0.02, 0.3)),
        World("hostile", right=0.15, useless=0.3, harmful=0.5),
        World("flips", flips=25),
        World("chats", follow_ups=0.6),
        World("commands", commands=True),
        World("rare", kinds=20, zipf=1.1),
        World("german", language="de", kinds=6),
        World("jobs", language="json", kinds=6),
        World("literal", literal=1.0, when=0.2),
        World("broad", right=0.25, useless=0.15, stray=0.4),
        World("fickle", obeys=0.35),
        World("useless", right=0.1, useless=0.9, harmful=0.0),
    )
}


def drawn(number: int) -> World:
    """A world that nobody chose: drawn at random. Its name says how many of its reflections are harmful."""
    rng = Random(f"drawn {number}")
    language = rng.choice(["en", "en", "en", "de", "json"])
    right = rng.uniform(0.1, 0.8)
    useless = rng.uniform(0, 1 - right)
    harmful = rng.uniform(0, 1 - right - useless)
    hardest = rng.uniform(0.02, 0.8)
    return World(
        f"{number}: {harmful:.0%}",
        language=language,
        kinds=rng.choice([4, 8, 12, 20]),
        zipf=rng.choice([0.0, 1.1]),
        base=(hardest, min(hardest + rng.uniform(0.05, 0.6), 0.98)),
        gain=rng.uniform(0.3, 0.95),
        harm=rng.uniform(0.2, 0.9),
        stray=rng.choice([0.02, 0.1, 0.3]),
        right=right,
        useless=useless,
        harmful=harmful,
        when=rng.random(),
        echo=rng.random(),
        literal=rng.random(),
        obeys=rng.uniform(0.3, 1),
        follows=rng.choice(["majority", "first", "last", "all"]),
        evidence=rng.choice(["telling", "generic", "tool"]),
        fresh=rng.random() < 0.2,
        follow_ups=rng.choice([0.0, 0.4]) if language == "en" else 0.0,
        flips=rng.choice([0, 0, 25]),
    )


SLOTS = {
    "name": "Okafor|Lindqvist|Yamada|Petrov|Moreau|Haddad|Nowak|Silva|Brandt|Castellano|Iyer|O'Neill|Kaya|Dubois",
    "place": "Utrecht|Porto|Leeds|Graz|Tampere|Bergamo|Varna|Ghent|Malmö|Brno|Cork|Nantes|Bilbao|Riga|Trento",
    "item": "lavender|walnuts|rye|garden chairs|copper wire|tea|bicycles|spinach|clocks|wool|lamps|pears|ceramics",
    "date": "3 March|14 May|last Tuesday|21 June|the first of July|9 October|2023|late autumn|30 November|Friday",
}


class Advice(NamedTuple):
    """One piece of advice, as the simulation sees it."""

    sentence: str  # in lower case, without its last period
    kind: str
    sort: str  # R, N, U or H, as in `data/natural.txt`
    broad: bool


class Reflection(NamedTuple):
    """What is written after a failure."""

    advice: Advice
    text: str
    when: str


class Task(NamedTuple):
    """One task, with all that chance decides about it."""

    number: int
    kind: str
    text: str
    base: float
    rule: str  # the sort of advice that is right now: R or N
    luck: tuple[float, float, float]
    reflection: Reflection  # what is written if the task fails
    evidence: str
    tool: str | None


def read_texts() -> tuple[dict[str, dict[str, list[str]]], dict[str, dict[str, list[str]]]]:
    """The kinds and the languages of `data/natural.txt`, each with its texts by their marks."""
    kinds: dict[str, dict[str, list[str]]] = {}
    languages: dict[str, dict[str, list[str]]] = {}
    for line in (Path(__file__).parent / "data/natural.txt").read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark in ("K", "L"):
            name, *about = rest.split()
            texts = (kinds if mark == "K" else languages).setdefault(name, defaultdict(list, {"about": about}))
        elif mark != "#":
            texts[mark].append(rest)
    return kinds, languages


KINDS, LANGUAGES = read_texts()
SENTENCES = {
    text.lower().rstrip("."): (name, sort) for name, kind in KINDS.items() for sort in "RNUH" for text in kind[sort]
}
ANY_SENTENCE = re.compile("|".join(map(re.escape, sorted(SENTENCES, key=len, reverse=True))))


def stream(world: World, seed: int, count: int) -> list[Task]:
    """The tasks of a world. The same seed gives the same tasks."""
    rng = Random(f"{seed} {world.name}")
    names = [name for name, kind in KINDS.items() if kind["about"][1] == world.language]
    names = rng.sample(names, min(world.kinds, len(names)))
    low, high = world.base
    step = (high - low) / (len(names) - 1)
    bases = {name: low + step * i for i, name in enumerate(rng.sample(names, len(names)))}
    weights = [1 / (i + 1) ** world.zipf for i in range(len(names))]
    asked, tasks = Counter[str](), []
    for number in range(count):
        name = rng.choices(names, weights)[0]
        kind, family = KINDS[name], KINDS[name]["about"][0]
        slots = {slot: rng.choice(values.split("|")) for slot, values in SLOTS.items()}
        slots["n"] = str(rng.choice([rng.randint(3, 99), rng.randint(100, 9999)]))
        texts = kind["D" if world.commands else "T"]
        phrasing = texts[number * len(texts) // count] if world.fresh else rng.choice(texts)
        rule = "N" if world.flips and asked[name] // world.flips % 2 else "R"
        asked[name] += 1
        reflection = reflect(world, name, rule, phrasing, slots, rng)
        about = rng.choice(kind["W"])
        evidence = {
            "telling": f"Refused: the rule for {kind['W'][0]} is not kept.",
            "generic": "The answer is not acceptable.",
            "tool": f"ValueError: {family} service rejected the request {slots['n']} for {about}",
        }[world.evidence]
        tool = f"{family}_service" if world.evidence == "tool" else None
        luck = (rng.random(), rng.random(), rng.random())
        text = phrasing.format(**slots)
        if world.follow_ups and rng.random() < world.follow_ups:
            text = request_of(rng.choice(LANGUAGES[world.language]["F"]).format(**slots), [text])
        tasks.append(Task(number, name, text, bases[name], rule, luck, reflection, evidence, tool))
    return tasks


def reflect(world: World, name: str, rule: str, phrasing: str, slots: dict[str, str], rng: Random) -> Reflection:
    """What the reflector writes if this task fails."""
    kind, words = KINDS[name], LANGUAGES[world.language]
    draw = rng.random()
    sort = "U" if draw < world.useless else "H" if draw < world.useless + world.harmful else rule
    broad = draw > world.useless + world.harmful + world.right
    text = sentence = rng.choice(kind[sort])
    if broad:
        text = f"{words['C'][0]} {text[0].lower()}{text[1:]}"
    if rng.random() < world.literal:
        text = f"{rng.choice(words['B'])} {text} {rng.choice(words['A'])}".strip().format(**slots)
    when = rng.choice(words["V"])
    if rng.random() < world.when and not broad:
        when = rng.choice(kind["W"])
        if rng.random() < world.echo:
            example = dict(pair.split("=") for pair in words["P"][0].split("|"))
            when += f", {words['E'][0]} {phrasing.format(**example)}"
    return Reflection(Advice(sentence.lower().rstrip("."), name, sort, broad), text, when)


def advice_in(text: str) -> list[Advice]:
    """The advice in a lesson, which may join several reflections."""
    text, found = " ".join(text.lower().split()), []
    for match in ANY_SENTENCE.finditer(text):
        before = text[: match.start()].rstrip()
        broad = any(before.endswith(words["C"][0].lower()) for words in LANGUAGES.values())
        found.append(Advice(match.group(), *SENTENCES[match.group()], broad))
    return found


def solves(world: World, task: Task, shown: Sequence[Advice]) -> bool:
    """Whether the student solves the task with this advice. Each piece helps (1), says nothing (0) or harms (-1)."""
    effects = []
    for advice in shown:
        if advice.kind == task.kind:
            effects.append(0 if advice.sort == "U" else 1 if advice.sort == task.rule else -1)
        elif advice.sort != "U":
            # The same for all memories: drawn from the task and the advice.
            draw = zlib.crc32(f"{task.number}{task.luck[0]}{advice.sentence}".encode()) / 2**32
            if draw < (max(0.5, world.stray) if advice.broad else world.stray):
                effects.append(-1)
    chances = {1: task.base + (1 - task.base) * world.gain, 0: task.base, -1: task.base * (1 - world.harm)}
    if not effects or task.luck[1] > world.obeys:
        chance = task.base
    elif world.follows == "all":
        chance = fmean(chances[effect] for effect in effects)
    elif world.follows == "majority":
        most = max(effects.count(1), effects.count(-1))
        sides = [effect for effect in (1, -1) if effects.count(effect) == most] if most else [0]
        chance = chances[sides[int(task.luck[2] * len(sides))]]
    else:
        chance = chances[effects[0 if world.follows == "first" else -1]]
    return task.luck[0] < chance


class Words:
    """BM25, over texts that are added one by one."""

    def __init__(self) -> None:
        self.postings: dict[str, dict[int, int]] = defaultdict(dict)
        self.lengths: list[int] = []

    def add(self, text: str) -> None:
        words = re.findall(r"\w+", text.lower())
        for word, count in Counter(words).items():
            self.postings[word][len(self.lengths)] = count
        self.lengths.append(len(words))

    def best(self, text: str, limit: int) -> list[int]:
        """The numbers of the most similar texts. Of equals, the newest comes first."""
        scores, total = defaultdict[int, float](float), len(self.lengths)
        for word in sorted(self.postings.keys() & re.findall(r"\w+", text.lower())):
            found = self.postings[word]
            rarity = math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found.items():
                length = self.lengths[number] * total / sum(self.lengths)
                scores[number] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length))
        return sorted(scores, key=lambda number: (-scores[number], -number))[:limit]


class Past:
    """What a simple memory can look at: the failed tasks, with the advice that was written after each."""

    def __init__(self) -> None:
        self.advice: list[Advice] = []
        self.tasks = Words()

    def add(self, task: Task) -> None:
        self.advice.append(task.reflection.advice)
        self.tasks.add(task.text)


SIMPLE = ("none", "last", "last three", "near", "near three", "everything", "of the kind", "three of the kind")
GIVEN_THE_KIND = ("of the kind", "three of the kind")


def shown_by(memory: str, past: Past, task: Task) -> list[Advice]:
    """What a simple memory shows. `near` is the advice of the most similar failed tasks, by BM25 over the tasks."""
    limit = 3 if "three" in memory else 1
    if memory == "knowing":
        return [Advice("", task.kind, task.rule, False)]
    if memory in ("near", "near three"):
        return [past.advice[number] for number in past.tasks.best(task.text, limit)]
    if memory in GIVEN_THE_KIND:
        return [advice for advice in reversed(past.advice) if advice.kind == task.kind][:limit]
    return {"none": [], "everything": past.advice[::-1]}.get(memory, past.advice[: -limit - 1 : -1])


def with_simple(world: World, tasks: Sequence[Task], memory: str) -> float:
    """The share of tasks solved with a simple memory, in percent."""
    past, solved = Past(), 0
    for task in tasks:
        if solves(world, task, shown_by(memory, past, task)):
            solved += 1
        else:
            past.add(task)
    return 100 * solved / len(tasks)


def with_book(world: World, tasks: Sequence[Task], *, given_the_kind: bool = False) -> float:
    """The share of tasks solved with a `LessonBook`, in percent. A task comes every twenty minutes.

    With `given_the_kind`, `MemoryPolicy(topics=...)` returns the kind of each task.
    """
    kinds = {task.text: task.kind for task in tasks}
    classify = kinds.__getitem__ if given_the_kind else topic_of
    policy = MemoryPolicy(topics=classify if given_the_kind else None)
    now, solved = datetime(2026, 1, 5, tzinfo=UTC), 0
    book = LessonBook(InMemoryStore(), ("natural",), policy, lambda: now)
    for task in tasks:
        now += timedelta(minutes=20)
        run, topic = f"{world.name}-{task.number}", classify(task.text)
        found = book.recall(task.text, (task.tool,) if task.tool else (), None, topic)
        hidden = [lesson for lesson in found if withheld(lesson, run, book.policy.control_share)]
        shown = [lesson for lesson in found if lesson not in hidden]
        held = getattr(found, "held", None)
        success = solves(world, task, [advice for lesson in shown for advice in advice_in(lesson.text)])
        solved += success
        signal: Signal = "tool_error" if task.tool else "check_failed"
        mark = fingerprint(signal, task.tool, task.evidence)
        failure = Failure(signal=signal, evidence=task.evidence, tool=task.tool, fingerprint=mark)
        without = [lesson.id for lesson in (*hidden, *([held] if held else []))]
        episode = Episode(
            id=run,
            task=task.text,
            success=success,
            shown=[lesson.id for lesson in shown],
            withheld=without,
            failures=[] if success else [failure],
            status="success" if success else "failure",
            stop_reason="accepted" if success else "max_attempts",
        )
        book.credit(episode)
        if not success:
            lesson = Lesson(
                kind="rule",
                text=task.reflection.text,
                when=task.reflection.when,
                topic=None if topic == "general" else topic,
                trigger=Trigger(signal=signal, tool=task.tool, fingerprint=mark),
                sources=[run],
            )
            book.add(lesson, task=task.text)
    return 100 * solved / len(tasks)


STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""Student's t for 95 %, by the number of seeds."""


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The mean of the paired differences, and half of its 95 % interval."""
    apart = [a - b for a, b in zip(ours, theirs, strict=True)]
    half = STUDENT.get(len(apart), 2.23) * stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return fmean(apart), half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--worlds", default=",".join(WORLDS), help="names, with commas between")
    parser.add_argument("--drawn", type=int, default=0, help="this many worlds drawn at random in place of the others")
    parser.add_argument("--short", action="store_true", help="one world, one seed, 100 tasks")
    given = parser.parse_args()
    names, seeds, count = given.worlds.split(","), range(1, given.seeds + 1), given.tasks
    if unknown := set(names) - WORLDS.keys():
        parser.error(f"no world {', '.join(sorted(unknown))}; the worlds are {', '.join(WORLDS)}")
    worlds = [drawn(number) for number in range(given.drawn)] or [WORLDS[name] for name in names]
    if given.short:
        worlds, seeds, count = worlds[:1], range(1, 2), 100
    print(f"A simulation without a model: {count} tasks, {len(seeds)} seeds. Percent solved at the first attempt.\n")
    print(f"{'':51}{'':15}each given the kind of each task")
    print(
        f"{'':9}none  ours  difference    best simple memory  difference    ours  best simple memory      knowing all"
    )
    for world in worlds:
        began = time.perf_counter()
        streams = [stream(world, seed, count) for seed in seeds]
        ours = [with_book(world, tasks) for tasks in streams]
        ours_given = [with_book(world, tasks, given_the_kind=True) for tasks in streams]
        rates = {memory: [with_simple(world, tasks, memory) for tasks in streams] for memory in (*SIMPLE, "knowing")}
        mean = {memory: fmean(solved) for memory, solved in rates.items()}
        best = max((memory for memory in SIMPLE if memory not in GIVEN_THE_KIND), key=mean.__getitem__)
        kind = max(GIVEN_THE_KIND, key=mean.__getitem__)
        (gain, half), (apart, between) = (difference(ours, rates[memory]) for memory in ("none", best))
        print(
            f"{world.name:9}{mean['none']:4.1f}  {fmean(ours):4.1f}  {gain:+5.1f} ± {half:4.1f}  "
            f"{mean[best]:4.1f} {best:13}  {apart:+5.1f} ± {between:4.1f}  "
            f"{fmean(ours_given):4.1f}  {mean[kind]:4.1f} {kind:17}  "
            f"{mean['knowing']:4.1f}  {time.perf_counter() - began:3.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
