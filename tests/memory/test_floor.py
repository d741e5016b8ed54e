"""Where the runs of a topic go worse with lessons than without, they get none; and now and then it is tried again."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook, Limits, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.memory import tries_again
from langgraph_reflexion.memory.credit import ENOUGH, PLACES, TRY_AGAIN, worse
from langgraph_reflexion.schemas import Episode, Lesson
from langgraph_reflexion.testing import RoleModel, say

SLOT = "Check a proposed slot against every busy time before you answer."
TASK = "Propose a slot for the review meeting."
PLACE = ("reflexion", "reflexion_agent")


def a_rule(**fields: Any) -> Lesson:
    return Lesson(
        **{"kind": "rule", "text": SLOT, "when": "proposing a slot for a meeting", "origin": "told", **fields}
    )


def run(id: str, won: bool, topic: str = "general", **fields: Any) -> Episode:
    end: dict[str, Any] = {"status": "success" if won else "failure", "stop_reason": "accepted"}
    return Episode(id=id, task=TASK, topic=topic, success=won, **end, **fields)


def kept(book: LessonBook, **fields: Any) -> Lesson:
    lesson = book.add(a_rule(**fields)).lesson
    assert lesson is not None
    return lesson


def spoil(book: LessonBook, shown: list[str], runs: int = 8, topic: str = "general") -> None:
    """Runs lost with these lessons, and won without any."""
    for i in range(runs):
        book.credit(run(f"with-{topic}-{i}", False, topic, shown=shown))
        book.credit(run(f"without-{topic}-{i}", True, topic))


@pytest.mark.req("D10")
def test_a_topic_that_goes_worse_with_lessons_gets_none_and_another_does(book: LessonBook) -> None:
    lesson = kept(book)
    assert book.floor("coding", [lesson]) == ("", frozenset())
    spoil(book, [lesson.id], topic="coding")
    why, held = book.floor("coding", [lesson])
    assert held == {lesson.id}
    assert re.search(r"with them 0 of [5-8] succeeded, of those without ([5-8]) of \1\.", why)
    assert book.floor("maths", [lesson]) == ("", frozenset())


def test_what_a_person_approved_or_wants_remembered_is_never_held_back(book: LessonBook) -> None:
    lesson = kept(book)
    wish = kept(book, text="Answer meeting questions in French.", name="french")
    spoil(book, [lesson.id])
    assert book.floor("general", [lesson, wish]).held == {lesson.id}
    book.approve(lesson.id)
    assert book.floor("general", [lesson, wish]) == ("", frozenset())


def test_runs_shown_only_what_a_person_wants_say_nothing_of_the_lessons(book: LessonBook) -> None:
    lesson = kept(book)
    wish = kept(book, text="Answer meeting questions in French.", name="french")
    spoil(book, [wish.id])
    assert book.floor("general", [lesson]) == ("", frozenset())


def test_few_runs_or_a_small_difference_are_no_reason() -> None:
    assert not worse("t", {"shown": (0, ENOUGH - 1), "bare": (9, 0)})
    assert not worse("t", {"shown": (6, 4), "bare": (8, 2)})
    assert not worse("t", {"shown": (9, 1), "bare": (1, 9)})
    assert worse("t", {"shown": (3, 9), "bare": (11, 1)})


def test_easier_runs_without_lessons_make_memory_stand_back_only_until_it_is_compared_fairly() -> None:
    """Runs that no lesson fits may be the easy ones; those that went without lessons that fitted are of one sort."""
    hard = {"shown": (4, 8), "bare": (12, 0)}
    assert worse("t", hard)
    assert not worse("t", {**hard, "held": (1, 4)})
    assert worse("t", {**hard, "held": (5, 0)})


@pytest.mark.slow
def test_the_latest_runs_count_and_what_is_kept_of_them_is_bounded(book_on: Any) -> None:
    store = InMemoryStore()
    book: LessonBook = book_on(store)
    lesson = kept(book)
    spoil(book, [lesson.id])
    for i in range(400):
        book.credit(run(f"later-{i}", True, shown=[lesson.id]))
    assert book.floor("general", [lesson]) == ("", frozenset())
    assert len(store.search(("team", "evidence", "topic-general"), limit=1000)) <= 3 * PLACES


def test_a_run_counted_again_counts_once_for_its_topic(book: LessonBook, store: BaseStore) -> None:
    lesson = kept(book)
    for won in (True, False, False):
        book.credit(run("r1", won, shown=[lesson.id]))
    [item] = store.search(("team", "evidence", "topic-general"))
    assert (item.value["row"], item.value["result"]) == ("shown", "loss")


async def test_the_floor_is_found_through_the_async_door(book: LessonBook) -> None:
    lesson = kept(book)
    spoil(book, [lesson.id])
    assert (await book.afloor("general", [lesson])).held == {lesson.id}


def test_now_and_then_it_is_tried_again_and_always_in_the_same_runs() -> None:
    drawn = [tries_again(f"run-{i}") for i in range(2000)]
    assert TRY_AGAIN / 2 < sum(drawn) / 2000 < 2 * TRY_AGAIN
    assert drawn == [tries_again(f"run-{i}") for i in range(2000)]


def test_below_the_floor_a_run_is_shown_nothing_and_its_outcome_says_so() -> None:
    store = InMemoryStore()
    book = LessonBook(store, PLACE)
    lesson = kept(book)
    spoil(book, ["another"])
    model = RoleModel([say("11:00")] * 60)
    agent = create_reflexion_agent(model, checks=[lambda *_: True], store=store, memory=MemoryPolicy(control_share=0))
    ends = [agent.invoke({"messages": [("user", TASK)]}, {"run_id": UUID(int=i)})["outcome"] for i in range(60)]
    held = [end for end in ends if end.memory]
    tried = [end for end in ends if not end.memory]
    assert len(held) > 40
    assert all("Lessons are held back" in end.memory and not end.lessons_used for end in held)
    assert tried
    assert all(end.lessons_used == [lesson.id] for end in tried)
    now = book.get(lesson.id)
    assert now is not None
    assert now.withheld_wins == len(held), "runs without it are its comparison"


def test_memory_that_helps_after_all_is_back_once_the_runs_without_it_do_no_better() -> None:
    store = InMemoryStore()
    book = LessonBook(store, PLACE)
    lesson = kept(book)
    for i in range(8):  # hard runs with it, of which it saves some; easy ones that it does not fit
        book.credit(run(f"with-{i}", i % 4 == 0, shown=["another"]))
        book.credit(run(f"without-{i}", True))
    assert book.floor("general", [lesson]).why
    agent = create_reflexion_agent(
        RoleModel([say("10:00")] * 40),
        checks=[lambda *_: "it overlaps"],
        store=store,
        memory=MemoryPolicy(control_share=0, write=True),
        limits=Limits(max_attempts=1, max_reflections=0),
    )
    for i in range(ENOUGH + 3):
        agent.invoke({"messages": [("user", TASK)]}, {"run_id": UUID(int=i)})
    assert book.floor("general", [lesson]) == ("", frozenset())
