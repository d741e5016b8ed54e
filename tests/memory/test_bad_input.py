"""What a person gives a book or a notebook by mistake is one clear error with the value, and changes nothing."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from langgraph_reflexion import (
    Context,
    ErrorNotebook,
    Failure,
    FaissStore,
    Lesson,
    LessonBook,
    Limits,
    MemoryPolicy,
    after_run,
    create_reflexion_agent,
)
from langgraph_reflexion.errors import LessonError, ReflexionError, StoreError
from langgraph_reflexion.schemas import Trigger
from langgraph_reflexion.testing import ScriptedModel, say
from langgraph_reflexion.text.literals import fingerprint, hide_password

RULE = Lesson(kind="rule", text="Give the calendar a plain weekday name.", when="planning a day")


@tool
def search(query: str) -> str:
    """Search."""
    return query


@pytest.fixture
def book() -> LessonBook:
    kept = LessonBook(InMemoryStore())
    kept.add(RULE)
    return kept


@pytest.mark.req("D15")
@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda book: book.add("Be brief."), "`add` takes a Lesson, got 'Be brief.'"),
        (lambda book: book.add(RULE, task=7), "`task` must be a string, got 7"),
        (lambda book: book.recall(None), "`task` must be a string, got None"),
        (lambda book: book.recall("plan", "search"), "`tools` must be a list of strings, got 'search'"),
        (lambda book: book.recall("plan", [search]), "`tools` must contain only strings, got Struct.*: pass 'search'"),
        (lambda book: book.recall("plan", failure="it broke"), "`failure` must be a Failure, got 'it broke'"),
        (lambda book: book.search(7), "`query` must be a string, got 7"),
        (lambda book: book.search("plan", limit=1.5), "`limit` must be a whole number of 0 or more, got 1.5"),
        (lambda book: book.search("plan", limit=-1), "`limit` must be a whole number of 0 or more, got -1"),
        (lambda book: book.lessons(kind="rules"), "`kind` must be one of .*, got 'rules'"),
        (lambda book: book.lessons(topic=7), "`topic` must be a list of strings, got 7"),
        (lambda book: book.approve(book.lessons()[0]), "`id` must be a string, got a lesson: pass its `.id`"),
        (lambda book: book.get(7), "`id` must be a string, got 7"),
        (lambda book: book.retire(book.lessons()[0].id, None), "`why` must be a string, got None"),
        (lambda book: book.undo(since="yesterday"), "`since` must be a datetime, got 'yesterday'"),
        (lambda book: book.credit("run"), "`episode` must be an Episode, got 'run'"),
        (lambda book: book.export(None), "`path_or_file` must be a path or an open file, got None"),
        (lambda book: book.load(""), "`path_or_file` must be a path or an open file, got ''"),
    ],
)  # fmt: skip
def test_a_book_names_what_it_cannot_take_and_stays_as_it_was(book: LessonBook, ask: Any, said: str) -> None:
    before = book.lessons()
    with pytest.raises((ValueError, LessonError), match=said):
        ask(book)
    assert book.lessons() == before


@pytest.mark.req("D15")
def test_an_empty_id_is_unknown_and_never_means_all(book: LessonBook) -> None:
    with pytest.raises(KeyError):
        book.undo("")
    assert [one.status for one in book.lessons()] == ["candidate"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"store": InMemoryStore}, "`store` must be a LangGraph store"),
        ({"store": "lessons.db"}, r"`store` must be a LangGraph store, got 'lessons\.db'"),
        ({"namespace": ("team", "{user_id}")}, "`context` has no value for a field"),
        ({"namespace": ("team", "ada.b")}, r"without dots.*'ada\.b'.*as a field"),
        ({"namespace": MemoryPolicy().namespace}, "`namespace` needs at least one label"),
        ({"namespace": 7}, "namespace\n.*a valid tuple.*input_value=7"),
        ({"namespace": {"team": 1}}, "namespace\n.*a valid tuple.*'team'"),
        ({"policy": Limits()}, "`policy` must be a MemoryPolicy, got Limits"),
        ({"clock": 7}, "`clock` must be a function .*, got 7"),
    ],
)
def test_a_book_that_cannot_be_is_refused_when_it_is_opened(made: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LessonBook(**{"store": InMemoryStore(), **made})


@pytest.mark.req("K5")
@pytest.mark.parametrize("address", ["postgresql://me:s3cr3t@db/x", "redis://:s3cr3t@db", "host=db password=s3cr3t"])
@pytest.mark.parametrize(
    "give",
    [
        LessonBook,
        ErrorNotebook,
        FaissStore,
        lambda store: create_reflexion_agent("x", store=store),
        lambda store: after_run("x", memory=store),
    ],
)
def test_an_address_given_by_mistake_is_shown_without_its_password(give: Any, address: str) -> None:
    if give is FaissStore and "://" not in address:
        return  # it may be a file's name
    for store in (address, Path(address)):
        with pytest.raises((ValueError, StoreError)) as refused:
            give(store)
        assert "***" in str(refused.value)
        assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@db:5432/lessons", "postgresql://me:***@db:5432/lessons"),
        ("postgresql://me@db/lessons?password=secret&x=1", "postgresql://me@db/lessons?password=***&x=1"),
        ("postgresql://me:se:cr@et/s@db/lessons", "postgresql://me:***@db/lessons"),
        ("postgresql://db:5432/lessons?user=me&password=se@cret", "postgresql://db:5432/lessons?user=me&password=***"),
        ("host=db password = 'se cret' user=me", "host=db password = *** user=me"),
        ("postgresql://db:5432/lessons", "postgresql://db:5432/lessons"),
        ("lessons.db", "lessons.db"),
    ],
)
def test_a_password_is_never_shown(text: str, shown: str) -> None:
    assert hide_password(text) == shown


def test_a_books_clock_must_return_an_aware_time() -> None:
    book = LessonBook(InMemoryStore(), clock=lambda: datetime(2026, 3, 3))
    with pytest.raises(ValueError, match="`clock` must return an aware datetime"):
        book.add(RULE)


@pytest.mark.req("H6", "H7")
@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda notebook: notebook.recent("all"), "`limit` must be a whole number of 0 or more, got 'all'"),
        (lambda notebook: notebook.rules_text(None), "`task` must be a string, got None"),
        (
            lambda notebook: notebook.rules_text(min_repetitions=-1),
            "`min_repetitions` must be a whole number of 0 or more",
        ),
        (lambda notebook: notebook.by_tool(search), "`name` must be a string, got StructuredTool"),
        (lambda notebook: notebook.by_session(7), "`id` must be a string, got 7"),
    ],
)
def test_a_notebook_names_what_it_cannot_take(ask: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ask(ErrorNotebook(InMemoryStore()))


@pytest.mark.req("H6")
@pytest.mark.parametrize("session", ["r\0", "r\ud800"])
def test_a_session_is_found_by_an_id_that_a_store_cannot_hold(session: str) -> None:
    notebook = ErrorNotebook(FaissStore(":memory:"))
    notebook.add({"category": "other", "description": "The table was read twice."}, session)
    assert len(notebook.by_session(session)) == 1


@pytest.mark.req("D5")
def test_a_failure_whose_text_a_store_cannot_hold_finds_the_lessons_learned_from_it() -> None:
    store = InMemoryStore()
    book = LessonBook(store, ("team",))
    for run, text in (("r1", "unexpected byte \0 in the header"), ("r2", "no end \0 of the header")):
        mark = fingerprint("tool_error", "read", text)
        trigger = Trigger(signal="tool_error", tool="read", fingerprint=mark)
        lesson = Lesson(kind="rule", text="Unpack it first.", tags=["pa\ud800th"], sources=[run], trigger=trigger)
        written = book.add(lesson)
        failure = Failure(signal="tool_error", evidence=text, tool="read", fingerprint=mark)
        assert len(book.recall("Sum up the report.", ["read"], failure)) == 1
    assert written.action == "merged"
    assert "\\ud800" not in json.dumps(store.get(("team", "lessons"), written.lesson.id).value)  # type: ignore[union-attr]


@pytest.mark.req("D5")
@pytest.mark.parametrize(
    ("path", "settings", "said"),
    [
        (None, {}, "`path` must be a file's path or ':memory:', got None"),
        (7, {}, "`path` must be a file's path or ':memory:', got 7"),
        (":memory:", {"index": "words"}, "`index` must be a mapping such as .*, got 'words'"),
        (
            ":memory:",
            {"index": {"dims": 4, "embed": 7}},
            "`embed` must be an Embeddings, its name or a function .*, got 7",
        ),
        (":memory:", {"ttl": 60}, "`ttl` must be a mapping such as .*, got 60"),
        (":memory:", {"durability": "fast"}, "`durability` must be one of process, power, got 'fast'"),
    ],
)
def test_a_store_names_what_it_cannot_be_opened_with(path: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FaissStore(path, **settings)


@pytest.mark.req("D15")
@pytest.mark.parametrize("field", [{"expires_at": datetime(2099, 1, 1)}, {"wins": -5}, {"losses": 10**12}])
def test_a_value_that_no_store_would_give_back_is_refused_at_once(field: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Lesson(kind="rule", text="Read the units first.", **field)


@pytest.mark.req("H6")
def test_a_session_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="`session` must be a string, got None"):
        ErrorNotebook(InMemoryStore()).record(None, 90, [])  # type: ignore[arg-type]


@pytest.mark.req("J5")
def test_a_guards_wrong_name_is_refused_when_the_agent_is_built() -> None:
    with pytest.raises(ReflexionError, match="nope:x"):
        create_reflexion_agent(ScriptedModel([]), memory=MemoryPolicy(guard="nope:x"))


@pytest.mark.req("G1")
def test_a_field_that_the_agent_writes_itself_is_refused() -> None:
    class Fields(TypedDict):
        messages: list[Any]
        progress: str

    with pytest.raises(ValueError, match="`state_schema` has the field 'progress', which the agent itself uses"):
        create_reflexion_agent(ScriptedModel([]), state_schema=Fields)


@pytest.mark.req("D15")
def test_a_user_is_named_once_in_a_namespace_that_has_a_field_for_them() -> None:
    store, policy = InMemoryStore(), MemoryPolicy(namespace=("team", "{user_id}"), by_user=True)
    agent = create_reflexion_agent(ScriptedModel([say("Eleven.")]), memory=policy, store=store)
    agent.invoke({"messages": [("user", "Which hour?")]}, context=Context(user_id="ada"))
    assert {namespace[:-1] for namespace in store.list_namespaces()} == {("team", "ada")}
