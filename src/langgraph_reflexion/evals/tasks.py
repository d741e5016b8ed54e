"""Tasks: lines of JSON in our form, or HotpotQA's own file, read whole before the first model call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
)

from langgraph_reflexion.context import Context
from langgraph_reflexion.errors import ReflexionError

SHIPPED = "shipped"
"""The name, in place of a file, of the tasks that come with the package."""


class TaskError(ReflexionError):
    """A file of tasks cannot be read; the message names the line."""


class Passage(BaseModel):
    """A titled piece of what is known about a task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    text: str


class Task(BaseModel):
    """One task, and how its answer is told right from wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    task: str = Field(min_length=1)
    answer: str | None = None
    context: tuple[Passage, ...] = ()
    topic: str | None = None
    check: JsonValue = Field(default=None, description="The name of a check, or {name: its argument}.")

    @field_validator("id", "answer", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return str(value) if is_number else value

    @field_validator("context", mode="before")
    @classmethod
    def _as_passages(cls, value: Any) -> Any:
        if value is None:
            return ()
        if isinstance(value, (str, Mapping)):
            value = [value]
        return [_passage(one) for one in value] if isinstance(value, (list, tuple)) else value


class TaskContext(Context):
    """What a run on a task is given beside its messages."""

    task: Task


def _passage(value: Any) -> Any:
    """A passage as we write it, as plain text, or as HotpotQA does: a title and its sentences."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], (list, tuple)):
        return {"title": value[0], "text": " ".join(str(one).strip() for one in value[1])}
    return value


def tasks_in(file: Path | str, *, checked: bool = False) -> list[Task]:
    """Every task of a file, or the shipped ones. The first line that is no task is named.

    Where all are `checked` by other means, a task needs neither an answer nor a check.
    """
    if str(file) == SHIPPED:
        text = files("langgraph_reflexion.evals").joinpath("tasks.jsonl").read_text(encoding="utf-8")
    else:
        text = _text_of(Path(file))
    tasks: dict[str, Task] = {}
    for place, found in _rows(text, file):
        try:
            task = Task.model_validate(_ours(found))
        except ValidationError as fault:
            first = fault.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            what = first["msg"].removeprefix("Value error, ")
            raise TaskError(f"{file}, {place}: {f'{where}: ' if where else ''}{what}") from fault
        if not checked and task.check is None and not (task.answer or "").strip():
            raise TaskError(f"{file}, {place}: needs an `answer` or a `check`, else nothing tells right from wrong")
        if task.id in tasks:
            raise TaskError(f"{file}, {place}: the id {task.id!r} is given twice")
        tasks[task.id] = task
    if not tasks:
        raise TaskError(f"{file} holds no task")
    return list(tasks.values())


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as fault:
        raise TaskError(f"{file}: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise TaskError(f"{file} is no UTF-8 text: {fault}") from fault


def _rows(text: str, file: Path | str) -> Iterator[tuple[str, Any]]:
    """Each record with its place: a JSON array is HotpotQA's form, lines are ours or anybody's."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as fault:
            raise TaskError(f"{file} is no JSON: {fault}") from fault
        yield from ((f"item {number}", one) for number, one in enumerate(found, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):  # a text may hold other ends of a line
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as fault:
                raise TaskError(f"{file}, line {number} is no JSON: {fault}") from fault


def _ours(found: Any) -> Any:
    """HotpotQA's record in our form; anything else as it is."""
    if not isinstance(found, Mapping) or "question" not in found or "task" in found:
        return found
    context = found.get("context")
    if isinstance(context, Mapping):  # as the dataset's hub writes it: two lists side by side
        context = list(zip(context.get("title", ()), context.get("sentences", ()), strict=False))
    return {
        "id": found.get("_id", found.get("id")),
        "task": found["question"],
        "answer": found.get("answer"),
        "context": context,
        "topic": "search",
    }
