"""Exchange: lessons as JSON Lines that people can read, compare and edit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, TextIO, cast
from uuid import uuid4

from langgraph.store.base import Op, PutOp
from pydantic import Field, ValidationError

from langgraph_reflexion.driver import in_thread
from langgraph_reflexion.errors import LessonError
from langgraph_reflexion.memory.access import COLLECTIONS, Plan, items_in, may_be_an_id, pause, put
from langgraph_reflexion.memory.evidence import LIVE, Change, ChangeAction, Evidence
from langgraph_reflexion.memory.gate import MAX_READ, MAX_VALUES, malformed, tidy
from langgraph_reflexion.memory.index import tasks_of
from langgraph_reflexion.memory.items import (
    FIELDS,
    MORE_FAILURES,
    TASKS,
    StoredLesson,
    failure_of,
    fingerprints,
    item_value,
    lesson_id,
)
from langgraph_reflexion.memory.screening import all_texts, suspicion_of
from langgraph_reflexion.memory.shelf import Shelf
from langgraph_reflexion.schemas import TEXTS, Count, Lesson, LessonStatus
from langgraph_reflexion.text.json_text import escape_invisible, unique_keys, valid_text
from langgraph_reflexion.text.tokens import fold

Place = str | os.PathLike[str] | TextIO


@dataclass(frozen=True)
class Loaded:
    """How many lessons of a file were new, were known, or were invalid."""

    added: int = 0
    unchanged: int = 0
    skipped: int = 0


class Line(Lesson):
    """A line of a file: a lesson with the other fields of its item, `MORE_FAILURES` and `TASKS`."""

    version: Count = 1  # a longer number cannot be saved in every store
    also: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    asked: list[Annotated[str, Field(max_length=MAX_READ)]] = Field(default_factory=list, max_length=MAX_VALUES)


def export(entries: Sequence[StoredLesson], place: Place) -> Plan[int]:
    """Write one lesson per line and return their number. In async code, this runs in a thread."""
    yield in_thread(lambda: _write_lines(entries, place))
    return len(entries)


def _write_lines(entries: Sequence[StoredLesson], place: Place) -> None:
    lines = [escape_invisible(json.dumps(_row(entry), ensure_ascii=False)) + "\n" for entry in entries]
    if hasattr(place, "write"):
        cast(TextIO, place).writelines(lines)
    else:
        _write_file(Path(cast(str, place)), "".join(lines))


def _write_file(path: Path, text: str) -> None:
    """Write a file completely or, if the disk is full, not at all. A device is written directly."""
    target = path.resolve()  # if it is a link, its target is replaced
    if _is_database(target):
        raise ValueError(f"{path} is a database, and an export would overwrite it: write to another file")
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):  # a protected file is not replaced
        path.write_text(text, encoding="utf-8")
        return
    new = target.with_name(f".{uuid4().hex}.tmp")
    try:
        new.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, new)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def _is_database(path: Path) -> bool:
    """Whether an existing file is an SQLite database, such as a store."""
    path = path.resolve()
    # A database in use. If this process opened and closed the file, it would lose its locks on it, and could damage it.
    if path.with_name(f"{path.name}-wal").exists():
        return True
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def read_lines(place: Place) -> list[str]:
    """The lines of a file or an open one. Bytes that are not UTF-8 become surrogates, so their line can be named."""
    if not hasattr(place, "read") and _is_database(Path(cast(str, place))):
        raise ValueError(f"{place} is a database: export its lessons, and load the exported file")
    found = cast(IO[Any], place).read() if hasattr(place, "read") else Path(cast(str, place)).read_bytes()
    text = found.decode(errors="surrogateescape") if isinstance(found, bytes) else str(found)
    return text.removeprefix("\ufeff").split("\n")


def load(shelf: Shelf, place: Place, strict: bool, untrusted: bool) -> Plan[Loaded]:
    """Add all new lessons of a file, or none. With `strict` an invalid line raises an error that names it.

    A database gets more than 5,000 lessons in several batches. If one fails, load the file again.
    """
    lines: list[str] = yield in_thread(lambda: read_lines(place))
    lessons, skipped = yield from _parse_lines(shelf, lines, strict, untrusted)
    newest = {(new.kind, new.name or ""): new.id for new in lessons if new.name and new.status in LIVE}
    rows: list[tuple[Line, list[Op]]] = []
    for i, lesson in enumerate(lessons, 1):
        yield from pause(i)
        if lesson.status in LIVE and newest.get((lesson.kind, lesson.name or ""), lesson.id) != lesson.id:
            lesson = lesson.model_copy(update={"status": "superseded"})  # one name has one live value
        doubt = suspicion_of(lesson) if lesson.status == "quarantined" else None
        why = f"loaded from a file, and {doubt}" if doubt else "loaded from a file"
        action: ChangeAction = "quarantined" if lesson.status == "quarantined" else "added"
        _, record = Evidence().with_change(Change("", lesson.id, action, shelf.clock(), "person", why))
        ops: list[Op] = [
            put(shelf.lessons, lesson.id, item_value(lesson), FIELDS),
            put(shelf.evidence_of(lesson.id), *record),
            PutOp(shelf.forgotten, lesson.id, None),
        ]
        rows.append((lesson, ops))
    items = yield from items_in(shelf.lessons)  # after the pauses, in which other tasks may add some
    known = {item.key for item in items}
    texts = {_identity(item.value) for item in items}
    groups: list[list[Op]] = []
    for lesson, ops in rows:
        if lesson.id in known or _identity(vars(lesson)) in texts:
            continue
        known.add(lesson.id)
        texts.add(_identity(vars(lesson)))
        groups.append([*ops, *((yield from shelf.replaced_by(lesson)) if lesson.status in LIVE else [])])
    for batch in shelf.in_batches(groups):
        yield from shelf.save(batch)
    return Loaded(len(groups), len(lessons) - len(groups), skipped)


def _identity(value: Mapping[str, Any]) -> tuple[Any, str, bool]:
    """A key that is equal for lessons that say the same. A pattern may have the text of a lesson that it summarizes."""
    return value.get("kind"), fold(str(value.get("text"))), bool(value.get("supersedes"))


def _parse_lines(shelf: Shelf, lines: Iterable[str], strict: bool, untrusted: bool) -> Plan[tuple[list[Line], int]]:
    """The lessons of these lines, and how many lines were skipped."""
    rows: list[Line] = []
    skipped = 0
    for number, line in enumerate(lines, 1):
        yield from pause(number)
        if not line.strip():
            continue
        try:
            rows.append(_parse_line(shelf, line, untrusted))
        except (ValueError, RecursionError) as error:
            if strict:
                raise LessonError(f"line {number} is not a lesson: {_reason(error)}") from error
            skipped += 1
    return rows, skipped


def _parse_line(shelf: Shelf, line: str, untrusted: bool) -> Line:
    """The lesson of one line as it will be saved. A suspicious lesson is quarantined, whatever its status in the line.

    Of an untrusted lesson, only the text and a quarantine are kept, not its record, any other status, its origin,
    failures, tasks or name, which would replace the entry of that name.
    """
    if valid_text(line) != line:
        raise ValueError("it is not UTF-8")
    data = json.loads(line, object_pairs_hook=unique_keys)
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object; each line must be one, as `export` writes it")
    raw = Line.model_validate(data)
    lesson = tidy(raw)
    if reason := malformed(lesson):
        raise ValueError(reason)
    if lesson.id and not may_be_an_id(lesson.id):
        reserved = ", ".join(COLLECTIONS)
        raise ValueError(
            f"its id {lesson.id!r} may contain only letters, digits, - and _, and may not be one of {reserved}"
        )
    if untrusted:
        kept = {name: getattr(lesson, name) for name in (*TEXTS, "expires_at") if name != "name"}
        status: LessonStatus = "quarantined" if lesson.status == "quarantined" else "candidate"
        lesson = Line(**kept, kind=lesson.kind, origin="observed", status=status)
    now = shelf.clock()
    update: dict[str, Any] = {
        "id": lesson.id or lesson_id(shelf.namespace, lesson),
        "created_at": lesson.created_at or now,
        "updated_at": lesson.updated_at or lesson.created_at or now,
    }
    if suspicion_of(raw) or (all_texts(lesson) != all_texts(raw) and suspicion_of(lesson)):
        update["status"] = "quarantined"
    return lesson.model_copy(update=update)


def _row(entry: StoredLesson) -> dict[str, Any]:
    """The fields that are not empty, in order: the lesson's, its other failures and the tasks that taught it."""
    value, lesson = entry.item.value, entry.lesson
    failures = [mark for mark in fingerprints(value) if mark != failure_of(lesson)]
    row = lesson.model_dump(mode="json") | {MORE_FAILURES: failures, TASKS: tasks_of(value)}
    return {name: part for name, part in row.items() if part not in (None, "", [], {})}


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
    if isinstance(error, json.JSONDecodeError):  # its text would name another line
        return f"{error.msg} at column {error.colno}"
    return str(error)
