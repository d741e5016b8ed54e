"""What was done is taken back, and nothing else: a change, a run, or all since a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, Op, PutOp, Result
from langgraph.store.memory import InMemoryStore

from example_lessons import PAGE, SLOT
from langgraph_reflexion import FaissStore
from langgraph_reflexion.memory import LessonBook, access, evidence, shelf, upkeep
from langgraph_reflexion.schemas import Episode, Failure, Lesson, Memo, Reflection, Trigger

GUESTS = "Check a proposed slot against every busy time of the guests before you answer."


def rule(text: str = SLOT, source: str = "e1", **fields: Any) -> Lesson:
    return Lesson(**{"kind": "rule", "text": text, "origin": "verified", "sources": [source], **fields})


def added(book: LessonBook, lesson: Lesson) -> str:
    written = book.add(lesson)
    assert written.lesson is not None
    return written.lesson.id


def won(run: str, *shown: str) -> Episode:
    return Episode(id=run, task="Propose a slot.", success=True, status="success", shown=list(shown))


def now(book: LessonBook, id: str) -> Lesson:
    lesson = book.get(id)
    assert lesson is not None
    return lesson


def last(book: LessonBook, id: str, action: str) -> str:
    return next(change.id for change in reversed(book.history(id)) if change.action == action)


@pytest.mark.req("D15")
def test_a_later_decision_stands_when_an_earlier_one_is_taken_back(book: LessonBook) -> None:
    id = added(book, rule())
    book.approve(id)
    book.retire(id, "not wanted")
    book.undo(last(book, id, "approved"))
    assert now(book, id).status == "retired"
    book.undo(last(book, id, "retired"))
    assert now(book, id).status == "candidate"


@pytest.mark.req("D15")
def test_done_twice_it_is_done_once_and_an_undo_is_not_undone(book: LessonBook) -> None:
    id = added(book, rule())
    book.retire(id, "by mistake")
    change = last(book, id, "retired")
    assert [one.id for one in book.undo(change)] == [change]
    before = book.history(id)
    assert book.undo(change) == []
    assert book.history(id) == before
    with pytest.raises(ValueError, match=f"approve, retire or restore {id} instead"):
        book.undo(last(book, id, "undone"))


@pytest.mark.req("D15")
def test_a_run_undone_twice_is_undone_once(book: LessonBook) -> None:
    id = added(book, rule().model_copy(update={"sources": ["r1"]}))
    book.credit(won("r1", id))
    book.undo("r1")
    before = book.history(id)
    assert book.undo("r1") == []
    assert book.history(id) == before


@pytest.mark.req("D15", "D18")
def test_an_undone_approval_protects_nothing_and_an_undone_demotion_protects(book: LessonBook) -> None:
    id = added(book, rule())
    book.approve(id)
    book.undo(last(book, id, "approved"))
    for n in range(6):
        book.credit(won(f"r{n}", id).model_copy(update={"success": False, "status": "failure"}))
    assert now(book, id).status == "retired", "runs may take it down again"
    book.undo(last(book, id, "demoted"))
    assert now(book, id).status == "probation"
    book.credit(won("r9", id).model_copy(update={"success": False, "status": "failure"}))
    assert now(book, id).status == "probation", "a person said that this is not to be the end of it"


@pytest.mark.req("D15")
def test_since_a_time_also_what_runs_counted_is_taken_back(book: LessonBook, clock: Any) -> None:
    id = added(book, rule())
    book.credit(won("r1", id))
    clock.pass_by(minutes=1)
    since = clock()
    book.credit(won("r2", id))
    assert (now(book, id).status, now(book, id).wins) == ("active", 2)
    undone = book.undo(since=since)
    assert (now(book, id).status, now(book, id).shown, now(book, id).wins) == ("candidate", 1, 1)
    assert [change.action for change in undone] == ["promoted", "undone"]
    assert book.episode("r2") is not None, "the record stays"
    told = book.explain("r2")
    assert told["shown"][0]["result"] is None
    assert "the result of r2 was undone" in [change["why"] for change in told["changes"]]
    book.credit(won("r2", id))
    assert now(book, id).wins == 2, "the last to finish under a run id stands"
    with pytest.raises(ValueError, match="needs a time zone"):
        book.undo(since=datetime(2031, 3, 4))


@pytest.mark.req("D15")
@pytest.mark.slow
def test_a_run_that_was_judged_twice_counts_once_and_not_at_all_when_it_is_undone(book_on: Any, clock: Any) -> None:
    book = book_on(InMemoryStore())
    id = added(book, rule())
    for n in range(70):
        book.credit(won(f"r{n}", id))
        clock.pass_by(minutes=2)
    for _ in range(2):
        book.feedback("r3")
        clock.pass_by(minutes=2)
        assert (now(book, id).shown, now(book, id).wins, now(book, id).losses) == (70, 69, 1)
    other = added(book, rule(PAGE))
    book.credit(won("q", other))
    clock.pass_by(minutes=2)
    book.feedback("q")
    clock.pass_by(minutes=2)
    book.undo("q")
    assert (now(book, other).shown, now(book, other).wins, now(book, other).losses) == (0, 0, 0)


@pytest.mark.req("D15")
def test_a_run_that_is_undone_while_the_runs_of_its_lesson_are_summed_up_is_not_counted(
    book_on: Any, clock: Any, interrupted: Any
) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    id = added(book, rule())
    for n in range(25):
        book.credit(won(f"r{n}", id))
        clock.pass_by(minutes=2)
    interrupted.first = lambda: other.undo("r5")
    access.run(book.store, upkeep.sum_up_runs(book._shelf, id))
    assert (now(book, id).shown, now(book, id).wins) == (24, 24)


@pytest.mark.req("D15", "D16")
def test_a_run_gives_back_the_place_it_took_from_another(book: LessonBook) -> None:
    short = rule("The user prefers short answers.", "r1", kind="preference", name="answers")
    long = rule("The user prefers long answers.", "r2", kind="preference", name="answers")
    first, second = added(book, short), added(book, long)
    book.undo("r2")
    assert {id: now(book, id).status for id in (first, second)} == {first: "candidate", second: "retired"}
    assert [lesson.text for lesson in book.profile()] == [short.text]


@pytest.mark.req("D14", "D18")
def test_a_name_has_one_live_value_after_learning_it_again_or_undoing(book_on: Any, clock: Any) -> None:
    book = book_on(InMemoryStore(), max_kept=1)
    short, long = (
        rule(f"The user prefers {length} answers.", run, kind="preference", name="answers")
        for length, run in (("short", "r1"), ("long", "r2"))
    )
    first, second = added(book, short), added(book, long)
    clock.pass_by(minutes=1)
    since = clock()
    added(book, rule(PAGE, "r3"))
    assert now(book, second).status == "retired", "to make room"
    book.undo(next(change.id for change in book.history(first) if change.action == "superseded"))
    book.undo(since=since)
    assert [lesson.id for lesson in book.profile()] == [second]
    added(book, rule(PAGE, "r4"))
    book.restore(first)
    assert added(book, rule(long.text, "r5", kind="preference", name="answers")) == second
    assert [lesson.id for lesson in book.profile()] == [second]


@pytest.mark.req("D15")
def test_an_undone_run_that_taught_a_retired_lesson_is_none_of_its_sources(book: LessonBook) -> None:
    id = added(book, rule(SLOT, "r1"))
    book.retire(id, "not wanted")
    added(book, rule(SLOT, "r2"))
    assert now(book, id).sources == ["r1", "r2"]
    for _ in range(2):
        book.undo("r2")
        assert book.restore(id).sources == ["r1"]
        book.retire(id, "not wanted")
    for _ in range(2):
        book.undo("r1")
        assert (now(book, id).status, now(book, id).sources) == ("retired", ["r1"])
    book.restore(id)
    added(book, rule(SLOT, "r2"))
    book.undo("r2")
    assert (now(book, id).status, now(book, id).sources) == ("candidate", ["r1"])


@pytest.mark.req("D15")
def test_a_run_for_which_a_lesson_came_back_is_none_of_its_sources_when_that_is_undone(book_on: Any) -> None:
    store = InMemoryStore()
    small, book = book_on(store, max_kept=1), book_on(store)
    id = added(small, rule(SLOT, "r1"))
    small.approve(added(book, rule(PAGE, "r2")))
    added(small, rule("Read the units of a table first.", "r2"))
    assert now(book, id).status == "retired", "to make room"
    assert added(book, rule(SLOT, "r3")) == id
    book.undo(last(book, id, "restored"))
    assert (now(book, id).status, now(book, id).sources) == ("retired", ["r1"])


@pytest.mark.req("D15", "D20")
def test_undone_twice_since_a_time_a_name_keeps_its_value(book: LessonBook, clock: Any) -> None:
    ids = []
    for length in ("short", "long"):
        ids.append(added(book, rule(f"The user prefers {length} answers.", kind="preference", name="answers")))
        clock.pass_by(minutes=1)
    since = clock()
    book.undo(last(book, ids[0], "superseded"))
    assert [now(book, id).status for id in ids] == ["candidate", "superseded"]
    book.undo(since=since)
    [value] = book.profile()
    book.undo(since=since)
    assert book.profile() == [value]


@pytest.mark.req("D16", "I7")
def test_an_undo_that_was_cut_off_leaves_one_live_value_of_a_name_when_it_is_repeated(
    book_on: Any, interrupted: Any
) -> None:
    def die() -> None:
        raise RuntimeError("the process dies")

    book = book_on(interrupted)
    short, _ = (
        added(book, rule(f"The user prefers {length} answers.", kind="preference", name="answers"))
        for length in ("short", "long")
    )
    replaced = last(book, short, "superseded")
    interrupted.after = die
    with pytest.raises(RuntimeError):
        book.undo(replaced)
    book.undo(replaced)
    assert [lesson.id for lesson in book.profile()] == [short]


@pytest.mark.req("D16", "D20")
def test_a_name_that_a_known_lesson_gets_has_no_other_live_value(book: LessonBook) -> None:
    short = added(book, rule("The user prefers short answers.", "r1", kind="preference", name="answers"))
    long = rule("The user prefers long answers.", "r2", kind="preference")
    known = added(book, long)
    assert added(book, long.model_copy(update={"sources": ["r3"], "name": "answers"})) == known
    assert [lesson.id for lesson in book.profile()] == [known]
    book.undo("r3")
    assert [lesson.id for lesson in book.profile()] == [short]


@pytest.mark.req("D15")
def test_undoing_a_run_that_agreed_with_others_keeps_what_the_others_wrote(book: LessonBook) -> None:
    id = added(book, rule(SLOT, "r1"))
    again = rule(GUESTS, "r2", origin="judged", tags=["calendar"], trigger=Trigger(fingerprint="other"))
    assert added(book, again) == id
    assert (now(book, id).text, now(book, id).origin) == (GUESTS, "judged")
    book.undo("r2")
    left = now(book, id)
    assert (left.text, left.origin, left.sources, left.tags) == (SLOT, "verified", ["r1"], [])
    failure = Failure(signal="check_failed", evidence="busy", fingerprint="other")
    assert book.recall("Read the bill.", failure=failure) == [], "it is no more known for the other failure"


@pytest.mark.req("D15")
def test_what_is_undone_in_a_record_of_another_release_leaves_a_sound_lesson(store: BaseStore, book_on: Any) -> None:
    book = book_on(store)
    id = added(book, rule(SLOT, "r1"))
    item = store.get(("team", "lessons"), id)
    assert item is not None
    lacking = {name: value for name, value in item.value.items() if name not in ("tags", "why", "when_not")}
    store.put(("team", "lessons"), id, lacking)
    assert added(book_on(store), rule(SLOT, "r2", tags=["calendar"], why="guests are busy")) == id
    book.undo("r2")
    assert (now(book, id).tags, now(book, id).why) == ([], "")


@pytest.mark.req("D15")
def test_the_task_of_an_undone_run_no_longer_finds_the_lesson(book: LessonBook) -> None:
    cause = Failure(signal="tool_error", tool="book", evidence="busy", fingerprint="f", step=1)
    taught = rule(PAGE, "r1", trigger=Trigger(signal="tool_error", tool="book", fingerprint="f"))
    written = book.add(taught, task="Reserve the zebra hall downtown.").lesson
    assert written is not None
    book.add(taught.model_copy(update={"sources": ["r2"]}), task="Plan a giraffe parade tomorrow.")
    for run, task in (("r3", "Order penguin cages quickly."), ("r4", "Rent elephant trucks monthly.")):
        episode = won(run, written.id).model_copy(update={"task": task, "failures": [cause]})
        book.credit(episode.model_copy(update={"recalled_at": {written.id: 1}}))
    tasks = ["Reserve the zebra hall downtown.", "Plan a giraffe parade tomorrow.", "Rent elephant trucks monthly."]
    assert [len(book.recall(task, ["book"])) for task in tasks] == [1, 1, 1]
    book.undo("r2")
    assert [len(book.recall(task, ["book"])) for task in tasks] == [1, 0, 1]
    book.undo("r4")
    assert [len(book.recall(task, ["book"])) for task in tasks] == [1, 0, 0]


@pytest.mark.req("D18")
def test_a_lesson_removed_to_make_room_comes_back_when_it_is_learned_again(store: BaseStore, book_on: Any) -> None:
    book = book_on(store, max_kept=1)
    id = added(book, rule())
    book.credit(won("r0", id))
    poor = added(book, rule(PAGE, "e2"))
    assert (now(book, poor).status, now(book, id).status) == ("retired", "candidate")
    assert book.add(rule(PAGE, "e2")).action == "unchanged", "the same run taught it"
    book.retire(id, "not wanted")
    assert added(book, rule(PAGE, "e3")) == poor
    assert now(book, poor).status == "candidate"
    assert book.history(poor)[-1].why == "it was learned again"
    assert book.add(rule(SLOT, "e4")).reason == "it is known and retired", "a person's word is another matter"


@pytest.mark.req("D15")
def test_the_earlier_wordings_of_a_forgotten_lesson_are_gone_too(book: LessonBook) -> None:
    memo = Memo(kind="rule", text=SLOT)
    said = Reflection(failure_signal="f", root_cause="other", fix_strategy=[], patch_prompt="p", memory_to_write=[memo])
    id = added(book, rule(SLOT, "r1"))
    added(book, rule(GUESTS, "r2"))
    book.credit(won("r1").model_copy(update={"reflections": [said]}))
    book.forget(id)
    left = [str(item.value) for item in book.store.search(book.namespace, limit=100)]
    assert left
    assert not [one for one in left if "busy time" in one]


def wrote(run: str, text: str) -> Episode:
    memo = Memo(kind="rule", text=text)
    made = Reflection(failure_signal="f", root_cause="other", fix_strategy=[], patch_prompt="p", memory_to_write=[memo])
    return won(run).model_copy(update={"reflections": [made]})


@pytest.mark.req("D15")
def test_a_run_that_ends_after_its_lesson_was_forgotten_keeps_no_plan_with_its_sentence(
    book_on: Any, tmp_path: Path
) -> None:
    file = tmp_path / "lessons.db"
    with FaissStore(file) as store:
        book: LessonBook = book_on(store)
        book.forget(added(book, rule(GUESTS, "r1")))
        plan = wrote("r1", SLOT).reflections[0].model_copy(update={"patch_prompt": f"Ask again. {GUESTS}"})
        book.credit(won("r1").model_copy(update={"reflections": [plan]}))
        ended = book.episode("r1")
        assert ended is not None
        assert ended.reflections == []
        on_disk = [part.read_bytes() for part in (file, file.with_name("lessons.db-wal"))]
        assert not [data for data in on_disk if b"every busy time" in data]


@pytest.mark.req("D15")
def test_a_run_that_is_found_wrong_while_its_lesson_is_forgotten_keeps_no_word_of_it(
    book_on: Any, interrupted: Any
) -> None:
    book: LessonBook = book_on(interrupted)
    id = added(book, rule(GUESTS, "r1"))
    book.credit(wrote("r1", GUESTS))
    interrupted.first = lambda: book.forget(id)
    assert book.feedback("r1")
    left = [str(item.value) for item in book.store.search(book.namespace, limit=100)]
    assert not [one for one in left if "busy time" in one]


BESIDE: dict[str, Callable[[LessonBook, str], object]] = {
    "a run it was shown in": lambda book, id: book.credit(won("r2", id)),
    "a run that wrote it": lambda book, _: book.credit(wrote("r2", GUESTS)),
    "feedback": lambda book, _: book.feedback("r1"),
    "a decision": lambda book, id: book.retire(id, "not wanted"),
    "an undo": lambda book, _: book.undo("e2"),
}


@pytest.mark.req("D15", "I8")
@pytest.mark.parametrize("beside", BESIDE)
def test_a_lesson_forgotten_while_another_writer_works_is_nowhere(book_on: Any, interrupted: Any, beside: str) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    id = added(book, rule())
    added(book, rule(GUESTS, "e2"))
    book.credit(won("r1", id))
    interrupted.first = lambda: other.forget(id)
    BESIDE[beside](book, id)
    assert "busy time" not in str([item.value for item in interrupted.search((), limit=100)])
    assert book.get(id) is None
    assert (added(book, rule()), now(book, id).shown) == (id, 0), "learned again, it is new"


@pytest.mark.req("D15", "I7")
def test_a_later_run_removes_what_a_dead_writer_left_of_a_forgotten_lesson(
    book_on: Any, clock: Any, interrupted: Any
) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    id = added(book, rule())
    [kept] = interrupted.search(("team", "lessons"))
    book.forget(id)
    interrupted.put(kept.namespace, kept.key, kept.value)
    interrupted.put((*other.namespace, "evidence", id), "change/000001/aa", {"type": "change", "before": kept.value})
    access.run(book.store, upkeep.drop_old(book._shelf))
    assert "busy time" not in str([item.value for item in interrupted.search((), limit=100)])
    clock.pass_by(days=2)
    access.run(book.store, upkeep.drop_old(book._shelf))
    assert interrupted.search((*book.namespace, "evidence", "~forgotten")) == []


@pytest.mark.req("D15")
def test_a_lesson_retired_while_another_writer_adds_it_is_not_shown(book_on: Any, interrupted: Any) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    lesson = rule(when="proposing a slot")
    interrupted.first = lambda: other.retire(added(other, lesson.model_copy(update={"sources": ["e2"]})), "wrong")
    id = added(book, lesson)
    assert now(book, id).status == "retired"
    assert book.recall("Propose a slot that is not busy.") == []


@pytest.mark.req("D15", "A10")
@pytest.mark.slow
def test_a_run_that_was_undone_takes_no_other_run_away_when_it_is_corrected_later(book_on: Any, clock: Any) -> None:
    book = book_on(InMemoryStore())
    id = added(book, rule())
    for n in range(70):
        book.credit(won(f"r{n}", id))
        clock.pass_by(minutes=2)
    book.undo("r60")
    for n in range(70, 130):
        book.credit(won(f"r{n}", id))
        clock.pass_by(minutes=2)
    for _ in range(2):
        book.feedback("r60")
        assert (now(book, id).shown, now(book, id).wins, now(book, id).losses) == (130, 129, 1)
    book.undo("r60")
    assert (now(book, id).shown, now(book, id).wins, now(book, id).losses) == (129, 129, 0)
    book.credit(won("r60", id))
    assert (now(book, id).shown, now(book, id).wins, now(book, id).losses) == (130, 130, 0)


@pytest.mark.req("D15")
@pytest.mark.slow
def test_runs_that_are_only_counted_are_undone_and_explained_by_their_episodes(book_on: Any, clock: Any) -> None:
    book = book_on(InMemoryStore())
    id = added(book, rule())
    clock.pass_by(minutes=2)
    since = clock()
    for n in range(100):
        shown = () if n % 5 == 4 else (id,)
        book.credit(won(f"r{n}", *shown).model_copy(update={"withheld": [] if shown else [id]}))
        clock.pass_by(minutes=2)
    assert [book.explain(run)[side][0]["result"] for run, side in (("r0", "shown"), ("r4", "withheld"))] == ["win"] * 2
    book.undo("r0")
    book.undo("r4")
    assert book.undo("r0") == []
    assert book.explain("r0")["shown"][0]["result"] is None
    assert (now(book, id).shown, now(book, id).wins, now(book, id).withheld_wins) == (79, 79, 19)
    book.undo(since=since)
    assert (now(book, id).shown, now(book, id).wins, now(book, id).withheld_wins) == (0, 0, 0)
    book.credit(won("r200", id))
    assert (now(book, id).shown, now(book, id).wins) == (1, 1)


@pytest.mark.req("D15")
def test_a_decision_that_is_taken_back_does_not_bring_back_what_a_run_wrote_and_lost(book: LessonBook) -> None:
    id = added(book, rule(source="run"))
    book.undo("run")
    for decide in (book.approve, book.restore, lambda id: book.retire(id, "at last")):
        decide(id)
        book.undo(book.history(id)[-1].id)
        assert now(book, id).status == "retired"
        assert book.recall("Propose a slot that is not busy.") == []


class Narrow(InMemoryStore):
    """A store that cannot write many items at once, and whose process may die before its n-th write."""

    left: int | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        puts = [op for op in given if isinstance(op, PutOp) and op.value is not None]
        assert len(puts) <= 24, "a statement has too many parameters"
        if self.left is not None and puts:
            self.left -= 1
            if self.left < 0:
                raise ConnectionError("the process dies here")
        return super().batch(given)


@pytest.mark.req("O1")
@pytest.mark.parametrize("dies", [None, 1, 2, 3])
def test_an_undo_of_more_than_one_batch_can_hold_is_written_in_parts_that_can_be_repeated(
    dies: int | None, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "MAX_BATCH", 20)
    monkeypatch.setattr(evidence, "MAX_LISTED_RUNS", 5)
    store = Narrow()
    book = LessonBook(store, ("team",), clock=clock)
    ids = [added(book, rule()), added(book, rule(PAGE, "e2"))]
    for i in range(4):
        book.credit(won(f"before-{i}", *ids))
    clock.pass_by(hours=1)
    outage = clock.now
    for i in range(20):
        book.credit(won(f"run-{i}", *ids).model_copy(update={"success": False, "status": "failure"}))
        clock.pass_by(minutes=1)
    if dies is not None:
        store.left = dies
        with pytest.raises(ConnectionError):
            book.undo(since=outage)
        store.left = None
    book.undo(since=outage)
    for id in ids:
        lesson = now(book, id)
        assert (lesson.shown, lesson.wins, lesson.losses, lesson.status) == (4, 4, 0, "active")


@pytest.mark.req("O1")
def test_a_file_with_more_than_one_batch_can_hold_is_loaded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MAX_BATCH", 20)
    book, file = LessonBook(InMemoryStore()), StringIO()
    for i in range(15):
        book.add(rule(f"Label box{i} of crate{i}y by its content.", f"e{i}"))
    book.export(file)
    store = Narrow()
    store.left = 1
    with pytest.raises(ConnectionError):
        LessonBook(store).load(StringIO(file.getvalue()))
    store.left = None
    assert LessonBook(store).load(StringIO(file.getvalue())).added
    assert LessonBook(store).lessons() == book.lessons()
