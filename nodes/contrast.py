"""Contrast: what a run changed between its last failure and its success, kept as a strategy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from langchain_core.runnables import RunnableConfig

from langgraph_reflexion.driver import Waits
from langgraph_reflexion.memory import LessonBook, refusal
from langgraph_reflexion.nodes.kit import Kit
from langgraph_reflexion.nodes.remember import kept, origin_of, topic_in
from langgraph_reflexion.schemas import Lesson, Reflection
from langgraph_reflexion.state import State, task_in

CLAUSES = re.compile(r"(?<=[.;,!?])\s+|(?<=[。；，！？])")


def what_worked(kit: Kit, state: State, config: RunnableConfig, book: LessonBook) -> Waits[list[str]]:
    """The lessons of a run that succeeded, with the strategy among them where it failed before.

    The strategy is the advice after which nothing failed any more and the answer was accepted, in the first of its
    wordings that would help somebody else's task.
    """
    written = state["lessons_written"]
    reflection = _followed(kit, state)
    if reflection is None:
        return written
    when = next((memo.when for memo in reflection.memory_to_write if memo.when.strip()), "")
    for text in _wordings(state, reflection):
        lesson = Lesson(
            kind="strategy",
            text=text,
            when=when,
            why=f"{reflection.explanation} What came before it failed, and the answer after it was accepted.".strip(),
            topic=topic_in(state),
            origin=origin_of(kit, state, state["failures"][-1], text, accepted=True),
            confidence=reflection.confidence,
            sources=[state["about"]["id"]],
        )
        found = yield from kept(kit, state, config, book, lesson, refusals=False)
        if found is not None:
            return list(dict.fromkeys([*written, found]))
    return written


def _followed(kit: Kit, state: State) -> Reflection | None:
    """The advice between the last failure and the accepted answer, if it is sure enough to outlast the run.

    Where no answer was refused, a lesson that its reflection left says the same already.
    """
    made, advised = state["reflections"], state["tally"]["advised"]
    refused = len(state["attempts"]) - 1
    if not made or advised[-1] != refused:
        return None
    if not refused and (state["lessons_written"] or len(state["failures"]) != len(made)):
        return None
    sure = kit.memory.policy.min_confidence if made[-1].confidence is None else made[-1].confidence
    return made[-1] if sure >= kit.memory.policy.min_confidence else None


def _wordings(state: State, reflection: Reflection) -> Iterator[str]:
    """The plan that was followed, and the same without the clauses that hold for this task alone."""
    plan = reflection.patch_prompt.strip()
    yield plan
    task, answer = task_in(state), state["attempts"][-1].answer
    clauses = filter(str.strip, CLAUSES.split(plan))
    held = [one for one in clauses if refusal(Lesson(kind="strategy", text=one), task, answer) is None]
    general = " ".join(held).strip(" ,;:，；")
    if general and general != plan:
        yield general if general[-1] in ".!?。" else f"{general}."
