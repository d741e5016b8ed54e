"""What is remembered of the user and the project: corrected, forgotten, shown within the budget, and never crossed."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_reflexion import Context, FaissStore, Lesson, LessonBook, MemoryPolicy, after_run
from langgraph_reflexion.nodes.models.prompt import lessons_at_start
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.state import Recalled
from langgraph_reflexion.testing import say

FACTS = {
    "database": ("MySQL holds the data.", "We moved to MariaDB.", "PostgreSQL holds the data now."),
    "editor": ("The team edits in Emacs.", "The team went over to Vim.", "The team edits in Helix."),
    "deploy-day": ("Deploy on Mondays.", "Deploys happen on Wednesday mornings.", "Deploy on Thursdays."),
    "language": ("Answer in English.", "Write answers in German.", "Answer in Danish."),
    "indent": ("Indent by tabs.", "Indent by two spaces.", "Indent by four spaces."),
    "owner": ("Ada owns the invoice module.", "Bob took the invoice module over.", "Eve owns the invoice module."),
    "timezone": ("Times are in UTC.", "Show times in Berlin time.", "Times are in New York time."),
    "branch": ("The main branch is master.", "The main branch is trunk.", "The main branch is main."),
    "queue": ("Jobs go through RabbitMQ.", "Jobs go through Kafka.", "Jobs go through NATS."),
    "cloud": ("Servers run on AWS.", "Servers run on Azure.", "Servers run on Hetzner."),
    "license": ("The code is under GPL.", "The code is under Apache.", "The code is under MIT."),
    "interpreter": ("Services run on CPython.", "Services run on PyPy.", "Services run on GraalPy."),
    "tests": ("Tests run by nose.", "Tests run by unittest.", "Tests run by pytest."),
    "currency": ("Prices are in dollars.", "Prices are in pounds.", "Prices are in euros."),
    "format": ("Reports are PDF files.", "Reports are Word files.", "Reports are Markdown files."),
    "chat": ("The team talks on IRC.", "The team talks on Slack.", "The team talks on Matrix."),
    "names": ("Name files in CamelCase.", "Name files in snake_case.", "Name files in kebab-case."),
    "lunch": ("Lunch is at noon.", "Lunch is at one.", "Lunch is at half past twelve."),
    "cache": ("Redis caches pages.", "Memcached caches pages.", "Valkey caches pages."),
    "tone": ("Write in a formal tone.", "Write in a friendly tone.", "Write in a dry tone."),
}  # fmt: skip


def remember(model: Any, book: LessonBook, message: str) -> Any:
    return after_run(model, memory=book).audit([HumanMessage(message), AIMessage("Noted.")])


@pytest.mark.req("D14", "D16", "D20")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["project", "preference", "rule"])
def test_facts_corrected_twice_are_recalled_in_their_last_version_and_the_history_shows_all(on, store, kind):
    policy = MemoryPolicy(namespace=on.NAMESPACE, control_share=0, lesson_tokens=4_000, max_lessons=40)
    book = LessonBook(store, on.NAMESPACE, policy)
    for turn in range(3):
        for name, worded in FACTS.items():
            memory = {"kind": kind, "name": name, "description": f"about the {name}", "content": worded[turn]}
            learned = remember(on.Cast(memories={"memories": [memory]}), book, worded[turn])
            assert [one["action"] for one in learned["memories"]] == ["added"], learned
    assert {one.name: one.text for one in book.profile()} == {name: worded[2] for name, worded in FACTS.items()}
    for name, worded in FACTS.items():
        for asked in worded:
            shown = [one.text for one in book.recall(asked) if one.name == name]
            assert shown in ([], [worded[2]]), (name, asked)
        assert worded[2] in [one.text for one in book.recall(f"{worded[2]} about the {name}")]
        (now,) = [one for one in book.profile() if one.name == name]
        changes = book.history(now.id)
        happened = sorted(change.action for change in changes if change.action != "opposed")
        assert happened == ["added", "added", "added", "superseded", "superseded"]
        texts = {lesson.text for one in changes if (lesson := book.get(one.lesson)) is not None}
        assert texts == set(worded)


@pytest.mark.req("D16")
def test_a_fact_that_holds_again_comes_back(on, book):
    for content in ("We use MySQL.", "We use PostgreSQL.", "We use MySQL."):
        memory = {"kind": "project", "name": "database", "description": "the database", "content": content}
        remember(on.Cast(memories={"memories": [memory]}), book, content)
        assert [one.text for one in book.profile()] == [content]
    assert len(book.lessons()) == 2


@pytest.mark.req("D16", "S12")
def test_a_shorter_correction_is_no_duplicate_and_the_same_words_again_are(on, book):
    for content in ("Deploy on Mondays and Fridays.", "Deploy on Mondays.", "deploy on mondays"):
        memory = {"kind": "rule", "name": "deploy-day", "description": "deploys", "content": content}
        remember(on.Cast(memories={"memories": [memory]}), book, content)
    assert [one.text for one in book.profile()] == ["Deploy on Mondays."]
    assert len(book.lessons()) == 2


@pytest.mark.req("D14")
def test_rules_are_always_recalled_the_rest_where_it_fits_within_the_same_budget(on, store):
    policy = MemoryPolicy(namespace=on.NAMESPACE, control_share=0, lesson_tokens=120)
    book = LessonBook(store, on.NAMESPACE, policy)
    book.add(Lesson(kind="rule", name="kebab-case", text="Name new files in kebab-case."))
    book.add(Lesson(kind="preference", name="tea", text="Offer green tea.", when="Visitors come for tea."))
    assert [one.name for one in book.recall("What is the capital of France?")] == ["kebab-case"]
    assert [one.name for one in book.recall("Which tea do visitors like?")] == ["kebab-case", "tea"]
    for i in range(12):
        book.add(
            Lesson(kind="rule", name=f"rule-{i}", text=f"Always check item {'abcdefghijkl'[i] * 5} before export.")
        )
    shown = book.recall("Which tea do visitors like?")
    block = lessons_at_start([Recalled(lesson=one, shown=True, step=0) for one in shown], Prompts())
    assert 3 <= len(shown) < 12
    assert len(block.split()) < 160


@pytest.mark.req("D14")
@pytest.mark.slow
def test_users_preferences_are_neither_withheld_nor_refuted(on, store, agent):
    book = LessonBook(store, on.NAMESPACE)
    book.add(Lesson(kind="rule", name="kebab-case", text="Name new files in kebab-case.", origin="told"))
    model = on.Cast(say("x"))
    policy = MemoryPolicy(namespace=on.NAMESPACE, control_share=1)
    made = agent(model, "off", checks=[lambda _answer, _run: False], memory=policy)
    for _ in range(8):
        made.invoke({"messages": [("user", "Hello there.")]})
    assert all("kebab-case" in one.text for one in model.of("main") if one.role == "decide")
    assert [one.status for one in book.profile()] == ["candidate"]


@pytest.mark.req("D14", "H1")
@pytest.mark.parametrize("method", ["agent", "any graph"])
def test_each_users_memory_is_their_own(on, store, agent, method):
    policy = MemoryPolicy(namespace=("u", "{user_id}"), control_share=0)
    wish = {"kind": "preference", "name": "language", "description": "answers", "content": "Answer in Danish."}
    model = on.Cast(say("done"), memories={"memories": [wish]})
    message = {"messages": [("user", "Please answer in Danish from now on.")]}
    if method == "agent":
        agent(model, memory=policy).invoke(message, context=Context(user_id="ada"))
    else:
        from langgraph.graph import START, MessagesState, StateGraph

        graph = StateGraph(MessagesState, context_schema=Context)
        graph.add_node("after", after_run(model, memory=policy))
        graph.add_edge(START, "after")
        graph.compile(store=store).invoke(message, context=Context(user_id="ada"))
        assert not model.of("errors")
    for user, there in (("ada", True), ("bob", False)):
        asked = on.Cast(say("done"))
        question = {"messages": [("user", "Shall you answer in Danish or in English?")]}
        agent(asked, "off", memory=policy).invoke(question, context=Context(user_id=user))
        assert ("Answer in Danish." in asked.of("main")[0].text) == there


@pytest.mark.req("D15")
def test_memories_are_there_after_reopening(on, tmp_path):
    for _ in range(2):
        with FaissStore(tmp_path / "kept.db") as store:
            book = LessonBook(store, on.NAMESPACE, on.POLICY)
            remember(on.Cast(memories={"memories": [on.MEMORY]}), book, "Name new files in kebab-case, please.")
            (kept,) = book.profile()
            assert (kept.name, kept.when, kept.text, kept.origin) == (
                "kebab-case",
                "How files are named",
                "Name new files in kebab-case.",
                "told",
            )
