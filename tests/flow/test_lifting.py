"""Two runs with different tools teach the same, and a third run with another tool has it before anything fails."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook
from langgraph_reflexion.testing import RoleModel, call, reflection, say

TEXT = "Pass a plain weekday name for the date, because a calendar date is refused."
AGAIN = "For the date, pass a plain weekday name, because a calendar date is refused."


def search(name):
    @tool(name)
    def found(date: str) -> str:
        """Look up connections on a date."""
        if any(one.isdigit() for one in date):
            raise ValueError(f"no such day: {date}")
        return "one at nine"

    return found


def learn(run, store, name, task, text):
    memo = {"kind": "rule", "text": text, "when": "planning a trip by date", "tags": []}
    calls = [call(name, date="2031-03-04"), call(name, date="Tuesday"), say("At nine.")]
    model = RoleModel(calls, reflection("Ask with the weekday.", memory_to_write=[memo]))
    seen = run(model, [search(name)], task=task, store=store)
    return seen, model


@pytest.mark.req("D13", "D12")
def test_what_two_tools_taught_is_shown_with_a_third_and_asks_no_model(run, decided):
    store = InMemoryStore()
    learn(run, store, "search_flights", "Plan a trip by air on the date of the fair.", TEXT)
    assert not LessonBook(store).lessons(kind="pattern")
    seen, model = learn(run, store, "search_hotels", "Plan a trip to the concert on the date of the ticket.", AGAIN)
    [pattern] = LessonBook(store).lessons(kind="pattern")
    assert [one.role for one in model.asked].count("other") == 0
    assert len(model.asked) == 4, "three decisions and one reflection"
    assert pattern.id not in seen.outcome.lessons_written
    model = RoleModel([call("search_trains", date="Tuesday"), say("At nine.")])
    seen = run(model, [search("search_trains")], task="Plan a trip by train on the date of the match.", store=store)
    assert f"Patterns:\n- {pattern.id}: {pattern.text}" in decided(model)[0].system
    assert seen.outcome.lessons_used == [pattern.id]
    assert not seen.signals
