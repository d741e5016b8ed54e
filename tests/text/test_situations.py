"""What a lesson keeps of the task it was learned on: its words, and nothing that is a detail or a secret."""

from __future__ import annotations

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.text.situations import nearness, situation_of

OTHER_WORDS = Lesson(kind="rule", text="Give the lookup a plain weekday name.", when="calling the lookup with a date")


@pytest.fixture
def book():
    return LessonBook(InMemoryStore(), policy=MemoryPolicy(control_share=0.0))


@pytest.mark.req("D4", "D13")
@pytest.mark.parametrize(
    ("task", "kept"),
    [
        ("Analyse the report of Ana Ruiz of 2026-03-04.", "analys report"),
        ("Find a free hour for the budget meeting on Tuesday.", "find fre hour budget meet"),
        ("Log in; the password: hunter2x! and mail ana@example.org.", "log password secret mail"),
        ("42", ""),
        ("查询订单A-12的物流", "查询 询订 订单 物流"),
        ("安排周二的会议", "安排 会议"),
    ],
)
def test_details_and_secrets_of_a_task_are_not_kept_and_a_name_within_a_word_is_no_name(task, kept):
    assert situation_of(task) == kept


@pytest.mark.req("D4")
@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("find fre hour budget meet", "find fre hour design meet", True),
        ("plan press meet", "plan budget meet", True),
        ("find cheap flight", "find cheap hotel", False),
        ("invent telephon", "invent radio", False),
        ("open", "open", False),
        ("invent telephon", "invent telephon", True),
        ("", "", False),
    ],
)
def test_tasks_are_alike_that_share_most_of_the_words_of_both(one, other, alike):
    assert (nearness(one.split(), other.split()) > 0) is alike


@pytest.mark.req("D4", "D5")
def test_a_lesson_that_fits_by_its_words_is_not_joined_by_one_that_was_learned_on_such_a_task(book):
    task = "Sum the column of the quarterly report."
    book.add(OTHER_WORDS, task=task)
    assert [one.text for one in book.recall(task)] == [OTHER_WORDS.text]
    fitting = Lesson(kind="rule", text="Leave out subtotals when you sum a column of a report.")
    book.add(fitting, task="Add up what we sold.")
    assert [one.text for one in book.recall(task)] == [fitting.text]


@pytest.mark.req("D2")
def test_what_a_caller_gives_as_the_situation_is_bounded_and_masked(book):
    given = "report password: hunter2x! " + "word " * 1_000
    kept = book.add(OTHER_WORDS.model_copy(update={"situation": given})).lesson.situation
    assert "hunter2x!" not in kept
    assert len(kept) <= 800
