"""A damaged record costs itself: nothing that reads lessons or credits runs raises because of it."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Episode, Lesson, LessonBook, MemoryPolicy
from langgraph_reflexion.errors import LessonError
from langgraph_reflexion.memory import access, upkeep
from langgraph_reflexion.memory.estimate import uplift
from langgraph_reflexion.memory.evidence import MAX_LISTED_RUNS, Evidence, run_record, source_records
from langgraph_reflexion.schemas import Reflection

TASK = "Prepare the xylophone for the concert."
EVIDENCE = ("team", "evidence")
AT = "2026-01-01T00:00:00+00:00"
CHANGE = {"type": "change", "id": "x.000009.aaaaaaaa", "lesson": "x", "action": "merged", "at": AT}
HUGE = 10**400


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=2)
        return self.now


@pytest.fixture
def book() -> LessonBook:
    kept = LessonBook(InMemoryStore(), ("team",), clock=Clock())
    kept.add(Lesson(kind="rule", text="Rinse the xylophone before the concert.", when="xylophone concert"))
    kept.add(Lesson(kind="rule", text="Tune the cello before the recital.", when="cello recital", sources=["r0"]))
    return kept


def a_run(id: str, shown: list[str] | None = None, **more: Any) -> Episode:
    return Episode(id=id, task=TASK, success=True, status="success", stop_reason="accepted", shown=shown or [], **more)


def read_all_ways(book: LessonBook, lesson: str) -> list[str]:
    """Everything that reads this lesson; the texts that are recalled."""
    found = [shown.text for shown in book.recall(TASK)]
    assert book.get(lesson) is not None
    assert len(book.lessons()) == 2
    assert book.search("xylophone concert", limit=2**63)
    book.history(lesson)
    book.stats()
    book.credit(a_run("later", [lesson]))
    book.explain("later")
    return found


@pytest.mark.req("D17")
def test_a_count_that_cannot_be_computed_with_is_refused_and_left_out(book: LessonBook) -> None:
    lesson = book.lessons()[0]
    line = lesson.model_dump(mode="json") | {"id": "huge", "text": "Polish the xylophone.", "wins": HUGE}
    with pytest.raises(LessonError, match="wins: Input should be less than or equal to 1000000000"):
        book.load(StringIO(json.dumps(line)))
    book.store.put(("team", "lessons"), "huge", line)
    assert [found.id for found in book.recall(TASK)] == [lesson.id]


@pytest.mark.req("D17")
def test_a_lesson_whose_tool_is_no_text_is_left_out(book: LessonBook) -> None:
    lesson = book.lessons()[0]
    value = lesson.model_dump(mode="json") | {"id": "odd", "trigger": {"tool": []}}
    book.store.put(("team", "lessons"), "odd", value)
    assert [found.id for found in book.recall(TASK)] == [lesson.id]


@pytest.mark.req("D17")
@pytest.mark.parametrize(
    "part",
    [
        {"sources": [{"source": "r", "origin": "told"}]},
        {"sources": ["r"]},
        {"earlier": {"wins": "3"}},
        {"earlier": {"wins": -5}},
        {"earlier": {"wins": HUGE}},
        {"runs": [{"run": "r", "at": "tomorrow", "result": "win"}]},
        {"changes": [CHANGE | {"at": "2026-01-01T00:00:00"}]},
        {"changes": [CHANGE | {"id": None}]},
        {"changes": [CHANGE | {"status": []}]},
        {"changes": [CHANGE | {"undoes": []}]},
    ],
    ids=str,
)
def test_a_damaged_record_of_all_evidence_is_made_again(book: LessonBook, part: dict[str, Any]) -> None:
    id = next(lesson.id for lesson in book.lessons() if "xylophone" in lesson.text)
    item = book.store.get(EVIDENCE, id)
    assert item is not None
    book.store.put(EVIDENCE, id, {**item.value, **part})
    assert read_all_ways(book, id) == ["Rinse the xylophone before the concert."]


@pytest.mark.req("D17")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sum/x", {"type": "sum", "at": AT, "earlier": {"wins": "3"}, "runs": []}),
        ("sum/x", {"type": "sum", "at": AT, "earlier": {}, "runs": [{"run": 7, "at": AT, "result": "win"}]}),
        ("again/x", {"type": "run", "run": "x", "at": AT, "instead": "x", "result": "win", "withheld": False}),
        ("source/told/x", {"type": "source", "origin": "told", "source": "x", "at": "2026-01-01T00:00:00"}),
        ("change/000009/aa", CHANGE | {"id": "nodot"}),
        ("change/000009/aa", CHANGE | {"after": None}),
        ("change/000009/aa", CHANGE | {"status": "active", "before": None}),
        ("change/000009/aa", CHANGE | {"status": "unheard-of"}),
    ],
    ids=str,
)
def test_a_damaged_piece_of_evidence_is_left_out(book: LessonBook, key: str, value: dict[str, Any]) -> None:
    id = next(lesson.id for lesson in book.lessons() if "xylophone" in lesson.text)
    book.store.put((*EVIDENCE, id), key, value)
    book.store.delete(EVIDENCE, id)
    assert read_all_ways(book, id) == ["Rinse the xylophone before the concert."]


@pytest.mark.req("D17")
def test_a_damaged_note_of_changes_is_left_out(book: LessonBook) -> None:
    for i in range(60):
        book.store.put(("team", "lessons"), f"more-{i}", {"text": "x"})
    book.recall(TASK)
    for key, ids in (("list", [["x"], {}]), ("number", 7)):
        book.store.put((*EVIDENCE, "~changes"), key, {"lessons": ids})
    assert len(book.recall(TASK)) == 1


@pytest.mark.req("D17")
def test_an_episode_under_another_key_is_left_out(book: LessonBook) -> None:
    book.credit(a_run("run"))
    book.store.put(("team", "episodes"), "copy", a_run("run").model_dump(mode="json"))
    assert [episode.id for episode in book.episodes()] == ["run"]


@pytest.mark.req("O1")
def test_the_uplift_of_a_lesson_is_never_above_one() -> None:
    counts = {"wins": 40, "losses": 0, "withheld_wins": 0, "withheld_losses": 10}
    found = uplift(Lesson(kind="rule", text="x", **counts))
    assert found is not None
    assert (found.low > 0, found.high) == (True, 1.0)


@pytest.mark.req("D14")
def test_a_forgotten_text_is_in_no_episode_even_if_its_source_was_dropped(
    book: LessonBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "KEPT_OF_EACH", 2)
    lesson = Lesson(kind="rule", text="Book the quiet room of the third floor.", when="booking rooms")
    for n in range(5):
        kept = book.add(lesson.model_copy(update={"sources": [f"r{n}"]})).lesson
        assert kept is not None
        made = Reflection(
            failure_signal="check_failed",
            root_cause="other",
            explanation="",
            fix_strategy=[],
            patch_prompt="",
            memory_to_write=[{"kind": "rule", "text": lesson.text, "when": lesson.when, "tags": []}],
            confidence=90,
            depth="quick",
        )
        book.credit(a_run(f"r{n}", reflections=[made], written=[kept.id]))
    access.run(book.store, upkeep.sum_up_runs(book._shelf, kept.id))
    book.forget(kept.id)
    assert not [item for item in book.store.search(("team",), limit=1000) if "third floor" in str(item.value)]


@pytest.mark.req("O1")
def test_a_value_that_comes_and_goes_keeps_its_first_and_its_latest_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "KEPT_OF_EACH", 5)
    book = LessonBook(InMemoryStore(), ("team",), clock=Clock())
    homes = [Lesson(kind="preference", name="home", text=f"The user lives in {town}.") for town in ("Oslo", "Rome")]
    ids = [str((book.add(home).lesson or home).id) for home in homes]
    for n in range(60):
        book.add(homes[n % 2].model_copy(update={"sources": [f"run-{n}"]}))
    assert [lesson.text for lesson in book.lessons(status="candidate")] == ["The user lives in Rome."]
    for id in ids:
        assert len(book.store.search(("team", "evidence", id), limit=1000)) < 45
        assert book.history(id)[0].action == "added"


@pytest.mark.req("O1")
def test_the_newest_episodes_stay_although_an_old_one_was_rewritten() -> None:
    book = LessonBook(InMemoryStore(), ("team",), MemoryPolicy(keep_runs=100), Clock())
    for n in range(110):
        run = a_run(f"run-{n:03d}", created_at=book._shelf.clock()).model_dump(mode="json")
        book.store.put(("team", "episodes"), run["id"], run)
    book.feedback("run-000")
    access.run(book.store, upkeep.drop_old(book._shelf))
    left = sorted(episode.id for episode in book.episodes())
    assert len(left) <= 105
    assert left[-1] == "run-109"


@pytest.mark.req("O1")
@pytest.mark.parametrize("damage", [{"failures": 5}, {"failures": [None]}, {"run": ["e"]}])
def test_a_damaged_record_of_a_topics_run_breaks_no_call(book: LessonBook, damage: dict[str, Any]) -> None:
    ended = Episode(id="e", task="Rinse the cup.", success=True, status="success", stop_reason="accepted")
    book.credit(ended)
    [row] = [item for item in book.store.search(EVIDENCE, limit=1000) if item.key.startswith("~topic-")]
    book.store.put(row.namespace, row.key, {**row.value, **damage})
    assert book.recall("Rinse the cup of the cellist.") is not None
    assert "topics" in book.stats()
    book.credit(ended.model_copy(update={"id": "e2"}))
    book.undo(since=datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.req("D17")
def test_a_lesson_named_as_a_topic_has_a_record_of_its_own(book: LessonBook) -> None:
    row = {"id": "topic-general", "kind": "rule", "text": "Dust the piano before the show.", "when": "piano show"}
    book.load(StringIO(json.dumps(row)))
    for n in range(3):
        book.credit(Episode(id=f"e{n}", task="zzz", success=True, status="success", stop_reason="accepted"))
    kept = book.get("topic-general")
    assert kept is not None
    assert (kept.shown, kept.wins) == (0, 0)
    assert json.dumps(book.stats()["topics"]) == '{"general": {"won": 3, "lost": 0}}'


def test_a_record_of_all_evidence_has_each_of_its_fields() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = source_records(Lesson(kind="rule", text="Rinse it.", sources=["r0"]), now)
    rows += [run_record(f"r{i}", now + timedelta(minutes=i), {"result": "win"}) for i in range(MAX_LISTED_RUNS + 1)]
    rows.append(("change/000009/aaaaaaaa", CHANGE))
    evidence = Evidence().with_records(PutOp((*EVIDENCE, "x"), *row) for row in rows)
    copy = Evidence.from_snapshot(evidence.snapshot_record())
    for name in {field.name for field in fields(Evidence)} - {"appended"}:  # which tells single runs from summed ones
        assert getattr(evidence, name), f"give `rows` a record for `{name}`, and read it in `with_records`"
        assert getattr(copy, name) == getattr(evidence, name), f"`snapshot_record` and `from_snapshot` lack `{name}`"
