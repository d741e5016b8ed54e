"""Recall: find the few lessons that fit this task or this failure, if any, in the agent's lesson book.

A store that fails or takes too long costs lessons, never the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.driver import Wait, Waits, either
from langgraph_reflexion.memory import LessonBook, Selection, given_topic, withheld
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.models.calling import raise_control_flow
from langgraph_reflexion.nodes.models.prompt import failure_number, with_failure_turn
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.state import Recalled, State, Update, replied_to, start_of_run, task_in, with_update
from langgraph_reflexion.text.likeness import likeness
from langgraph_reflexion.text.literals import mask_secrets
from langgraph_reflexion.text.task import request_of

logger = logging.getLogger(__name__)

WRITE_GRACE = 3.0
"""Seconds that a write may take after the deadline, so that a late run is recorded."""


def recall(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """The lessons recalled so far, and those that fit now: by task at the start, by failure after a failure."""
    policy, has_memory = parts.memory.policy, state["about"]["namespace"] is not None
    nothing: Update = {"progress": {"node": "recall", "lessons": []}}
    if policy.topics is not None and state["topic"] is None and has_memory:  # once a run, because it may ask a model
        seconds = seconds_for_memory(parts, state, writing=False)
        nothing["topic"] = yield from given_topic(request_in(state), policy, seconds)
        state = with_update(state, nothing)
    if (book := parts.memory.book(state, config)) is None:
        return nothing
    known, found, step = state["recalled"], list[Recalled](), state["tally"]["steps"]
    causes: list[Failure | None] = [None] if step == 0 else []  # no failure: the task itself
    if (failure := state.get("failure")) is not None:  # also at the start, if the run begins with feedback
        causes.append(failure)
    for cause in causes:
        lessons = yield from find_lessons(book, parts, state, cause, [*known, *found])
        found += choose_shown(policy, state, lessons, 0 if cause is None else max(1, step))
    if not found:
        return nothing
    why = next((recalled.why for recalled in found if recalled.why), "")
    shown = [recalled.lesson for recalled in found if recalled.shown]
    if shown or why:
        fields = [{"id": lesson.id, "kind": lesson.kind, "text": lesson.text, "when": lesson.when} for lesson in shown]
        emit(config, "recalled", lessons=fields, step=found[-1].step, **({"why": why} if why else {}))
    update: Update = {**nothing, "recalled": [*known, *found]}
    if for_failure := [recalled.lesson.id for recalled in found if recalled.shown and recalled.step > 0]:
        update["patch"] = with_failure_turn(state, failure_number(state), lessons=for_failure)
    return {**update, "progress": {"node": "recall", "lessons": [lesson.id for lesson in shown]}}


def find_lessons(
    book: LessonBook, parts: Parts, state: State, failure: Failure | None, recalled: Sequence[Recalled]
) -> Waits[Selection]:
    """The lessons that fit, except those that this run wrote or was shown, or that are withheld for comparison.

    A lesson held back at the start may come after its failure. What the prompt already says is left out.
    """
    exclude = [*(found.lesson.id for found in recalled if found.shown or not found.why), *state["lessons_written"]]
    request, topic = request_in(state), state["topic"]
    wait = either(book.recall, book.arecall, request, parts.tools.names, failure, topic, exclude=exclude)
    found: Selection | None = yield from best_effort(parts, state, "recall", wait)
    if found is None:
        return Selection()
    max_similarity = parts.budget.limits.stuck_similarity
    known = [text for turn in state["patch"] for text in (turn["patch"], *(memo["text"] for memo in turn["memos"]))]
    # A step that crashed after it wrote a lesson runs again, and `lessons_written` lacks that lesson.
    others = [lesson for lesson in found if lesson.sources != [state["about"]["id"]]]
    new = [lesson for lesson in others if all(likeness(lesson.text, text) <= max_similarity for text in known)]
    return Selection(new, found.held, found.why)


def choose_shown(policy: MemoryPolicy, state: State, lessons: Selection, step: int) -> list[Recalled]:
    """Each lesson as shown, withheld for comparison, or held back."""
    run = state["about"]["id"]
    share = policy.control_share if policy.write else 0  # a run that leaves no record measures nothing
    found = [Recalled(lesson=lesson, shown=not withheld(lesson, run, share), step=step) for lesson in lessons]
    if lessons.held is not None:
        found.append(Recalled(lesson=lessons.held, shown=False, step=step, why=lessons.why))
    return found


def request_in(state: State) -> str:
    """What the user asks in this run, in more words than the task if that is a brief follow-up."""
    messages = state["messages"]
    return request_of(task_in(state), replied_to(messages[: start_of_run(messages, state["about"]["task_id"])]))


def has_failed(recalled: Recalled, failures: Sequence[Failure]) -> bool:
    """Whether a lesson was shown and its failure came back after that."""
    bound = recalled.lesson.trigger.fingerprint if recalled.lesson.trigger else None
    if not recalled.shown or not bound:
        return False
    return any(failure.fingerprint == bound and failure.step > recalled.step for failure in failures)


def best_effort(parts: Parts, state: State, what: str, wait: Wait, *, writing: bool = False) -> Waits[Any]:
    """The result, or None if the store fails or takes too long. That costs lessons, not the answer."""
    try:
        return (yield wait.within(seconds_for_memory(parts, state, writing=writing)))
    except Exception as fault:  # noqa: BLE001 — any store's own exception
        raise_control_flow(fault)
        run, why = state["about"]["id"], mask_secrets(repr(fault))
        logger.warning("%s failed, and run %s of %r continues without it: %s", what, run, parts.memory.agent, why)
        return None


def seconds_for_memory(parts: Parts, state: State, *, writing: bool) -> float | None:
    """Half of the time that is left of the run: the other half is for the model."""
    left = parts.budget.seconds_left(state)
    return None if left is None else max(left / 2, WRITE_GRACE if writing else 0)
