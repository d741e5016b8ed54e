"""Threads, tasks and processes that write at once lose nothing and count nothing twice."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from example_lessons import SLOT
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.shelf import is_undone
from langgraph_reflexion.memory.store import FaissStore
from langgraph_reflexion.memory.upkeep import KEPT_OF_EACH
from langgraph_reflexion.schemas import Episode, Lesson, Reflection
from langgraph_reflexion.testing import reflection

NOUNS = ["violin", "glacier", "tractor", "lantern", "passport", "orchid", "compass", "saddle"]


def slot(source: str) -> Lesson:
    return Lesson(kind="rule", text=SLOT, origin="verified", sources=[source])


def polish(noun: str) -> Lesson:
    return Lesson(kind="rule", text=f"Polish the {noun} before the guests of the {noun} arrive.", origin="told")


def at_once(work: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, i) for i in range(count)]:
            done.result(60)


@pytest.mark.req("I8", "S12")
@pytest.mark.fast_cases(1)
def test_threads_that_write_at_once_lose_and_double_nothing(store: BaseStore) -> None:
    def work(i: int) -> None:
        book = LessonBook(store, ("team",))
        book.add(slot(f"e{i}"))
        book.add(polish(NOUNS[i]))
        for n in range(5):
            book.credit(Episode(id=f"r{i}-{n}", task="t", success=n > 1, shown=[lesson_id]))

    book = LessonBook(store, ("team",))
    first = book.add(slot("e"))
    assert first.lesson is not None
    lesson_id = first.lesson.id
    at_once(work, 8)
    kept = {lesson.text: lesson for lesson in book.lessons()}
    assert len(kept) == 9
    assert {f"e{i}" for i in range(8)} <= set(kept[SLOT].sources)
    assert (kept[SLOT].shown, kept[SLOT].wins, kept[SLOT].losses) == (40, 24, 16)


@pytest.mark.req("I8")
def test_a_decision_is_not_lost_to_a_writer_of_the_same_lesson(store: BaseStore) -> None:
    book = LessonBook(store, ("team",))
    first = book.add(slot("e")).lesson
    assert first is not None

    def work(i: int) -> None:
        if i == 3:
            book.retire(first.id, "not wanted")
        else:
            LessonBook(store, ("team",)).add(slot(f"e{i}").model_copy(update={"tags": [f"tag-{i}"]}))

    at_once(work, 8)
    assert [lesson.status for lesson in book.lessons()] == ["retired"]
    assert book.recall("Propose a slot that is not busy.") == []


@pytest.mark.req("I8")
@pytest.mark.fast_cases(1)
async def test_tasks_that_write_at_once_lose_nothing(store: BaseStore) -> None:
    book = LessonBook(store, ("team",))

    async def work(i: int) -> None:
        mine = LessonBook(store, ("team",))
        await mine.aadd(slot(f"e{i}"))
        await mine.aadd(polish(NOUNS[i]))
        await mine.arecall("Propose a slot that is not busy.")

    await asyncio.gather(*(work(i) for i in range(8)))
    kept = {lesson.text: lesson for lesson in await book.alessons()}
    assert len(kept) == 9
    assert set(kept[SLOT].sources) == {f"e{i}" for i in range(8)}


CHILD = """
import sys
from langgraph.store.sqlite import SqliteStore
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Episode, Lesson, Reflection
from langgraph_reflexion.testing import reflection

file, who, text = sys.argv[1:]
with SqliteStore.from_conn_string(file) as store:
    store.setup()
    book = LessonBook(store, ("team",))
    for i in range(5):
        id = book.add(Lesson(kind="rule", text=text, origin="verified", sources=[f"{who}-{i}"])).lesson.id
        book.credit(Episode(id=f"run-{who}-{i}", task="t", success=True, shown=[id]))
