"""The demo: an agent fails, reflects and recovers, and the next run has the lesson. The model is a script."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Lesson, LessonBook, MemoryPolicy, Outcome, create_reflexion_agent
from langgraph_reflexion.cli.console import Page, count_of
from langgraph_reflexion.cli.trace import STREAM, Trace, show_outcome
from langgraph_reflexion.graph.demo import ALIKE, TASK, ScriptedPlanner, busy_times, is_free

NAMESPACE = ("reflexion", "demo")
ABOUT = (
    "No key and no network: the model is a script. Everything else is real:\n"
    "the graph, the tool that fails, the check on the answer, and the memory."
)


def demo(_args: object, page: Page) -> int:
    """Show two runs, of which the second makes no mistake, and the lesson."""
    store, memory = InMemoryStore(), MemoryPolicy(namespace=NAMESPACE)
    agent = create_reflexion_agent(
        ScriptedPlanner(), [busy_times], checks=[is_free], memory=memory, store=store, name="demo"
    )
    page.line(f"langgraph-reflexion {version('langgraph-reflexion')}", "bold")
    page.line(ABOUT)
    first = _run(page, agent, "First run: nothing is remembered yet", TASK)
    second = _run(page, agent, "Second run: another meeting, the same memory", ALIKE)
    _title(page, "What was learned")
    for lesson in LessonBook(store, NAMESPACE, memory).lessons():
        _show_lesson(page, lesson, [first, second])
    page.line()
    page.line("The second run had the lesson in its first decision, and made no mistake.", "bold green", mark="✓")
    page.line('With your own model: langgraph-reflexion run "…" --model openai:gpt-4o-mini', "dim", lead="  ")
    return 0


def _run(page: Page, agent: Any, title: str, task: str) -> Outcome:
    """The outcome of a run, which is shown as it happens."""
    _title(page, title)
    page.line(task, "dim", lead="  ")
    trace = Trace(page)
    for mode, part in agent.stream({"messages": [("user", task)]}, stream_mode=STREAM):
        trace.show(mode, part)
    assert trace.outcome is not None
    show_outcome(page, trace.outcome, tokens=False)  # a script uses none
    return trace.outcome


def _title(page: Page, text: str) -> None:
    page.line()
    page.line(text, "bold")


def _show_lesson(page: Page, lesson: Lesson, runs: list[Outcome]) -> None:
    """A lesson and its evidence."""
    evidence = [failure.evidence for run in runs if run.run_id in lesson.sources for failure in run.failures]
    values = {
        "when": lesson.when,
        "why": lesson.why,
        "evidence": "; ".join(evidence),
        "trust": f"{lesson.origin}, {lesson.status}",
        "record": f"shown in {count_of(lesson.shown, 'run')}, won {lesson.wins} of {lesson.wins + lesson.losses}",
    }
    page.fields(values, title=f"{lesson.kind}: {lesson.text}")
