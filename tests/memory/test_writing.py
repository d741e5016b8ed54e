"""A lesson that is offered is refused, set aside, added, or merged with one that says the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from example_lessons import PAGE, SLOT, a_rule
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Failure, Lesson, Trigger

NOUNS = ["violin", "glacier", "tractor", "lantern", "passport", "orchid", "compass", "saddle"]


@pytest.mark.req("D15", "D3")
def test_an_added_lesson_is_read_back_with_all_its_fields(book: LessonBook, store: BaseStore, clock: Any) -> None:
    full = a_rule(when="proposing a time", when_not="the user named one", why="it was busy", tags=["calendar"],
                  topic="general", confidence=90, sources=["e1"], trigger=Trigger(signal="check_failed"))  # fmt: skip
    written = book.add(full)
    assert (written.action, written.reason) == ("added", "")
    kept = book.get(written.lesson.id) if written.lesson else None
    assert kept is not None
    same = {"text", "when", "when_not", "why", "tags", "topic", "confidence", "sources", "trigger", "origin"}
    assert kept.model_dump(include=same) == full.model_dump(include=same)
    assert (kept.status, kept.created_at, kept.version) == ("candidate", clock(), 1)
    assert LessonBook(store, ("team",)).lessons() == [kept]
    assert [item.namespace for item in store.search(("team", "lessons"))] == [("team", "lessons")]


def test_the_id_follows_scope_kind_and_first_wording(book_on: Any) -> None:
    one, other = book_on(InMemoryStore()), book_on(InMemoryStore())
    ids = {book.add(a_rule()).lesson.id for book in (one, other)}
    assert len(ids) == 1
    assert book_on(InMemoryStore(), ("crew",)).add(a_rule()).lesson.id not in ids
    assert one.add(a_rule(kind="pattern")).lesson.id not in ids


@pytest.mark.req("D2", "S12")
def test_the_same_again_changes_nothing(book: LessonBook, store: BaseStore, clock: Any) -> None:
    book.add(a_rule(sources=["e1"]))
    before = {(item.namespace, item.key): item.value for item in store.search(("team",), limit=100)}
    clock.pass_by(hours=1)
    assert book.add(a_rule(sources=["e1"])).action == "unchanged"
    assert {(item.namespace, item.key): item.value for item in store.search(("team",), limit=100)} == before


@pytest.mark.req("D2", "S12")
def test_another_spelling_or_wording_of_it_unites_the_evidence(book: LessonBook) -> None:
    first = book.add(a_rule(sources=["e1"])).lesson
    for i, text in enumerate((SLOT.upper(), f"  {SLOT} ", "Always check the proposed slot against every busy time.")):
        written = book.add(a_rule(text, sources=[f"again-{i}"], tags=[f"tag-{i}"]))
        assert (written.action, written.lesson.id if written.lesson else None) == ("merged", first.id if first else "")
    [kept] = book.lessons()
    assert kept.text == SLOT
    assert set(kept.sources) == {"e1", "again-0", "again-1", "again-2"}
    assert kept.tags == ["tag-0", "tag-1", "tag-2"]


def test_the_fuller_wording_stays(book: LessonBook) -> None:
    book.add(a_rule("Check the proposed slot against busy times before booking.", sources=["e1"]))
    book.add(a_rule("Check the proposed slot against busy times of guests before booking.", sources=["e2"]))
    [kept] = book.lessons()
    assert "guests" in kept.text
    assert kept.version == 2
    [_, change] = book.history(kept.id)
    assert change.action == "merged"
    assert "guests" not in change.before["text"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Sort the list in ascending order first.", "Sort the list in descending order first."),
        ("Pass the start date in UTC.", "Pass the end date in UTC."),
        ("Retry a read that timed out.", "Never retry a payment that timed out."),
        ("请求前先登录。", "请求后先登出。"),
    ],
)
def test_lessons_that_say_different_things_stay_two(book: LessonBook, one: str, other: str) -> None:
    assert [book.add(a_rule(text)).action for text in (one, other)] == ["added", "added"]
    assert len(book.lessons()) == 2


class Meaning(Embeddings):
    """A model that knows what some texts mean; a text it does not know means itself."""

    def __init__(self, *groups: tuple[str, ...]) -> None:
        self.groups = groups
        self.unknown: list[str] = []

    def embed_query(self, text: str) -> list[float]:
        places = [at for at, group in enumerate(self.groups) if text in group]
        if not places and text not in self.unknown:
            self.unknown.append(text)
        place = places[0] if places else len(self.groups) + self.unknown.index(text)
        return [float(at == place) for at in range(16)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


UNITS = "Convert every length to metres before adding them up."
UNITS_AGAIN = "Bring measurements into one unit, and only then sum."


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    ("one", "other", "action"),
    [
        (UNITS, UNITS_AGAIN, "merged"),
        (UNITS, "Never bring measurements into one unit; only sum.", "added"),
        (UNITS, "Bring 3 measurements into one unit, and only then sum.", "added"),
        ("Tune the violin before the concert begins.", "Tune the glacier before the concert begins.", "added"),
        ("Sort the rows ascending before merging.", "Sort the rows descending before merging.", "added"),
    ],
)
def test_a_lesson_in_other_words_is_found_by_vectors_and_one_that_says_something_else_is_not(
    one: str, other: str, action: str
) -> None:
    store = InMemoryStore(index={"dims": 16, "embed": Meaning((one, other)), "fields": ["text"]})
    book = LessonBook(store, ("team",))
    first = book.add(a_rule(one, sources=["e1"])).lesson
    written = book.add(a_rule(other, sources=["e2"]))
    assert written.action == action
    assert first is not None
    assert written.lesson is not None
    assert (written.lesson.id == first.id) == (action == "merged")
    assert action != "merged" or written.lesson.sources == ["e1", "e2"]


@pytest.mark.req("D2")
@pytest.mark.parametrize("retired", [True, False])
def test_vectors_merge_nothing_into_a_lesson_of_another_kind_or_out_of_use(retired: bool) -> None:
    store = InMemoryStore(index={"dims": 16, "embed": Meaning((UNITS, UNITS_AGAIN)), "fields": ["text"]})
    book = LessonBook(store, ("team",))
    first = book.add(a_rule(UNITS)).lesson
    assert first is not None
    if retired:
        book.retire(first.id, "not wanted")
    assert book.add(a_rule(UNITS_AGAIN, kind="rule" if retired else "pattern")).action == "added"


@pytest.mark.req("D16")
def test_another_value_of_a_name_is_a_correction_even_if_vectors_find_it_alike() -> None:
    store = InMemoryStore(index={"dims": 16, "embed": Meaning((UNITS, UNITS_AGAIN)), "fields": ["text"]})
    book = LessonBook(store, ("team",))
    for text in (UNITS, UNITS_AGAIN):
        book.add(a_rule(text, name="units"))
    assert {lesson.text: lesson.status for lesson in book.lessons()} == {UNITS: "superseded", UNITS_AGAIN: "candidate"}


@pytest.mark.req("D2")
def test_a_model_that_finds_everything_alike_merges_little() -> None:
    texts = [f"Polish the {noun} before the guests arrive." for noun in NOUNS]
    store = InMemoryStore(index={"dims": 16, "embed": Meaning((*texts, UNITS, SLOT)), "fields": ["text"]})
    book = LessonBook(store, ("team",))
    for text in texts:
        book.add(a_rule(text))
    assert [book.add(a_rule(text)).action for text in (UNITS, SLOT)] == ["added", "added"]
    assert len(book.lessons()) == len(texts) + 2


@pytest.mark.req("D2")
def test_a_twin_that_words_find_needs_no_model(caplog: pytest.LogCaptureFixture) -> None:
    embed = Meaning((UNITS, UNITS_AGAIN))
    book = LessonBook(InMemoryStore(index={"dims": 16, "embed": embed, "fields": ["text"]}), ("team",))
    book.add(a_rule(UNITS))

    def down(_: str) -> list[float]:
        raise ConnectionError("the model is away")

    embed.embed_query = down  # type: ignore[method-assign]
    assert book.add(a_rule(UNITS.upper())).action == "unchanged"
    assert "the model is away" not in caplog.text


def test_lessons_for_two_tools_stay_two(book: LessonBook) -> None:
    book.add(a_rule("Pass the dates as weekday names.", trigger=Trigger(tool="search")))
    book.add(a_rule("Always pass the dates as weekday names.", trigger=Trigger(tool="book")))
    assert len(book.lessons()) == 2


def test_a_lesson_learned_again_from_another_failure_is_known_for_both(book: LessonBook) -> None:
    for print_ in ("one", "two"):
        book.add(a_rule(trigger=Trigger(signal="tool_error", tool="f", fingerprint=print_), sources=[print_]))
    for print_ in ("one", "two"):
        failure = Failure(signal="tool_error", evidence="?", tool="f", fingerprint=print_)
        [found] = book.recall("Compose a lullaby.", tools=["f"], failure=failure)
        assert found.trigger is not None
        assert found.trigger.fingerprint == print_


@pytest.mark.req("D17")
def test_trust_is_the_least_of_the_sources(book: LessonBook) -> None:
    for origin in ("verified", "told", "observed", "judged"):
        book.add(a_rule(origin=origin, sources=[origin]))
    assert [lesson.origin for lesson in book.lessons()] == ["observed"]


def test_no_status_above_candidate_is_taken(book: LessonBook) -> None:
    written = book.add(a_rule(status="active"))
    assert written.lesson is not None
    assert written.lesson.status == "candidate"
    assert [lesson.status for lesson in book.lessons()] == ["candidate"]
    assert book.add(a_rule("Ask for the key first.", status="quarantined")).action == "quarantined", (
        "nor is one raised to it"
    )


@pytest.mark.req("D2")
def test_a_refusal_has_a_reason_and_leaves_nothing(book: LessonBook, store: BaseStore) -> None:
    for text, task, answer in (("Be careful.", None, None), ("Book rooms for Quibbleton.", "Help Ms Quibbleton.", None),
                               ("Propose 11:00 first.", None, "11:00")):  # fmt: skip
        written = book.add(a_rule(text), task=task, answer=answer)
        assert written.action == "refused"
        assert written.reason
        assert written.lesson is None
    assert not store.search(("team",))


def test_a_successor_takes_the_place_of_the_old(book: LessonBook, clock: Any) -> None:
    old = book.add(a_rule("The orders are kept in MySQL.", kind="project")).lesson
    assert old is not None
    clock.pass_by(minutes=1)
    new = book.add(a_rule("The orders are kept in PostgreSQL.", kind="project", supersedes=[old.id])).lesson
    assert new is not None
    assert [(lesson.id, lesson.status) for lesson in book.lessons()] == [(old.id, "superseded"), (new.id, "candidate")]
    assert [change.action for change in book.history(old.id)] == ["added", "superseded"]


def test_a_named_entry_is_replaced_by_the_next_of_its_name(book: LessonBook) -> None:
    for base in ("MySQL", "PostgreSQL"):
        book.add(a_rule(f"The orders are kept in {base}.", kind="project", name="order-base"))
    assert {lesson.text: lesson.status for lesson in book.lessons()} == {
        "The orders are kept in MySQL.": "superseded",
        "The orders are kept in PostgreSQL.": "candidate",
    }
    assert book.has("order-base")
    again = book.add(a_rule("The orders are kept in MySQL.", kind="project", name="order-base", sources=["e2"])).lesson
    assert again is not None
    assert (again.status, again.sources) == ("candidate", ["e2"])


def test_opposed_lessons_are_linked_on_both_sides(book: LessonBook) -> None:
    one = book.add(a_rule("Always retry a failed upload at once.")).lesson
    other = book.add(a_rule("Never retry a failed upload at once.")).lesson
    assert one is not None
    assert other is not None
    for lesson, against in ((one, other), (other, one)):
        assert against.id in next(one.why for one in book.history(lesson.id) if one.action == "opposed")


@pytest.mark.req("I8")
def test_two_who_add_the_same_at_once_keep_the_tasks_of_both(book_on: Any, interrupted: Any) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    first = a_rule("Check the calendar of the hall before you book it.")
    interrupted.first = lambda: other.add(first, task="Plan a giraffe parade tomorrow.")
    book.add(a_rule("Check the calendar of the hall before booking it."), task="Reserve the zebra room downtown.")
    for task in ("Plan a giraffe parade tomorrow.", "Reserve the zebra room downtown."):
        assert len(book.recall(task)) == 1
    assert sorted(lesson.status for lesson in book.lessons()) == ["candidate", "superseded"]


@pytest.mark.req("D18", "I8")
def test_two_who_add_at_once_keep_no_more_than_the_cap(book_on: Any, interrupted: Any) -> None:
    book, other = book_on(interrupted, max_kept=2), book_on(interrupted, max_kept=2)
    book.add(a_rule())
    interrupted.first = lambda: other.add(a_rule("Polish the silver before the guests arrive."))
    written = book.add(a_rule("Ask for the key before you open the cellar."))
    assert len(book.lessons(status=["candidate", "active", "probation"])) == 2
    assert ("retired at once" in written.reason) == (written.lesson.status == "retired")


@pytest.mark.req("D18", "I8")
def test_two_who_give_one_name_at_once_take_no_place_from_another_lesson(book_on: Any, interrupted: Any) -> None:
    book, other = book_on(interrupted, max_kept=3), book_on(interrupted, max_kept=3)
    for text in ("Polish the silver before the guests arrive.", "Ask for the key before you open the cellar."):
        book.add(a_rule(text))
    formal, short = (
        Lesson(kind="preference", name="tone", text=text, origin="told")
        for text in ("The user likes formal letters.", "The user wants friendly short mails.")
    )
    interrupted.first = lambda: other.add(formal)
    book.add(short)
    assert len(book.lessons(status=["candidate", "active", "probation"])) == 3


@pytest.mark.req("D18")
def test_the_least_useful_goes_when_there_are_too_many_and_an_approved_one_never(
    store: BaseStore, book_on: Any, clock: Any
) -> None:
    book = book_on(store, max_kept=3)
    approved = book.add(a_rule()).lesson
    book.approve(approved.id)
    for noun in NOUNS:
        clock.pass_by(minutes=1)
        assert book.add(a_rule(f"Polish the {noun} before the guests of the {noun} arrive.")).action == "added"
    left = [lesson.text for lesson in book.lessons(status=["candidate", "active", "probation"])]
    assert len(left) == 3
    assert SLOT in left
    assert any(NOUNS[-1] in text for text in left)
    assert len(book.lessons()) == 9, "what went is retired, not gone"
    for lesson in book.lessons(status="candidate"):
        book.approve(lesson.id)
    assert "3 lessons are kept" in book.add(a_rule("Ask for the key before you open the cellar.")).reason


@pytest.mark.req("D18")
def test_a_policy_that_keeps_far_fewer_than_there_are_says_so_in_the_log(
    store: BaseStore, book_on: Any, caplog: Any
) -> None:
    for noun in NOUNS:
        book_on(store).add(a_rule(f"Polish the {noun} before the guests of the {noun} arrive."))
    assert "Retired" not in caplog.text
    book_on(store, max_kept=3).add(a_rule())
    many = len(NOUNS) - 2
    assert f"Retired {many} lessons at once, because the policy of this book keeps 3" in caplog.messages


@pytest.mark.req("D18")
@pytest.mark.slow
def test_a_full_book_makes_room_for_several_lessons_at_once_so_that_not_each_one_reads_all(book_on: Any) -> None:
    book = book_on(InMemoryStore(), max_kept=200)
    kept = []
    for number in range(206):
        book.add(a_rule(f"Polish the spoon{number} of the guest{number}."))
        kept.append(len(book.lessons(status="candidate")) if number >= 199 else number + 1)
    assert kept[199:] == [200, 198, 199, 200, 198, 199, 200]


def test_text_that_no_database_takes_is_made_whole(book: LessonBook) -> None:
    book.add(a_rule("Check the slot \ud83d first.", why="half \udc00 here"))
    [kept] = book.lessons()
    assert kept.text.encode()


def test_nothing_crosses_a_namespace(store: BaseStore, book_on: Any) -> None:
    ada, team, odd = (book_on(store, place) for place in (("team", "ada"), ("team",), ("team", "lessons")))
    lesson = ada.add(a_rule(when="proposing a time")).lesson
    odd.add(a_rule(PAGE))
    assert team.lessons() == []
    assert team.recall("propose a slot that is not busy, page by page") == []
    assert team.search("slot page busy list") == []
    assert team.get(lesson.id) is None
    assert [one.text for one in odd.lessons()] == [PAGE]


def test_a_lesson_learned_with_two_tools_is_bound_to_neither(book: LessonBook) -> None:
    for tool in ("search", "book"):
        book.add(a_rule("Pass weekday names for dates.", trigger=Trigger(tool=tool, fingerprint=tool), sources=[tool]))
    assert [lesson.text for lesson in book.recall("Pass dates as weekday names.")] == ["Pass weekday names for dates."]


def test_a_general_lesson_stays_general_when_a_tool_teaches_it_again(book: LessonBook) -> None:
    book.add(a_rule("Pass weekday names for dates."))
    book.add(a_rule("Pass weekday names for dates.", trigger=Trigger(tool="search", fingerprint="f"), sources=["e"]))
    assert len(book.recall("Pass dates as weekday names.")) == 1


def test_a_lesson_learned_again_after_it_expired_is_fresh(store: BaseStore, book_on: Any, clock: Any) -> None:
    book = book_on(store, expires_after=timedelta(days=2))
    book.add(a_rule(when="proposing a time for a meeting"))
    clock.pass_by(days=3)
    assert book.recall("propose a slot for the meeting that is not busy") == []
    assert book.add(a_rule()).action == "merged"
    assert book.recall("propose a slot for the meeting that is not busy")


def test_a_lesson_that_expired_before_it_was_added_is_written_once(book: LessonBook, clock: Any) -> None:
    past = clock() - timedelta(days=1)
    for action in ("added", "unchanged"):
        written = book.add(a_rule(expires_at=past, sources=["r1"]))
        assert (written.action, written.lesson.version) == (action, 1)
    assert [change.action for change in book.history(written.lesson.id)] == ["added"]


@pytest.mark.req("D15", "D25")
def test_a_value_that_was_set_aside_stays_so_when_another_lesson_replaces_it(book: LessonBook) -> None:
    texts = ("The orders are kept in MySQL.", "The orders are kept in SQLite.")
    facts = [a_rule(text, kind="project", name="order-base") for text in texts]
    ids = [book.add(facts[0]).lesson.id, book.add(facts[1], foreign=[facts[1].text]).lesson.id]
    book.retire(ids[0], "wrong")
    book.add(a_rule("The orders are kept in DuckDB.", kind="project", name="order-base", supersedes=ids))
    for fact in facts:
        book.add(fact)
    assert [book.get(id).status for id in ids] == ["retired", "quarantined"]


@pytest.mark.req("D15")
@pytest.mark.slow
def test_a_lesson_that_is_taught_again_and_again_keeps_a_bounded_record(book_on: Any, clock: Any) -> None:
    book = book_on(InMemoryStore())
    for n in range(120):
        kept = book.add(a_rule(sources=[f"r{n}"], trigger=Trigger(fingerprint=f"f{n}"))).lesson
        clock.pass_by(minutes=2)
    events = book.history(kept.id)
    assert len(events) < 100
    assert (events[0].action, events[0].run, events[-1].run) == ("added", "r0", "r119")
    assert (kept.text, kept.sources[0], kept.sources[-1]) == (SLOT, "r0", "r119")


@pytest.mark.req("I8", "D15")
@pytest.mark.parametrize("writes", [1, 2, 3])
def test_advice_is_not_lost_to_a_lesson_that_is_replaced_while_it_takes_it_in(
    book_on: Any, clock: Any, interrupted: Any, writes: int
) -> None:
    book, other = book_on(interrupted), book_on(interrupted)
    fuller = "Check a proposed slot against every busy time of the guests before you answer."
    elder: list[str] = []

    def add_the_elder() -> None:
        clock.pass_by(minutes=-1)
        elder.append(other.add(a_rule(fuller, sources=["r2"])).lesson.id)
        clock.pass_by(minutes=1)
        interrupted.first = next_write

    def next_write() -> None:
        interrupted.left -= 1
        interrupted.first = next_write if interrupted.left else replace_it

    def replace_it() -> None:
        other.add(a_rule("Never look at a calendar twice.", supersedes=elder))

    interrupted.left = writes
    interrupted.first = add_the_elder
    book.add(a_rule(sources=["r1"]))
    live = {lesson.text: lesson.sources for lesson in book.lessons() if lesson.status == "candidate"}
    assert live.keys() - {"Never look at a calendar twice."}, "its advice is still there"
