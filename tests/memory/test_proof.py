"""What a lesson proves: praise is shared among those that were shown, and the latest runs are held against the rest."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.memory import LessonBook, withheld
from langgraph_reflexion.memory.credit import bounds, promise, uplift, usefulness
from langgraph_reflexion.memory.records import Evidence
from langgraph_reflexion.schemas import Episode, Lesson

WHEN = "proposing a slot for a meeting"
TASK = "Propose a slot for the meeting with all guests."
TEXTS = [
    "Check a proposed slot against every busy time before you answer.",
    "Name the meeting room in words rather than by its code.",
    "Ask the guests of a meeting for their time zone.",
    "Offer a second slot beside the first one you propose.",
]


def rules(book: LessonBook, texts: list[str] = TEXTS, **fields: Any) -> list[Lesson]:
    """Lessons, each from an episode of its own."""
    found = []
    for i, text in enumerate(texts):
        said = {"sources": [f"e{i}"], **fields}
        lesson = book.add(Lesson(kind="rule", text=text, when=WHEN, origin="verified", **said)).lesson
        assert lesson is not None
        found.append(lesson)
    return found


def run(id: str, won: bool, **fields: Any) -> Episode:
    return Episode(id=id, task=TASK, success=won, status="success" if won else "failure", **fields)


def now(book: LessonBook, lesson: Lesson) -> Lesson:
    found = book.get(lesson.id)
    assert found is not None
    return found


# ---------------------------------------------------------------- praise is shared


def test_two_wins_beside_another_lesson_prove_neither(book: LessonBook) -> None:
    one, other, alone = rules(book, TEXTS[:3])
    for i in range(3):
        book.credit(run(f"both-{i}", True, shown=[one.id, other.id]))
    for i in range(2):
        book.credit(run(f"alone-{i}", True, shown=[alone.id]))
    assert [now(book, lesson).status for lesson in (one, other, alone)] == ["candidate", "candidate", "active"]
    assert [now(book, lesson).wins for lesson in (one, other, alone)] == [3, 3, 2], "what happened is counted as it was"


def test_lessons_of_the_same_episode_speak_as_one(book: LessonBook) -> None:
    """A rule and the strategy that one failure left are shown together from then on."""
    rule, strategy = rules(book, TEXTS[:2], sources=["e0"])
    for i in range(2):
        book.credit(run(f"r{i}", True, shown=[rule.id, strategy.id]))
    assert [now(book, lesson).status for lesson in (rule, strategy)] == ["active", "active"]


def test_what_a_user_wants_is_no_company(book: LessonBook) -> None:
    [rule] = rules(book, TEXTS[:1])
    [wish] = rules(book, ["Answer meeting questions in French."], name="french")
    for i in range(2):
        book.credit(run(f"r{i}", True, shown=[rule.id, wish.id]))
    assert now(book, rule).status == "active"


def test_the_one_that_won_alone_is_recalled_before_those_that_won_in_company(book_on: Any) -> None:
    book: LessonBook = book_on(InMemoryStore(), max_lessons=1)
    one, other = rules(book, [TEXTS[0], TEXTS[3]])
    for i in range(4):
        book.credit(run(f"both-{i}", True, shown=[one.id, other.id, "a third"]))
        book.credit(run(f"alone-{i}", True, shown=[other.id]))
        book.credit(run(f"more-{i}", True, shown=[one.id, other.id]))
    assert [lesson.id for lesson in book.recall("Propose a slot for the meeting.")] == [other.id]


def simulated(book: LessonBook, clock: Any, lessons: list[Lesson], seed: int, runs: int = 80) -> None:
    """Runs that are shown whatever of these lessons is not withheld; only with the first do they mostly succeed."""
    dice = random.Random(seed)
    for i in range(runs):
        clock.pass_by(minutes=1)
        id = f"{seed}-{i}"
        drawn = {lesson.id: withheld(now(book, lesson), id, 0.2) for lesson in lessons}
        shown = [one for one, out in drawn.items() if not out]
        won = dice.random() < (0.9 if lessons[0].id in shown else 0.3)
        book.credit(run(id, won, shown=shown, withheld=[one for one, out in drawn.items() if out]))


@pytest.mark.slow
def test_one_useful_lesson_among_inert_ones_is_told_apart(book_on: Any, clock: Any) -> None:
    """Simulated: four lessons that always fit together, each withheld from its own fifth of the runs."""
    first = proven = idle = 0
    for seed in range(10):
        book: LessonBook = book_on(InMemoryStore(), max_lessons=4)
        lessons = rules(book)
        simulated(book, clock, lessons, seed)
        worth = [usefulness(now(book, lesson)) for lesson in lessons]
        first += worth[0] == max(worth)
        proven += now(book, lessons[0]).status == "active"
        idle += sum(now(book, lesson).status == "active" for lesson in lessons[1:])
    assert first >= 8
    assert proven >= 9
    assert idle <= 7, f"{idle} of 30 inert lessons were taken for proven"


# ---------------------------------------------------------------- runs without it


def test_what_a_lesson_adds_is_known_only_where_runs_went_without_it(book: LessonBook) -> None:
    useful, inert, untried = rules(book, TEXTS[:3])
    for i in range(10):
        book.credit(run(f"with-{i}", True, shown=[useful.id], withheld=[inert.id]))
        book.credit(run(f"without-{i}", False, withheld=[useful.id]))
        book.credit(run(f"inert-{i}", True, shown=[inert.id]))
    added = uplift(now(book, useful))
    assert added is not None
    assert 0 < added.low < added.mean < added.high
    nothing = uplift(now(book, inert))
    assert nothing is not None
    assert nothing.low < 0 < nothing.high
    assert uplift(now(book, untried)) is None
    assert usefulness(now(book, inert)) < usefulness(now(book, useful))
    assert book.stats()["uplift"] == {"helps": 1, "unclear": 1, "unproven": 1}
    [told] = book.explain("with-3")["shown"]
    assert told["uplift"]["mean"] == round(added.mean, 3)
    book.credit(run("last", True, shown=[untried.id]))
    assert book.explain("last")["shown"][0]["uplift"] == "unproven"


def test_statistics_tell_how_runs_of_a_topic_went_with_lessons_and_without(book: LessonBook) -> None:
    [lesson] = rules(book, TEXTS[:1])
    book.credit(run("a", True, topic="coding", shown=[lesson.id]))
    book.credit(run("b", False, topic="coding"))
    assert book.stats()["topics"] == {"coding": {"shown": (1, 0), "bare": (0, 1)}}


# ---------------------------------------------------------------- the latest runs


def credited(book: LessonBook, clock: Any, lesson: Lesson, results: str, name: str) -> None:
    for i, result in enumerate(results):
        clock.pass_by(minutes=1)
        book.credit(run(f"{name}-{i}", result == "w", shown=[lesson.id]))


def test_a_drop_puts_a_proven_lesson_on_probation_with_the_reason(book: LessonBook, clock: Any) -> None:
    [lesson] = rules(book, TEXTS[:1])
    credited(book, clock, lesson, "w" * 20, "good")
    credited(book, clock, lesson, "ll", "bad")
    assert now(book, lesson).status == "probation"
    last = book.history(lesson.id)[-1]
    assert (last.action, last.by, last.why) == (
        "demoted",
        "evidence",
        "it won 0 of its latest 2 runs, and 20 of 20 before",
    )


def test_a_single_loss_or_the_usual_number_of_them_is_no_drop(book: LessonBook, clock: Any) -> None:
    [lesson] = rules(book, TEXTS[:1])
    credited(book, clock, lesson, "wwwlwwwwlwwwwwlwwlwww", "r")
    assert now(book, lesson).status == "active"


def test_on_probation_it_gives_way_to_another_that_fits(book_on: Any, clock: Any) -> None:
    book: LessonBook = book_on(InMemoryStore(), max_lessons=1)
    old, new = rules(book, [TEXTS[0], "Propose a slot of the meeting only when it touches no busy time."])
    credited(book, clock, old, "w" * 20, "good")
    assert [one.id for one in book.recall("Propose a slot that is not busy.")] == [old.id]
    credited(book, clock, old, "ll", "bad")
    assert [one.id for one in book.recall("Propose a slot that is not busy.")] == [new.id]


def test_what_wins_again_is_active_again_and_stays_so(book: LessonBook, clock: Any) -> None:
    [lesson] = rules(book, TEXTS[:1])
    credited(book, clock, lesson, "w" * 50 + "ll", "a")
    assert now(book, lesson).status == "probation"
    credited(book, clock, lesson, "ww", "b")
    assert now(book, lesson).status == "active"
    credited(book, clock, lesson, "w", "c")
    assert now(book, lesson).status == "active"


def test_what_goes_on_losing_is_retired_however_much_it_won_long_ago(book: LessonBook, clock: Any) -> None:
    [lesson] = rules(book, TEXTS[:1])
    credited(book, clock, lesson, "w" * 50 + "l" * 6, "r")
    assert now(book, lesson).status == "retired"


@pytest.mark.req("C14")
def test_a_lesson_whose_own_failure_came_back_has_lost_though_the_run_succeeded(book: LessonBook) -> None:
    [lesson] = rules(book, TEXTS[:1])
    book.credit(run("r1", True, shown=[lesson.id], failed=[lesson.id]))
    assert (now(book, lesson).wins, now(book, lesson).losses) == (0, 1)


def test_bounds_are_wide_where_little_is_known() -> None:
    low, high = bounds(0, 0)
    assert low < 0.25
    assert high > 0.75
    assert bounds(50, 0)[0] > 0.9


def test_of_equal_records_the_one_that_won_last_promises_more() -> None:
    """Before so few lost runs can be told from chance, it is what decides which of two is shown first."""

    def held(*results: str) -> tuple[Lesson, Evidence]:
        wins = results.count("win")
        lesson = Lesson(kind="rule", text=TEXTS[0], wins=wins, losses=len(results) - wins)
        return lesson, Evidence(runs=tuple({"result": one} for one in results))

    fading, rising = held("win", "win", "win", "loss"), held("loss", "win", "win", "win")
    assert promise(*fading) < promise(*rising)
    assert promise(*held("win", "win", "win", "loss", "loss")) < promise(*held("win"))
    imported = Lesson(kind="rule", text=TEXTS[0], wins=8)
    assert promise(imported, Evidence()) == usefulness(imported), "a record without runs stands as it is"
