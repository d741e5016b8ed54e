"""Which lessons are shown: one remedy for a failure at a time, by its latest runs, and none that only ever lost."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook, Limits, MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.schemas import Episode, Failure, Lesson, Trigger
from langgraph_reflexion.testing import RoleModel, reflection, say

TASK = "Propose a slot for the planning meeting."
WHEN = "proposing a slot for a meeting"
MARK = "check_failed||it overlaps with <n>"
REFUSED = Failure(signal="check_failed", evidence="it overlaps with 10:30", fingerprint=MARK)
BUSY = "Check a proposed slot against every busy time before you answer."
LATE = "Propose a slot in the late afternoon."
ROOM = "Name the room of the meeting in words."


def remedy(book: LessonBook, text: str, **fields: Any) -> Lesson:
    """A lesson about this very failure."""
    about = {"when": WHEN, "trigger": Trigger(signal="check_failed", fingerprint=MARK), "origin": "verified", **fields}
    lesson = book.add(Lesson(kind="rule", text=text, **about)).lesson
    assert lesson is not None
    return lesson


def run(id: str, won: bool, **fields: Any) -> Episode:
    return Episode(id=id, task=TASK, success=won, status="success" if won else "failure", **fields)


def credited(book: LessonBook, clock: Any, results: str, name: str, **fields: Any) -> None:
    for i, result in enumerate(results):
        clock.pass_by(minutes=1)
        book.credit(run(f"{name}-{i}", result == "w", **fields))


def recalled(book: LessonBook, failure: Failure | None = None, **fields: Any) -> list[str]:
    return [lesson.text for lesson in book.recall(TASK, failure=failure, **fields)]


# ---------------------------------------------------------------- one remedy at a time


def test_of_two_remedies_for_one_failure_the_better_one_is_shown_alone(book: LessonBook, clock: Any) -> None:
    busy, late = remedy(book, BUSY), remedy(book, LATE)
    remedy(book, ROOM, trigger=None)
    credited(book, clock, "w", "r", shown=[busy.id])
    assert set(recalled(book)) == {BUSY, ROOM}
    credited(book, clock, "ll", "s", shown=[busy.id])
    assert set(recalled(book)) == {LATE, ROOM}
    assert recalled(book, REFUSED, exclude=[late.id]) != [BUSY], "what lost the last time is no help against it"


def test_the_other_has_its_turn_when_the_first_has_failed(book: LessonBook, clock: Any) -> None:
    busy, _ = remedy(book, BUSY), remedy(book, LATE)
    credited(book, clock, "w", "r", shown=[busy.id])
    assert recalled(book, REFUSED, exclude=[busy.id]) == [LATE]


def test_the_newer_of_two_that_nobody_has_tried_comes_first(book: LessonBook, clock: Any) -> None:
    remedy(book, BUSY)
    clock.pass_by(days=1)
    remedy(book, LATE)
    assert recalled(book) == [LATE]


def test_one_in_nearer_words_that_only_lost_does_not_stand_in_the_way_of_another(book: LessonBook, clock: Any) -> None:
    nearer = remedy(book, "Propose the slot of the planning meeting by planning the meeting's slots first.")
    remedy(book, "Read each calendar twice.")
    assert len(recalled(book)) == 1
    credited(book, clock, "lll", "r", shown=[nearer.id])
    assert recalled(book) == ["Read each calendar twice."]


@pytest.mark.req("C14")
def test_what_its_own_run_tried_in_vain_takes_no_reflections_place(book: LessonBook, clock: Any) -> None:
    busy = remedy(book, BUSY, sources=["a"])
    assert recalled(book, REFUSED) == [BUSY], "nobody has tried it"
    credited(book, clock, "l", "b", written=[busy.id])
    assert recalled(book, REFUSED) == []
    assert recalled(book) == [BUSY], "a run that begins has nothing better"


def test_lessons_for_other_occasions_of_a_like_failure_are_no_rivals(book: LessonBook) -> None:
    remedy(book, BUSY)
    remedy(book, ROOM, when="naming the room of a meeting")
    found = book.recall("Propose a slot for the meeting, and name its room.")
    assert {lesson.text for lesson in found} == {BUSY, ROOM}


# ---------------------------------------------------------------- what its own run made of it


def test_a_run_that_went_on_with_its_lesson_ranks_it_and_proves_nothing(book: LessonBook, clock: Any) -> None:
    busy, late = remedy(book, BUSY, sources=["a"]), remedy(book, LATE, sources=["b"])
    credited(book, clock, "w", "a", written=[busy.id])
    credited(book, clock, "l", "b", written=[late.id])
    assert recalled(book) == [BUSY]
    for lesson in (busy, late):
        now = book.get(lesson.id)
        assert now is not None
        assert (now.shown, now.wins, now.losses, now.status) == (0, 0, 0, "candidate")


def test_a_win_that_the_user_disputes_ranks_it_no_more(book: LessonBook, clock: Any) -> None:
    busy, late = remedy(book, BUSY), remedy(book, LATE)
    clock.pass_by(minutes=1)
    book.credit(run("a", True, written=[busy.id]))
    assert recalled(book) == [BUSY]
    book.feedback("a")
    assert recalled(book) == [LATE]
    book.undo("a")
    assert recalled(book, exclude=[late.id]) == [BUSY]


def test_a_run_under_the_same_id_that_did_not_write_it_takes_that_back(book: LessonBook, clock: Any) -> None:
    busy, _ = remedy(book, BUSY), remedy(book, LATE)
    for lesson in ([], [busy.id]):
        clock.pass_by(minutes=1)
        book.credit(run("b", False, written=[busy.id]))
        assert recalled(book) == [LATE]
        book.credit(run("b", True, written=lesson))
    assert recalled(book) == [BUSY]


@pytest.mark.req("C14")
def test_after_a_change_the_lesson_that_worked_in_the_run_takes_the_place_of_the_one_that_failed(
    book: LessonBook, clock: Any
) -> None:
    busy, late = remedy(book, BUSY), remedy(book, LATE, sources=["flip"])
    credited(book, clock, "w" * 8, "old", shown=[busy.id])
    assert recalled(book) == [BUSY]
    clock.pass_by(minutes=1)
    book.credit(run("flip", True, shown=[busy.id], failed=[busy.id], written=[late.id]))
    assert recalled(book) == [LATE]


# ---------------------------------------------------------------- the agent tells its book


def agent_with(store: InMemoryStore, answers: list[str], verdicts: list[Any], **limits: Any) -> Any:
    said = iter(verdicts)
    memo = {"kind": "rule", "text": BUSY, "when": WHEN, "tags": []}
    model = RoleModel([say(one) for one in answers], reflection("Check the busy times first.", memory_to_write=[memo]))
    return create_reflexion_agent(
        model,
        checks=[lambda *_: next(said)],
        store=store,
        memory=MemoryPolicy(control_share=0),
        limits=Limits(max_reflections=1, **limits),
    )


@pytest.mark.parametrize(("verdicts", "result"), [(["it overlaps", True], "win"), (["it overlaps"] * 3, "loss")])
def test_a_run_says_whether_its_lesson_worked_at_once(verdicts: list[Any], result: str) -> None:
    store = InMemoryStore()
    agent = agent_with(store, ["9:00", "10:00", "11:00"], verdicts)
    outcome = agent.invoke({"messages": [("user", TASK)]})["outcome"]
    book = LessonBook(store)
    rule = next(lesson for lesson in book.lessons(kind="rule"))
    assert rule.id in outcome.lessons_written
    episode = book.episode(outcome.run_id)
    assert episode is not None
    assert rule.id in episode.written
    assert episode.failed == ([rule.id] if result == "loss" else [])
    [about] = [one.value for one in store.search((*book.namespace, "evidence", rule.id)) if "result" in one.value]
    assert (about["result"], about["tried"]) == (result, True)


def test_a_lesson_whose_failure_came_back_has_lost_though_the_run_was_won_later() -> None:
    store = InMemoryStore()
    agent = agent_with(store, ["9:00", "10:00", "11:00"], ["it overlaps", "it overlaps", True], max_attempts=3)
    outcome = agent.invoke({"messages": [("user", TASK)]})["outcome"]
    assert outcome.status == "success"
    [rule] = LessonBook(store).lessons(kind="rule")
    episode = LessonBook(store).episode(outcome.run_id)
    assert episode is not None
    assert episode.failed == [rule.id]


# ---------------------------------------------------------------- what only ever lost


def test_one_that_lost_again_and_won_nothing_is_out_until_it_is_learned_again_and_wins(
    book: LessonBook, clock: Any
) -> None:
    lesson = remedy(book, BUSY)
    credited(book, clock, "l", "r", shown=[lesson.id])
    assert recalled(book) == [BUSY], "one loss is no proof"
    credited(book, clock, "l", "s", shown=[lesson.id])
    assert recalled(book) == []
    assert remedy(book, BUSY, sources=["again"]).id == lesson.id
    clock.pass_by(minutes=1)
    book.credit(run("again", True, written=[lesson.id]))
    assert recalled(book) == [BUSY]


def test_a_person_has_it_shown_all_the_same(book: LessonBook, clock: Any) -> None:
    lesson = remedy(book, BUSY)
    credited(book, clock, "lll", "r", shown=[lesson.id])
    book.approve(lesson.id)
    assert recalled(book) == recalled(book, REFUSED) == [BUSY]


def test_runs_without_it_say_that_it_helps_where_hardly_anything_does(book: LessonBook, clock: Any) -> None:
    helps, harms = remedy(book, BUSY), remedy(book, ROOM, trigger=None)
    credited(book, clock, "wlwwl" * 2 + "ll", "hard", shown=[helps.id])
    assert recalled(book, exclude=[harms.id]) == [BUSY]
    credited(book, clock, "l" * 12, "without", withheld=[helps.id])
    credited(book, clock, "l", "once more", shown=[helps.id])
    assert recalled(book, exclude=[harms.id]) == [BUSY]
    credited(book, clock, "wlwlwlwlw", "with", shown=[harms.id])
    assert ROOM in recalled(book)
    credited(book, clock, "w" * 20, "free", withheld=[harms.id])
    assert ROOM not in recalled(book)


def test_what_its_record_retired_is_on_probation_again_when_it_is_learned_again(book: LessonBook, clock: Any) -> None:
    lesson, other = remedy(book, BUSY), remedy(book, ROOM, trigger=None)
    credited(book, clock, "llllll", "r", shown=[lesson.id])
    retired = book.get(lesson.id)
    assert retired is not None
    assert retired.status == "retired"
    assert remedy(book, BUSY, sources=["again"]).status == "probation"
    last = book.history(lesson.id)[-1]
    assert (last.action, last.by, last.why) == ("restored", "writer", "it was learned again")
    book.retire(other.id, "not wanted")
    assert remedy(book, ROOM, trigger=None, sources=["again"]).status == "retired", "a person's word stands"


def test_blame_is_shared_by_those_that_were_shown_together(book: LessonBook, clock: Any) -> None:
    alone = remedy(book, BUSY, sources=["a"])
    others = [remedy(book, text, trigger=None, sources=[text]) for text in (LATE, ROOM)]
    credited(book, clock, "ll", "alone", shown=[alone.id])
    credited(book, clock, "ll", "together", shown=[one.id for one in others])
    now = [book.get(one.id) for one in (alone, *others)]
    assert [one and one.status for one in now] == ["probation", "candidate", "candidate"]
    assert [one and one.losses for one in now] == [2, 2, 2], "what happened is counted as it was"


# ---------------------------------------------------------------- where there is little room


def test_a_full_book_keeps_what_helped_and_lets_back_what_is_learned_again(book_on: Any, clock: Any) -> None:
    book: LessonBook = book_on(InMemoryStore(), max_kept=4)
    useful = [remedy(book, text, trigger=None, sources=[text]) for text in (BUSY, ROOM)]
    for lesson in useful:
        credited(book, clock, "ww", lesson.id, shown=[lesson.id])
    for word in ("violin", "glacier", "turnip", "lantern", "harbour", "pebble"):
        clock.pass_by(minutes=1)
        remedy(book, f"Polish the {word} with a dry cloth.", when=f"a {word} is dirty")
    live = {lesson.id for lesson in book.lessons(status=("candidate", "active"))}
    assert len(live) == 4
    assert live >= {lesson.id for lesson in useful}
    gone = book.lessons(status="retired")[0]
    again = book.add(Lesson(kind="rule", text=gone.text, when=gone.when, origin="verified", sources=["again"]))
    assert again.lesson is not None
    assert len(book.lessons(status=("candidate", "active"))) == 4
    assert {lesson.id for lesson in book.lessons(status="active")} == {lesson.id for lesson in useful}
