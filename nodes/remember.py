"""Remember: what a reflection asks to be kept becomes lessons, by the book's own rules."""

from __future__ import annotations

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Wait, Waits, either
from langgraph_reflexion.memory import LessonBook, topic_of
from langgraph_reflexion.memory.trust.provenance import observed
from langgraph_reflexion.nodes.checking import rests_on
from langgraph_reflexion.nodes.host import emit
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.remembering import best_effort, to_write
from langgraph_reflexion.schemas import Failure, Lesson, Memo, Origin, Reflection, Trigger
from langgraph_reflexion.state import State, Update, shown_in, task_in
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.topics import GENERAL

SHOWN = "this run was shown it"

LOOKED_AT = 200_000
"""Characters of tools' output in which a lesson's words are looked for."""


def remember(kit: Kit, state: State, config: RunnableConfig) -> Waits[Update]:
    """The lessons written of the newest reflection; below `min_confidence` it stays with its run."""
    book = kit.memory.book_to_write(state, config)
    failure, done = state["failure"], state["tally"]["remembered"]
    new = state["reflections"][done:]
    update: Update = {"tally": {**state["tally"], "remembered": len(state["reflections"])}} if new else {}
    if book is None or failure is None:
        return update
    written: list[str] = []
    for reflection in new:
        sure = kit.memory.policy.min_confidence if reflection.confidence is None else reflection.confidence
        if sure < kit.memory.policy.min_confidence:
            continue
        for memo in reflection.memory_to_write:
            found = yield from kept(kit, state, config, book, _lesson(kit, state, failure, reflection, memo))
            if found is not None and found not in written:
                written.append(found)
    if written:
        update["lessons_written"] = list(dict.fromkeys([*state["lessons_written"], *written]))
        update["tally"]["wrote"] = {**state["tally"]["wrote"], **dict.fromkeys(written, len(state["failures"]))}
    return update


def kept(
    kit: Kit, state: State, config: RunnableConfig, book: LessonBook, lesson: Lesson, *, refusals: bool = True
) -> Waits[str | None]:
    """The id of a lesson that the book keeps to be shown; what became of it is told, refusals only if asked for."""
    seconds = to_write(kit.left(state))
    known = _recalled(state, lesson.text)
    if known is not None:
        emit(config, "lesson", action="unchanged", reason=SHOWN, id=known, text=lesson.text, kind=lesson.kind)
        return None
    said = yield from best_effort("remember", _added(book, lesson, state), seconds)
    if said is None:
        return None
    found = said.lesson.id if said.lesson is not None and said.action in ("added", "merged", "unchanged") else None
    if refusals or found is not None:
        text = said.lesson.text if said.lesson is not None and said.action == "added" else lesson.text
        emit(config, "lesson", action=said.action, reason=said.reason, id=found, text=text, kind=lesson.kind)
    return found


def _recalled(state: State, text: str) -> str | None:
    """The lesson that this run was shown and that a text says again: it came from memory, and proves nothing new."""
    shown = [one.lesson for one in state["recalled"] if one.shown]
    return next((one.id for one in shown if one.id in text or same(one.text, text)), None)


def _added(book: LessonBook, lesson: Lesson, state: State) -> Wait:
    task, answer = task_in(state), _answer(state)
    heard = [text for text, _ in _said(state)]
    return either(book.add, book.aadd, lesson, task=task, answer=answer, heard=heard)


def _answer(state: State) -> str | None:
    return state["attempts"][-1].answer if state["attempts"] else None


def _lesson(kit: Kit, state: State, failure: Failure, reflection: Reflection, memo: Memo) -> Lesson:
    return Lesson(
        kind=memo.kind,
        text=memo.text,
        when=memo.when,
        why=reflection.explanation,
        topic=topic_in(state),
        tags=memo.tags,
        trigger=Trigger(signal=failure.signal, tool=_tool(kit, failure), fingerprint=failure.fingerprint or None),
        origin=origin_of(kit, state, failure, memo.text),
        confidence=reflection.confidence,
        sources=[state["about"]["id"]],
    )


def topic_in(state: State) -> str | None:
    """What sort of task a lesson was learned from; one learned from a general task is for all sorts."""
    topic = topic_of(task_in(state))
    return None if topic == GENERAL else topic


def _tool(kit: Kit, failure: Failure) -> str | None:
    """The tool a lesson is bound to; a tool that does not exist binds nothing."""
    return failure.tool if failure.tool is not None and kit.toolbox.has(failure.tool) else None


def origin_of(kit: Kit, state: State, failure: Failure, text: str, *, accepted: bool = False) -> Origin:
    """What a lesson rests on: the failure, or where one was `accepted` the answer; a tool's own words are observed."""
    said = _said(state)
    if observed(text, said, task_in(state), failure.evidence if failure.signal == "tool_error" else ""):
        return "observed"
    if accepted or failure.signal == "check_failed":
        return rests_on(kit.checks, state["verdicts"], kit.limits.success_score, accepted)
    return "told" if failure.signal == "feedback" else "verified"


def _said(state: State) -> list[tuple[str, bool]]:
    """What tools have said and whether as an error, the newest first; of a very long history what was said last."""
    said: list[tuple[str, bool]] = []
    left = LOOKED_AT
    for message in reversed(shown_in(state)):
        if left <= 0:
            break
        if isinstance(message, ToolMessage):
            said.append((message.text[:left], message.status == "error"))
            left -= len(said[-1][0])
    return said
