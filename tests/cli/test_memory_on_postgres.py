"""The memory command on a PostgreSQL address: the same verbs, and the way there from a file."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from langgraph_reflexion import FaissStore, Lesson, LessonBook
from langgraph_reflexion.cli import main
from langgraph_reflexion.cli.stores import open_store

POSTGRES = "POSTGRES_DSN"
TEXT = "Give the calendar a weekday, never a date."


def test_without_its_package_the_error_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "langgraph.store.postgres", None)
    assert main(["memory", "list", "--store", "postgresql://me:secret@db/lessons"]) == 2
    err = capsys.readouterr().err
    assert 'pip install langgraph-checkpoint-postgres "psycopg[binary]"' in err
    assert "secret" not in err


@pytest.fixture
def address() -> Iterator[str]:
    """A database of its own, without tables."""
    if POSTGRES not in os.environ:
        pytest.skip(f"${POSTGRES} names no server")
    psycopg = pytest.importorskip("psycopg")
    name = f"memory_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(os.environ[POSTGRES], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        head, slash, rest = os.environ[POSTGRES].partition("://")[2].partition("/")
        yield f"postgresql://{head}{slash}{name}{'?' if '?' in rest else ''}{rest.partition('?')[2]}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.external
@pytest.mark.req("D15")
def test_lessons_move_from_a_file_to_postgresql(address, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with FaissStore("lessons.db") as store:
        book = LessonBook(store, ("team", "ada"))
        for text in (TEXT, "提议会议时间之前，先检查所有忙碌时段。"):
            book.add(Lesson(kind="rule", text=text, origin="told"))
        [first, _] = book.lessons()
        book.approve(first.id)
    assert main(["memory", "export", "all.jsonl", "--store", "lessons.db"]) == 0

    there = ("--store", address, "--namespace", "team/ada")
    assert main(["memory", "list", *there]) == 2
    assert "this database has no LangGraph store" in capsys.readouterr().err
    assert main(["memory", "import", "all.jsonl", *there, "--create"]) == 0
    assert main(["memory", "import", "all.jsonl", *there]) == 0
    assert "0 lessons added to team/ada, 2 already known" in capsys.readouterr().out

    assert main(["memory", "export", *there]) == 0
    assert capsys.readouterr().out == Path("all.jsonl").read_text("utf-8")
    assert main(["memory", "search", "date in a calendar", "--json", *there]) == 0
    assert json.loads(capsys.readouterr().out)[0]["lesson"]["id"] == first.id
    for verb in (
        ["show", first.id[:6]],
        ["stats"],
        ["history", first.id],
        ["retire", first.id],
        ["forget", first.id, "--yes"],
    ):
        assert main(["memory", *verb, *there]) == 0
    capsys.readouterr()
    assert main(["memory", "show", first.id, *there]) == 2


@pytest.mark.external
def test_a_server_that_is_not_there_is_reported_in_a_line(capsys):
    pytest.importorskip("psycopg")
    assert main(["memory", "list", "--store", "postgresql://me:secret@127.0.0.1:9/lessons"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("langgraph-reflexion: the store postgresql://me:***@127.0.0.1:9/lessons cannot be used: ")
    assert err.count("\n") == 1
    assert "secret" not in err


@pytest.mark.external
def test_a_connection_that_the_server_closed_is_replaced(address):
    import psycopg

    with open_store(address, create=True) as store:
        store.put(("team",), "a", {"n": 1})
        with psycopg.connect(address) as connection:
            others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            others += " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            assert connection.execute(others).fetchone() == (True,)
        assert store.get(("team",), "a").value == {"n": 1}
