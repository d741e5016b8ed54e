"""What memory costs on one PostgreSQL, by the number of lessons, of namespaces and of worker processes.

    POSTGRES_DSN=postgresql://... python benchmarks/scale.py [--short] [--year]

The model is a script: a run makes two or three calls, and every fifth fails, reflects and writes a lesson. Checkpoints lie
in the same database. Each row runs the same agent with memory and without, in new databases that are dropped again.
Processor time is that of the workers, database time that of their server processes: on a machine with fewer processors
than workers, work is counted and not waiting. Lessons that are there at the start are written in bulk as the records that
the book would write. In the rows with several workers, one is killed in the middle and another takes its place.
Afterwards every finished run must be in its episode and in the counts of the lessons it was shown, once.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4
from zlib import crc32

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.store.base import BaseStore, PutOp

from langgraph_reflexion import Context, Episode, FaissStore, Lesson, LessonBook, Limits, MemoryPolicy
from langgraph_reflexion import create_reflexion_agent
from langgraph_reflexion.memory.index import Indexes
from langgraph_reflexion.memory.records import Evidence, evidence_in, lesson_id, record, sum_record, whole_record
from langgraph_reflexion.memory.records import run_record

DSN = "POSTGRES_DSN"
TICK = os.sysconf("SC_CLK_TCK")
RANDOM = random.Random(7)
WORDS = [
    "".join(RANDOM.choice(letters) for letters in ("bcdfglmnprst", "aeiou", "bcdfglmnprst", "aeiou", "klmnrst"))
    for _ in range(700)
]
VERBS, NOUNS = WORDS[:300], WORDS[300:]
MEMORY = {"namespace": ("scale", "{user_id}"), "max_kept": 1_000_000, "keep_runs": 1_000_000}


class Script(BaseChatModel):
    """Calls a tool, or answers when it has a result. As reflector it writes one rule about the task. Waits `delay`."""

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
        task = next(line for line in prompt.splitlines() if "Please " in line).split("Please ")[1].split(".")[0]
        if self.reflects:
            rule = {"kind": "rule", "text": f"Check the {task.split()[-1]} twice, then {task}.", "when": task}
            reply = AIMessage(json.dumps({"patch_prompt": "Try the second door.", "memory_to_write": [rule], "confidence": 90}))
        else:
            results = [message for message in messages if message.type == "tool"]
            done = bool(results) and "opened" in results[-1].text
            door = {"door": 2 if results else 1, "task": task}
            reply = AIMessage("done" if done else "", tool_calls=[] if done else [{"name": "open_door", "args": door, "id": str(uuid4())}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def open_door(door: int, task: str) -> str:
    """Open a door."""
    if door == 1 and crc32(task.encode()) % 5 == 0:
        raise ValueError("the first door is locked")
    return f"opened door {door}"


def task_of(number: int) -> str:
    chosen = random.Random(number)
    return f"{chosen.choice(VERBS)} the {chosen.choice(NOUNS)}"


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
    """A database of its own, with the tables of a store and of checkpoints."""
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
        verb, noun, other = VERBS[i % 300], NOUNS[(i // 300) % 400], WORDS[(i * 7 + i // 120_000) % 700]
        made = Lesson(kind="rule", text=f"Ask the {other} about number {i} first.", when=f"{verb} the {noun}", origin="verified")
        made = made.model_copy(update={"created_at": now, "updated_at": now, "status": "active"})
        made = made.model_copy(update={"id": lesson_id(namespace, made)})
        ops.append(PutOp((*namespace, "lessons"), made.id, record(made), False))
        ops.append(PutOp((*namespace, "evidence"), made.id, whole_record(Evidence()), False))
        if len(ops) >= 2000 or i == lessons - 1:
            store.batch(ops)
            ops = []


def agent_on(connection: Any, saving: Any, memory: bool, delay: float) -> Any:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

    policy = MemoryPolicy(**MEMORY, **({} if memory else {"read": False, "write": False}))
    return create_reflexion_agent(
        Script(delay=delay),
        [open_door],
        checks=[lambda answer, run: crc32(run.task.encode()) % 7 != 0 or "no"],
        reflector=Script(reflects=True, delay=delay),
        limits=Limits(max_attempts=1),
        memory=policy,
        store=PostgresStore(connection),
        checkpointer=PostgresSaver(saving),
    )


def work(dsn: str, out: str, first: int, runs: int, namespaces: int, memory: bool, delay: float) -> None:
    """Run the agent so often, and write a line for each run that is over, and what all of them cost after a warm-up."""
    counts = dict.fromkeys(("queries", "rows", "bytes"), 0)
    warm = max(runs // 10, 2)
    with connected(dsn, counts) as connection, connected(dsn) as saving, Path(out).open("a", buffering=1) as log:
        agent = agent_on(connection, saving, memory, delay)
        for i in range(warm + runs):
            if i == warm:
                counts |= dict.fromkeys(counts, 0)
                began = time.perf_counter(), time.process_time(), server_seconds(connection) + server_seconds(saving)
            number = first + i
            config = {"configurable": {"thread_id": str(uuid4())}, "run_id": uuid4()}
            agent.invoke({"messages": [("user", f"Please {task_of(number)}.")]}, config, context=Context(user_id=f"u{number % namespaces}"))
            log.write(f"run {config['run_id']}\n")
        ended = time.perf_counter(), time.process_time(), server_seconds(connection) + server_seconds(saving)
        cost = {name: after - before for name, before, after in zip(("seconds", "worker", "server"), began, ended, strict=True)}
        log.write(f"cost {json.dumps({**cost, **counts, 'runs': runs})}\n")


def crew(dsn: str, workers: int, runs: int, namespaces: int, memory: bool, delay: float, kill: bool) -> tuple[dict[str, float], set[str]]:
    """What a run costs with so many workers, and the runs that were finished."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for worker in range(workers):
            out = f"{folder}/{worker}"
            args = (dsn, out, 1_000_000 * (worker + 1), runs, namespaces, memory, delay)
            started.append(spawn.Process(target=work, args=args))
            started[-1].start()
        if kill:
            victim = Path(f"{folder}/0")
            while not victim.exists() or victim.read_text().count("\n") < max(runs // 2, 2):
                time.sleep(0.01)
            os.kill(started[0].pid or 0, signal.SIGKILL)
            args = (dsn, f"{folder}/again", 900_000_000, runs, namespaces, memory, delay)
            started.append(spawn.Process(target=work, args=args))
            started[-1].start()
        for process in started:
            process.join()
        if bad := [process.exitcode for process in started[int(kill) :] if process.exitcode]:
            raise SystemExit(f"a worker ended with {bad[0]}")
        lines = [line.split(" ", 1) for file in Path(folder).iterdir() for line in file.read_text().splitlines()]
    costs = [json.loads(rest) for kind, rest in lines if kind == "cost"]
    total = sum(cost["runs"] for cost in costs)
    each = {name: sum(cost[name] for cost in costs) / total for name in costs[0] if name not in ("seconds", "runs")}
    return {**each, "per_second": sum(cost["runs"] / cost["seconds"] for cost in costs)}, {rest for kind, rest in lines if kind == "run"}


def sure(store: BaseStore, namespaces: int, finished: set[str]) -> int:
    """Every finished run is in its episode, and in the counts of its lessons once; how many runs that were."""
    known: set[str] = set()
    for name in range(namespaces):
        book = LessonBook(store, ("scale", f"u{name}"), MemoryPolicy(**{**MEMORY, "namespace": None}))
        episodes, offset = [], 0
        while page := store.search((*book.namespace, "episodes"), limit=5000, offset=offset):
            episodes += [Episode.model_validate(item.value) for item in page]
            offset += len(page)
        known |= {episode.id for episode in episodes}
        if not episodes:
            continue
        lessons = book.lessons()
        shown = sum(len(episode.shown) for episode in episodes), sum(lesson.shown for lesson in lessons)
        held = [lesson.withheld_wins + lesson.withheld_losses for lesson in lessons]
        counted = sum(lesson.wins + lesson.losses for lesson in lessons)
        if shown[0] != shown[1] or counted != shown[1] or sum(held) != sum(len(episode.withheld) for episode in episodes):
            raise SystemExit(f"wrong counts in u{name}: {shown[0]} times shown by the episodes, {shown[1]} by the lessons, {counted} with a result")
        if len({lesson.text for lesson in lessons if lesson.status in ("candidate", "active")}) != sum(lesson.status in ("candidate", "active") for lesson in lessons):
            raise SystemExit(f"a lesson is there twice in u{name}")
    if lost := finished - known:
        raise SystemExit(f"{len(lost)} finished runs have no episode")
    return len(known)


def recalls(dsn: str, namespaces: int, many: int) -> dict[str, float]:
    """Recalls of one process by themselves: the first, and then queries, rows and milliseconds."""
    from langgraph.store.postgres import PostgresStore

    counts = dict.fromkeys(("queries", "rows", "bytes"), 0)
    times, most = [], {"queries": 0, "rows": 0}
    indexes = Indexes()
    with connected(dsn, counts) as connection:
        store = PostgresStore(connection)

        def recall(number: int) -> float:
            name = ("scale", f"u{number % min(namespaces, 100)}")  # the namespaces of one process
            book = LessonBook(store, name, MemoryPolicy(max_kept=1_000_000), indexes=indexes)
            before = time.perf_counter()
            book.recall(f"Please {task_of(number)}.", ["open_door"])
            return 1000 * (time.perf_counter() - before)

        first = recall(0)
        for number in range(1, min(namespaces, 100)):
            recall(number)
        for number in range(many):
            counts |= dict.fromkeys(counts, 0)
            times.append(recall(number))
            most = {name: max(counts[name], value) for name, value in most.items()}
    return {"first": first, "p50": statistics.median(times), "p95": statistics.quantiles(times, n=20)[-1], **most}


def row(lessons: int, namespaces: int, workers: int, runs: int, delay: float = 0.0, kill: bool = False) -> dict[str, Any]:
    """One line of the table: the same with memory and without."""
    costs = {}
    for memory in (False, True):
        with new_database() as dsn, connected(dsn) as connection:
            from langgraph.store.postgres import PostgresStore

            store = PostgresStore(connection)
            for name in range(namespaces if memory else 0):
                fill(store, ("scale", f"u{name}"), lessons)
            connection.execute("ANALYZE")
            costs[memory], finished = crew(dsn, workers, runs, namespaces, memory, delay, kill)
            if memory:
                counted = sure(store, min(namespaces, 1000), finished if namespaces <= 1000 else set())
                found = recalls(dsn, namespaces, 200)
                [size] = connection.execute("SELECT pg_database_size(current_database()) AS size").fetchall()
    with_memory, without = costs[True], costs[False]
    ours = {name: with_memory[name] - without[name] for name in without}
    busy = [1000 * (cost["worker"] + cost["server"]) for cost in (with_memory, without)]
    print(
        f"{lessons:>8,} {namespaces:>7,} {workers:>3} {1000 * delay:>6.0f} |{ours['queries']:>6.1f} {ours['rows']:>6.1f} "
        f"{ours['bytes'] / 1000:>7.1f} |{1000 * ours['server']:>6.1f} {1000 * ours['worker']:>6.1f} "
        f"{busy[0]:>6.1f} {busy[1]:>6.1f} {busy[0] / busy[1]:>5.2f} |{with_memory['per_second']:>7.1f} {without['per_second']:>7.1f} |"
        f"{found['first']:>8.0f} {found['p50']:>6.1f} {found['p95']:>6.1f} {found['queries']:>3.0f} {found['rows']:>4.0f} |"
        f"{size['size'] / 1e6:>7.0f} {counted:>6}",
        flush=True,
    )
    return {"lessons": lessons, "namespaces": namespaces, "workers": workers, "with": with_memory, "without": without, "recall": found}


HEAD = (
    " lessons  spaces  wk  model |     memory adds, a run |  db ms    cpu  both ms: with, without    x |  runs/s without |"
    " recall ms: first  p50    p95  queries, rows |  db MB   runs"
)


# ---------------------------------------------------------------- a year


def year(store: BaseStore, runs: int, size: Any) -> None:
    """A namespace after so many runs, written in bulk as the records they fold into; then a thousand real ones."""
    namespace, now = ("scale", "year"), datetime.now(UTC)
    fill(store, namespace, 200)
    book = LessonBook(store, namespace, MemoryPolicy())
    ids = [lesson.id for lesson in book.lessons()]
    figures: list[tuple[float, float]] = []
    for part in ("no run before", f"{runs:,} runs before"):
        if part != "no run before":
            for id in ids:
                listed = [
                    run_record(str(uuid4()), result="win", at=now - timedelta(minutes=90 - i))[1] for i in range(60)
                ]
                earlier = {"shown": 3 * runs // 200 - 60, "wins": 2 * runs // 200, "losses": runs // 200 - 60}
                folded = Evidence(runs=tuple(listed), earlier=earlier)
                key, value = sum_record(folded)
                rows = [PutOp((*namespace, "evidence", id), key, value, False)]
                store.batch([*rows, PutOp((*namespace, "evidence"), id, whole_record(folded), False)])
            for start in range(0, 10_000, 500):
                past = (Episode(id=str(uuid4()), task=f"Please {task_of(i)}.", success=True, created_at=now) for i in range(start, start + 500))
                store.batch([PutOp((*namespace, "episodes"), one.id, one.model_dump(mode="json"), False) for one in past])
        for half in ("first", "second"):
            took: dict[str, list[float]] = {"recall": [], "credit": []}
            for i in range(500):
                number = RANDOM.randrange(200)
                task = f"Please {VERBS[number]} the {NOUNS[0]}."
                began = time.perf_counter()
                shown = book.recall(task)
                between = time.perf_counter()
                book.credit(Episode(id=str(uuid4()), task=task, topic="general", success=i % 4 > 0, shown=[one.id for one in shown] or ids[:1]))
                took["recall"].append(between - began)
                took["credit"].append(time.perf_counter() - between)
            medians = [1000 * statistics.median(times) for times in took.values()]
            figures.append((medians[0], medians[1]))
            print(f"  {part}, {half} 500 runs: recall {medians[0]:.1f} ms, credit {medians[1]:.1f} ms, {size() / 1e6:.1f} MB", flush=True)
    swept = book.sweep()
    print(f"  a sweep: {swept.runs} runs counted together, {swept.episodes} episodes removed; {size() / 1e6:.1f} MB")


def years(runs: int) -> None:
    from langgraph.store.postgres import PostgresStore

    print(f"\na year: {runs:,} runs of one agent on 200 lessons")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "year.db")
        with FaissStore(path) as store:
            print(" FaissStore")
            year(store, runs, lambda: path.stat().st_size)
    with new_database() as dsn, connected(dsn) as connection:
        print(" PostgreSQL")
        size = "SELECT pg_database_size(current_database()) AS size"
        year(PostgresStore(connection), runs, lambda: connection.execute(size).fetchone()["size"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one small row, for CI")
    parser.add_argument("--year", action="store_true", help="only the year")
    parser.add_argument("--runs", type=int, default=100, help="runs of each worker")
    parser.add_argument("--only", choices=("lessons", "namespaces", "workers", "model"), help="one part of the table")
    given = parser.parse_args(argv)
    if DSN not in os.environ:
        print(f"${DSN} names no server: nothing was measured")
        return 0
    if given.year:
        years(1_000_000)
        return 0
    print(HEAD)
    if given.short:
        row(200, 2, 2, 12, kill=True)
        return 0
    rows = {
        "lessons": [(lessons, 1, 1, given.runs) for lessons in (1_000, 10_000, 100_000)],
        "namespaces": [(20, spaces, 1, given.runs) for spaces in (1, 1_000, 10_000)],
        "workers": [(1_000, 1, workers, given.runs, 0.0, workers > 1) for workers in (1, 2, 4, 8)],
        "model": [(1_000, 1, workers, given.runs // 2, 1.0) for workers in (1, 8)],
    }
    for part, settings in rows.items():
        for setting in settings if given.only in (None, part) else ():
            row(*setting)
    return 0


if __name__ == "__main__":
    sys.exit(main())