"""


async def after_turns(turns: int, work: Awaitable[object]) -> None:
    """Wait for some turns of the event loop, then for this."""
    for _ in range(turns):
        await asyncio.sleep(0)
    await work


@pytest.mark.req("I6", "I8")
@pytest.mark.parametrize("long_work", ["forget", "undo"])
@pytest.mark.parametrize("turns", range(4))
async def test_a_run_that_is_counted_during_long_work_on_all_episodes_stays_counted(long_work: str, turns: int) -> None:
    book, text = LessonBook(InMemoryStore(), ("team",)), "Tune the violin before the guests arrive."
    began, lesson = datetime.now(UTC), book.add(Lesson(kind="rule", text=text, origin="told")).lesson
    assert lesson is not None
    reflections = [Reflection.model_validate(reflection(text))] if long_work == "forget" else []
    for i in range(450):
        episode = Episode(id=f"run-{i}", task="t", success=True, reflections=reflections, created_at=datetime.now(UTC))
        book.store.put(("team", "episodes"), episode.id, episode.model_dump(mode="json"))
    lost = Episode(id="run-150", task="t", success=False, shown=[lesson.id])
    work = book.aforget(lesson.id) if long_work == "forget" else book.aundo(since=began)
    await asyncio.gather(work, after_turns(turns, book.acredit(lost)))
    item = book.store.get(("team", "episodes"), "run-150")
    assert item is not None
    assert (item.value["success"], is_undone(item)) == (False, False)
    kept = [other.losses for other in book.lessons()]
    assert kept == ([] if long_work == "forget" else [1])


@pytest.mark.req("I6", "I8")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("turns", [3, 1, 0, 2, 4, 5, 6, 7])
async def test_a_lesson_that_is_added_while_a_file_is_loaded_is_not_overwritten(turns: int) -> None:
    book, rows = LessonBook(InMemoryStore(), ("team",)), range(350)
    lines = "".join(f'{{"kind": "rule", "text": "Weigh crate {i} with care."}}\n' for i in rows)
    lesson = Lesson(kind="rule", text="Weigh crate 3 with care.", when="crates of glass")
    await asyncio.gather(book.aload(io.StringIO(lines)), after_turns(turns, book.aadd(lesson)))
    assert [found.when for found in book.lessons() if found.text == lesson.text] == [lesson.when]
    assert len(book.lessons()) == len(rows)


@pytest.mark.slow
@pytest.mark.req("S12", "I8")
def test_processes_that_learn_the_same_at_once_leave_one_lesson(tmp_path: Path) -> None:
    file = str(tmp_path / "lessons.db")
    with SqliteStore.from_conn_string(file) as store:
        store.setup()
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, file, str(who), SLOT], stderr=subprocess.PIPE, text=True)
        for who in range(3)
    ]
    for child in children:
        _, said = child.communicate(timeout=90)
        assert child.returncode == 0, said
    with SqliteStore.from_conn_string(file) as store:
        [kept] = LessonBook(store, ("team",)).lessons()
    assert set(kept.sources) == {f"{who}-{i}" for who in range(3) for i in range(5)}
    assert (kept.shown, kept.wins, kept.status) == (15, 15, "active")


GUESTS = "Check a proposed slot against every busy time of the guests before you answer."
ALWAYS, NEVER = "Always retry a failed upload of a file at once.", "Never retry a failed upload of a file at once."
MANY, ROUNDS = 32, 4

CROWD = """
import os, sys
from datetime import UTC, datetime
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.shelf import is_undone
from langgraph_reflexion.memory.store import FaissStore
from langgraph_reflexion.schemas import Episode, Lesson, Trigger

file, many, rounds, nouns, slot, guests, always, never = sys.argv[1:]
many, rounds, nouns = int(many), int(rounds), nouns.split(",")

def rule(text, source, fingerprint=None):
    trigger = Trigger(fingerprint=fingerprint) if fingerprint else None
    return Lesson(kind="rule", text=text, origin="verified", sources=[source], trigger=trigger)

start = datetime.now(UTC)

def clock():  # so slow that nothing is summed up however long it takes
    return start + (datetime.now(UTC) - start) / 100

def work(who):
    with FaissStore(file) as store:
        book = LessonBook(store, ("team",), clock=clock)
        for i in range(rounds):
            run = f"{who}-{i}"
            noun = nouns[(who + i) % len(nouns)]
            slots = [book.add(rule(slot, run, f"failure {who % 8}")), book.add(rule(guests, run + "-again"))]
            polish = book.add(rule(f"Polish the {noun} before the guests of the {noun} arrive.", run))
            own = book.add(rule(f"Label box{who}x{i} of crate{who}y{i} by its content.", run))
            book.add(rule(always if who % 2 else never, run))
            named = rule(f"The user likes answers of {who} lines and {i} words.", run)
            book.add(named.model_copy(update={"kind": "preference", "name": "length"}))
            won = (who + i) % 5 > 0
            shown = [slots[0].lesson.id, polish.lesson.id]
            book.credit(Episode(id=run, task="t", success=won, shown=shown, withheld=[own.lesson.id]))
        if who == many // 2:
            for lesson in book.lessons():
                if nouns[0] in lesson.text:
                    book.approve(lesson.id)

