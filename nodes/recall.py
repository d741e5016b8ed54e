"""Recall: find the few lessons that fit this task or this failure; there may be none."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.memory import Floor, LessonBook, likeness, topic_of, tries_again, withheld
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.remembering import best_effort
from langgraph_reflexion.schemas import Failure, Lesson
from langgraph_reflexion.state import Recalled, State, Update, task_in


def recall(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update]:
    """What is recalled, shown or withheld, beside what this run has recalled before."""
    book = kit.memory.book_to_read(state, config)
    if book is None:
        return {}
    known = state["recalled"]
    found: list[Recalled] = []
    first = state["tally"]["steps"] == 0
    if first:
        found += yield from parted(kit, book, state, (yield from lessons_for(kit, book, state, None, [])) or [], 0)
    failure = state.get("failure")
    if failure is not None:
        seen = [one.lesson.id for one in [*known, *found]]
        step = max(1, state["tally"]["steps"])
        fit = (yield from lessons_for(kit, book, state, failure, seen)) or []
        found += yield from parted(kit, book, state, fit, step)
    if not found:
        return {}
    why = next((one.why for one in found if one.why), "")
    shown = [one.lesson for one in found if one.shown]
    if shown or why:
        told = [{"id": one.id, "kind": one.kind, "text": one.text, "when": one.when} for one in shown]
        emit(config, "recalled", lessons=told, step=found[-1].step, **({"why": why} if why else {}))
    return {"recalled": [*known, *found]}


def lessons_for(
    kit: Kit, book: LessonBook, state: State, failure: Failure | None, seen: Sequence[str]
) -> Waits[list[Lesson] | None]:
    """The lessons that fit, less those seen before, those this run wrote, and what its patches say already."""
    task, names = task_in(state), kit.toolbox.names
    topic = topic_of(task)
    leave = [*seen, *state["lessons_written"]]
    wait = either(book.recall, book.arecall, task, names, failure, topic, exclude=leave)
    found: list[Lesson] | None = yield from best_effort("recall", wait, kit.left(state))
    most = kit.limits.stuck_similarity
    return found and [one for one in found if all(likeness(one.text, patch) <= most for patch in state["patch"])]


def parted(kit: Kit, book: LessonBook, state: State, lessons: Sequence[Lesson], step: int) -> Waits[list[Recalled]]:
    """Each lesson, shown, withheld for comparison, or held back where lessons do no good."""
    if not lessons:
        return []
    run, share = state["about"]["id"], kit.memory.policy.control_share
    below = Floor()
    if not tries_again(run):
        topic = topic_of(task_in(state))
        wait = either(book.floor, book.afloor, topic, lessons)
        below = (yield from best_effort("recall", wait, kit.left(state))) or below
    return [
        Recalled(lesson=one, shown=False, step=step, why=below.why)
        if one.id in below.held
        else Recalled(lesson=one, shown=not withheld(one, run, share), step=step)
        for one in lessons
    ]


def has_failed(recalled: Recalled, failures: Sequence[Failure]) -> bool:
    """Whether a lesson was shown and the failure it is bound to came back after that."""
    bound = recalled.lesson.trigger.fingerprint if recalled.lesson.trigger else None
    if not recalled.shown or not bound:
        return False
    return any(one.fingerprint == bound and one.step > recalled.step for one in failures)
