"""Decisions: what a person does with lessons, each told as the lesson it changed, or as JSON."""

from __future__ import annotations

from langgraph_reflexion.cli import cards
from langgraph_reflexion.cli.desk import Desk, known
from langgraph_reflexion.cli.on_store import may_remove, note
from langgraph_reflexion.cli.page import told
from langgraph_reflexion.cli.wrong_use import WrongUse, sentence


def approve(desk: Desk) -> int:
    """Make one active."""
    lesson = desk.book.approve(desk.lesson().id)
    why = desk.book.history(lesson.id)[-1].why
    desk.changed(lesson, "Approved")
    if "although" in why:
        note(f"Approved are {why}. If another program changes them, they are looked at again.")
    return 0


def retire(desk: Desk) -> int:
    """Show one no more."""
    return desk.changed(desk.book.retire(desk.lesson().id, desk.asked.why), "Retired")


def restore(desk: Desk) -> int:
    """Bring one back."""
    lesson = desk.lesson()
    try:
        return desk.changed(desk.book.restore(lesson.id), "Restored")
    except ValueError as fault:
        raise WrongUse(sentence(fault).replace("`restore`", "restore")) from fault


def forget(desk: Desk) -> int:
    """Remove one for good, once a person has said yes."""
    id, text = desk.asked.id, "a lesson that is damaged"
    if not desk.damaged(id):
        lesson = desk.lesson()
        id, text = lesson.id, lesson.text
    if not may_remove(desk.asked, "Remove it for good?", of=text):
        return 1
    desk.book.forget(id)
    if desk.json:
        desk.page.data({"forgotten": id})
    else:
        desk.page.line(f"Forgot {id}: {text}")
    return 0


def undo(desk: Desk) -> int:
    """Take back a change, a run, or all since a time."""
    what, since = desk.asked.what, desk.asked.since
    if (what is None) == (since is None):
        raise WrongUse("say what to undo: the id of a change, that of a run, or --since TIME")
    with known("change or run", what):
        try:
            undone = desk.book.undo(what, since=since)
        except ValueError as fault:
            raise WrongUse(sentence(fault)) from fault
    if desk.json:
        desk.page.data([cards.as_data(one) for one in undone])
    elif undone:
        desk.page.table(cards.CHANGES, [cards.change(one) for one in undone])
    note(f"{told(len(undone), 'change')} taken back.")
    return 0


def distill(desk: Desk) -> int:
    """Give those that say much the same one pattern."""
    asked = desk.asked
    if asked.base_url is not None and asked.model is None:
        raise WrongUse("--base-url goes with --model openai:<name>")
    model = None
    if asked.model is not None:
        from langgraph_reflexion.cli.parts import model_of

        model = model_of(asked.model, asked.base_url)
    made = desk.book.distill(model)
    if desk.json:
        desk.page.data([one.model_dump(mode="json") for one in made])
        return 0
    for one in made:
        desk.page.line(f"{one.id} speaks for {len(one.supersedes)} lessons: {one.text}")
    if not made:
        desk.page.line("There is nothing to distil.")
    return 0
