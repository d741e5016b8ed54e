"""The ledger: a folder with an experiment's plan and each finished task."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PLAN, RESULTS, LOCK, TIMES = "plan.json", "results.jsonl", "lock", "times.jsonl"


class LedgerError(ValueError):
    """A folder of results cannot be read, or contains another experiment; the message names the file."""


class Result(BaseModel):
    """The result of one task under one set-up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    setup: str
    task: str
    repeat: int = 1
    digest: str = ""
    """Distinguishes the task from another one with the same id."""
    solved_at: int | None = None
    """The trial whose answer was right, from 1."""
    stop_reason: str | None = None
    trials: list[dict[str, Any]] = []
    """Each `Attempt`, as plain data."""
    plans: list[str] = []
    """The reflections, as text."""
    reflections: int = 0
    """Reflections that were paid for."""
    lessons_used: list[str] = []
    """The lessons of earlier tasks that it was shown, as text."""
    input: int = 0
    """Input tokens of all models."""
    output: int = 0
    calls: int = 0
    seconds: float = 0.0
    error: str | None = None
    """What broke the task itself."""

    @property
    def tokens(self) -> int:
        """All tokens of the task."""
        return self.input + self.output


class Timing(BaseModel):
    """How long one call of an experiment took."""

    model_config = ConfigDict(frozen=True)

    seconds: float = Field(gt=0)
    concurrency: int
    """Tasks at once."""
    tasks: int


Key = tuple[str, str, int]
"""Set-up, task and repeat."""
Results = dict[str, list[Result]]
"""By the name of the set-up."""
Line = TypeVar("Line", Result, Timing)


@contextmanager
def lock_folder(folder: Path | str) -> Iterator[None]:
    """Reserve the folder for this process, and make it if needed. A process that dies releases it."""
    folder = Path(folder)
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # SQLite locks a file on every system, and needs no package. Without a timeout, two calls that start at once
            # would refuse each other.
            lock = stack.enter_context(closing(sqlite3.connect(folder / LOCK, timeout=0.5, isolation_level=None)))
            lock.execute("BEGIN EXCLUSIVE")
        except (OSError, sqlite3.Error) as error:
            why = f"{getattr(error, 'strerror', None) or error};"
            if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
                why = "another eval is running there; wait for it, or"
            raise LedgerError(f"{folder}: {why} choose another folder with --out") from error
        yield


class Ledger:
    """The results of one experiment. A line that a crash has cut short is dropped, and its task done again."""

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        """Open or create the folder. A folder with another experiment is refused and not changed."""
        self.folder = folder
        self._file = folder / RESULTS
        _keep_plan(folder, plan)
        self.done = {_key(result): result for result in _read_lines(self._file, Result)}
        """Every finished task, by set-up, task and repeat."""
        whole, rest = _split_lines(self._file)
        if rest:
            os.truncate(self._file, len(whole))

    def add(self, result: Result) -> None:
        """Keep a result: it is in the file when this returns."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.model_dump()) + "\n")  # escaped, so that half an emoji is kept as well
        self.done[_key(result)] = result

    def add_time(self, timing: Timing) -> None:
        """Keep how long one call took, for a comparison with another."""
        with (self.folder / TIMES).open("a", encoding="utf-8") as file:
            file.write(timing.model_dump_json() + "\n")


def figures_of(plan: Mapping[str, Any]) -> str:
    """The models of an experiment: the one that works, and those that reflect and judge, if they differ."""
    model = plan.get("model")
    others = ((", reflections by ", plan.get("reflector")), (", judged by ", plan.get("judge")))
    return f"{model}{''.join(f'{role}{name}' for role, name in others if name not in (None, model))}"


def load_results(folder: Path | str) -> Results:
    """Every finished task, by set-up. If a task broke and was done again, its last line counts."""
    found: Results = {}
    for result in {_key(result): result for result in _read_lines(Path(folder) / RESULTS, Result)}.values():
        found.setdefault(result.setup, []).append(result)
    return found


def load_plan(folder: Path | str) -> dict[str, Any]:
    """What the experiment in a folder asked for."""
    file = Path(folder) / PLAN
    try:
        plan = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise LedgerError(f"{folder} contains no experiment: there is no {PLAN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise LedgerError(f"{file} cannot be read: {error}") from error
    if not isinstance(plan, dict):
        raise LedgerError(f"{file} is not the plan of an experiment")
    return plan


def load_times(folder: Path | str) -> list[Timing]:
    """How long each call took."""
    return list(_read_lines(Path(folder) / TIMES, Timing))


def _key(result: Result) -> Key:
    return result.setup, result.task, result.repeat


def _read_lines(file: Path, form: type[Line]) -> Iterator[Line]:
    for number, line in enumerate(_split_lines(file)[0].splitlines(), 1):
        try:
            yield form.model_validate(json.loads(line))
        except (ValueError, RecursionError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            way = "without this line its task is done again" if form is Result else "remove the line"
            raise LedgerError(f"{file}, line {number} is not a {form.__name__.lower()} ({why}); {way}") from None


def _split_lines(file: Path) -> tuple[bytes, bytes]:
    """The complete lines of the file, and the part of a line that a crash has left."""
    try:
        lines, end, rest = file.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return b"", b""
    return lines + end, rest


def _keep_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    if (folder / PLAN).exists():
        kept = load_plan(folder)
        changed = [name for name in plan if name in kept and kept[name] != plan[name]]  # an older plan has fewer
        if changed:
            text = ", ".join(f"{name} {_shorten(kept[name])} there, {_shorten(plan[name])} now" for name in changed)
            raise LedgerError(f"{folder} contains another experiment ({text}); choose another folder with --out")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{PLAN}.new"
        fresh.write_text(json.dumps(plan, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        fresh.replace(folder / PLAN)
    except OSError as error:
        raise LedgerError(f"{folder}: {error.strerror}") from error


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}…"