children = []
for who in range(many):
    child = os.fork()
    if not child:
        try:
            work(who)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


OPENED = """
import gc, os, sys
from langgraph_reflexion.memory.shelf import is_undone
from langgraph_reflexion.memory.store import FaissStore

gc.freeze()  # or each child may collect what was imported, which takes longer than opening the file
for number in range(40):
    children = []
    for _ in range(32):
        child = os.fork()
        if not child:
            try:
                FaissStore(os.path.join(sys.argv[1], f"{number}.db")).close()
            except BaseException as error:
                print(error, file=sys.stderr)
                os._exit(1)
            os._exit(0)
        children.append(child)
    if any([os.waitpid(child, 0)[1] for child in children]):
        sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, so that each need not import anew")
@pytest.mark.req("S12")
def test_a_file_that_another_process_is_making_is_not_taken_for_a_strange_one(tmp_path: Path) -> None:
    told = [sys.executable, "-c", OPENED, str(tmp_path)]
    done = subprocess.run(told, stderr=subprocess.PIPE, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, so that each need not import anew")
@pytest.mark.req("S12", "I8", "D15")
def test_32_processes_write_credit_and_merge_in_one_store(tmp_path: Path) -> None:
    """Counts are exact, nothing is there twice, nothing is lost: evidence, words, decisions."""
    file = tmp_path / "lessons.db"
    words = [",".join(NOUNS), SLOT, GUESTS, ALWAYS, NEVER]
    told = [sys.executable, "-c", CROWD, str(file), str(MANY), str(ROUNDS), *words]
    done = subprocess.run(told, stderr=subprocess.PIPE, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    with FaissStore(file) as store:
        book = LessonBook(store, ("team",))
        kept = book.lessons()
        live = {lesson.text: lesson for lesson in kept if lesson.status not in ("superseded", "retired")}
        runs = {f"{who}-{i}": (who + i) % 5 > 0 for who in range(MANY) for i in range(ROUNDS)}

        assert {one.status for one in kept if one.text in (SLOT, GUESTS)} <= {"active", "probation", "superseded"}
        slots = [one for one in kept if one.text in (SLOT, GUESTS) and one.status != "superseded"]
        assert [one.text for one in slots] == [GUESTS], "the better wording stays, once"
        # Where it takes long enough for old runs to be summed up, the latest sources of each origin are kept.
        assert set(slots[0].sources) <= {*runs, *(f"{run}-again" for run in runs)}
        assert len(slots[0].sources) >= KEPT_OF_EACH
        of = sum(
            (Counter({"shown": one.shown, "won": one.wins}) for one in kept if one.text in (SLOT, GUESTS)), Counter()
        )
        assert of == {"shown": len(runs), "won": sum(runs.values())}
        value = store.get(("team", "lessons"), slots[0].id).value  # type: ignore[union-attr]
        known_for = {value["trigger"]["fingerprint"], *value["also"]}
        assert known_for == {f"failure {n}" for n in range(8)}

        for at, noun in enumerate(NOUNS):
            [polished] = [one for one in kept if noun in one.text]
            about = {f"{who}-{i}" for who in range(MANY) for i in range(ROUNDS) if (who + i) % len(NOUNS) == at}
            assert set(polished.sources) == about
            won = sum(runs[run] for run in about)
            assert (polished.shown, polished.wins, polished.losses) == (len(about), won, len(about) - won)
            if at == 0:
                assert polished.status == "active", "what a person approved stays so"

        own = [one for one in kept if one.text.startswith("Label box")]
        assert len(own) == len({one.text for one in own}) == len(runs)
        assert all(one.withheld_wins + one.withheld_losses == 1 for one in own)
        assert {ALWAYS, NEVER} <= set(live), "opposed ones stay apart"
        opposed = [one.action for text in (ALWAYS, NEVER) for one in book.history(live[text].id)]
        assert "opposed" in opposed
        assert [one.name for one in book.profile()] == ["length"], "one value holds"
        assert book.stats()["episodes"] == len(runs)
        for lesson in kept:
            item = store.get(("team", "lessons"), lesson.id)
            assert item is not None
            assert (item.value["status"], item.value["text"]) == (lesson.status, lesson.text), "recall reads the item"
