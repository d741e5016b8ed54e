"""What two episodes taught with different tools becomes a pattern for any; its originals stay and are linked."""

from __future__ import annotations

from typing import Any

import pytest

from langgraph_reflexion import Episode, Lesson, LessonBook
from langgraph_reflexion.schemas import Trigger

FLIGHTS = "Pass a plain weekday name for the date, because a calendar date is refused."
HOTELS = "For the date, pass a plain weekday name, because a calendar date is refused."
TRAINS = "Always pass a plain weekday name for the date, because a calendar date is refused."
TASK = "Find a connection on the date of the fair, a weekday in spring."


def learned(book: LessonBook, text: str, tool: str | None, source: str | None, **fields: Any) -> Lesson:
    said = Lesson(
        **{
            "kind": "rule",
            "text": text,
            "origin": "verified",
            "when": "searching by date",
            "trigger": Trigger(signal="tool_error", tool=tool, fingerprint=f"{tool}|no date") if tool else None,
            "sources": [source] if source else [],
            **fields,
        }
    )
    kept = book.add(said).lesson
    assert kept is not None
    return kept


def patterns(book: LessonBook) -> list[Lesson]:
    return book.lessons(kind="pattern")


@pytest.mark.req("D13", "D12")
def test_the_same_rule_of_two_tools_and_two_episodes_is_lifted_to_a_pattern(book: LessonBook) -> None:
    one = learned(book, FLIGHTS, "search_flights", "e1", topic="search")
    other = learned(book, HOTELS, "search_hotels", "e2", topic="coding")
    [pattern] = patterns(book)
    assert set(pattern.supersedes) == {one.id, other.id}
    assert (pattern.text, pattern.trigger, pattern.topic) in [(FLIGHTS, None, None), (HOTELS, None, None)]
    assert (sorted(pattern.sources), pattern.origin, pattern.status) == (["e1", "e2"], "verified", "candidate")
    assert {(one.text, one.status) for one in book.lessons(kind="rule")} == {
        (FLIGHTS, "candidate"),
        (HOTELS, "candidate"),
    }
    assert book.history(pattern.id)[0].why == "it speaks for 2 lessons"


@pytest.mark.req("D13", "D20")
def test_an_agent_with_a_third_tool_has_the_pattern_and_those_with_the_first_two_their_own(book: LessonBook) -> None:
    one = learned(book, FLIGHTS, "search_flights", "e1")
    assert book.recall(TASK, tools=["search_trains"]) == []
    learned(book, HOTELS, "search_hotels", "e2")
    [pattern] = patterns(book)
    assert [one.id for one in book.recall(TASK, tools=["search_trains"])] == [pattern.id]
    assert [one.id for one in book.recall(TASK, tools=["search_flights"])] == [one.id]


@pytest.mark.req("D12")
def test_a_pattern_that_proved_itself_is_shown_in_place_of_its_originals(book: LessonBook, clock: Any) -> None:
    learned(book, FLIGHTS, "search_flights", "e1")
    learned(book, HOTELS, "search_hotels", "e2")
    [pattern] = patterns(book)
    for run in ("r1", "r2"):
        clock.pass_by(minutes=1)
        book.credit(Episode(id=run, task=TASK, success=True, status="success", shown=[pattern.id]))
    assert [one.status for one in patterns(book)] == ["active"]
    assert [one.id for one in book.recall(TASK, tools=["search_flights", "search_hotels"])] == [pattern.id]


@pytest.mark.req("D12")
def test_one_command_undoes_it_and_it_is_not_lifted_again(book: LessonBook) -> None:
    learned(book, FLIGHTS, "search_flights", "e1")
    other = learned(book, HOTELS, "search_hotels", "e2")
    [pattern] = patterns(book)
    book.undo(book.history(pattern.id)[0].id)
    assert [one.status for one in patterns(book)] == ["retired"]
    assert [one.id for one in book.recall(TASK, tools=["search_hotels"])] == [other.id]
    learned(book, HOTELS, "search_hotels", "e3")
    book.distill()
    assert [one.status for one in patterns(book)] == ["retired"]


def test_a_third_tool_joins(book: LessonBook) -> None:
    made = [
        learned(book, text, tool, source)
        for text, tool, source in (
            (FLIGHTS, "search_flights", "e1"),
            (HOTELS, "search_hotels", "e2"),
            (TRAINS, "search_trains", "e3"),
        )
    ]
    [pattern] = [one for one in patterns(book) if one.status == "candidate"]
    assert set(pattern.supersedes) == {one.id for one in made}


@pytest.mark.parametrize(
    ("text", "tool", "source"),
    [
        (HOTELS, "search_hotels", "e1"),
        (HOTELS, "search_hotels", None),
        (HOTELS, None, "e2"),
        ("Never pass a plain weekday name for the date, because a calendar date is wanted.", "search_hotels", "e2"),
        ("Pass a plain street name for the address, because a house number is refused.", "search_hotels", "e2"),
    ],
    ids=["the same episode", "no episode", "bound to no tool", "the opposite", "another thing"],
)
def test_nothing_is_lifted_from(book: LessonBook, text: str, tool: str | None, source: str | None) -> None:
    learned(book, FLIGHTS, "search_flights", "e1")
    learned(book, text, tool, source)
    assert patterns(book) == []


@pytest.mark.req("D13")
def test_a_rule_that_two_sorts_of_task_taught_is_for_all_sorts(book: LessonBook) -> None:
    first = learned(book, FLIGHTS, None, "e1", topic="search")
    learned(book, FLIGHTS, None, "e2", topic="search")
    assert [one.topic for one in book.lessons()] == ["search"]
    learned(book, FLIGHTS, None, "e3", topic="coding")
    assert [one.topic for one in book.lessons()] == [None]
    assert len(book.lessons()) == 1
    book.undo(book.history(first.id)[-1].id)
    assert [one.topic for one in book.lessons()] == ["search"]


@pytest.mark.req("D13")
@pytest.mark.parametrize("other", [FLIGHTS, HOTELS])
def test_what_two_tools_taught_says_of_no_tool_when_it_holds(book: LessonBook, other: str) -> None:
    learned(book, FLIGHTS, "search_flights", "e1", when="search_flights is given a date")
    learned(book, other, "search_hotels", "e2", when="search_hotels is given a date")
    [offered] = book.recall(TASK, tools=["search_trains"])
    assert offered.when == "a tool is given a date"
