"""The index of a namespace's words knows what the store holds, whoever wrote it, and is quick where there is much."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, Item, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from example_lessons import a_rule
from langgraph_reflexion import FaissStore
from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.index import Index
from langgraph_reflexion.memory.items import TASKS, item_value
from langgraph_reflexion.schemas import Failure, Lesson, Trigger
from langgraph_reflexion.text.tokens import word_set

NOUNS = sorted(
    word_set("kettle violin glacier tractor lantern passport orchid compass saddle harbour pepper quilt anchor")
)
VERBS = sorted(word_set("polish paint measure borrow wrap label weigh repair rinse fold varnish count stack hide"))


def found(book: LessonBook, task: str) -> list[str]:
    return [lesson.text for lesson in book.recall(task)]


def holding(word: str) -> list[Any]:
    """Whatever in this process contains a word."""
    return [held for held in gc.get_objects() if isinstance(held, (dict, set, frozenset)) and word in held]


@pytest.mark.fast_cases(1)
def test_a_book_that_has_looked_before_finds_what_a_new_one_finds(store: BaseStore) -> None:
    rng = random.Random(7)
    old = LessonBook(store, ("team",))
    for _ in range(30):
        verb, noun, other = rng.choice(VERBS), rng.choice(NOUNS), rng.choice(NOUNS)
        book = rng.choice([old, LessonBook(store, ("team",))])
        known = book.lessons()
        if known and rng.random() < 0.3:
            one = rng.choice(known)
            rng.choice([book.forget, partial(book.retire, why="old"), book.approve])(one.id)
        else:
            book.add(a_rule(f"To {verb} a {noun}, take the {other} off first.", when=f"a {noun} is dull"))
        task = f"{rng.choice(VERBS)} the dull {noun}"
        assert found(old, task) == found(LessonBook(store, ("team",)), task)


@pytest.mark.parametrize("nth", range(3))
def test_ctrl_c_while_a_lesson_is_indexed_does_not_hide_it(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    old, new, tables, seen = LessonBook(store, ("team",)), LessonBook(store, ("team",)), Index._tables, []
    new.add(a_rule("To polish a kettle, take the quilt off first.", when="a kettle is dull"))
    assert found(old, "polish the dull kettle")
    for noun in NOUNS[:4]:
        new.add(a_rule(f"To paint a {noun}, rinse the {noun} first.", when=f"a {noun} is pale"))

    def press(self: Index, *entry: Any) -> Any:
        seen.append(entry)
        if len(seen) == nth + 1:
            raise KeyboardInterrupt
        return tables(self, *entry)

    with monkeypatch.context() as patched:
        patched.setattr(Index, "_tables", press)
        with pytest.raises(KeyboardInterrupt):
            old.recall("paint the pale anchor")
    for noun in (*NOUNS[:4], "kettle"):
        task = f"paint the pale {noun}, then polish the dull {noun}"
        assert found(old, task) == found(LessonBook(store, ("team",)), task) != []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")
def test_a_forked_child_recalls_though_a_thread_of_its_parent_was_updating_the_index() -> None:
    code = (
        "import faulthandler, os\nfrom langgraph.store.memory import InMemoryStore\n"
        "from langgraph_reflexion import Lesson, LessonBook\nfrom langgraph_reflexion.driver import start_thread\n"
        "from langgraph_reflexion.memory import index\n"
        "book = LessonBook(InMemoryStore())\nbook.add(Lesson(kind='rule', text='Polish the violin before concerts.'))\n"
        "def fork():\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        faulthandler.dump_traceback_later(30, exit=True)\n"
        "        os._exit(len(book.recall('Polish the violin.')))\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "[opened] = index._OPEN\n"
        "with index._LOCK, opened.lock:\n"
        "    assert start_thread(fork).result(60) == 1\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=90)


@pytest.mark.req("D15")
def test_a_forgotten_lesson_leaves_the_memory_of_other_open_books_at_once(store: BaseStore) -> None:
    text = "Dust the violin of Castle Street first."
    ours, other = LessonBook(store, ("team",)), LessonBook(store, ("team",))
    lesson_id = ours.add(a_rule(text, when="a violin is dull")).lesson.id
    assert found(other, "polish the dull violin") == [text]
    ours.forget(lesson_id)
    assert not [held for held in gc.get_objects() if type(held) is dict and held.get("text") == text]
    assert found(other, "polish the dull violin") == []


@pytest.mark.req("D15")
def test_no_word_of_forgotten_lessons_that_had_the_same_occasion_stays_in_memory(store: BaseStore) -> None:
    book = LessonBook(store, ("team",))
    for text in ("Dust it first.", "Open both ends.", "Call the owner."):
        assert book.add(a_rule(text, when="qanunet")).action == "added"
    assert len(found(book, "polish the qanunet")) == 3
    for lesson in book.lessons():
        book.forget(lesson.id)
    del lesson
    assert holding("qanunet") == []


@pytest.mark.req("D15", "O2")
def test_no_word_of_a_lesson_that_another_program_changed_or_deleted_stays_in_memory() -> None:
    store = InMemoryStore()
    book = LessonBook(store, ("team",))
    lesson = book.add(a_rule("Dust it first.", when="qanunet")).lesson
    assert lesson is not None
    assert found(book, "polish the qanunet") == [lesson.text]
    [item] = store.search(("team", "lessons"))
    store.put(item.namespace, item.key, {**item.value, "when": "dulcimerist"})
    assert found(book, "polish the qanunet") == []
    assert found(book, "polish the dulcimerist") == [lesson.text]
    assert holding("qanunet") == []
    store.delete(("team", "lessons"), lesson.id)
    assert found(book, "polish the dulcimerist") == []
    assert holding("dulcimerist") == []


@pytest.mark.req("D15")
def test_a_forgotten_lesson_is_gone_from_other_books_on_a_file_whose_items_expire(tmp_path: Path) -> None:
    with FaissStore(tmp_path / "lessons.db", ttl={"default_ttl": 600}) as store:
        value = item_value(Lesson(kind="rule", text="To polish a violin, dust it."))
        store.batch([PutOp(("team", "lessons"), f"l{n}", {**value, "id": f"l{n}"}, index=False) for n in range(51)])
        store.put(("app",), "session", {"user": "ada"})
        ours, other = LessonBook(store, ("team",)), LessonBook(store, ("team",))
        assert found(ours, "repair the compass") == []
        kept = other.add(a_rule("Repair a compass with a fine needle.", when="a compass is stuck")).lesson
        assert kept is not None
        assert found(ours, "repair the stuck compass") == [kept.text]
        other.forget(kept.id)
        assert found(ours, "repair the stuck compass") == []


def test_writes_and_deletes_of_another_process_are_known_at_once(tmp_path: Path) -> None:
    with FaissStore(tmp_path / "lessons.db") as mine, FaissStore(tmp_path / "lessons.db") as theirs:
        ours, other = LessonBook(mine, ("team",)), LessonBook(theirs, ("team",))
        assert found(ours, "polish the violin") == []
        kept = other.add(a_rule("Polish a violin with a soft cloth.", when="a violin is dull")).lesson
        assert kept is not None
        assert found(ours, "polish the dull violin") == [kept.text]
        other.forget(kept.id)
        assert found(ours, "polish the dull violin") == []
        assert LessonBook(mine, ("team", "deeper")).lessons() == []


class LatestFirst(InMemoryStore):
    """Lists the latest first, as a database does, by a clock that may go back."""

    behind = timedelta(0)

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        given = list(ops)
        whole = [op._replace(limit=10**6, offset=0) if isinstance(op, SearchOp) else op for op in given]
        found = super().batch(whole)
        for op in given:
            if isinstance(op, PutOp) and op.value is not None:
                self._data[op.namespace][op.key].updated_at = datetime.now(UTC) - self.behind
        for at, op in enumerate(given):
            if isinstance(op, SearchOp):
                found[at].sort(key=lambda item: item.updated_at, reverse=True)
                found[at] = found[at][op.offset : op.offset + op.limit]
        return found


@pytest.mark.req("O2")
@pytest.mark.slow
def test_a_lesson_written_after_a_databases_clock_went_back_is_found() -> None:
    store = LatestFirst()
    ours, other = LessonBook(store, ("team",)), LessonBook(store, ("team",))
    for verb in VERBS:
        for noun in NOUNS[:5]:
            other.add(a_rule(f"To {verb} a {noun}, take its lid off.", when=f"a {noun} is dull"))
    assert found(ours, "repair the compass") == []
    store.behind = timedelta(minutes=5)
    other.add(a_rule("Repair a compass with a fine needle.", when="a compass is stuck"))
    assert found(ours, "repair the stuck compass") == ["Repair a compass with a fine needle."]


def test_a_lesson_that_another_program_lets_expire_is_not_found_after_its_time(tmp_path: Path) -> None:
    with FaissStore(tmp_path / "lessons.db") as store:
        book = LessonBook(store, ("team",))
        book.add(a_rule("Polish a violin with a soft cloth.", when="a violin is dull"))
        assert len(found(book, "polish the dull violin")) == 1
        [item] = store.search(("team", "lessons"))
        store.put(item.namespace, item.key, item.value, ttl=0.03 / 60)
        time.sleep(0.1)
        assert found(book, "polish the dull violin") == []
        book.add(a_rule("Polish a kettle with vinegar.", when="a kettle is dull"))
        assert len(found(book, "polish the dull kettle")) == 1


@pytest.mark.req("O2")
def test_a_lesson_that_another_book_adds_to_many_is_known_at_once() -> None:
    store = InMemoryStore()
    ours, other = LessonBook(store, ("team",)), LessonBook(store, ("team",))
    for verb in VERBS:
        for noun in NOUNS[:4]:
            other.add(a_rule(f"To {verb} a {noun}, take its lid off.", when=f"a {noun} is new"))
    assert found(ours, "polish the dull violin") == []
    lesson = other.add(a_rule("Polish a violin with a soft cloth.", when="a violin is dull")).lesson
    assert lesson is not None
    assert found(ours, "polish the dull violin") == [lesson.text]
    other.retire(lesson.id, "not wanted")
    assert found(ours, "polish the dull violin") == []


@pytest.mark.fast_cases(1)
def test_a_lesson_bound_to_a_failure_is_found_however_many_there_are(store: BaseStore) -> None:
    book = LessonBook(store, ("team",))
    bound = a_rule("Ask for fewer rows.", trigger=Trigger(signal="tool_error", tool="fetch", fingerprint="f|x"))
    book.add(bound)
    for noun in NOUNS:
        book.add(a_rule(f"Wrap the {noun} in paper.", when=f"a {noun} is sent"))
    failure = Failure(signal="tool_error", evidence="timeout", tool="fetch", fingerprint="f|x")
    assert [one.text for one in book.recall("anything", ("fetch",), failure)] == [bound.text]


def many(store: BaseStore, number: int) -> LessonBook:
    """A book of so many lessons, written as another program would."""
    rng = random.Random(3)
    first = (
        LessonBook(store, ("team",)).add(a_rule("Polish a violin with a soft cloth.", when="a violin is dull")).lesson
    )
    assert first is not None
    made = [
        first.model_copy(update={"id": f"n{i}", "text": " ".join(rng.choices([*VERBS, *NOUNS], k=9)) + f" {i % 977}x"})
        for i in range(number)
    ]
    for at in range(0, number, 500):
        store.batch(
            [PutOp(("team", "lessons"), one.id, item_value(one), ["text", "when"]) for one in made[at : at + 500]]
        )
    return LessonBook(store, ("team",), MemoryPolicy(max_kept=2 * number))


@pytest.mark.slow
def test_among_ten_thousand_lessons_a_recall_takes_milliseconds_however_long_the_task(tmp_path: Path) -> None:
    rng = random.Random(11)

    def unheard(length: int) -> str:
        words = [*VERBS, *NOUNS, *("".join(rng.choices("aeioulnrst", k=7)) for _ in range(length // 10))]
        return " ".join(rng.choices(words, k=length))[:length]

    with FaissStore(tmp_path / "lessons.db") as store:
        book = many(store, 10_000)
        book.recall("polish the dull violin")
        for length, most in ((80, 0.05), (1_000, 0.05), (100_000, 0.1)):
            times = []
            for noun in NOUNS * 3:
                task = f"{rng.choice(VERBS)} the dull {noun} by the harbour. {unheard(length)}"
                start = time.thread_time()
                book.recall(task)
                times.append(time.thread_time() - start)
            assert sorted(times)[int(0.95 * len(times))] < most, length


@pytest.mark.slow
def test_threads_that_write_and_recall_together_leave_an_index_that_is_right(tmp_path: Path) -> None:
    with FaissStore(tmp_path / "lessons.db") as store:
        book = many(store, 300)
        faults: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for i in range(15):
                    noun = NOUNS[(number + i) % len(NOUNS)]
                    added = book.add(a_rule(f"Rinse the {noun} of {number} and {i}.", when=f"the {noun} is wet")).lesson
                    assert added is not None
                    book.recall(f"rinse the wet {noun}")
                    if i % 3 == 0:
                        book.forget(added.id)
            except BaseException as fault:  # noqa: BLE001 - told by the test itself
                faults.append(fault)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        for noun in NOUNS:
            task = f"rinse the wet {noun}"
            assert found(book, task) == found(LessonBook(store, ("team",), book.policy), task)


@pytest.mark.req("O1")
def test_the_tasks_of_a_lesson_take_little_more_than_their_words_in_the_index() -> None:
    rng, at = random.Random(3), datetime(2031, 3, 4, tzinfo=UTC)
    asked = [[f"{rng.choice(VERBS)}{rng.choice(NOUNS)}" for _ in range(12)] for _ in range(16 * 200)]
    tasks = [" ".join(words) for words in asked]
    items = [
        Item(namespace=("a",), key=str(i), value={TASKS: tasks[i::200]}, created_at=at, updated_at=at)
        for i in range(200)
    ]
    index = Index(InMemoryStore(), ("a",))
    tracemalloc.start()
    index.add(items)
    each = tracemalloc.get_traced_memory()[0] / len(items)
    tracemalloc.stop()
    assert each < 20_000
