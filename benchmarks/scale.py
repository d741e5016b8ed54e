"""What memory costs on one PostgreSQL, by the number of lessons, of namespaces and of worker processes.

    POSTGRES_DSN=postgresql://... python benchmarks/scale.py [--short] [--turns] [--year]

The model is a script: a run makes one call or eight, one first call in five fails, and that run reflects and writes a
lesson. Checkpoints are in the same database. Each row runs the same agent with memory and without, in new databases.
Processor time is that of the workers, and database time that of their server processes, so that on a machine with fewer
processors than workers, work is counted and waiting is not. The lessons at the start are written in bulk, as the
records that the book would write. With several workers, one is killed in the middle and another takes its place.
Afterwards, every finished run must have its episode, and must count once for each lesson it was shown.
`--turns` runs both in one process, ten runs in turn, so that other work on the machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4
from zlib import crc32

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.store.base import BaseStore, PutOp

from langgraph_reflexion import (
    Context,
    Episode,
    FaissStore,
    Lesson,
    LessonBook,
    Limits,
    MemoryPolicy,
    create_reflexion_agent,
)
from langgraph_reflexion.memory.evidence import Evidence, run_record
from langgraph_reflexion.memory.index import Indexes
from langgraph_reflexion.memory.items import item_value, lesson_id

DSN = "POSTGRES_DSN"
TICK = os.sysconf("SC_CLK_TCK")
RANDOM = random.Random(7)
LETTERS = ("bcdfglmnprst", "aeiou", "bcdfglmnprst", "aeiou", "klmnrst")
WORDS = ["".join(RANDOM.choice(letters) for letters in LETTERS) for _ in range(700)]
VERBS, NOUNS = WORDS[:300], WORDS[300:]
BOUNDS = {"max_kept": 1_000_000, "keep_runs": 1_000_000}


@dataclass(frozen=True)
class Setting:
    """One row of the table. `runs` are those of each worker; `delay` is the model's time for a reply."""

    lessons: int
    namespaces: int
    workers: int
    runs: int
    calls: int = 1
    delay: float = 0.0


class Script(BaseChatModel):
    """Makes so many calls and answers; a failed call is made once more. As reflector it writes one rule."""

    calls: int = 1
    delay: float = 0.0
    reflects: bool = False

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind()

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        time.sleep(self.delay)
        prompt = "\n".join(message.text for message in messages)
        task = prompt.split("Please ", 1)[1].split(".")[0]
        if self.reflects:
            rule = {"kind": "rule", "text": f"Check the {task.split()[-1]} twice, then {task}.", "when": task}
            reflection = {"patch_prompt": "Try the second door.", "memory_to_write": [rule], "confidence": 90}
            return _result(AIMessage(json.dumps(reflection)))
        results = [message.text for message in messages if message.type == "tool"]
        opened = sum("opened" in result for result in results)
        if opened >= self.calls:
            return _result(AIMessage("done"))
        door = {"door": 1 + len(results), "task": task}
        return _result(AIMessage("", tool_calls=[{"name": "open_door", "args": door, "id": str(uuid4())}]))


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def open_door(door: int, task: str) -> str:
    """Open a door."""
    if door == 1 and crc32(task.encode()) % 5 == 0:
        raise ValueError("the first door is locked")
    return f"opened door {door}"


def task_of(number: int) -> str:
    chosen = random.Random(number)
    return f"{chosen.choice(VERBS)} the {chosen.choice(NOUNS)}"


def is_good(_: str, run: Any) -> bool | str:
    """A check that refuses one answer in seven."""
    return crc32(run.task.encode()) % 7 != 0 or "no"


# ---------------------------------------------------------------- the database


def counting_cursor(counts: dict[str, int]) -> Any:
    import psycopg

    class Counting(psycopg.Cursor[Any]):
        """Counts queries, and the rows and bytes that they give."""

        def execute(self, *args: Any, **kwargs: Any) -> Any:
            counts["queries"] += 1
            return super().execute(*args, **kwargs)

        def fetchall(self) -> Any:
            rows = super().fetchall()
            found = self.pgresult
            counts["rows"] += len(rows)
            if found is not None:
                sizes = (len(found.get_value(i, j) or b"") for i in range(found.ntuples) for j in range(found.nfields))
                counts["bytes"] += sum(sizes)
            return rows

    return Counting


