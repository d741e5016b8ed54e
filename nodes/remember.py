"""Remember: what a reflection wants remembered becomes lessons, by the book's own rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits, either
from langgraph_reflexion.memory import LessonBook, refusal, screen, topic_for
from langgraph_reflexion.nodes.agent_memory import AgentMemory, best_effort, foreign_texts, time_to_write
from langgraph_reflexion.nodes.budget import Budget
from langgraph_reflexion.nodes.checks import Evaluator, origin_of_verdicts
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.tools.toolbox import Toolbox
from langgraph_reflexion.schemas import Lesson, Origin, Reflection, Trigger
from langgraph_reflexion.state import State, Update, task_in
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.topics import GENERAL

CLAUSES = re.compile(r"(?<=[.;,!?])\s+|(?<=[。；，！？])")


def remember(
    memory: AgentMemory, evaluator: Evaluator, tools: Toolbox, budget: Budget, state: State, config: RunnableConfig
) -> Waits[Update]:
    """The lessons written from the newest reflection; below `min_confidence` it stays with its run."""
    book = memory.book_to_write(state, config)
    failure, done = state["failure"], state["tally"]["remembered"]
    new = state["reflections"][done:]
    update: Update = {"tally": {**state["tally"], "remembered": len(state["reflections"])}} if new else {}
    if book is None or failure is None:
        return update
    written: list[str] = []
    for reflection in new:
        if not _is_sure(memory, reflection):
            continue
        for memo in reflection.memory_to_write:
            tool = failure.tool if failure.tool is not None and tools.has(failure.tool) else None
            lesson = Lesson(
                kind=memo.kind,
                text=memo.text,
                when=memo.when,
                why=reflection.explanation,
                topic=_topic_in(state, book),
                tags=memo.tags,
                trigger=Trigger(signal=failure.signal, tool=tool, fingerprint=failure.fingerprint or None),
                origin=_origin(memory, evaluator, budget, state, memo.text),
                confidence=reflection.confidence,
                sources=[state["about"]["id"]],
            )
            written_id = yield from _keep(memory, budget, state, config, book, lesson)
            if written_id is not None and written_id not in written:
                written.append(written_id)
    if written:
        update["lessons_written"] = list(dict.fromkeys([*state["lessons_written"], *written]))
        update["tally"]["wrote"] = {**state["tally"]["wrote"], **dict.fromkeys(written, len(state["failures"]))}
    return update


def remember_success(
    memory: AgentMemory, evaluator: Evaluator, budget: Budget, state: State, config: RunnableConfig, book: LessonBook
) -> Waits[list[str]]:
    """The lessons of a run that succeeded; if it failed before, the strategy that worked is one of them.

    The strategy is the advice after which nothing failed any more and the answer was accepted, in the first of its
    wordings that holds for other tasks.
    """
    written = state["lessons_written"]
    reflection = _advice_that_worked(memory, state)
    if reflection is None:
        return written
    when = next((memo.when for memo in reflection.memory_to_write if memo.when.strip()), "")
    for text in _wordings(state, reflection):
        lesson = Lesson(
            kind="strategy",
            text=text,
            when=when,
            why=f"{reflection.explanation} What came before it failed, and the answer after it was accepted.".strip(),
            topic=_topic_in(state, book),
            origin=_origin(memory, evaluator, budget, state, text, accepted=True),
            confidence=reflection.confidence,
            sources=[state["about"]["id"]],
        )
        written_id = yield from _keep(memory, budget, state, config, book, lesson, report_refusals=False)
        if written_id is not None:
            return list(dict.fromkeys([*written, written_id]))
    return written


def _advice_that_worked(memory: AgentMemory, state: State) -> Reflection | None:
    """The advice between the last failure and the accepted answer, if it is sure enough to outlast the run.

    If no answer was refused, a lesson that its reflection left says the same already.
    """
    made, advised = state["reflections"], state["tally"]["advised"]
    refused = len(state["attempts"]) - 1
    if not made or advised[-1] != refused:
        return None
    if not refused and (state["lessons_written"] or len(state["failures"]) != len(made)):
        return None
    return made[-1] if _is_sure(memory, made[-1]) else None


def _is_sure(memory: AgentMemory, reflection: Reflection) -> bool:
    """Whether what a reflection wants remembered may outlast the run; no confidence counts as enough."""
    return reflection.confidence is None or reflection.confidence >= memory.policy.min_confidence


def _wordings(state: State, reflection: Reflection) -> Iterator[str]:
    """The plan that was followed, and the same without the clauses that hold for this task alone."""
    plan = reflection.patch_prompt.strip()
    yield plan
    task, answer = task_in(state), state["attempts"][-1].answer
    clauses = filter(str.strip, CLAUSES.split(plan))
    held = [text for text in clauses if refusal(Lesson(kind="strategy", text=text), task, answer) is None]
    general = " ".join(held).strip(" ,;:，；")
    if general and general != plan:
        yield general if general[-1] in ".!?。" else f"{general}."


def _keep(
    memory: AgentMemory,
    budget: Budget,
    state: State,
    config: RunnableConfig,
    book: LessonBook,
    lesson: Lesson,
    *,
    report_refusals: bool = True,
) -> Waits[str | None]:
    """The id of the lesson if the book keeps it to be shown, and an event that says what became of it."""
    shown_id = _shown_lesson(state, lesson.text)
    if shown_id is not None:  # it came from memory, so it proves nothing new
        reason = "this run was shown it"
        emit(config, "lesson", action="unchanged", reason=reason, id=shown_id, text=lesson.text, kind=lesson.kind)
        return None
    answer = state["attempts"][-1].answer if state["attempts"] else None
    foreign = foreign_texts(memory.policy.trusted_tools, state)
    add = either(book.add, book.aadd, lesson, task=task_in(state), answer=answer, foreign=foreign)
    result = yield from best_effort("remember", add, time_to_write(budget.left(state)))
    if result is None:
        return None
    is_kept = result.lesson is not None and result.action in ("added", "merged", "unchanged")
    written_id = result.lesson.id if is_kept else None
    if report_refusals or is_kept:
        text = result.lesson.text if is_kept and result.action == "added" else lesson.text
        emit(config, "lesson", action=result.action, reason=result.reason, id=written_id, text=text, kind=lesson.kind)
    return written_id


def _shown_lesson(state: State, text: str) -> str | None:
    """The lesson that this run was shown and that a text repeats."""
    shown = [one.lesson for one in state["recalled"] if one.shown]
    return next((lesson.id for lesson in shown if lesson.id in text or same(lesson.text, text)), None)


def _topic_in(state: State, book: LessonBook) -> str | None:
    """The topic of the task a lesson was learned from; one learned from a general task is for all topics."""
    topic = topic_for(task_in(state), book.policy)
    return None if topic == GENERAL else topic


def _origin(
    memory: AgentMemory, evaluator: Evaluator, budget: Budget, state: State, text: str, *, accepted: bool = False
) -> Origin:
    """What a lesson rests on: the failure, or the accepted answer; a tool's own words are `observed`."""
    failure = state["failures"][-1] if accepted else state["failure"]
    assert failure is not None
    if screen(text, foreign_texts(memory.policy.trusted_tools, state), [task_in(state)]) is not None:
        return "observed"
    if accepted or failure.signal == "check_failed":
        return origin_of_verdicts(evaluator.checks, state["verdicts"], budget.limits.success_score, accepted)
    return "told" if failure.signal == "feedback" else "verified"
