"""A small real model: does it do better with reflections and lessons, and does it follow a lesson?

    python benchmarks/real_model.py FOLDER [--tasks 20] [--repeats 3] [--minutes 60] [--short]

SmolLM2-135M-Instruct answers on a llama.cpp server of this machine (`tests/support/small_model.py` says what it needs).
The shipped tasks are taken in order, and none is chosen by its outcome. Each finished task is saved at once, and the
same command continues where it stopped, so it can be run in pieces, even with more `--tasks` and `--repeats`.

Every attempt is a chain of thought, with at most two per task. Reflections are in the model's own words, because it
rarely finishes the structured format. Plain is the first attempt of blind retry. Memory has the package's defaults,
with one store for each strategy and repeat, so no repeat learns from another. With memory, blind retry and plain
reflect only for later tasks, and show a trial nothing from earlier trials.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore, Lesson, LessonBook, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.evals.experiment import Experiment, run_experiment
from langgraph_reflexion.evals.figures import Row, compare_results, make_rows
from langgraph_reflexion.evals.ledger import Result, load_results, lock_folder
from langgraph_reflexion.evals.setups import find_setups
from langgraph_reflexion.evals.tasks import load_tasks
from small_model import NAME, small_model, small_model_server

TRIALS = 2
ANSWER_TOKENS, REFLECTION_TOKENS, RULE_TOKENS = 96, 128, 60
"""Short, so that the whole fits an hour of two cores; a reply that is longer is cut there."""
TEMPERATURE = 0.7
"""Repeats of a model at temperature 0 would be the same."""
RULES = Path(__file__).parent / "data" / "rules.jsonl"
CONTEXT, REFLEXION, BOTH = "cot+context", "cot+context+reflexion", "cot+context+both"


@dataclass(frozen=True)
class Plan:
    """Set-ups that share an experiment's settings, and the folder of their results."""

    folder: str
    setups: tuple[str, ...]
    lessons: bool
    run_memory: bool = True


PLANS = (
    Plan("alone", (CONTEXT, REFLEXION, BOTH), lessons=False),
    Plan("with-memory", (REFLEXION, BOTH), lessons=True),
    Plan("memory-only", (REFLEXION,), lessons=True, run_memory=False),
)
WAYS = (
    # name, with memory, folder, set-up
    ("blind retry", False, "alone", CONTEXT),
    ("reflexion", False, "alone", REFLEXION),
    ("both", False, "alone", BOTH),
    ("blind retry", True, "memory-only", REFLEXION),
    ("reflexion", True, "with-memory", REFLEXION),
    ("both", True, "with-memory", BOTH),
)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=20, help="how many of the shipped tasks, from the first")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60, help="stop then; the same command continues")
    parser.add_argument("--threads", type=int, default=1, help="as many as there are idle cores")
    parser.add_argument("--short", action="store_true", help="one task and two rules, once")
    parser.add_argument("--report", action="store_true", help="print what the folder holds, and ask nothing")
    asked = parser.parse_args()
    if asked.short:
        asked.tasks, asked.repeats = 1, 1
    rules = [json.loads(line) for line in RULES.read_text(encoding="utf-8").splitlines()][: 2 if asked.short else None]
    if not asked.report:
        with lock_folder(asked.folder), small_model_server(threads=asked.threads, parallel=asked.repeats) as address:
            try:
                async with asyncio.timeout(60 * asked.minutes):
                    await measure(asked.folder, asked.tasks, asked.repeats, rules, address)
            except TimeoutError:
                print(f"{asked.minutes:g} minutes are over; the same command goes on")
    print(f"\nModel: {NAME}, 4 bits, llama.cpp, temperature {TEMPERATURE}")
    for line in [*format_ways(asked.folder, asked.repeats), "", *format_rules(asked.folder)]:
        print(line)


# ------------------------------------------------------------ tasks


async def measure(folder: Path, tasks: int, repeats: int, rules: Sequence[dict[str, str]], address: str) -> None:
    """The repeats side by side. Each goes on to a task once every way has tried the one before."""

    async def repeat(number: int) -> None:
        await try_rules(folder, rules, number, address)
        for count in range(1, tasks + 1):
            for plan in PLANS:
                await try_tasks(folder / f"repeat-{number}" / plan.folder, plan, count, address)
            print(f"repeat {number}: {count} tasks, {time.strftime('%H:%M:%S')}", flush=True)

    await asyncio.gather(*(repeat(number) for number in range(1, repeats + 1)))


async def try_tasks(folder: Path, plan: Plan, count: int, address: str) -> None:
    with lessons_in(folder) if plan.lessons else nullcontext() as store:
        experiment = Experiment(
            load_tasks("shipped")[:count],
            find_setups(plan.setups),
            small_model(address, temperature=TEMPERATURE, max_tokens=ANSWER_TOKENS),
            reflector=small_model(address, temperature=TEMPERATURE, max_tokens=REFLECTION_TOKENS),
            reflection="free",
            trials=TRIALS,
            reflections=TRIALS - 1,
            run_memory=plan.run_memory,
            lessons=store,
        )
        await run_experiment(experiment, folder, concurrency=1)


def lessons_in(folder: Path) -> FaissStore:
    folder.mkdir(parents=True, exist_ok=True)
    return FaissStore(folder / "lessons.db")


