"""Lookups: lessons, what happened to them and what runs were shown, as a table, a few lines, or JSON."""

from __future__ import annotations

from langgraph.store.base import BaseStore

from langgraph_reflexion.cli import cards
from langgraph_reflexion.cli.desk import Desk, known
from langgraph_reflexion.cli.on_store import note
from langgraph_reflexion.cli.opening import namespaces_in, told_namespace
from langgraph_reflexion.cli.page import Page
from langgraph_reflexion.cli.wrong_use import WrongUse

SHOWN = 3
"""Runs of which the evidence is shown beside a lesson."""


def list_lessons(desk: Desk) -> int:
    """All lessons of the sort that was asked for."""
    found = desk.book.lessons(**desk.filters)
    if desk.json:
        desk.page.data([one.model_dump(mode="json") for one in found])
    elif found:
        desk.page.table(cards.HEAD, [cards.row(one) for one in found])
    if not found:
        desk.nothing()
    return 0


def search(desk: Desk) -> int:
    """The nearest to a text, each with how near it is."""
    found = desk.book.search(desk.asked.text, desk.asked.limit, **desk.filters)
    if desk.json:
        desk.page.data([{"score": round(one.score, 4), "lesson": one.lesson.model_dump(mode="json")} for one in found])
    elif found:
        desk.page.table(("SCORE", *cards.HEAD), [(f"{one.score:.2f}", *cards.row(one.lesson)) for one in found])
    if not found:
        desk.nothing()
    return 0


def show(desk: Desk) -> int:
    """All that is known of one."""
    lesson = desk.lesson()
    if desk.json:
        desk.page.data(lesson.model_dump(mode="json"))
    else:
        runs = [desk.book.episode(one) for one in lesson.sources[:SHOWN]]
        evidence = [failure.evidence for run in runs if run is not None for failure in run.failures]
        cards.card(desk.page, lesson, evidence, desk.book.hidden(lesson.id))
    return 0


def stats(desk: Desk) -> int:
    """How many there are, and how they did."""
    found = desk.book.stats()
    if desk.json:
        desk.page.data(found)
    else:
        cards.counts(desk.page, desk.place, found)
    if not found["lessons"]:
        note(f"There are {desk.elsewhere}.")
    return 0


def namespaces(store: BaseStore, page: Page, *, json: bool) -> int:
    """Name the namespaces that hold lessons, a line each, as `--namespace` takes them."""
    found = [told_namespace(one) for one in namespaces_in(store)]
    if json:
        page.data(found)
    else:
        for one in found:
            page.line(one, fold=False)
    return 0


def history(desk: Desk) -> int:
    """What happened to one."""
    changes = desk.book.history(desk.lesson().id)
    if desk.json:
        desk.page.data([cards.as_data(one) for one in changes])
    else:
        desk.page.table(cards.CHANGES, [cards.change(one) for one in changes])
    return 0


def explain(desk: Desk) -> int:
    """What a run was shown and wrote, and what came of it."""
    if desk.asked.run is None and not desk.book.stats()["episodes"]:
        raise WrongUse(f"no run is recorded: there are {desk.elsewhere}")
    with known("run", desk.asked.run):
        found = desk.book.explain(desk.asked.run)
    if desk.json:
        desk.page.data(found)
    else:
        written = {one: desk.book.get(one) for one in found["written"]}
        cards.run(desk.page, found, {one: lesson.text for one, lesson in written.items() if lesson is not None})
    return 0
