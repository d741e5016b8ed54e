"""A person asks of a run what it was shown, why, from which evidence, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from example_lessons import SLOT
from langgraph_reflexion import MemoryPolicy, create_reflexion_agent
from langgraph_reflexion.graph.demo import ALIKE, TASK, ScriptedPlanner, busy_times, is_free
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Episode, Failure, Lesson, Trigger
from langgraph_reflexion.testing import ScriptedModel, say

FAILED = Failure(signal="check_failed", evidence="10:00 is busy.", step=3, fingerprint="busy")


def a_lesson(book: LessonBook, text: str = SLOT, **fields: Any) -> str:
    written = book.add(Lesson(**{"kind": "rule", "text": text, "origin": "verified", "sources": ["r0"], **fields}))
    assert written.lesson is not None
    return written.lesson.id


def ended(book: LessonBook, **fields: Any) -> dict[str, Any]:
    book.credit(Episode(**{"id": "r1", "task": "Propose a slot.", "success": True, "status": "success", **fields}))
    told: dict[str, Any] = book.explain("r1")
    return told


@pytest.mark.req("I5", "D15")
def test_a_lesson_that_came_up_at_the_start_is_explained_by_the_words_of_the_task(book: LessonBook) -> None:
    book.credit(Episode(id="r0", task="Find a slot.", success=False, failures=[FAILED]))
    id = a_lesson(book)
    [shown] = ended(book, shown=[id], recalled_at={id: 0})["shown"]
    assert (shown["why"], shown["result"], shown["without"]) == ("the task mentions propose, slot", "win", "")
    assert shown["evidence"] == [{"run": "r0", "failure": "10:00 is busy."}]
    assert (shown["wins"], shown["losses"], shown["uplift"]) == (1, 0, "unproven")


@pytest.mark.req("I5", "D15")
def test_of_a_run_that_failed_in_several_ways_the_failure_that_taught_the_lesson_is_named(book: LessonBook) -> None:
    first = Failure(signal="tool_error", evidence="No such day.", step=1, fingerprint="day")
    book.credit(Episode(id="r0", task="Find a slot.", success=False, failures=[first, FAILED]))
    ids = [a_lesson(book, trigger=Trigger(signal="check_failed", fingerprint="busy"))]
    ids += [a_lesson(book, "Name the room.", trigger=Trigger(fingerprint="unknown"))]
    told = [shown["evidence"] for shown in ended(book, shown=ids)["shown"]]
    assert told == [[{"run": "r0", "failure": "10:00 is busy."}], [{"run": "r0", "failure": "No such day."}]]


@pytest.mark.req("I5", "D15")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "a task that taught it also mentions money, slot"),
        ({"kind": "preference"}, "it applies to every task"),
        ({"when": "the wrong vendor is asked"}, "the task mentions vendor"),
    ],
)
def test_an_explanation_names_the_task_that_taught_a_lesson(book: LessonBook, fields: dict[str, str], why: str) -> None:
    written = book.add(
        Lesson(**{"kind": "rule", "text": "Sum open invoices first.", "origin": "told", **fields}),
        task="Which slot loses the most money?",
    )
    assert written.lesson is not None
    [shown] = ended(book, task="Which vendor has a slot and the money?", shown=[written.lesson.id])["shown"]
    assert shown["why"] == why


@pytest.mark.req("I5", "D15")
def test_an_explanation_gives_words_as_the_task_has_them(book: LessonBook) -> None:
    rule = Lesson(kind="rule", text="Оставляй имена.", when="перевод договора", origin="told")
    written = book.add(rule)
    assert written.lesson is not None
    [shown] = ended(book, task="Переведи этот договор.", shown=[written.lesson.id])["shown"]
    assert shown["why"] == "the task mentions договор, переведи"


@pytest.mark.req("I5", "D15")
@pytest.mark.parametrize(("bound", "why"), [("busy", "it is for exactly this failure"), (None, "it fits the failure")])
def test_a_lesson_that_came_up_after_a_failure_names_it(book: LessonBook, bound: str | None, why: str) -> None:
    id = a_lesson(book, trigger=Trigger(signal="check_failed", fingerprint=bound))
    told = ended(book, shown=[id], recalled_at={id: 3}, failures=[FAILED])
    assert told["shown"][0]["why"] == f"{why} at step 3: check_failed"
    assert told["failures"] == [{"step": 3, "signal": "check_failed", "evidence": "10:00 is busy."}]


@pytest.mark.req("I5", "D15")
def test_an_explanation_names_the_changes_that_the_run_made(book: LessonBook) -> None:
    id = a_lesson(book)
    for run in ("first", "second"):
        book.credit(Episode(id=run, task=TASK, success=True, status="success", shown=[id]))
    book.retire(id, "not wanted")
    assert [change["action"] for change in book.explain("second")["changes"]] == ["promoted"]


@pytest.mark.req("I5", "D15")
def test_a_withheld_lesson_says_whether_it_was_compared_or_memory_held_back(book: LessonBook) -> None:
    id = a_lesson(book)
    assert "to compare" in ended(book, withheld=[id])["withheld"][0]["without"]
    held = ended(book, withheld=[id], memory="Lessons are held back.")
    assert held["withheld"][0]["without"] == "Lessons are held back."
    others = [a_lesson(book, "Name the room."), a_lesson(book, "Ask who takes part.")]
    run = ended(book, withheld=[others[0], id, others[1]], recalled_at={others[1]: 2}, memory="Lessons are held back.")
    assert ["to compare" in lesson["without"] for lesson in run["withheld"]] == [True, False, True]


@pytest.mark.req("I5", "D15")
def test_without_a_name_the_latest_run_is_explained(book: LessonBook, clock: Any) -> None:
    with pytest.raises(KeyError):
        book.explain()
    for run in ("first", "second"):
        book.credit(Episode(id=run, task="Propose a slot."))
        clock.pass_by(minutes=1)
    assert book.explain()["run"] == "second"


@pytest.mark.req("I5", "D4")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("awaited", [False, True])
async def test_an_agents_run_is_explained_through_any_method(awaited: bool) -> None:
    store = InMemoryStore()
    policy = MemoryPolicy(namespace=("demo",))
    agent = create_reflexion_agent(ScriptedPlanner(), [busy_times], checks=[is_free], store=store, memory=policy)
    for task in (TASK, ALIKE):
        asked = {"messages": [("user", task)]}
        outcome = (await agent.ainvoke(asked) if awaited else agent.invoke(asked))["outcome"]
    book = LessonBook(store, ("demo",))
    told = await book.aexplain(outcome.run_id) if awaited else book.explain(outcome.run_id)
    [shown] = told["shown"]
    assert shown["lesson"] == outcome.lessons_used[0]
    assert shown["why"].startswith("the task mentions ")
    assert "is not a weekday" in shown["evidence"][0]["failure"]


@pytest.mark.req("D15")
def test_the_evidence_of_a_lesson_is_shown_even_if_its_run_is_unknown(book: LessonBook) -> None:
    id = a_lesson(book, sources=["the handbook"])
    [shown] = ended(book, shown=[id])["shown"]
    assert shown["evidence"] == [{"run": "the handbook", "failure": None}]


@pytest.mark.req("I5")
def test_a_run_records_a_hash_of_each_prompt_that_the_caller_replaced(tmp_path: Path) -> None:
    store, hashes = InMemoryStore(), list[dict[str, str]]()
    for wording in ("Earlier lessons:\n$lessons", "Lessons:\n$lessons", "Lessons:\n$lessons", None):
        if wording is not None:
            (tmp_path / "lessons.md").write_text(wording, encoding="utf-8")
        prompts = tmp_path if wording is not None else None
        create_reflexion_agent(ScriptedModel([say("yes")]), prompts=prompts, store=store).invoke(
            {"messages": [("user", "Is it so?")]}
        )
        hashes.append(LessonBook(store).explain()["prompts"])
    first, second, again, ours = hashes
    assert list(first) == ["lessons"]
    assert first != second == again
    assert ours == {}
