"""What runs say about the lessons they were shown, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import BaseStore

from example_lessons import SLOT
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Episode, Failure, Fix, Lesson, Memo, Reflection


def a_rule(text: str = SLOT, **fields: Any) -> Lesson:
    return Lesson(
        **{"kind": "rule", "text": text, "when": "proposing a time for a meeting", "origin": "told", **fields}
    )


def run(id: str, success: bool | None = True, **fields: Any) -> Episode:
    said: dict[str, Any] = {"task": "Propose a slot.", "success": success}
    if success is not None:
        said |= {
            "status": "success" if success else "failure",
            "stop_reason": "accepted" if success else "max_attempts",
        }
    return Episode(**{**said, "id": id, **fields})


@pytest.fixture
def mine(book: LessonBook) -> str:
    written = book.add(a_rule(sources=["e0"]))
    assert written.lesson is not None
    return written.lesson.id


def counts(book: LessonBook, id: str) -> tuple[int, int, int]:
    lesson = book.get(id)
    assert lesson is not None
    return lesson.shown, lesson.wins, lesson.losses


def test_a_success_is_a_win_and_a_failure_a_loss(book: LessonBook, mine: str, clock: Any) -> None:
    book.credit(run("r1", shown=[mine]))
    book.credit(run("r2", False, shown=[mine]))
    assert counts(book, mine) == (2, 1, 1)
    for status in ("success", "failure"):  # the status alone says it, too
        book.credit(Episode(id=status, task="Propose a slot.", status=status, shown=[mine]))
    assert counts(book, mine) == (4, 2, 2)
    lesson = book.get(mine)
    assert lesson is not None
    assert lesson.last_used_at == clock()
    assert [(one.wins, one.losses) for one in book.lessons()] == [(2, 2)]


@pytest.mark.req("E8")
def test_a_run_whose_check_raised_says_nothing_about_its_lessons(book: LessonBook, mine: str) -> None:
    down = Failure(signal="check_failed", evidence="the judge is down", error_class="exception")
    book.credit(run("r1", False, shown=[mine], failures=[down]))
    book.credit(run("r2", False, shown=[mine], failures=[Failure(signal="check_failed", evidence="11:00 is taken")]))
    assert counts(book, mine) == (2, 0, 1)


@pytest.mark.req("E8")
def test_a_user_may_call_an_answer_wrong_although_a_check_had_raised(book: LessonBook, mine: str) -> None:
    down = Failure(signal="check_failed", evidence="the judge is down", error_class="exception")
    book.credit(run("r1", shown=[mine], failures=[down]))
    assert counts(book, mine) == (1, 1, 0)
    assert book.feedback("r1")
    assert counts(book, mine) == (1, 0, 1)


@pytest.mark.req("N3")
def test_a_view_of_the_store_shows_the_counts_as_they_are(book: LessonBook, store: BaseStore, mine: str) -> None:
    book.credit(run("r1", shown=[mine]))
    book.credit(run("r2", False, withheld=[mine]))
    [item] = [item for item in store.search((*book.namespace, "evidence"), limit=100) if item.key == mine]
    assert [item.value[name] for name in ("shown", "wins", "losses", "withheld_losses")] == [1, 1, 0, 1]
    [lesson] = store.search((*book.namespace, "lessons"))
    assert "wins" not in lesson.value, "no zero that could be taken for the count"


def test_every_finished_run_counts_as_shown_whatever_its_result(book: LessonBook, mine: str) -> None:
    book.credit(run("r1", None, shown=[mine]))
    book.credit(run("r2", False, shown=[mine], stop_reason="deadline"))
    book.credit(run("r3", None, shown=[mine], status="needs_input", stop_reason="asked_user"))
    book.credit(run("r4", None, shown=[mine], failed=[mine], stop_reason="token_budget"))
    assert counts(book, mine) == (4, 0, 0)


def test_a_run_without_the_lesson_is_counted_apart(book: LessonBook, mine: str) -> None:
    book.credit(run("r1", withheld=[mine]))
    book.credit(run("r2", False, withheld=[mine]))
    lesson = book.get(mine)
    assert lesson is not None
    assert counts(book, mine) == (0, 0, 0)
    assert (lesson.withheld_wins, lesson.withheld_losses) == (1, 1)


@pytest.mark.req("I7")
def test_a_run_counted_again_counts_once_and_its_last_end_stands(book: LessonBook, mine: str) -> None:
    for _ in range(3):
        book.credit(run("r1", shown=[mine]))
    assert counts(book, mine) == (1, 1, 0)
    book.credit(run("r1", False, shown=[mine]))
    assert counts(book, mine) == (1, 0, 1)
    book.credit(run("r1"))
    assert counts(book, mine) == (0, 0, 0), "at its last end it was not shown"


@pytest.mark.req("I7", "D23")
def test_losses_that_were_not_the_lessons_do_not_hold_it_back(book: LessonBook, mine: str) -> None:
    for i in range(3):
        book.credit(run(f"without {i}"))
    for shown in ([mine], []):
        for i in range(2):
            book.credit(run(f"r{i}", False, shown=shown))
        assert bool(book.recall("Propose a slot for the meeting that is not busy.")) == (not shown)


@pytest.mark.req("A10")
def test_feedback_turns_a_win_into_a_loss(book: LessonBook, mine: str) -> None:
    book.credit(run("r1", shown=[mine]))
    assert book.feedback("r1") is True
    assert counts(book, mine) == (1, 0, 1)
    assert book.feedback("nobody") is False


@pytest.mark.req("D4", "D19")
def test_the_episode_is_kept_under_the_run_without_its_secrets(book: LessonBook, store: BaseStore, clock: Any) -> None:
    refused = Failure(signal="tool_error", evidence="login({'password': 'hunter22'}) failed.")
    tried = Reflection(
        failure_signal="tool_error",
        root_cause="tool_misuse",
        fix_strategy=[],
        patch_prompt="Use the password hunter22.",
    )
    task = "Log in with password=hunter22 and propose a slot."
    book.credit(run("r1", task=task, failures=[refused], reflections=[tried]))
    [item] = store.search(("team", "episodes"))
    assert (item.namespace, item.key) == (("team", "episodes"), "r1")
    assert "hunter22" not in str(item.value)
    episode = book.episode("r1")
    assert episode is not None
    assert (episode.success, episode.created_at) == (True, clock())
    assert book.episode("r2") is None


def test_two_wins_in_two_episodes_make_a_lesson_active(book: LessonBook, mine: str) -> None:
    book.credit(run("r1", shown=[mine]))
    book.credit(run("r1", shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["candidate"]
    book.credit(run("r2", shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["active"]
    promoted = book.history(mine)[-1]
    assert (promoted.action, promoted.by, promoted.run) == ("promoted", "evidence", "r2")
    assert "2 won" in promoted.why


def test_losses_move_a_lesson_down_and_out(book: LessonBook, mine: str) -> None:
    seen = []
    for i in range(5):
        book.credit(run(f"r{i}", False, shown=[mine]))
        lesson = book.get(mine)
        assert lesson is not None
        seen.append(lesson.status)
    assert seen[0] in ("candidate", "probation")
    assert seen[1:4].count("probation") >= 1
    assert seen[-1] == "retired"
    assert book.recall("Propose a slot for the meeting that is not busy.") == []
    assert counts(book, mine) == (5, 0, 5)


def test_an_approval_outranks_losses(book: LessonBook, mine: str) -> None:
    book.approve(mine)
    for i in range(8):
        book.credit(run(f"r{i}", False, shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["active"]
    assert book.recall("Propose a slot for the meeting that is not busy.")


@pytest.mark.req("D23")
def test_a_restored_lesson_is_promoted_by_two_wins_and_demoted_by_no_losses(book: LessonBook, mine: str) -> None:
    book.retire(mine, "not wanted")
    assert book.restore(mine).status == "candidate"
    book.credit(run("r1", shown=[mine]))
    book.credit(run("r2", shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["active"]
    for i in range(8):
        book.credit(run(f"lost {i}", False, shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["active"]
    assert book.recall("Propose a slot for the meeting that is not busy.")


@pytest.mark.req("D23")
def test_what_a_person_decided_is_not_changed_by_earlier_wins(book: LessonBook, mine: str, clock: Any) -> None:
    book.credit(run("r1", shown=[mine]))
    book.credit(run("r2", shown=[mine]))
    [promoted] = [change for change in book.history(mine) if change.action == "promoted"]
    clock.pass_by(hours=1)
    book.undo(promoted.id)
    book.credit(run("r3", False, shown=[mine]))
    book.credit(run("r4", shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["candidate"]
    clock.pass_by(hours=1)
    for i in range(3):
        book.credit(run(f"won {i}", shown=[mine]))
    assert [lesson.status for lesson in book.lessons()] == ["active"]


@pytest.mark.req("D23")
def test_a_lesson_whose_retirement_was_undone_is_not_demoted_again_in_its_history(book: LessonBook, mine: str) -> None:
    for i in range(12):
        book.credit(run(f"without {i}"))
    for i in range(12):
        book.credit(run(f"lost {i}", False, shown=[mine]))
    retired = book.history(mine)[-1]
    assert retired.status == "retired"
    book.undo(retired.id)
    before = book.history(mine)
    for i in range(3):
        book.credit(run(f"lost again {i}", False, shown=[mine]))
    assert book.history(mine) == before
    assert [lesson.status for lesson in book.lessons()] == ["probation"]


def test_a_lesson_that_is_gone_costs_the_credit_of_the_others_nothing(book: LessonBook, mine: str) -> None:
    book.credit(run("r1", shown=["gone", mine, "../odd"], withheld=["lost"]))
    assert counts(book, mine) == (1, 1, 0)


def test_forgetting_removes_text_evidence_and_what_episodes_tell_of_it(
    book: LessonBook, store: BaseStore, mine: str
) -> None:
    said = Reflection(
        failure_signal="check_failed",
        root_cause="bad_plan",
        explanation=f"It was busy. {SLOT}",
        fix_strategy=[Fix(text=SLOT), Fix(text="Look up the room.")],
        patch_prompt=f"Begin with the busy times; {SLOT}",
        memory_to_write=[Memo(kind="rule", text=SLOT), Memo(kind="rule", text="Name the room.")],
    )
    other = said.model_copy(update={"explanation": "", "fix_strategy": [], "patch_prompt": "Look up the room."})
    other = other.model_copy(update={"memory_to_write": [Memo(kind="rule", text="Name the room.")]})
    book.credit(run("e0", reflections=[said, other]))
    book.credit(run("r1", shown=[mine]))
    book.forget(mine)
    assert book.get(mine) is None
    left = str([item.value for item in store.search(("team",), limit=100)])
    assert SLOT not in left
    episode = book.episode("e0")
    assert episode is not None
    assert episode.reflections == [other]
    assert not store.search(("team", "evidence", mine), limit=100)
    assert book.add(a_rule()).action == "added"
    assert counts(book, mine) == (0, 0, 0)


def test_forgetting_removes_why_the_lesson_was_written_too(book: LessonBook, store: BaseStore) -> None:
    because = "The clerk of room seven had double-booked it."
    made = Reflection(
        failure_signal="check_failed",
        root_cause="bad_plan",
        explanation=because,
        fix_strategy=[],
        patch_prompt="Ask for another room.",
        memory_to_write=[Memo(kind="rule", text=SLOT)],
    )
    kept = book.add(a_rule(why=because, sources=["e0"])).lesson
    assert kept is not None
    book.credit(run("e0", reflections=[made], written=[kept.id]))
    book.forget(kept.id)
    left = str([item.value for item in store.search(("team",), limit=100)])
    assert because not in left


@pytest.mark.req("I8", "D24")
def test_a_topic_keeps_the_runs_that_another_writer_counts_at_once(book_on: Any, interrupted: Any) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    interrupted.first = lambda: other.credit(run("r2"))
    book.credit(run("r1"))
    assert book.stats()["topics"]["general"] == {"won": 2, "lost": 0}


@pytest.mark.parametrize("id", ["r\0", "r\ud800"])
def test_a_run_is_found_by_an_id_that_stores_cannot_hold(book: LessonBook, mine: str, id: str) -> None:
    book.credit(run(id, shown=[mine]))
    assert book.episode(id) is not None
    assert book.feedback(id)
    assert counts(book, mine) == (1, 0, 1)
    book.undo(id)
    assert counts(book, mine) == (0, 0, 0)


@pytest.mark.req("D24")
def test_a_run_that_finishes_again_with_lessons_no_longer_counts_as_one_without(book: LessonBook, mine: str) -> None:
    book.credit(run("r1", topic="general"))
    assert book.stats()["topics"] == {"general": {"won": 1, "lost": 0}}
    book.credit(run("r1", topic="general", shown=[mine]))
    assert book.stats()["topics"] == {}
    assert counts(book, mine) == (1, 1, 0)