@contextmanager
def connected(dsn: str, counts: dict[str, int] | None = None) -> Iterator[Any]:
    import psycopg
    from psycopg.rows import dict_row

    more = {} if counts is None else {"cursor_factory": counting_cursor(counts)}
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0, row_factory=dict_row, **more) as connection:
        yield connection


@contextmanager
def new_database() -> Iterator[str]:
    """A new database, with the tables of a store and of checkpoints."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

    name = f"scale_{uuid4().hex[:12]}"
    parts = urlsplit(os.environ[DSN])
    dsn = urlunsplit(parts._replace(path=f"/{name}"))
    with connected(os.environ[DSN]) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            with connected(dsn) as connection:
                PostgresStore(connection).setup()
                PostgresSaver(connection).setup()
            yield dsn
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def server_seconds(connection: Any) -> float:
    """Processor seconds of the server process behind a connection; 0 where it is on another machine."""
    try:
        fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


# ---------------------------------------------------------------- the work


def fill(store: BaseStore, namespace: tuple[str, ...], lessons: int) -> None:
    """Write so many lessons, as the book would leave them."""
    now = datetime.now(UTC)
    ops: list[PutOp] = []
    for i in range(lessons):
        text = f"Ask the {WORDS[i * 7 % 700]} about number {i} first."
        when = f"{VERBS[i % 300]} the {NOUNS[i // 300 % 400]}"
        made = Lesson(kind="rule", text=text, when=when, origin="verified", status="active", created_at=now)
        made = made.model_copy(update={"id": lesson_id(namespace, made), "updated_at": now})
        ops.append(PutOp((*namespace, "lessons"), made.id, item_value(made), False))
        ops.append(PutOp((*namespace, "evidence"), made.id, Evidence().snapshot_record(), False))
        if len(ops) >= 2000 or i == lessons - 1:
            store.batch(ops)
            ops = []


def agent_on(connection: Any, saving: Any, memory: bool, setting: Setting) -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

    switch = {} if memory else {"read": False, "write": False}
    policy: Any = {"namespace": ("scale", "{user_id}"), **BOUNDS, **switch}
    return create_reflexion_agent(
        Script(calls=setting.calls, delay=setting.delay),
        [open_door],
        checks=[is_good],
        reflector=Script(reflects=True, delay=setting.delay),
        limits=Limits(max_attempts=1),
        memory=MemoryPolicy(**policy),
        store=PostgresStore(connection),
        checkpointer=PostgresSaver(saving),
    )


def work(dsn: str, out: str, first: int, memory: bool, setting: Setting) -> None:
    """Run the agent so often. Write a line for each finished run, and what all of them cost after a warm-up."""
    counts = dict.fromkeys(("queries", "rows", "bytes"), 0)
    warm = max(setting.runs // 10, 2)
    with connected(dsn, counts) as connection, connected(dsn) as saving, Path(out).open("a", buffering=1) as log:
        agent = agent_on(connection, saving, memory, setting)

        def now() -> tuple[float, ...]:
            return time.perf_counter(), time.process_time(), server_seconds(connection) + server_seconds(saving)

        began = now()
        for number in range(first, first + warm + setting.runs):
            if number == first + warm:
                counts |= dict.fromkeys(counts, 0)
                began = now()
            log.write(f"run {run_once(agent, number, setting)}\n")
        spent = (after - before for before, after in zip(began, now(), strict=True))
        cost = {**dict(zip(("seconds", "worker", "server"), spent, strict=True)), **counts, "runs": setting.runs}
        log.write(f"cost {json.dumps(cost)}\n")


def run_once(agent: Any, number: int, setting: Setting) -> UUID:
    """Run the agent on this task, and return the run's id."""
    config: Any = {"configurable": {"thread_id": str(uuid4())}, "run_id": uuid4()}
    user = Context(user_id=f"u{number % setting.namespaces}")
    agent.invoke({"messages": [("user", f"Please {task_of(number)}.")]}, config, context=user)
    return cast("UUID", config["run_id"])


