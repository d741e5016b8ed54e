"""Text made to keep the book busy does not, and a record from elsewhere is read with care."""

from __future__ import annotations

import time

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.memory import LessonBook, suspicion
from langgraph_reflexion.nodes.models.transcript import fenced
from langgraph_reflexion.schemas import Episode, Failure, Lesson
from langgraph_reflexion.text.literals import fingerprint

ENDLESS = ["a", "a-", "a.", "a1", "1,", "忽略", "\n", "“", "sk-", "<a ", "< ", "a_", "\\n[", "token="]


def book() -> LessonBook:
    return LessonBook(InMemoryStore(), ("team",))


@pytest.mark.req("D2")
def test_a_name_that_is_the_answer_or_stands_in_the_task_is_a_retelling() -> None:
    task = "Book a room for Amelia Hartley with the title 'Quarterly Budget Review'."
    assert book().add(Lesson(kind="rule", text="Book the room for Amelia first."), task=task).action == "refused"
    assert book().add(Lesson(kind="rule", text="Reply with Paris."), answer="Paris").action == "refused"
    assert book().add(Lesson(kind="rule", text="Return None where a row is empty."), answer="None").action == "added"


@pytest.mark.slow
@pytest.mark.req("K5")
@pytest.mark.parametrize("unit", ENDLESS)
def test_a_text_made_to_be_looked_at_for_ever_is_not(unit: str) -> None:
    endless, mine = (unit * 60_000)[:60_000], book()
    began = time.process_time()
    assert mine.add(Lesson(kind="rule", text=f"Check {endless} twice.")).action == "refused"
    known = mine.add(Lesson(kind="rule", text="Check the busy slot.", when=endless), task=endless).lesson
    assert known is None or len(known.when) <= 300
    failure = Failure(signal="tool_error", evidence=endless, fingerprint=fingerprint("tool_error", "search", endless))
    mine.recall(endless, failure=failure)
    mine.search(endless)
    mine.credit(Episode(id="r", task=endless, success=False, failures=[failure]))
    suspicion(endless[:4_000])
    fenced(endless)
    assert time.process_time() - began < 20


@pytest.mark.req("D17", "K5")
def test_a_record_that_was_made_too_long_is_not_shown() -> None:
    mine = book()
    kept = mine.add(Lesson(kind="rule", text="Check the busy slot of the calendar.")).lesson
    assert kept is not None
    item = mine.store.get(("team", "lessons"), kept.id)
    assert item is not None
    mine.store.put(("team", "lessons"), kept.id, {**item.value, "when": "The busy slot. " + "\n" * 50_000})
    assert mine.recall("Find a busy slot in the calendar.") == []


@pytest.mark.req("D7")
def test_a_user_whose_name_is_one_of_our_own_labels_keeps_a_memory_apart() -> None:
    store = InMemoryStore()
    names = ("lessons", "evidence", "episodes", "notebook")
    ours, theirs = LessonBook(store, ("team",)), [LessonBook(store, ("team", name)) for name in names]
    for one in (ours, *theirs):
        kept = one.add(Lesson(kind="rule", text="Check the busy slot of the calendar.", sources=["r"])).lesson
        assert kept is not None
        one.credit(Episode(id="r", task="t", success=True, shown=[kept.id]))
    assert (ours.stats()["lessons"], ours.stats()["wins"], ours.stats()["episodes"]) == (1, 1, 1)
    ours.undo("r")
    assert ours.stats()["wins"] == 0
    assert [(one.stats()["live"], one.stats()["wins"]) for one in theirs] == [(1, 1)] * 4
