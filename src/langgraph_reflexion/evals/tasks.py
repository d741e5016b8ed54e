"""Tasks: JSON Lines in our format, or HotpotQA's own file, read completely before the first model call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from langgraph_reflexion import Context

SHIPPED = "shipped"
"""The name, in place of a file, of the tasks that come with the package."""
ContextChoice = Literal["supporting", "all"]


class TaskError(ValueError):
    """A file of tasks cannot be read; the message names the line."""


class Passage(BaseModel):
    """A piece of background for a task, with a title."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    text: str
    supporting: bool = False
    """Whether the answer rests on it (HotpotQA's `supporting_facts`)."""

    def __str__(self) -> str:
        return f"{self.title}: {self.text}" if self.title else self.text


class Task(BaseModel):
    """One task, and how its answer is checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    task: str = Field(min_length=1)
    answer: str | None = None
    context: tuple[Passage, ...] = ()
    topic: str | None = None
    check: JsonValue = Field(default=None, description="The name of a check, or {name: its argument}.")

    @field_validator("context", mode="before")
    @classmethod
    def _as_passages(cls, value: Any) -> Any:
        if value is None:
            return ()
        if isinstance(value, (str, Mapping)):
            value = [value]
        return [_as_passage(item) for item in value] if isinstance(value, (list, tuple)) else value

    @property
    def digest(self) -> str:
        """A hash that tells this task from another with the same id."""
        return hashlib.sha256(self.model_dump_json().encode(errors="replace")).hexdigest()[:16]

    def passages(self, choice: ContextChoice) -> tuple[Passage, ...]:
        """All passages, or only the supporting ones. If none is marked as supporting, all."""
        supporting = tuple(passage for passage in self.context if passage.supporting)
        return supporting if choice == "supporting" and supporting else self.context


class TaskContext(Context):
    """The context of a run on a task."""

    task: Task


def _as_passage(value: Any) -> Any:
    """A passage in our format, as plain text, or as HotpotQA has it: a title and its sentences."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], (list, tuple)):
        return {"title": value[0], "text": " ".join(str(sentence).strip() for sentence in value[1])}
    return value


def load_tasks(file: Path | str, *, checked: bool = False) -> list[Task]:
    """All tasks of a file, or the shipped ones. A `TaskError` names the first invalid line.

    With `checked`, a task needs neither an answer nor a check, because the caller checks the answers.
    """
    tasks: dict[str, Task] = {}
    for place, record in _records(_read(file), file):
        try:
            task = Task.model_validate(_from_hotpot(record))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise TaskError(f"{file}, {place}: " + f"{where}: {first['msg']}".lstrip(": ")) from None
        if not checked and task.check is None and not (task.answer or "").strip():
            raise TaskError(f"{file}, {place}: needs an `answer` or a `check`, else nothing tells right from wrong")
        if task.id in tasks:
            raise TaskError(f"{file}, {place}: the id {task.id!r} is given twice")
        tasks[task.id] = task
    if not tasks:
        raise TaskError(f"{file} contains no task")
    return list(tasks.values())


def _read(file: Path | str) -> str:
    shipped = files("langgraph_reflexion.evals").joinpath("tasks.jsonl")
    try:
        return (shipped if str(file) == SHIPPED else Path(file)).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TaskError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{file} is not UTF-8 text: {error}") from None


def _records(text: str, file: Path | str) -> Iterator[tuple[str, Any]]:
    """Each record with its place: a JSON array is HotpotQA's file, else each line is a record."""
    if text.lstrip().startswith("["):
        yield from ((f"item {number}", record) for number, record in enumerate(_parse(text, str(file)), 1))
        return
    for number, line in enumerate(text.split("\n"), 1):  # a text may contain other line ends
        if line.strip():
            yield f"line {number}", _parse(line, f"{file}, line {number}")


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{place} is not JSON: {error}") from None


def _from_hotpot(record: Any) -> Any:
    """A record of HotpotQA in our format. Any other record stays as it is."""
    if not isinstance(record, Mapping) or "question" not in record or "task" in record:
        return record
    context, facts = _rows(record.get("context"), "title", "sentences"), _rows(record.get("supporting_facts"), "title")
    facts = facts if isinstance(facts, list) else []
    titles = [fact[0] for fact in facts if isinstance(fact, (list, tuple)) and fact]
    passages = [_as_passage(item) for item in context] if isinstance(context, list) else context
    for passage in passages if isinstance(passages, list) else ():
        if isinstance(passage, dict) and passage.get("title") in titles:
            passage["supporting"] = True
    return {
        "id": record.get("_id", record.get("id")),
        "task": record["question"],
        "answer": record.get("answer"),
        "context": passages,
        "topic": "search",
    }


def _rows(table: Any, *columns: str) -> Any:
    """The rows of a table, which the dataset's hub writes as columns."""
    lists = [table.get(name, []) for name in columns] if isinstance(table, Mapping) else []
    is_table = lists and all(isinstance(column, list) for column in lists)
    return list(zip(*lists, strict=False)) if is_table else table
