"""Recall: find the few lessons that fit this task or this failure, if any, in the agent's lesson book.

A store that fails or takes too long costs lessons, never the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import MemoryPolicy, field_of
from langgraph_reflexion.driver import Wait, Waits, either, within
from langgraph_reflexion.memory import Indexes, LessonBook, Selection, label, resolve_namespace, withheld
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.host import conf, emit, runtime_of, user_of
from langgraph_reflexion.nodes.models.calling import raise_control_flow
from langgraph_reflexion.nodes.models.prompt import failure_number, with_failure_turn
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.prompts import Prompts
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.state import Recalled, State, Update, task_in
from langgraph_reflexion.text.likeness import likeness

logger = logging.getLogger(__name__)

LAST_WRITE = 3.0
"""Seconds that a write may take after the deadline, so that a late run is recorded."""


@dataclass(frozen=True)
class AgentMemory:
    """The memory of one agent: its policy, its stores and its clock."""

    policy: MemoryPolicy
    agent: str
    store: BaseStore | None
    """The store given to the factory, if any."""
    clock: Callable[[], datetime]
    fallback: BaseStore = field(default_factory=InMemoryStore)
    """Used if neither the factory nor the running graph has a store."""
    indexes: Indexes = field(default_factory=Indexes)
    prompts: Prompts = field(default_factory=Prompts)

    def namespace_for(self, config: RunnableConfig) -> list[str] | None:
        """The namespace of a run. None, with a warning, if one of its fields has no value."""
        if not (self.policy.read or self.policy.write):
            return None
        user, context, configurable = user_of(config), runtime_of(config).context, conf(config)
        namespace = resolve_namespace(self.policy, self.agent, context, user, configurable)
        if namespace is None:
            logger.warning(
                "No memory for this run: neither context nor `configurable` fills every field of the namespace %s",
                self.policy.namespace,
            )
            return None
        user = user or field_of(context, "user_id") or configurable.get("user_id")
        if self.policy.by_user and user and "{user_id}" not in (self.policy.namespace or ()):
            return [*namespace, label(str(user))]
        return [*namespace]

    def book(self, state: Any, config: RunnableConfig, *, writing: bool = False) -> LessonBook | None:
        """The book of this run. None if it has no memory, or if the policy forbids reading (or `writing`)."""
        namespace = state["about"]["namespace"]
        allowed = self.policy.write if writing else self.policy.read
        return self.book_at(namespace, config) if allowed and namespace is not None else None

    def book_at(self, namespace: Sequence[str], config: RunnableConfig) -> LessonBook:
        """The book of a namespace: in the agent's store, else in that of the running graph, else in the fallback."""
        stores = (self.store, runtime_of(config).store, self.fallback)
        store = next(store for store in stores if store is not None)  # an empty one may be false
        return LessonBook(store, tuple(namespace), self.policy, self.clock, self.indexes, prompts=self.prompts)


def recall(memory: AgentMemory, tools: Toolbox, budget: Budget, state: State, config: RunnableConfig) -> Waits[Update]:
    """The lessons recalled so far, and those that fit now: by task at the start, by failure after a failure."""
    book = memory.book(state, config)
    nothing: Update = {"progress": {"node": "recall", "lessons": []}}
    if book is None:
        return nothing
    known, found, step = state["recalled"], list[Recalled](), state["tally"]["steps"]
    failure = state.get("failure")
    # For the task at the start, for a failure after it; a run that starts with feedback has both.
    for cause in [*([None] if step == 0 else []), *([failure] if failure is not None else [])]:
        seen = [recalled.lesson.id for recalled in (*known, *found)]
        lessons = yield from find_lessons(book, tools, budget, state, cause, seen)
        found += choose_shown(memory, state, lessons, 0 if cause is None else max(1, step))
    if not found:
        return nothing
    why = next((recalled.why for recalled in found if recalled.why), "")
    shown = [recalled.lesson for recalled in found if recalled.shown]
    if shown or why:
        fields = [{"id": lesson.id, "kind": lesson.kind, "text": lesson.text, "when": lesson.when} for lesson in shown]
        emit(config, "recalled", lessons=fields, step=found[-1].step, **({"why": why} if why else {}))
    update: Update = {"recalled": [*known, *found]}
    if for_failure := [recalled.lesson.id for recalled in found if recalled.shown and recalled.step > 0]:
        update["patch"] = with_failure_turn(state, failure_number(state), lessons=for_failure)
    return {**update, "progress": {"node": "recall", "lessons": [lesson.id for lesson in shown]}}


def find_lessons(
    book: LessonBook, tools: Toolbox, budget: Budget, state: State, failure: Failure | None, seen: Sequence[str]
) -> Waits[Selection]:
    """The lessons that fit, except those in `seen`, those this run wrote, and those its prompt already has."""
    exclude = [*seen, *state["lessons_written"]]
    wait = either(book.recall, book.arecall, task_in(state), tools.names, failure, exclude=exclude)
    found: Selection = (yield from best_effort("recall", wait, budget.seconds_left(state))) or Selection()
    most = budget.limits.stuck_similarity
    known = [text for turn in state["patch"] for text in (turn["patch"], *(memo["text"] for memo in turn["memos"]))]
    # A step that died after it wrote a lesson begins again, and `lessons_written` lacks that lesson.
    others = [lesson for lesson in found if lesson.sources != [state["about"]["id"]]]
    new = [lesson for lesson in others if all(likeness(lesson.text, text) <= most for text in known)]
    return Selection(new, found.held, found.why)


def choose_shown(memory: AgentMemory, state: State, lessons: Selection, step: int) -> list[Recalled]:
    """Each lesson as shown, withheld for comparison, or held back."""
    run, share = state["about"]["id"], memory.policy.control_share
    found = [Recalled(lesson=lesson, shown=not withheld(lesson, run, share), step=step) for lesson in lessons]
    if lessons.held is not None:
        found.append(Recalled(lesson=lessons.held, shown=False, step=step, why=lessons.why))
    return found


def has_failed(recalled: Recalled, failures: Sequence[Failure]) -> bool:
    """Whether a lesson was shown and its failure came back after that."""
    bound = recalled.lesson.trigger.fingerprint if recalled.lesson.trigger else None
    if not recalled.shown or not bound:
        return False
    return any(failure.fingerprint == bound and failure.step > recalled.step for failure in failures)


def best_effort(what: str, wait: Wait, seconds: float | None, *, writing: bool = False) -> Waits[Any]:
    """The result, or None if the store fails or takes too long. That costs lessons, not the answer."""
    if writing and seconds is not None:
        seconds = max(seconds, LAST_WRITE)
    try:
        return (yield within(seconds, wait.call, wait.acall))
    except Exception as fault:  # noqa: BLE001 — any store's own exception
        raise_control_flow(fault)
        logger.warning("%s failed, and the run continues without it: %r", what, fault)
        return None
