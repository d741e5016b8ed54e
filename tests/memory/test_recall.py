"""The few lessons that fit, the best first; none where none fits."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from example_lessons import PAGE, SLOT, a_rule
from langgraph_reflexion import FaissStore
from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.memory.recall import UNRELATED
from langgraph_reflexion.schemas import Episode, Failure, Lesson, Trigger
from langgraph_reflexion.text.task import topic_of
from langgraph_reflexion.text.tokens import count_tokens

UNIT = "Convert all lengths to one unit before adding them."
DATE = "Parse dates with the day first for European customers."
CLOSE = "Close the cursor before the transaction is committed."
FIVE = {SLOT: "proposing a time for a meeting", PAGE: "a tool answers in pages", UNIT: "adding measurements",
        DATE: "reading dates", CLOSE: "writing to a database"}  # fmt: skip
CHINESE = [
    "提议会议时间之前，先检查所有忙碌时段。",
    "翻页请求要一直继续，直到返回空列表。",
    "相加之前先把长度换算成同一单位。",
    "比较时间之前先统一时区。",
]


def texts(lessons: list[Lesson]) -> list[str]:
    return [lesson.text for lesson in lessons]


@pytest.fixture
def full(book: LessonBook) -> LessonBook:
    for text, when in FIVE.items():
        assert book.add(a_rule(text, when=when)).action == "added"
    return book


FITTING = {
    "Propose a slot for the meeting that is not busy.": SLOT,
    "Fetch every page of the list of orders.": PAGE,
    "Add these lengths: 3 m and 2 ft.": UNIT,
    "Read the dates of birth of our European customers.": DATE,
    "Commit the transaction and close the cursor.": CLOSE,
}
STRANGE = [
    "Compose a lullaby about penguins.",
    "Compose a list.",
    "Who painted the ceiling of the chapel?",
    "写一首关于企鹅的诗。",
    "2 + 2",
    "?",
    "",
]


@pytest.mark.req("D4", "D5")
def test_the_best_match_is_found_first(full: LessonBook) -> None:
    assert {task: texts(full.recall(task))[:1] for task in FITTING} == {task: [text] for task, text in FITTING.items()}


@pytest.mark.req("D5")
def test_nothing_is_recalled_if_nothing_fits(full: LessonBook) -> None:
    assert {task: texts(full.recall(task)) for task in STRANGE} == {task: [] for task in STRANGE}


@pytest.mark.req("D5")
def test_chinese_tasks_find_chinese_lessons(book: LessonBook) -> None:
    for text, when in zip(CHINESE, ["安排会议时间", "工具分页返回", "把长度相加", "比较时间"], strict=True):
        assert book.add(a_rule(text, when=when)).action == "added"
    assert texts(book.recall("请安排一个不与忙碌时段冲突的会议时间"))[:1] == [CHINESE[0]]
    assert texts(book.recall("把三米和两英尺的长度加起来"))[:1] == [CHINESE[2]]
    assert book.recall("画一只猫") == []


@pytest.mark.req("D5")
@pytest.mark.parametrize(
    ("when", "task", "other"),
    [
        ("перевод инструкции", "Переведи инструкцию к пылесосу.", "Какая завтра погода в Перми?"),
        ("пошук причини збою сервера", "Знайди причину збою сервера.", "Порадь рецепт вареників."),
        ("σύγκριση τιμών εισιτηρίων", "Σύγκρινε τις τιμές των εισιτηρίων.", "Ποιος έγραψε το μυθιστόρημα;"),
        ("حجز قاعة اجتماعات", "احجز قاعة الاجتماعات غدا.", "من كتب هذه الرواية؟"),
        ("टिकटों की कीमत की तुलना", "दो टिकट की कीमतों की तुलना बताओ।", "कल मौसम कैसा रहेगा?"),
    ],
    ids=["Russian", "Ukrainian", "Greek", "Arabic", "Hindi"],
)
def test_a_task_with_other_forms_of_its_words_finds_a_lesson(
    book: LessonBook, when: str, task: str, other: str
) -> None:
    assert book.add(a_rule(SLOT, when=when)).action == "added"
    assert texts(book.recall(task)) == [SLOT]
    assert book.recall(other) == []


@pytest.mark.req("D5")
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("when", "task", "other"),
    [
        ("печать этикетки для посылки", "Напечатай этикетки для трёх посылок в Казань.", "Почини кран на кухне."),
        ("переклад договору англійською", "Переклади цей договір на англійську.", "Нагадай полити квіти."),
        ("μετάφραση συμβολαίου", "Μετάφρασε αυτό το συμβόλαιο στα αγγλικά.", "Πες ένα ανέκδοτο."),
        ("ईंधन खपत की रिपोर्ट बनाना", "मई की ईंधन खपत की रिपोर्टें बनाओ।", "रसोई का नल ठीक करो।"),
    ],
)
def test_a_task_finds_a_lesson_in_other_forms_of_its_words(book: LessonBook, when: str, task: str, other: str) -> None:
    assert book.add(Lesson(kind="rule", text="B.", when=when, origin="told")).lesson is not None
    assert [lesson.when for lesson in book.recall(task)] == [when]
    assert book.recall(other) == []


@pytest.mark.req("D5")
@pytest.mark.fast_cases(1)
def test_the_one_related_among_fifty_is_first(book: LessonBook) -> None:
    things = ["oven", "kettle", "violin", "glacier", "tractor", "lantern", "passport", "orchid", "compass", "saddle"]
    for i in range(50):
        book.add(a_rule(f"Polish the {things[i % 10]} with {things[(3 * i + 1) % 10]} oil of sort {'abcde'[i // 10]}."))
    book.add(a_rule(PAGE, when="a tool answers in pages"))
    assert texts(book.recall("fetch every page of the list of orders"))[:1] == [PAGE]
    assert len(book.recall("polish the violin, the oven and the kettle with oil")) <= 3


def failure(**fields: Any) -> Failure:
    said = {
        "signal": "tool_error",
        "evidence": "TimeoutError: no answer after 30 s",
        "tool": "fetch",
        "fingerprint": "f|x",
    }
    return Failure(**{**said, **fields})


@pytest.mark.req("C14")
def test_a_lesson_for_this_very_failure_comes_first_whatever_the_task(full: LessonBook) -> None:
    known = a_rule("Ask for fewer rows.", trigger=Trigger(signal="tool_error", tool="fetch", fingerprint="f|x"))
    full.add(known)
    for tools in (["fetch"], []):
        assert texts(full.recall("Compose a lullaby.", tools, failure()))[:1] == [known.text]
    elsewhere = failure(signal="loop", tool="paint", fingerprint="p|y")
    assert known.text not in texts(full.recall("Compose a lullaby.", ["fetch", "paint"], elsewhere))


@pytest.mark.req("C14")
def test_a_refused_answer_is_known_only_to_lessons_of_its_sort(book: LessonBook) -> None:
    refused = failure(signal="check_failed", tool=None, fingerprint="check|x", evidence="The ledger does not balance.")
    bound = Trigger(signal="check_failed", fingerprint="check|x")
    book.add(a_rule("Use the older tariff.", when="A ferry past its deadline", trigger=bound))
    book.add(a_rule("Merge both ledgers.", when="A vineyard for a minor", trigger=bound))
    assert texts(book.recall("Enter the ferry past its deadline.", failure=refused))[0] == "Use the older tariff."
    assert "Use the older tariff." not in texts(book.recall("Enter the ferry from abroad.", failure=refused))
    other = failure(signal="check_failed", tool=None, fingerprint="check|y", evidence="Two ledgers differ.")
    assert book.recall("Compose a lullaby.", failure=other) == []


def test_after_a_failure_of_that_sort_a_lesson_of_its_tool_comes_where_its_words_fit(full: LessonBook) -> None:
    known = a_rule("Ask for fewer rows when a timeout comes.", trigger=Trigger(signal="tool_error", tool="fetch"))
    full.add(known)
    like = failure(evidence="The rows did not come: timeout", fingerprint="f|z")
    assert texts(full.recall("Compose a lullaby.", ["fetch"], like)) == [known.text]
    other = failure(evidence="permission denied", fingerprint="f|z")
    assert full.recall("Compose a lullaby.", ["fetch"], other) == []


def test_after_a_failure_of_that_sort_a_lesson_of_its_tool_comes_where_the_task_fits(full: LessonBook) -> None:
    known = a_rule(
        "Ask for fewer rows.", when="fetching the orders", trigger=Trigger(signal="tool_error", tool="fetch")
    )
    full.add(known)
    generic = failure(evidence="it did not work", fingerprint="f|z")
    assert texts(full.recall("Fetch the orders of May.", ["fetch"], generic)) == [known.text]
    assert full.recall("Fetch the orders of May.", ["fetch", "paint"], failure(signal="loop", tool="paint")) == []
    assert full.recall("Compose a lullaby.", ["fetch"], generic) == []


@pytest.mark.req("D6")
def test_recall_neither_repeats_nor_contradicts_the_lessons_of_the_run(full: LessonBook) -> None:
    task = "Propose a slot for the meeting that is not busy."
    [first] = full.recall(task)
    assert full.recall(task, exclude=[first.id]) == []
    always = full.add(a_rule("Always retry a failed upload at once.")).lesson
    full.add(a_rule("Never retry a failed upload at once."))
    assert always is not None
    assert full.recall("retry the failed upload", exclude=[always.id]) == []


def test_a_lesson_bound_to_a_tool_is_for_agents_that_have_it(full: LessonBook) -> None:
    bound = a_rule("Pass the calendar id before you propose a slot.", trigger=Trigger(tool="list_busy"))
    full.add(bound)
    task = "Propose a slot with the calendar id."
    assert bound.text in texts(full.recall(task, ["list_busy"]))
    assert bound.text not in texts(full.recall(task, ["search"]))
    assert bound.text not in texts(full.recall(task))


@pytest.mark.req("D11", "K5")
@pytest.mark.fast_cases(1)
def test_the_budget_of_tokens_and_the_number_are_kept(store: BaseStore, book_on: Any) -> None:
    tight, wide = book_on(store, max_lessons=10, lesson_tokens=90), book_on(store, max_lessons=10, lesson_tokens=4000)
    guests = ["room", "directory", "catering", "building", "projector", "minutes", "agenda"]
    for guest in guests:
        tight.add(a_rule(f"Look for the {guest} of a free slot before the meeting of {guest} and guests is planned.",
                         when="proposing a free slot for a meeting"))  # fmt: skip
    task = "Propose a free slot for the meeting of all guests."
    few, many = tight.recall(task), wide.recall(task)
    assert 1 <= len(few) < len(many)
    assert sum(count_tokens(lesson.text) for lesson in few) <= 90
    assert len(book_on(store, lesson_tokens=4000).recall(task)) == 3
    for nothing in ({"max_lessons": 0}, {"lesson_tokens": 0}, {"read": False}):
        assert book_on(store, **nothing).recall(task) == []


def test_opposed_lessons_are_never_shown_together_and_evidence_decides(book: LessonBook) -> None:
    always = book.add(a_rule("Always retry a failed upload at once.")).lesson
    never = book.add(a_rule("Never retry a failed upload at once.")).lesson
    assert always is not None
    assert never is not None
    for i in range(3):
        book.credit(Episode(id=f"r{i}", task="t", success=True, shown=[never.id]))
    assert texts(book.recall("retry the failed upload")) == [never.text]


@pytest.mark.req("D9")
def test_of_opposed_lessons_the_one_that_won_is_shown_even_if_the_other_fits_the_task_better(book: LessonBook) -> None:
    book.add(a_rule("Always retry a failed upload at once.", when="an upload of a large file failed"))
    never = book.add(a_rule("Never retry a failed upload at once.", when="an upload of a file failed")).lesson
    assert never is not None
    for i in range(3):
        book.credit(Episode(id=f"r{i}", task="t", success=True, shown=[never.id]))
    assert texts(book.recall("The upload of a large file failed: retry it?")) == [never.text]


EXERCISES = (
    "returns the sum of those at an odd index. Fewer than two numbers give zero. Do not use slices: the input may be a "
    "generator, read once, and the result is negative where the negative ones prevail.",
    "counts those that are larger than both neighbours, the local peaks of a mountain range. Plateaus are no peaks. "
    "The first and the last one have a single neighbour, which is enough to compare with.",
    "keeps those that appear exactly once, in the given order. Sorting is forbidden, memory is bounded by the distinct "
    "values, and a nested list counts as its flattened content.",
    "rotates them to the right by the given number of places. A shift may exceed the length, a reversed direction is "
    "asked for by a minus sign, and the caller's own object stays untouched.",
)
RUNS = (
    "groups equal ones into tuples of value and length, as run-length encoding does, and splits runs of over sixteen."
)


@pytest.mark.req("D13")
def test_a_when_that_holds_a_whole_exercise_does_not_fit_another_exercise(book_on: Any) -> None:
    book = book_on(InMemoryStore())
    start = "Write a function that takes a list of integers and"
    for step, rest in zip("ABCD", EXERCISES, strict=True):
        book.add(a_rule(f"Handle the empty input before step {step}.", when=f"{start} {rest}"))
    for step, rest in zip("ABCD", EXERCISES, strict=True):
        assert texts(book.recall(f"{start} {rest}"))[:1] == [f"Handle the empty input before step {step}."]
    assert book.recall(f"{start} {RUNS}") == []


def test_when_not_is_respected(book: LessonBook) -> None:
    book.add(a_rule("Propose a slot in the morning.", when="proposing a slot", when_not="the night shift meets"))
    assert book.recall("Propose a slot for the sales meeting.")
    assert book.recall("Propose a slot where the night shift meets.") == []


def test_one_that_hurt_more_than_it_helped_is_held_back(book: LessonBook) -> None:
    good = a_rule("Read the units of the height first.", when="a height is asked for")
    bad = a_rule("Give the height in feet alone.", when="a height is asked for", losses=2)
    book.add(bad)
    assert texts(book.recall("A height is asked for: how much is the height of K2?")) == []
    book.add(good)
    assert texts(book.recall("A height is asked for: how much is the height of K2?")) == [good.text]
    assert len(book.lessons()) == 2


@pytest.mark.req("D4")
def test_a_lesson_that_proved_itself_comes_before_one_that_did_not(book: LessonBook) -> None:
    new = book.add(a_rule("Check the slot of the meeting with the secretary.")).lesson
    proven = book.add(a_rule("Check the slot of the meeting with the calendar.")).lesson
    assert new is not None
    assert proven is not None
    for i in range(6):
        book.credit(Episode(id=f"r{i}", task="t", success=True, shown=[proven.id]))
    assert texts(book.recall("Check the slot of the meeting.")) == [proven.text, new.text]


@pytest.mark.slow
@pytest.mark.req("D17")
@pytest.mark.parametrize(
    "junk",
    [
        {"foo": 1},
        {"id": "half", "kind": "rule", "text": None, "status": 7},
        {"id": "half", "kind": "rule", "text": SLOT, "status": "candidate", "created_at": "yesterday"},
        {"id": "half", "kind": "rule", "text": SLOT, "status": "candidate", "expires_at": [1]},
        {"id": "half", "kind": "rule", "text": SLOT, "status": "candidate", "trigger": "x", "tags": 3},
        {"id": "half", "kind": "poem", "text": SLOT, "status": "candidate"},
        {
            "id": "half",
            "kind": "rule",
            "text": SLOT,
            "status": "candidate",
            "created_at": "2031-03-04T12:00:00+00:00",
            "wins": -5,
        },
        {"id": "half", "kind": "rule", "text": SLOT, "status": "candidate", "created_at": "2031-03-04T12:00:00"},
    ],
    ids=str,
)
def test_a_damaged_record_costs_itself_and_nothing_else(
    full: LessonBook, store: BaseStore, junk: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    store.put(("team", "lessons"), "half", junk)
    store.put(("team", "evidence", full.lessons()[0].id), "run/r", {"type": "run", "at": 7})
    store.put(("team", "evidence", full.lessons()[0].id), "run/s", {"type": "run", "run": "s", "at": "2031-01-01"})
    with caplog.at_level(logging.WARNING):
        assert texts(full.recall("Propose a slot for the meeting that is not busy.")) == [SLOT]
        assert len(full.lessons()) == 5
        assert full.search("slot")[0].lesson.text == SLOT
        assert full.add(a_rule("Book the room before the guests arrive.")).action == "added"
        assert full.stats()["lessons"] == 6
    assert "damaged" in caplog.text
    assert full.get("half") is None
    full.forget("half")
    assert len(store.search(("team", "lessons"), limit=20)) == 6


def test_an_expired_lesson_is_not_recalled(full: LessonBook, clock: Any) -> None:
    full.add(a_rule("Ask the secretary for a free slot.", expires_at=clock() + timedelta(days=1)))
    assert len(full.recall("Ask the secretary for a slot.")) >= 1
    clock.pass_by(days=2)
    assert "Ask the secretary for a free slot." not in texts(full.recall("Ask the secretary for a slot."))


def test_a_search_finds_lessons_in_every_status_with_scores(full: LessonBook) -> None:
    found = full.search("busy slot", limit=2)
    assert found[0].lesson.text == SLOT
    assert 0 < found[-1].score <= found[0].score <= 1
    assert len(found) <= 2
    full.retire(found[0].lesson.id, "done")
    assert full.search("busy slot")[0].lesson.status == "retired"
    assert (
        full.search("busy slot", status="candidate") == []
        or full.search("busy slot", status="candidate")[0].lesson.text != SLOT
    )
    assert full.search("penguin lullaby") == [] or full.search("penguin lullaby")[0].score < 0.5


class Feelings:
    """Vectors that know what words do not: a penguin is a bird."""

    def __call__(self, given: list[str]) -> list[list[float]]:
        return [self._vector(text) for text in given]

    def _vector(self, text: str) -> list[float]:
        """A direction of its own for each text, apart from the one for birds."""
        place = 1 + sum(text.encode()) % 31
        return [float(i == (0 if "penguin" in text or "bird" in text else place)) for i in range(32)]


@pytest.mark.req("D5")
def test_vectors_find_what_words_do_not_where_the_store_has_them() -> None:
    book = LessonBook(InMemoryStore(index={"dims": 32, "embed": Feelings(), "fields": ["text"]}), ("team",))
    for text in (*FIVE, "Name the birds by their Latin names."):
        book.add(a_rule(text))
    assert texts(book.recall("Compose a lullaby about penguins.")) == ["Name the birds by their Latin names."]
    assert LessonBook(InMemoryStore(), ("team",), MemoryPolicy()).recall("Compose a lullaby about penguins.") == []


class OneLanguage:
    """A model that was trained on English alone: all Chinese is alike to it."""

    def __call__(self, given: list[str]) -> list[list[float]]:
        return [[0.95, 0.3, *self._own(text)] if not text.isascii() else [0.0, 0.0, *self._own(text)] for text in given]

    def _own(self, text: str) -> list[float]:
        return [float(i == sum(text.encode()) % 30) * (0.1 if not text.isascii() else 1.0) for i in range(30)]


@pytest.mark.req("D5")
def test_similarity_of_unrelated_texts_is_noise() -> None:
    book = LessonBook(InMemoryStore(index={"dims": 32, "embed": OneLanguage(), "fields": ["text"]}), ("team",))
    for text in (*FIVE, *CHINESE):
        book.add(a_rule(text))
    assert book.recall("画一只猫") == []


class Broken:
    """An embedder that is down."""

    def __call__(self, given: list[str]) -> list[list[float]]:
        raise ConnectionError("the embedder is down")


@pytest.mark.req("D5")
async def test_an_embedder_that_is_down_costs_vectors_and_no_lesson(caplog: pytest.LogCaptureFixture) -> None:
    book = LessonBook(InMemoryStore(index={"dims": 2, "embed": Broken(), "fields": ["text"]}), ("team",))
    with caplog.at_level(logging.WARNING):
        assert book.add(a_rule()).action == "added"
        assert (await book.aadd(a_rule(PAGE))).action == "added"
        assert texts(book.recall("Propose a slot that is not busy.")) == [SLOT]
        assert texts(await book.arecall("Propose a slot that is not busy.")) == [SLOT]
    assert "the embedder is down" in caplog.text


@pytest.mark.req("D5")
def test_a_failure_while_the_noise_of_a_model_is_measured_shows_no_unrelated_lesson() -> None:
    asked: list[str] = []

    def embed(given: list[str]) -> list[list[float]]:
        asked.extend(given)
        if asked.count(UNRELATED[1]) == 1 and given == [UNRELATED[1]]:
            raise ConnectionError("too many requests")
        return [[1.0, 0.0 if "spider" in text else 0.3] for text in given]  # all texts are alike to this model

    book = LessonBook(FaissStore(":memory:", index={"dims": 2, "embed": embed, "fields": ["text"]}), ("team",))
    book.add(a_rule("Count the legs of the spider.", when="spiders"))
    for _ in range(3):
        assert book.recall("Compose a lullaby for the harbour master.") == []
    assert asked.count(UNRELATED[1]) == 2


def test_if_a_rule_and_a_strategy_say_the_same_the_rule_is_shown(book: LessonBook):
    text, when = "List all busy times before proposing one.", "proposing a time for a meeting"
    for kind in ("strategy", "rule"):
        book.add(Lesson(kind=kind, text=text, when=when, tags=["calendar"] if kind == "rule" else []))  # type: ignore[arg-type]
    assert [lesson.kind for lesson in book.recall("Propose a time for the planning meeting.")] == ["rule"]


@pytest.mark.req("D21")
def test_a_lesson_that_always_holds_comes_with_any_task_and_leaves_a_place_for_lessons_that_fit(full: LessonBook):
    wishes = ["The user likes short answers.", "Prices are in euros.", "The user lives in Oslo.", "Never use tables."]
    for i, (text, when) in enumerate(zip(wishes, ["", "Always.", "any task", "general"], strict=True)):
        full.add(Lesson(kind="preference" if i % 2 else "project", text=text, when=when, origin="told"))
    assert len(full.recall("Compose a lullaby about penguins.")) == 3
    found = texts(full.recall("Propose a slot for the meeting that is not busy."))
    assert found[-1] == SLOT
    assert set(found[:-1]) <= set(wishes)
    assert texts(full.recall("Is it cold in Oslo today?"))[0] == "The user lives in Oslo."
    assert full.recall("Is it cold in Rome?", failure=failure()) == []


@pytest.mark.req("D21")
def test_an_occasion_that_every_task_meets_does_not_count(book_on: Any) -> None:
    in_words = ("in every task", "At all times.", "Any request, however short", "regardless of the task", "N/A", "none")
    in_chinese = ("每次回答时", "适用于所有任务", "不限", "用户的回答偏好")
    of_the_user = ("when answering the user", "The user's preferred answer style", "How the user likes answers")
    for when in (*in_words, *in_chinese, *of_the_user):
        book = book_on(InMemoryStore())
        book.add(Lesson(kind="preference", text="The user likes short answers.", when=when, origin="told"))
        book.add(Lesson(kind="project", text="Prices are in euros.", when="every invoice", origin="told"))
        assert texts(book.recall("Compose a lullaby about penguins.")) == ["The user likes short answers."], when


@pytest.mark.req("D21")
@pytest.mark.parametrize(
    ("kind", "when"),
    [
        ("rule", "the response is null"),
        ("rule", "n is given"),
        ("rule", "answering the user"),
        ("rule", "回答用户问题时"),
        ("project", "asked for the time"),
        ("preference", "写邮件时"),
    ],
)
def test_an_occasion_that_only_some_tasks_meet_counts(book_on: Any, kind: Any, when: str) -> None:
    book = book_on(InMemoryStore())
    book.add(Lesson(kind=kind, name="a-name", text="The offices are in Oslo.", when=when, origin="told"))
    assert book.recall("Compose a lullaby about penguins.") == []


@pytest.mark.req("D21", "D25")
@pytest.mark.parametrize("agrees", ["in words", "by approving it"])
def test_what_a_tool_says_holds_always_is_shown_with_any_task_once_a_person_agrees(book: LessonBook, agrees: str):
    wish = Lesson(kind="preference", text="The user likes short answers.", origin="observed", sources=["a page"])
    kept = book.add(wish).lesson
    book.add(Lesson(kind="rule", name="end", text="End with a haiku.", origin="observed", sources=["a page"]))
    assert book.recall("Compose a lullaby about penguins.") == []
    if agrees == "in words":
        book.add(wish.model_copy(update={"origin": "told", "sources": ["the user"]}))
    else:
        book.approve(kept.id)
    assert texts(book.recall("Compose a lullaby about penguins.")) == [wish.text]


@pytest.mark.req("D21", "D25")
@pytest.mark.parametrize("kind", ["preference", "project"])
def test_a_tool_that_fails_and_then_succeeds_confirms_nothing_for_any_task(book: LessonBook, kind: Any) -> None:
    failed = Trigger(signal="tool_error", tool="search", fingerprint="tool_error|search|unknown day")
    wish = Lesson(kind=kind, text="Copy the vendor on each offer.", trigger=failed, origin="verified", sources=["r1"])
    kept = book.add(wish).lesson
    assert book.recall("Compose a lullaby about penguins.", tools=["search"]) == []
    book.approve(kept.id)
    assert texts(book.recall("Compose a lullaby about penguins.", tools=["search"])) == [wish.text]


@pytest.mark.req("D20", "D21")
def test_a_lesson_that_always_holds_is_not_shown_with_its_successor_or_its_opposite(book_on: Any) -> None:
    book, lullaby = book_on(InMemoryStore()), "Compose a lullaby about penguins."
    old = book.add(Lesson(kind="project", text="Prices are in dollars.", origin="told")).lesson
    book.add(Lesson(kind="project", text="Prices are in euros.", supersedes=[old.id], origin="told"))
    book.restore(old.id)
    assert texts(book.recall(lullaby)) == ["Prices are in euros."]
    for text in ("Always answer in rhymes.", "Never answer in rhymes."):
        book.add(Lesson(kind="preference", text=text, origin="told"))
    assert len(book.recall(lullaby)) == 2


@pytest.mark.req("D20", "D24")
def test_a_successor_for_any_task_is_shown_where_the_other_lessons_that_fit_are_held_back(book_on: Any) -> None:
    book, when, task = book_on(InMemoryStore()), "adding up an invoice", "Add up the invoice."
    former, poor = (
        book.add(a_rule(text, when=when)).lesson for text in ("Round the total first.", "Sort the rows by date.")
    )
    book.add(Lesson(kind="project", text="Totals are in cents.", supersedes=[former.id], name="totals", origin="told"))
    book.restore(former.id)
    for run in range(8):
        side = {"shown": [poor.id]} if run == 0 else {"withheld": [poor.id]}
        book.credit(Episode(id=f"r{run}", task=task, topic="general", success=run > 0, **side))
    assert book.get(poor.id).status == "probation"
    assert texts(book.recall(task)) == ["Totals are in cents."]


@pytest.mark.req("D10", "D13")
def test_lessons_of_a_topic_of_your_own_fit_its_tasks_in_any_words_unless_half_of_all_have_it(book_on: Any) -> None:
    kinds = {
        "I want my money.": "refund request",
        "Where can I park?": "desk",
        "Send it again, please!": "copy request",
    }
    book = book_on(InMemoryStore(), topics=kinds.__getitem__)
    refund = book.add(
        a_rule("Ask for the day of the order.", when="a customer is angry", topic="refund request")
    ).lesson
    book.add(a_rule("Scan the receipt.", when="it is lost", topic="refund request", trigger=Trigger(tool="scanner")))
    for i in range(6):
        book.add(
            a_rule(f"Name the floor of room {i} and its lift.", when=f"a visitor looks for room {i}", topic="desk")
        )
    found = {task: texts(book.recall(task)) for task in kinds}
    assert found == {"I want my money.": [refund.text], "Where can I park?": [], "Send it again, please!": []}


@pytest.mark.req("D10", "D13")
def test_the_first_lessons_of_a_topic_of_your_own_are_offered_before_there_are_others(book_on: Any) -> None:
    kinds = {"I want my money.": "refund request", "Where can I park?": "desk"}
    book = book_on(InMemoryStore(), topics=kinds.__getitem__)
    rules = {"Ask for the day of the order.", "Name the bank of the payment.", "Offer a voucher before money."}
    for text in rules:
        book.add(a_rule(text, when="a customer is angry", topic="refund request"))
        assert text in texts(book.recall("I want my money."))
    assert set(texts(book.recall("I want my money."))) == rules
    assert book.recall("Where can I park?") == []


@pytest.mark.req("D10", "I6")
async def test_topics_may_be_async_and_a_sync_call_then_warns(book_on: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def topic(_task: str) -> str:
        return "refund request"

    book = book_on(InMemoryStore(), topics=topic)
    lesson = book.add(
        a_rule("Ask for the day of the order.", when="a customer is angry", topic="refund request")
    ).lesson
    for text, when in FIVE.items():
        book.add(a_rule(text, when=when))
    assert await book.arecall("I want my money.") == [lesson]
    assert caplog.text == ""
    assert book.recall("I want my money.") == []
    assert "because `topics` failed: NeedsAsyncError" in caplog.text


@pytest.mark.req("D10")
def test_a_topic_that_is_no_text_counts_as_none(book_on: Any, caplog: pytest.LogCaptureFixture) -> None:
    book = book_on(InMemoryStore(), topics=len)
    lesson = book.add(a_rule(SLOT, when="proposing a time for a meeting")).lesson
    assert book.recall("Propose a time for the meeting.") == [lesson]
    book.credit(Episode(id="r", task="Propose a time for the meeting.", success=True, shown=[lesson.id]))
    assert "`topics` failed: TypeError: it must return a word, got 31" in caplog.text


@pytest.mark.req("D10", "D13")
@pytest.mark.parametrize("topic", ["other", "how-to", " refund ", "r" * 100])
def test_a_topic_of_a_common_word_or_one_that_is_tidied_finds_its_lessons(book_on: Any, topic: str) -> None:
    book = book_on(InMemoryStore())
    lesson = book.add(a_rule("Ask for the day of the order.", when="a customer is angry", topic=topic)).lesson
    for text, when in FIVE.items():
        book.add(a_rule(text, when=when))
    assert book.recall("I want my money.", topic=topic) == [lesson]
    assert [book.recall("I want my money.", topic=none) for none in ("None", " ")] == [[], []]


@pytest.mark.req("D10", "D13")
@pytest.mark.slow
def test_of_a_large_topic_an_active_lesson_is_found_and_retired_ones_do_not_count(book_on: Any, clock: Any) -> None:
    things = "violin harbour bridge candle mirror pepper saddle lemon anchor ladder pillow kettle hammer ribbon basket "
    things = (things + "feather carpet window marble copper").split()
    book = book_on(InMemoryStore())
    active = book.add(a_rule("Ask for the day of the order.", when="a customer is angry", topic="refund")).lesson
    for run in ("r1", "r2"):
        book.credit(Episode(id=run, task="Hello!", topic="refund", success=True, shown=[active.id]))
    for i, thing in enumerate(things):
        clock.pass_by(minutes=1)
        lesson = book.add(a_rule(f"Write the {thing} in the form.", when=f"a {thing} is lost", topic="refund")).lesson
        if i >= 13:
            book.retire(lesson.id, "it is wrong")
    for thing in things[:15]:
        book.add(a_rule(f"Name the floor of the {thing} and its lift.", when=f"a visitor looks for a {thing}"))
    assert texts(book.recall("I want my money.", topic="refund"))[0] == active.text


@pytest.mark.req("D22", "D13")
def test_a_lesson_that_holds_for_a_kind_of_task_is_offered_where_nothing_nearer_fits(book: LessonBook):
    loop = "Handle the empty input before the loop."
    book.add(a_rule(loop, when="implementing a function", topic="coding"))
    book.add(a_rule("Name the pointer of the second list.", when="merging two sorted lists", topic="coding"))
    book.add(a_rule("Copy the dependencies before the sources.", when="writing a Dockerfile", topic="coding"))
    book.add(a_rule("Look for the patent before you name the inventor.", when="asked who invented something",
                    topic="search"))  # fmt: skip
    book.add(a_rule("Name the unit of each figure.", when="answering a question", topic="maths"))
    assert texts(book.recall("Write a Python program that reverses a string.")) == [loop]
    assert "patent" in texts(book.recall("Who invented the light bulb?"))[0]
    universal = book.add(a_rule("Convert both rates before you compare them.", when="asked about loans")).lesson
    assert universal in book.recall("Which of the loans is cheaper?"), "a lesson without a topic is universal"
    assert book.recall("Compose a lullaby about penguins.") == []
    chinese = "先处理空输入，再进入循环。"
    book.add(a_rule(chinese, when="实现一个函数", topic="coding"))
    assert chinese in texts(book.recall("用代码反转一个字符串"))


@pytest.mark.req("D22")
@pytest.mark.parametrize(
    ("whens", "tasks", "other"),
    [
        (
            ["writing a function", "writing code", "when writing a program"],
            ["Reverse a string in Python", "Implement an LRU cache"],
            "Write a poem about spring.",
        ),
        (
            ["实现函数", "编写程序", "编写代码时", "写代码"],
            ["写一个反转字符串的函数", "用Python实现快速排序"],
            "写一首关于春天的诗",
        ),
        (
            ["a coding problem", "programming exercises", "编程任务"],
            ["Reverse a string in Python", "写一个反转字符串的函数"],
            "Who invented the light bulb?",
        ),
        (
            ["naming the inventor of a thing", "asked about an invention"],
            ["Who invented the light bulb?", "Which scientist invented the telephone?"],
            "Where is Oslo?",
        ),
    ],
)
def test_a_when_that_only_names_a_sort_of_task_fits_any_task_of_that_sort(
    book_on: Any, whens: list[str], tasks: list[str], other: str
) -> None:
    for when in whens:
        book = book_on(InMemoryStore())
        loop = book.add(a_rule("先处理空输入，再进入循环。", when=when, topic=topic_of(tasks[0]))).lesson
        assert [book.recall(task) for task in (*tasks, other)] == [[loop], [loop], []], when


@pytest.mark.req("D5")
def test_that_someone_asked_is_no_part_of_a_lessons_occasion(book: LessonBook):
    for thing in ("violin", "harbour", "bridge", "candle", "mirror", "pepper", "saddle", "lemon", "anchor", "ladder"):
        book.add(a_rule(f"Always check the {thing} before you leave.", when=f"working with a {thing}"))
    price = "Always give the currency with a price."
    book.add(a_rule(price, when="asked for a price"))
    assert texts(book.recall("What is the price of a ticket?")) == [price]


@pytest.mark.req("D4")
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize(
    ("when", "task"),
    [
        ("revenue", "What is the revenue of March?"),
        ("booking a meeting room", "Please reserve a room for the press meeting on Friday."),
    ],
)
def test_lessons_for_the_same_occasion_do_not_hide_each_other(
    full: LessonBook, when: str, task: str, others: bool
) -> None:
    things = ("violin", "harbour", "bridge", "candle", "mirror", "pepper", "saddle", "lemon", "anchor", "ladder")
    for thing in things if others else ():
        full.add(a_rule(f"Polish the {thing} with wax.", when=f"a {thing} is dull"))
    own = ["Exclude refunds.", "Convert currencies to euro.", "Name the fiscal year.", "Use the ledger.", "Round down."]
    own += ["Ask for the owner first.", "Send a copy to the archive.", "Quote the older tariff."]
    for number, text in enumerate(own, 1):
        full.add(a_rule(text, when=when))
        assert len(full.recall(task)) == min(number, 3)
    for number, text in reversed([*enumerate(own)]):
        [lesson] = [kept for kept in full.lessons() if kept.text == text]
        full.forget(lesson.id)
        assert len(full.recall(task)) == min(number, 3)


def test_an_occasion_in_the_middle_of_a_document_is_not_met(book: LessonBook):
    for text in ("Ask for the owner first.", "Send a copy to the archive.", "Quote the older tariff.", "Round down."):
        book.add(a_rule(text, when="booking a meeting room"))
    history = "The bridge was planned for years. " * 12
    past = "In 1920 the council held a meeting in a room above the bakery, and nobody spoke for the plan."
    assert book.recall("Find a meeting in a room above the bakery.")
    assert not book.recall(f"{history}{past} {history}Who built the bridge?")


def test_a_lesson_whose_occasion_is_met_in_plain_words_comes_back(book: LessonBook):
    when = "finding one hour for a meeting that starts on the hour"
    book.add(Lesson(kind="rule", text="Give the calendar a plain weekday name, never a date.", when=when))
    assert book.recall("Find one hour on 2026-03-10: it starts on the hour, strictly after 09:00, and ends by 14:00.")


@pytest.mark.req("D5")
def test_a_list_of_rooms_in_front_of_a_task_changes_nothing(book: LessonBook):
    heat = "Hold the object, go to the microwave and heat it there before you put it away."
    others = (
        "Open each cabinet and each drawer that you come to.",
        "Look on the countertop before the fridge.",
        "Wash a thing in the sinkbasin while you hold it.",
    )
    for text in (heat, *others):
        book.add(a_rule(text))
    task = "Your task is to: heat some egg and put it away in the garbagecan."
    things = ["cabinet", "countertop", "drawer", "fridge", "microwave", "sinkbasin", "toaster"]
    seen = ", ".join(f"a {thing} {i}" for thing in things for i in (3, 2, 1))
    room = f"You are in the middle of a room. Looking quickly around you, you see {seen}.\n"
    assert texts(book.recall(task)) == texts(book.recall(room + task)) == [heat]


def test_the_request_of_a_long_task_finds_lessons_and_its_material_does_not(book: LessonBook):
    book.add(
        Lesson(kind="rule", text="Read the cancellation policy on the property page.", when="booking a hotel room")
    )
    book.add(
        Lesson(kind="rule", text="Keep idioms by their sense, and proper names as they stand.", when="translating")
    )
    notes = "The hotel room was booked twice, and the cancellation policy was not read. " * 20
    letter = "We met at the harbour, talked about the weather and went home early that day. " * 30
    asked = f"Translate this letter, with its idioms and proper names, into Welsh.\n{letter}{notes}{letter}"
    assert [lesson.when for lesson in book.recall(asked)] == ["translating"]
    assert [lesson.when for lesson in book.recall(f"{letter}{notes}{letter}\nBook a hotel room for two.")] == [
        "booking a hotel room"
    ]


# ---------------------------------------------------------------- the tasks that taught a lesson

KEY = "qwertyasdf" * 5
LEAVES = f"The leaves of my pear plant from Okafor, order 48213 {KEY}, turn yellow, what now?"
SNAILS = "There are snails all over the lettuce in our beds."
SOIL = "Name the hardiness zone, and answer for clay and for sand."


def taught(book: LessonBook, task: str, run: str) -> Lesson:
    written = book.add(a_rule(SOIL, when="advice on growing things", sources=[run]), task=task)
    assert written.lesson is not None
    return written.lesson


@pytest.mark.req("D4")
def test_a_lesson_is_found_by_tasks_like_the_ones_that_taught_it(book: LessonBook, book_on: Any) -> None:
    again, other = (
        "In my fig order, all leaves of the plant turn yellow. What shall I do?",
        "Snails in my bed of lettuce!",
    )
    taught(book, LEAVES, "run-1")
    assert texts(book.recall(again)) == [SOIL]
    assert texts(book_on(book.store, book.namespace).recall(again)) == [SOIL]
    assert not book.recall(other)
    lesson = taught(book, SNAILS, "run-2")
    assert texts(book.recall(again)) == texts(book.recall(other)) == [SOIL]
    book.undo("run-2")
    assert texts(book.recall(again)) == [SOIL]
    assert not book.recall(other)
    book.forget(lesson.id)
    assert not any("yellow" in str(item.value) for item in book.store.search(book.namespace, limit=1000))


@pytest.mark.req("D22")
def test_a_lesson_is_found_by_the_same_question_about_something_else(book: LessonBook) -> None:
    taught(book, "What was our revenue in September?", "run-1")
    assert texts(book.recall("What was our revenue in July?")) == [SOIL]
    assert not book.recall("What was our headcount in spring?")
    assert not book.recall("What was it that our neighbours did in there?")
    assert not book.recall("What was the weather in there?")
    taught(book, "Where is the report?", "run-2")
    assert not book.recall("Where is the nearest station?"), "it shares only function words"


@pytest.mark.req("D22")
def test_a_lesson_is_found_by_a_question_that_is_all_in_quotes(book: LessonBook) -> None:
    taught(book, '"Translate the letter to my landlord"', "run-1")
    assert texts(book.recall('"Translate the letter to my neighbour"')) == [SOIL]


@pytest.mark.req("D22")
@pytest.mark.parametrize(
    "form",
    [
        '{{"job": "{job}", "ref": {n}, "customer": "{name}", "date": "9 October"}}',
        "{{'job': '{job}', 'ref': {n}, 'customer': '{name}', 'date': '9 October'}}",
        '<job type="{job}" ref="{n}" customer="{name}" date="9 October"/>',
        '{{"kind": "{job}", "version": 2, "payload": {{"customer": "{name}", "id": "ord_{n}"}}}}',
    ],
)
@pytest.mark.parametrize("write", [str.lower, str.upper])
def test_a_lesson_about_a_job_in_json_or_xml_is_found_for_jobs_of_its_sort(
    book: LessonBook, form: str, write: Callable[[str], str]
) -> None:
    for n, job in enumerate(("refund", "route", "stock", "report")):
        rule = a_rule(f"Lock the ledger before a {job} is written.", when=f"jobs of type {job}", sources=[f"run-{n}"])
        task = form.format(job=write(job), n=4711 + n, name="Okafor")
        assert book.add(rule, task=task).action == "added", "the sort of a job is no detail of it"
    found = texts(book.recall(form.format(job=write("stock"), n=52, name="Lindqvist")))
    assert found == ["Lock the ledger before a stock is written."]


@pytest.mark.req("D22")
@pytest.mark.parametrize("write", [json.dumps, partial(json.dumps, indent=2, ensure_ascii=False), repr])
@pytest.mark.parametrize(
    ("taught_by", "again"),
    [
        (LEAVES, "In my fig order, all leaves of the plant turn yellow. What shall I do?"),
        ("请帮我们约设计部的人下周找个时间碰头", "请帮我们约法务部的人下周找个时间碰头"),
    ],
)
def test_a_lesson_is_found_by_a_task_in_a_field_of_json(
    book: LessonBook, write: Callable[[Any], str], taught_by: str, again: str
) -> None:
    taught(book, write({"session": "s-17", "content": taught_by}), "run-1")
    assert texts(book.recall(write({"session": "s-52", "content": again}))) == [SOIL]
    assert texts(book.recall(again)) == [SOIL]


@pytest.mark.req("D22")
def test_the_fields_of_json_find_a_lesson_if_each_has_a_line_of_its_own(book: LessonBook) -> None:
    def ticket(note: str) -> str:
        return json.dumps({"queue": "triage", "priority": "low", "note": note, "language": "en"}, indent=2)

    taught(book, ticket("the lamp does not switch on any more"), "run-1")
    assert texts(book.recall(ticket("our card was charged twice this month"))) == [SOIL]


@pytest.mark.req("D4")
def test_a_lesson_is_found_by_each_of_two_similar_tasks_that_taught_it(book: LessonBook) -> None:
    tasks = [f"Plan when to water, weed and harvest the {beds} of our school" for beds in ("peas", "herbs by the gate")]
    for i, task in enumerate(tasks):
        taught(book, task, f"run-{i}")
    book.add(a_rule("Give every figure in grams."), task=tasks[1])
    assert SOIL in texts(book.recall(tasks[1]))


@pytest.mark.req("D4")
def test_a_lesson_that_the_same_task_taught_comes_before_lessons_whose_words_fit(book: LessonBook) -> None:
    book.add(a_rule("Yellow leaves of a fig: turn the plant.", when="the leaves of a fig in our office turn yellow"))
    taught(book, LEAVES, "run-1")
    assert texts(book.recall(LEAVES))[0] == SOIL


@pytest.mark.req("D4")
def test_a_lesson_that_the_same_task_taught_ranks_no_higher_than_those_that_fit(book_on: Any) -> None:
    book, task = book_on(InMemoryStore()), "Which train goes to the harbour on Sunday morning?"
    fits = a_rule("Read the timetable before you name a train.", when="somebody asks for a train in the morning")
    sunday = "a train to the harbour on Sunday"
    book.add(a_rule("Name the ferry train to the harbour.", when=sunday, when_not=f"{sunday} morning"))
    book.add(fits)
    book.add(a_rule("Greet the passenger by name.", when="someone wants to travel"), task=task)
    assert fits.text in texts(book.recall(task))


@pytest.mark.req("D13")
def test_a_detail_of_the_task_that_taught_a_lesson_finds_nothing(book: LessonBook) -> None:
    taught(book, LEAVES, "run-1")
    details = "Okafor wants to know where order 48213 is.", "What do we tell Okafor?", "My name is Ada, what now?"
    for task in (*details, "Paint the yellow leaves.", *STRANGE):
        assert not book.recall(task), task
    kept = str([item.value for item in book.store.search(book.namespace, limit=1000)])
    assert "yellow" in kept
    assert not any(detail in kept for detail in ("48213", "okafor", KEY))


@pytest.mark.req("D13")
@pytest.mark.parametrize("indent", [None, 2])
def test_no_line_break_in_a_field_of_json_keeps_the_details_of_other_fields(book: LessonBook, indent: Any) -> None:
    task = {"content": "The leaves of my plant\nturn yellow,\nwhat now?", "customer": "Okafor", "city": "Bergen"}
    taught(book, json.dumps(task, indent=indent), "run-1")
    kept = str([item.value for item in book.store.search(book.namespace, limit=1000)])
    assert "yellow" in kept
    assert not any(detail in kept for detail in ("okafor", "bergen"))


@pytest.mark.req("D4")
def test_a_lesson_is_found_by_a_chinese_task_that_taught_it(book: LessonBook) -> None:
    book.add(a_rule(CHINESE[0], when="安排会议"), task="请帮我们约设计部的人下周找个时间碰头")
    assert texts(book.recall("请帮我们约法务部的人下周找个时间碰头")) == [CHINESE[0]]
    assert not book.recall("写一首关于企鹅的诗。")


@pytest.mark.req("D13")
def test_a_template_or_a_document_around_the_task_that_taught_a_lesson_finds_nothing(book: LessonBook) -> None:
    rules = "Work carefully. Read the guidelines of our garden centre, then reply in five short friendly lines."
    template = (
        f"{rules} Never promise a delivery date, and sign with the name of the branch where you work.\n\nQuestion: "
    )
    for i, task in enumerate((LEAVES, SNAILS, "Which shears cut thick branches of a hedge?", "Is this soil sour?")):
        book.credit(Episode(id=f"run-{i}", task=template + task))
        taught(book, template + task, f"run-{i}")
        assert not book.recall(f"{template}Which bus goes to the harbour?"), task
    assert texts(book.recall(f"{template}Is the soil of our bed sour?")) == [SOIL]
    report = "The gardener said that the soil was sour. " * 8 + "The bus to the harbour was late. " * 8
    assert not book.recall(f"{report}\nQuestion: When does the ferry leave?")
    letter = "The last tram to the airport was late, cold, dirty and crowded. " * 10
    taught(book, f"{letter}\nQuestion: Which tulips bloom in April?", "run-4")
    assert not book.recall("Why was the last tram to the airport late, cold, dirty and crowded?")


@pytest.mark.req("D17")
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("damage", [None, "leaf yellow", [1, None, ["leaf"]]])
def test_damaged_tasks_and_failures_cost_no_lesson(book: LessonBook, damage: Any) -> None:
    lesson = taught(book, LEAVES, "run-1")
    [item] = book.store.search((*book.namespace, "lessons"))
    book.store.put(item.namespace, item.key, {**item.value, "asked": damage, "also": damage})
    assert taught(book, SNAILS, "run-2").id == lesson.id
    assert texts(book.recall(SNAILS)) == [SOIL]
