"""The ledger: an experiment's plan and each finished task at once, in a folder that a later call goes on with."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from langgraph_reflexion.errors import ReflexionError

PLAN, RESULTS, LOCK = "plan.json", "results.jsonl", "lock"


class LedgerError(ReflexionError):
    """A folder of results cannot be read, or holds another experiment; the message names the file."""


class Trial(BaseModel):
    """One attempt at a task, as the report tells it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str | None = None
    score: float | None = None
    said: list[str] = []
    """What the checks said of it, or what broke."""
    seconds: float = 0.0
    tokens: int = 0


class Result(BaseModel):
    """What came of one task under one set-up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    setup: str
    task: str
    solved_at: int | None = None
    """The trial whose answer was right, from 1."""
    stop_reason: str | None = None
    trials: list[Trial] = []
    plans: list[str] = []
    """The reflections, as text."""
    reflections: int = 0
    """Reflections that were paid for."""
    lessons_used: list[str] = []
    """The lessons of earlier tasks that it was shown, as text."""
    input: int = 0
    """Tokens that the models were given."""
    output: int = 0
    """Tokens that they gave."""
    calls: int = 0
    seconds: float = 0.0
    error: str | None = None
    """What broke the task itself."""

    @property
    def tokens(self) -> int:
        """All tokens of the task."""
        return self.input + self.output


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """The folder for this process alone, made where there is none. A process that dies lets go of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # SQLite locks a file on every system, and asks for no package.
        lock = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None)
    except (OSError, sqlite3.Error) as fault:
        raise LedgerError(f"{folder}: {getattr(fault, 'strerror', None) or fault}") from fault
    with closing(lock):
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as fault:
            busy = getattr(fault, "sqlite_errorname", "") == "SQLITE_BUSY"
            why = "another eval is at work there; wait for it, or name another folder by --out" if busy else str(fault)
            raise LedgerError(f"{folder}: {why}") from fault
        yield


class Ledger:
    """The results of one experiment. A line that a crash has torn is dropped, and its task done again."""

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        """Open or make the folder; one that holds another experiment is refused, and left as it is."""
        self.folder = folder
        self._file = folder / RESULTS
        _same_plan(folder, plan)
        self.results = results_in(folder)
        kept, torn = _kept(self._file)
        if torn:
            os.truncate(self._file, len(kept))

    def add(self, result: Result) -> None:
        """Keep a result: it is in the file when this returns, and no end of the process can lose it."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.model_dump()) + "\n")  # escaped, so that half an emoji is kept as well
        self.results.setdefault(result.setup, {})[result.task] = result

    def has(self, setup: str, task: str) -> bool:
        """Whether this task is done; one that broke is not."""
        found = self.results.get(setup, {}).get(task)
        return found is not None and found.error is None


def results_in(folder: Path) -> dict[str, dict[str, Result]]:
    """Every finished task by its set-up and id; of one that broke and was done again, the last line counts."""
    found: dict[str, dict[str, Result]] = defaultdict(dict)
    for number, line in enumerate(_kept(folder / RESULTS)[0].splitlines(), 1):
        try:
            result = Result.model_validate(json.loads(line))
        except (ValidationError, ValueError) as fault:
            why = fault.errors()[0]["msg"] if isinstance(fault, ValidationError) else fault
            way = "without this line its task is done again"
            raise LedgerError(f"{folder / RESULTS}, line {number} is no result ({why}); {way}") from fault
        found[result.setup][result.task] = result
    return dict(found)


def plan_in(folder: Path) -> dict[str, Any]:
    """What the experiment in a folder asked for."""
    file = folder / PLAN
    try:
        plan = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError(f"{folder} holds no experiment: there is no {PLAN}") from None
    except (OSError, ValueError) as fault:
        raise LedgerError(f"{file} cannot be read: {fault}") from fault
    if not isinstance(plan, dict):
        raise LedgerError(f"{file} is no plan of an experiment")
    return plan


def _same_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    if (folder / PLAN).exists():
        kept = plan_in(folder)
        if other := [name for name in plan if kept.get(name) != plan[name]]:
            told = ", ".join(f"{name} {_brief(kept.get(name))} there, {_brief(plan[name])} now" for name in other)
            raise LedgerError(f"{folder} holds another experiment ({told}); name another folder by --out")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{PLAN}.new"
        fresh.write_text(json.dumps(plan, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        fresh.replace(folder / PLAN)
    except OSError as fault:
        raise LedgerError(f"{folder}: {fault.strerror}") from fault


def _brief(value: Any) -> str:
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= 40 else f"{said[:40]}…"


def _kept(file: Path) -> tuple[bytes, bytes]:
    """The whole lines of the file, and what a crash has left of one more."""
    try:
        lines, end, torn = file.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return b"", b""
    return lines + end, torn