def in_turns(runs: int, calls: int) -> None:
    """Print what a run costs in one process, with memory and without, in turns of ten runs."""
    from langgraph.store.postgres import PostgresStore

    setting = Setting(1_000, 1, 1, runs, calls)
    spent: dict[bool, list[list[float]]] = {True: [], False: []}
    with ExitStack() as open_ones:
        agents = {}
        for memory in spent:
            dsn = open_ones.enter_context(new_database())
            connection, saving = (open_ones.enter_context(connected(dsn)) for _ in range(2))
            fill(PostgresStore(connection), ("scale", "u0"), setting.lessons if memory else 0)
            connection.execute("ANALYZE")
            agents[memory] = agent_on(connection, saving, memory, setting), connection, saving
        for turn in range(-2, runs // 10):  # the first two are a warm-up
            for memory in (turn % 2 == 0, turn % 2 != 0):
                agent, *connections = agents[memory]
                began = [time.process_time(), sum(map(server_seconds, connections))]
                for number in range(10):
                    run_once(agent, 1_000_000 + 10 * turn + number, setting)
                now = [time.process_time(), sum(map(server_seconds, connections))]
                if turn >= 0:
                    spent[memory].append([100 * (after - before) for before, after in zip(began, now, strict=True)])
    ours, plain = ([statistics.median(costs) for costs in zip(*spent[memory], strict=True)] for memory in (True, False))
    ratio = statistics.median(sum(with_it) / sum(without) for with_it, without in zip(*spent.values(), strict=True))
    print(
        f"{calls} calls, {runs} runs: {ours[0]:.1f} ms of the worker and {ours[1]:.1f} of the database with memory, "
        f"{plain[0]:.1f} and {plain[1]:.1f} without: {ratio:.2f} x (medians of turns)",
        flush=True,
    )


def crew(dsn: str, memory: bool, setting: Setting) -> tuple[dict[str, float], set[str]]:
    """What a run costs with so many workers, and which runs were finished."""
    spawn = multiprocessing.get_context("spawn")
    kill = setting.workers > 1
    with tempfile.TemporaryDirectory() as folder:
        started = []

        def start(name: str, first: int) -> None:
            started.append(spawn.Process(target=work, args=(dsn, f"{folder}/{name}", first, memory, setting)))
            started[-1].start()

        for worker in range(setting.workers):
            start(str(worker), 1_000_000 * (worker + 1))
        if kill:
            log = Path(folder, "0")
            while not log.exists() or log.read_text().count("\n") < setting.runs // 2:
                time.sleep(0.01)
            os.kill(started[0].pid or 0, signal.SIGKILL)
            start("again", 900_000_000)
        for process in started:
            process.join()
        if bad := [process.exitcode for process in started[int(kill) :] if process.exitcode]:
            raise SystemExit(f"a worker ended with {bad[0]}")
        lines = [line.split(" ", 1) for file in Path(folder).iterdir() for line in file.read_text().splitlines()]
    costs = [json.loads(rest) for kind, rest in lines if kind == "cost"]
    total = sum(cost["runs"] for cost in costs)
    names = ("worker", "server", "queries", "rows", "bytes")
    each = {name: sum(cost[name] for cost in costs) / total for name in names}
    each["per_second"] = sum(cost["runs"] / cost["seconds"] for cost in costs)
    return each, {rest for kind, rest in lines if kind == "run"}


def check_counts(store: BaseStore, namespaces: int, finished: set[str]) -> int:
    """Every finished run is in its episode and in the counts of its lessons once; how many runs there are."""
    known: set[str] = set()
    for name in range(namespaces):
        place = ("scale", f"u{name}")
        episodes: list[Episode] = []
        while page := store.search((*place, "episodes"), limit=5000, offset=len(episodes)):
            episodes += [Episode.model_validate(item.value) for item in page]
        if not episodes:
            continue
        known |= {episode.id for episode in episodes}
        lessons = LessonBook(store, place).lessons()
        shown = sum(len(episode.shown) for episode in episodes)
        withheld = sum(len(episode.withheld) for episode in episodes)
        pairs = {
            "shown": (shown, sum(lesson.shown for lesson in lessons)),
            "won or lost": (shown, sum(lesson.wins + lesson.losses for lesson in lessons)),
            "withheld": (withheld, sum(lesson.withheld_wins + lesson.withheld_losses for lesson in lessons)),
        }
        if wrong := {what: pair for what, pair in pairs.items() if pair[0] != pair[1]}:
            raise SystemExit(f"u{name} has wrong counts (by episodes, by lessons): {wrong}")
        live = [lesson.text for lesson in lessons if lesson.status in ("candidate", "active", "probation")]
        if len(set(live)) < len(live):
            raise SystemExit(f"u{name} has a lesson twice")
    if lost := finished - known:
        raise SystemExit(f"{len(lost)} finished runs have no episode")
    return len(known)


def recalls(dsn: str, namespaces: int, many: int = 200) -> dict[str, float]:
    """Recalls of one process by themselves: the first, then their milliseconds, and the most queries and rows."""
    from langgraph.store.postgres import PostgresStore

    counts = dict.fromkeys(("queries", "rows", "bytes"), 0)
    most, times, indexes = dict.fromkeys(("queries", "rows"), 0), [], Indexes()
    with connected(dsn, counts) as connection:
        store = PostgresStore(connection)

        def recall(number: int) -> float:
            place = ("scale", f"u{number % min(namespaces, 100)}")  # the namespaces of one process
            book = LessonBook(store, place, indexes=indexes)
            before = time.perf_counter()
            book.recall(f"Please {task_of(number)}.", ["open_door"])
            return 1000 * (time.perf_counter() - before)

        first, *_ = [recall(number) for number in range(min(namespaces, 100))]
        for number in range(many):
            counts |= dict.fromkeys(counts, 0)
            times.append(recall(number))
            most = {name: max(counts[name], value) for name, value in most.items()}
    return {"first": first, "p50": statistics.median(times), "p95": statistics.quantiles(times, n=20)[-1], **most}


def measure(setting: Setting) -> None:
    """Print one row: the same with memory and without."""
    from langgraph.store.postgres import PostgresStore

    costs = {}
    for memory in (False, True):
        with new_database() as dsn, connected(dsn) as connection:
            store = PostgresStore(connection)
            for name in range(setting.namespaces if memory else 0):
                fill(store, ("scale", f"u{name}"), setting.lessons)
            connection.execute("ANALYZE")
            costs[memory], finished = crew(dsn, memory, setting)
            if memory:
                size = size_of(connection)
                counted = check_counts(store, setting.namespaces, finished)
                found = recalls(dsn, setting.namespaces)
    ours, plain = costs[True], costs[False]
    added = {name: ours[name] - plain[name] for name in plain}
    busy = [1000 * (cost["worker"] + cost["server"]) for cost in (ours, plain)]
    cells = [
        f"{setting.lessons:>7,} {setting.namespaces:>6,} {setting.workers:>2} ",
        f"{setting.calls:>4} {setting.delay:>5.1f}  |",
        f"{added['queries']:>7.1f} {added['rows']:>5.1f} {added['bytes'] / 1000:>5.1f} |",
        f"{1000 * added['server']:>5.1f} {1000 * added['worker']:>5.1f} |",
        f"{busy[0]:>6.1f} {busy[1]:>7.1f} {busy[0] / busy[1]:>4.2f} |",
        f"{ours['per_second']:>7.1f} {plain['per_second']:>7.1f} |",
        f"{found['first']:>7.0f} {found['p50']:>5.1f} {found['p95']:>5.1f} {found['queries']:>7} {found['rows']:>4} |",
        f"{size / 1e6:>5.0f} {counted:>6}",
    ]
    print(" ".join(cells), flush=True)


HEAD = (
    "                               |  memory adds, a run |             |  ms of processors   |   runs a second |"
    "             recall: ms, most |",
    "lessons spaces wk calls delay  | queries  rows    kB | db ms   cpu |   with without    x |    with without |"
    "   first   p50   p95 queries rows | db MB   runs",
)


# ---------------------------------------------------------------- a year


def year(store: BaseStore, runs: int, size: Callable[[], float]) -> None:
    """A namespace of 200 lessons before and after so many runs, which are written in bulk as what is kept of them."""
    place, now = ("scale", "year"), datetime.now(UTC)
    fill(store, place, 200)
    book = LessonBook(store, place)
    ids = [lesson.id for lesson in book.lessons()]
    for part in ("no run before", f"{runs:,} runs before"):
        if part != "no run before":
            for id in ids:
                times = [now - timedelta(minutes=90 - i) for i in range(60)]
                listed = tuple(run_record(str(uuid4()), at, {"result": "win"})[1] for at in times)
                earlier = {"shown": 3 * runs // 200, "wins": 2 * runs // 200, "losses": runs // 200}
                kept = Evidence(runs=listed, earlier=earlier)
                ops = [PutOp((*place, "evidence", id), *kept.sum_record(max(run["at"] for run in kept.runs)), False)]
                store.batch([*ops, PutOp((*place, "evidence"), id, kept.snapshot_record(), False)])
            for start in range(0, 10_000, 500):
                ids_of_runs = [str(uuid4()) for _ in range(500)]
                past = (
                    Episode(id=id, task=f"Please {task_of(start)}.", success=True, created_at=now) for id in ids_of_runs
                )
                store.batch(
                    [
                        PutOp((*place, "episodes"), episode.id, episode.model_dump(mode="json"), False)
                        for episode in past
                    ]
                )
        for half in ("first", "second"):
            took: dict[str, list[float]] = {"recall": [], "credit": []}
            for i in range(500):
                task = f"Please {VERBS[RANDOM.randrange(200)]} the {NOUNS[0]}."
                began = time.perf_counter()
                shown = [lesson.id for lesson in book.recall(task)] or ids[i % 200 :][:1]
                between = time.perf_counter()
                book.credit(Episode(id=str(uuid4()), task=task, topic="general", success=i % 4 > 0, shown=shown))
                took["recall"].append(between - began)
                took["credit"].append(time.perf_counter() - between)
            medians = ", ".join(f"{what} {1000 * statistics.median(times):.1f} ms" for what, times in took.items())
            print(f"  {part}, {half} 500 runs: {medians}, {size() / 1e6:.1f} MB", flush=True)


def size_of(connection: Any) -> float:
    [found] = connection.execute("SELECT pg_database_size(current_database()) AS size").fetchall()
    return float(found["size"])


def years(runs: int) -> None:
    from langgraph.store.postgres import PostgresStore

    print(f"{runs:,} runs of one agent on 200 lessons, a year at two runs a minute; milliseconds by the clock, medians")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "year.db")
        with FaissStore(path) as store:
            print(" FaissStore")
            year(store, runs, lambda: path.stat().st_size)
    with new_database() as dsn, connected(dsn) as connection:
        print(" PostgreSQL")
        year(PostgresStore(connection), runs, lambda: size_of(connection))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or a part of it."""
    runs = 60
    rows = {
        "short": [Setting(200, 2, 2, 12)],
        "lessons": [Setting(lessons, 1, 1, runs) for lessons in (1_000, 10_000, 100_000)],
        "namespaces": [Setting(20, spaces, 1, runs) for spaces in (1, 1_000, 10_000)],
        "workers": [Setting(1_000, 1, workers, runs) for workers in (1, 2, 4, 8)],
        "calls": [Setting(1_000, 1, workers, runs // 2, 8, 0.2) for workers in (1, 8)],
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one small row, for CI")
    parser.add_argument("--turns", action="store_true", help="only one process, with memory and without in turn")
    parser.add_argument("--year", action="store_true", help="only the year")
    parser.add_argument("--only", choices=list(rows), help="one part of the table")
    given = parser.parse_args(argv)
    if DSN not in os.environ:
        print(f"${DSN} names no server: nothing was measured")
        return 0
    if given.year:
        years(1_000_000)
        return 0
    if given.turns:
        in_turns(300, 1)
        in_turns(150, 8)
        return 0
    print(*HEAD, sep="\n")
    parts = ["short"] if given.short else [given.only] if given.only else [name for name in rows if name != "short"]
    for part in parts:
        for setting in rows[part]:
            measure(setting)
    return 0


if __name__ == "__main__":
    sys.exit(main())
