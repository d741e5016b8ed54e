"""Lessons are derived: from their changes and the episodes they come out the same again, whatever was lost beside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Lesson, LessonBook
from langgraph_reflexion.memory import Repair
from langgraph_reflexion.schemas import Failure, Memo, Reflection, Trigger

SLOT = "Check a proposed slot against every busy time before you answer."
PAGE = "Ask for the next page until the list comes back empty."
LESSONS = ("team", "lessons")


def a_rule(text: str = SLOT, **fields: Any) -> Lesson:
    return Lesson(**{"kind": "rule", "text": text, "origin": "verified", **fields})


def run(id: str, success: bool | None = True, **fields: Any) -> Episode:
    ends = {True: ("success", "accepted"), False: ("failure", "max_attempts"), None: ("unverified", "unchecked")}
    status, stop = ends[success]
    return Episode.model_validate(
        {"id": id, "task": "Propose a slot.", "success": success, "status": status, "stop_reason": stop, **fields}
    )


@pytest.fixture
def told(book: LessonBook, clock: Any) -> str:
    """A lesson that two runs were shown, one went without and a person approved."""
    id = written(book, a_rule(sources=["e0"], when="proposing a time"))
    for name, shown, success in (("r1", True, True), ("r2", True, False), ("r3", False, True)):
        clock.pass_by(minutes=1)
        book.credit(run(name, success, **{"shown" if shown else "withheld": [id]}))
    clock.pass_by(minutes=1)
    book.add(a_rule(sources=["e9"], tags=["calendar"]))
    clock.pass_by(minutes=1)
    book.approve(id)
    return id


def written(book: LessonBook, lesson: Lesson) -> str:
    kept = book.add(lesson).lesson
    assert kept is not None
    return kept.id


@pytest.mark.req("D15")
def test_where_nothing_was_lost_nothing_changes(book: LessonBook, told: str) -> None:
    before, history = book.lessons(), book.history(told)
    assert book.rebuild() == []
    assert (book.lessons(), book.history(told)) == (before, history)


@pytest.mark.req("D15")
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (None, "its own record was lost"),
        ({"id": "x", "text": None}, "its own record was damaged"),
        ({"wins": 99, "text": "Never check a slot."}, "its text, wins differed from what its changes made of it"),
        ({"status": "retired"}, "its status differed from what its changes made of it"),
    ],
)
def test_a_record_that_was_lost_or_written_over_is_put_back(
    book: LessonBook, store: BaseStore, told: str, damage: dict[str, Any] | None, why: str
) -> None:
    before = book.lessons()
    if damage is None:
        store.delete(LESSONS, told)
    else:
        item = store.get(LESSONS, told)
        assert item is not None
        store.put(LESSONS, told, damage if "id" in damage else {**item.value, **damage})
    assert book.rebuild(dry_run=True) == [Repair(told, why)]
    assert book.rebuild(dry_run=True) == [Repair(told, why)], "nothing was done yet"
    assert book.rebuild() == [Repair(told, why)]
    [lesson] = [one.model_copy(update={"version": 1}) for one in book.lessons()]
    assert lesson == before[0].model_copy(update={"version": 1})
    assert book.rebuild() == []
    assert [one.lesson.id for one in book.search("proposed slot")] == [told]


@pytest.mark.req("D15")
def test_counts_are_derived_from_the_episodes(book: LessonBook, store: BaseStore, told: str) -> None:
    before = book.get(told)
    about = ("team", "evidence", told)
    store.delete(about, "run/r1")
    item = store.get(about, "run/r2")
    assert item is not None
    store.put(about, "run/r2", {**item.value, "result": "win"})
    store.put(about, "run/r3", {"nothing": "of use"})
    lost = book.get(told)
    assert lost is not None
    assert (lost.shown, lost.wins, lost.losses, lost.withheld_wins) == (1, 1, 0, 0)
    assert [(one.run, one.why) for one in book.rebuild()] == [
        ("r1", "it was lost what came of a run"),
        ("r2", "a run was counted otherwise than it ended"),
        ("r3", "a run was counted otherwise than it ended"),
    ]
    assert book.get(told) == before


def test_a_run_that_had_nothing_to_do_with_a_lesson_does_not_count(book: LessonBook, store: BaseStore) -> None:
    slot, page = written(book, a_rule()), written(book, a_rule(PAGE))
    book.credit(run("r1", shown=[slot]))
    value = {"type": "run", "run": "r1", "withheld": False, "result": "win", "at": "2031-03-04T12:00:00+00:00"}
    store.put(("team", "evidence", page), "run/r1", value)
    [repair] = book.rebuild()
    assert (repair.lesson, repair.run) == (page, "r1")
    assert [one.shown for one in book.lessons()].count(0) == 1


def test_what_the_found_runs_prove_is_drawn_from_them(book: LessonBook, store: BaseStore, clock: Any) -> None:
    id = written(book, a_rule(sources=["e0"]))
    for name in ("r1", "r2"):
        clock.pass_by(minutes=1)
        book.credit(run(name, shown=[id]))
    for item in store.search(("team", "evidence", id), limit=100):
        if not item.key.startswith(("change/000000", "source/")):
            store.delete(item.namespace, item.key)
    assert [(one.run, one.why) for one in book.rebuild()] == [
        (None, "its status differed from what its changes made of it"),
        ("r1", "it was lost what came of a run"),
        ("r2", "it was lost what came of a run"),
    ]
    assert [one.status for one in book.lessons()] == ["active"]
    assert [one.action for one in book.history(id)] == ["added", "promoted"]
    assert book.rebuild() == []


@pytest.mark.req("D15")
def test_what_was_forgotten_or_taken_back_stays_so(book: LessonBook, clock: Any) -> None:
    slot, page = written(book, a_rule()), written(book, a_rule(PAGE, sources=["e1"]))
    clock.pass_by(minutes=1)
    book.credit(run("r1", shown=[slot, page]))
    book.undo("r1")
    clock.pass_by(minutes=1)
    book.credit(run("r2", shown=[slot, page]))
    book.forget(slot)
    clock.pass_by(minutes=1)
    assert book.rebuild() == []
    assert written(book, a_rule()) == slot, "learned again"
    assert book.rebuild() == []
    counts = {one.text: (one.shown, one.wins) for one in book.lessons()}
    assert counts == {PAGE: (1, 1), SLOT: (0, 0)}


@pytest.mark.req("A10")
def test_an_episode_stays_as_it_was_whatever_the_user_says_of_it_later(book: LessonBook, store: BaseStore) -> None:
    id = written(book, a_rule(sources=["e0"]))
    book.credit(run("r1", shown=[id]))
    before = store.get(("team", "episodes"), "r1")
    assert before is not None
    assert book.feedback("r1")
    after = store.get(("team", "episodes"), "r1")
    assert after is not None
    assert {name: one for name, one in after.value.items() if name != "refuted"} == before.value
    assert book.explain("r1")["status"] == "failure"
    lesson = book.get(id)
    assert lesson is not None
    assert (lesson.wins, lesson.losses) == (0, 1)
    assert book.rebuild() == []
    book.credit(run("r1", shown=[id]))
    assert book.explain("r1")["status"] == "success", "the last to finish stands"
    assert book.rebuild() == []


def test_what_was_forgotten_is_gone_from_its_episode_also_as_it_was_before_it_had_slots(book: LessonBook) -> None:
    said = "Read the payment method of order 8841 before refunding."
    task = "Refund order 8841 of the web shop."
    kept = book.add(a_rule(said, sources=["r1"]), task=task).lesson
    assert kept is not None
    made = Reflection(
        failure_signal="x",
        root_cause="other",
        fix_strategy=[],
        patch_prompt=said,
        memory_to_write=[Memo(kind="rule", text=said)],
    )
    book.credit(run("r1", task=task, reflections=[made]))
    book.forget(kept.id)
    assert "payment method" not in str(book.episode("r1"))


@pytest.mark.req("D15", "D10")
def test_how_the_latest_runs_of_a_topic_ended_is_derived_again_but_for_what_was_taken_back(
    book: LessonBook, store: BaseStore, clock: Any
) -> None:
    id = written(book, a_rule(sources=["e0"]))
    for i in range(12):
        clock.pass_by(minutes=1)
        book.credit(run(f"with-{i}", False, topic="coding", shown=[id]))
        book.credit(run(f"without-{i}", True, topic="coding"))
    book.undo("without-3")
    before = book.stats()["topics"]["coding"]
    assert book.rebuild(dry_run=True) == []
    place = ("team", "evidence", "topic-coding")
    for item in store.search(place, limit=1000):
        if not item.value.get("undone"):
            store.delete(place, item.key)
    assert "coding" not in book.stats()["topics"] or book.stats()["topics"]["coding"] != before
    mended = book.rebuild()
    assert {one.why for one in mended} == {"it was lost how a run of this topic ended"}
    assert "without-3" not in {one.run for one in mended}
    assert book.stats()["topics"]["coding"] == before
    assert book.rebuild() == []


async def test_it_is_the_same_awaited(book: LessonBook, store: BaseStore, told: str) -> None:
    store.delete(LESSONS, told)
    assert len(await book.arebuild(dry_run=True)) == 1
    assert len(await book.arebuild()) == 1
    assert await book.arebuild() == []


# ---------------------------------------------------------------- whatever is done

WORDS = (SLOT, PAGE, "Convert all lengths to one unit before adding them.", "Never retry a payment that timed out.")


class Books(RuleBasedStateMachine):
    """A book with which anything is done; now and then something of it is lost."""

    ids = Bundle("ids")
    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2031, 3, 4, 12, tzinfo=UTC)
        self.store = InMemoryStore()
        self.book = LessonBook(self.store, ("team",), clock=self.clock)
        self.run = 0

    def clock(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    @rule(
        target=ids, text=st.sampled_from(WORDS), tags=st.lists(st.sampled_from("abc"), max_size=2), bound=st.booleans()
    )
    def add(self, text: str, tags: list[str], bound: bool) -> str:
        self.run += 1
        trigger = Trigger(signal="loop", fingerprint="f") if bound else None
        return written(self.book, a_rule(text, tags=tags, sources=[f"e{self.run}"], trigger=trigger))

    @rule(
        target=runs,
        shown=st.lists(ids, max_size=3, unique=True),
        withheld=st.lists(ids, max_size=1),
        success=st.sampled_from([True, True, False, False, None]),
        failed=st.booleans(),
    )
    def credit(self, shown: list[str], withheld: list[str], success: bool | None, failed: bool) -> str:
        self.run += 1
        failures = [Failure(signal="loop", evidence="again", fingerprint="f")] if failed else []
        without = [one for one in withheld if one not in shown]
        self.book.credit(run(f"r{self.run}", success, shown=shown, withheld=without, failures=failures))
        return f"r{self.run}"

    @rule(target=ids, text=st.sampled_from(["Read the fine print first.", SLOT]), wins=st.integers(0, 5))
    def load(self, text: str, wins: int) -> str:
        line = a_rule(text, wins=wins, shown=wins, status="active", sources=["elsewhere"]).model_dump_json()
        self.book.load(StringIO(line))
        return next(one.id for one in self.book.lessons() if one.text == text)

    @rule(id=ids, why=st.sampled_from(["It cannot be taken back.", "Somebody else may have booked."]))
    def edit(self, id: str, why: str) -> None:
        lesson = self.book.get(id)
        if lesson is not None:
            self.book.load(StringIO(lesson.model_copy(update={"why": why}).model_dump_json()), update=True)

    @rule(run=runs)
    def feedback(self, run: str) -> None:
        self.book.feedback(run)

    @rule(run=runs)
    def undo_run(self, run: str) -> None:
        self.book.undo(run)

    @rule(id=ids, place=st.integers(0, 9))
    def undo_change(self, id: str, place: int) -> None:
        changes = [one for one in self.book.history(id) if one.action != "undone"] if self.book.get(id) else []
        if changes:
            self.book.undo(changes[place % len(changes)].id)

    @rule(id=ids, what=st.sampled_from(["approve", "retire", "restore", "forget"]))
    def decide(self, id: str, what: str) -> None:
        lesson = self.book.get(id)
        if lesson is None or (what == "restore" and lesson.status not in ("retired", "superseded", "quarantined")):
            return
        getattr(self.book, what)(id, *(["why not"] if what == "retire" else []))

    @rule()
    def distill(self) -> None:
        self.book.distill()

    @rule(id=ids, how=st.sampled_from(["lost", "damaged", "counted wrong"]))
    def lose_a_record(self, id: str, how: str) -> None:
        item = self.store.get(("team", "lessons"), id)
        if item is None:
            return
        before = self.known()
        if how == "lost":
            self.store.delete(item.namespace, id)
        else:
            self.store.put(
                item.namespace, id, {"id": id} if how == "damaged" else {**item.value, "wins": 7, "losses": 9}
            )
        assert [one.lesson for one in self.book.rebuild()] == [id]
        assert self.known() == before

    @rule(run=runs)
    def lose_what_came_of_a_run(self, run: str) -> None:
        before = self.known()
        about = [one for one in self.store.search(("team", "evidence"), limit=10_000) if one.key == f"run/{run}"]
        for item in about:
            if len(item.namespace) == 3 and not item.value.get("undone"):
                self.store.delete(item.namespace, item.key)
        self.book.rebuild()
        counts = [(one.shown, one.wins, one.losses, one.withheld_wins, one.withheld_losses) for one in self.known()]
        assert counts == [(one.shown, one.wins, one.losses, one.withheld_wins, one.withheld_losses) for one in before]

    @invariant()
    def what_is_derived_is_what_is_kept(self) -> None:
        assert self.book.rebuild(dry_run=True) == []

    def known(self) -> list[Lesson]:
        return [one.model_copy(update={"version": 1, "updated_at": None}) for one in self.book.lessons()]


class TestBooks(Books.TestCase):
    settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
