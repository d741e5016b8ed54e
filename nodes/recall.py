"""Recall: find the few lessons that fit this task or this failure, if any."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.memory import LessonBook, Selection, likeness, topic_for, withheld
from langgraph_reflexion.nodes.agent_memory import AgentMemory, best_effort
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.models.prompt import failure_number, with_failure_turn
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.schemas import Failure
from langgraph_reflexion.state import Recalled, State, Update, task_in


def recall(memory: AgentMemory, tools: Toolbox, budget: Budget, state: State, config: RunnableConfig) -> Waits[Update]:
    """The lessons recalled so far, and those that fit now: by task at the start, by failure after a failure."""
    book = memory.book(state, config)
    nothing: Update = {"progress": {"node": "recall", "lessons": []}}
    if book is None:
        return nothing
    known, found, step = state["recalled"], list[Recalled](), state["tally"]["steps"]
    failure = state.get("failure")
    moments: list[tuple[Failure | None, int]] = [(None, 0)] if step == 0 else []
    if failure is not None:
        moments.append((failure, max(1, step)))
    for cause, at in moments:
        seen = [recalled.lesson.id for recalled in (*known, *found)]
        lessons = yield from find_lessons(book, tools, budget, state, cause, seen)
        found += choose_shown(memory, state, lessons, at)
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
    task = task_in(state)
    exclude = [*seen, *state["lessons_written"]]
    wait = either(book.recall, book.arecall, task, tools.names, failure, topic_for(task, book.policy), exclude=exclude)
    found: Selection = (yield from best_effort("recall", wait, budget.left(state))) or Selection()
    most = budget.limits.stuck_similarity
    known = [text for turn in state["patch"] for text in (turn["patch"], *(memo["text"] for memo in turn["memos"]))]
    new = [lesson for lesson in found if all(likeness(lesson.text, text) <= most for text in known)]
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