def format_ways(folder: Path, repeats: int) -> Iterator[str]:
    """A table of the ways, on the tasks that all of them finished in all repeats."""
    found = {way[:2]: _results(folder, way[2], way[3], repeats) for way in WAYS}
    shared = set.intersection(*({(r.task, r.repeat) for r in results} for results in found.values()))
    tasks = {task for task, _ in shared if all((task, number) in shared for number in range(1, repeats + 1))}
    found = {way: [r for r in results if r.task in tasks] for way, results in found.items()}
    for memory in (False, True):
        found["plain", memory] = [_first_trial(result) for result in found["blind retry", memory]]
    shipped = len(load_tasks("shipped"))
    yield f"{len(tasks)} tasks of {shipped}, in their order, × {repeats} repeats, {TRIALS} attempts at most"
    if not tasks:
        return
    yield (
        "| way | memory | solved | 95 % | repeats | points over plain, 95 % | broken | tokens a task | seconds a task "
        "| reflections | runs shown a lesson |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name in ("plain", "blind retry", "reflexion", "both"):
        for memory in (False, True):
            results = found[name, memory]
            row = _row(results, TRIALS)
            gain = compare_results(found["plain", False], results)
            spread = "" if row.spread is None else f"{row.spread[0]:.0f}–{row.spread[1]:.0f}"
            cells = [
                name,
                "with" if memory else "without",
                f"{row.accuracy:.1f} %",
                f"{row.interval[0]:.1f}–{row.interval[1]:.1f}",
                spread,
                f"{gain.points:+.1f} ({gain.interval[0]:+.1f} to {gain.interval[1]:+.1f})",
                str(row.errors),
                f"{mean(result.tokens for result in results):.0f}",
                f"{mean(result.seconds for result in results):.1f}",
                ""
                if name == "plain"
                else f"{sum(len(result.plans) for result in results)} read of "
                f"{sum(result.reflections for result in results)} asked",
                str(row.lessons),
            ]
            yield f"| {' | '.join(cells)} |"


def _row(results: Sequence[Result], trials: int) -> Row:
    return make_rows({CONTEXT: results}, trials)[0]


def _results(folder: Path, plan: str, setup: str, repeats: int) -> list[Result]:
    return [
        result.model_copy(update={"repeat": number})
        for number in range(1, repeats + 1)
        for result in load_results(folder / f"repeat-{number}" / plan).get(setup, [])
    ]


def _first_trial(result: Result) -> Result:
    first = result.trials[:1]
    tokens, seconds = (first[0]["usage"]["total"], first[0]["seconds"]) if first else (0, 0.0)
    cost = {"input": tokens, "output": 0, "seconds": seconds}
    solved = 1 if result.solved_at == 1 else None
    return result.model_copy(update={"solved_at": solved, "trials": first, "plans": [], "reflections": 0, **cost})


# ------------------------------------------------------------ rules


async def try_rules(folder: Path, rules: Sequence[dict[str, str]], repeat: int, address: str) -> None:
    """Each rule as nothing, as a lesson, and as the user's own words; a regular expression says whether it is kept."""
    file = folder / f"repeat-{repeat}" / "rules.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    done = {(line["rule"], line["given"]) for line in _rule_lines(file)}
    model = small_model(address, temperature=TEMPERATURE, max_tokens=RULE_TOKENS)
    for rule in rules:
        for given in ("not given", "as a lesson", "by the user"):
            if (rule["rule"], given) in done:
                continue
            text = await _answer(model, rule, given)
            kept = re.search(rule["pattern"], text.strip()) is not None
            line = {"rule": rule["rule"], "given": given, "kept": kept, "text": text}
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")


async def _answer(model: Any, rule: dict[str, str], given: str) -> str:
    """What the agent answers. An approved lesson without an occasion is shown with every task."""
    store, namespace = InMemoryStore(), ("rules",)
    if given == "as a lesson":
        book = LessonBook(store, namespace)
        written = await book.aadd(Lesson(kind="preference", text=rule["rule"]))
        if written.lesson is None or written.action != "added":
            raise ValueError(f"{rule['rule']!r} was not kept: {written.reason}")
        await book.aapprove(written.lesson.id)
    memory = MemoryPolicy(namespace=namespace, write=False, control_share=0)
    agent = create_reflexion_agent(model, store=store, memory=memory, protocol="tools")
    task = f"{rule['task']} {rule['rule']}" if given == "by the user" else rule["task"]
    shown, text = 0, ""
    async with aclosing(agent.astream({"messages": [("user", task)]}, stream_mode="custom")) as events:
        async for event in events:
            if event["type"] == "recalled":
                shown += len(event["lessons"])
            if event["type"] == "step":  # the first reply, also one that the length limit cut
                text = event["answered"].text
                break
    if shown != (given == "as a lesson"):
        raise ValueError(f"{rule['rule']!r} was shown {shown} times")
    return text


def format_rules(folder: Path) -> Iterator[str]:
    """How often a rule was kept."""
    files = enumerate(sorted(folder.glob("repeat-*/rules.jsonl")), 1)
    lines = [(repeat, line) for repeat, file in files for line in _rule_lines(file)]
    yield "| the rule is | answers | obeyed | 95 %, by rule | more than when not given, 95 % |"
    yield "|---|---|---|---|---|"
    found: dict[str, list[Result]] = {}
    for repeat, line in lines:
        result = Result(setup=CONTEXT, task=line["rule"], repeat=repeat, solved_at=1 if line["kept"] else None)
        found.setdefault(line["given"], []).append(result)
    for given, results in found.items():
        gain, row = compare_results(found["not given"], results), _row(results, 1)
        cells = [
            given,
            str(len(results)),
            f"{row.accuracy:.1f} %",
            f"{row.interval[0]:.1f}–{row.interval[1]:.1f}",
            f"{gain.points:+.1f} ({gain.interval[0]:+.1f} to {gain.interval[1]:+.1f})",
        ]
        yield f"| {' | '.join(cells)} |"


def _rule_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


if __name__ == "__main__":
    asyncio.run(main())
