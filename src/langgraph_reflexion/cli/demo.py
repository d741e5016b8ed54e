"""The demo: an agent fails, reflects and recovers; the next run has the lesson. Its model is a script, and says so."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.cli.page import INDENT, Page, told
from langgraph_reflexion.cli.trace import STREAM, Trace, ending
from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.graph.agent import create_reflexion_agent
from langgraph_reflexion.graph.demo import ALIKE, TASK, ScriptedPlanner, busy_times, is_free
from langgraph_reflexion.graph.layout import Graph
from langgraph_reflexion.memory import LessonBook
from langgraph_reflexion.schemas import Lesson, Outcome

PLACE = ("reflexion", "demo")
ABOUT = (
    "No key and no network: the model is a script. Everything else is real: "
    "the graph, the tool that fails, the check on the answer, and the memory."
)


def demo(page: Page, memory: MemoryPolicy = MemoryPolicy(namespace=PLACE)) -> int:  # noqa: B008 — frozen
    """Two runs, what was learned, and the graph. 1 where the second run had no lesson, or erred all the same."""
    store = InMemoryStore()
    agent = create_reflexion_agent(
        ScriptedPlanner(), [busy_times], checks=[is_free], memory=memory, store=store, name="demo"
    )
    page.line(f"langgraph-reflexion {version('langgraph-reflexion')}", "bold")
    page.line(ABOUT)
    first, _ = _run(page, agent, "First run: nothing is remembered yet", TASK)
    second, decision = _run(page, agent, "Second run: another meeting, the same memory", ALIKE)
    lessons = LessonBook(store, PLACE, memory).lessons()
    _title(page, "What was learned")
    for lesson in lessons:
        _record(page, lesson, [first, second])
    _title(page, "The graph, as Mermaid")
    for line in drawing(agent):
        page.line(line, "dim", indent="  ")
    page.line()
    return _verdict(page, lessons, first, second, decision)


def _run(page: Page, agent: Graph, title: str, task: str) -> tuple[Outcome, str]:
    """The outcome of a run, and all that its first decision was shown."""
    _title(page, title)
    page.line(task, "dim", indent="  ")
    trace, shown = Trace(page), ""
    part: Any
    for mode, part in agent.stream({"messages": [("user", task)]}, stream_mode=STREAM):
        trace.tell(mode, part)
        if mode == "custom" and part["type"] == "step" and not shown:
            shown = "\n".join(message.text for message in part["asked"])
    if trace.outcome is None:
        raise RuntimeError("The run ended without an outcome")
    ending(page, trace.outcome, tokens=False)  # a script uses none
    return trace.outcome, shown


def _title(page: Page, text: str) -> None:
    page.line()
    page.line(text, "bold")


def _record(page: Page, lesson: Lesson, runs: list[Outcome]) -> None:
    """A lesson and what speaks for it."""
    page.line(lesson.text, "yellow", lead=f"  {lesson.kind}  ")
    for name, text in (
        ("when", lesson.when),
        ("why", lesson.why),
        ("rests on", _evidence(lesson, runs)),
        ("trust", f"{lesson.origin}, {lesson.status}"),
        ("record", f"shown in {told(lesson.shown, 'run')}, helped in {lesson.wins} of {lesson.wins + lesson.losses}"),
    ):
        if text:
            page.line(text, lead=f"{INDENT}  {name + ':':<10}")


def _evidence(lesson: Lesson, runs: list[Outcome]) -> str:
    found = [failure.evidence for run in runs if run.run_id in lesson.sources for failure in run.failures]
    return "; ".join(found)


def _verdict(page: Page, lessons: list[Lesson], first: Outcome, second: Outcome, decision: str) -> int:
    """0 where the story is true."""
    missing = [
        fault
        for fault, is_so in (
            ("the first run did not fail", not first.failures),
            ("the first run was not accepted", first.status != "success"),
            ("the second run was not shown the lesson", not any(one.text in decision for one in lessons)),
            ("the second run made a mistake", bool(second.failures)),
            ("the second run was not accepted", second.status != "success"),
        )
        if is_so
    ]
    if missing:
        page.line(f"This is not how it should have gone: {'; '.join(missing)}.", "red", mark="✗")
        return 1
    page.line("The second run had the lesson in its first decision, and made no mistake.", "green", "bold", mark="✓")
    page.line('With a model of yours: langgraph-reflexion run "…" --model openai:gpt-4o-mini', "dim", indent="  ")
    return 0


def drawing(agent: Any) -> list[str]:
    """The compiled graph as a Mermaid flowchart, a line for each node's edges; dotted ones are conditional."""
    graph = agent.get_graph()
    lines = ["flowchart LR"]
    for source in graph.nodes:
        for dotted in (False, True):
            targets = [node for node in graph.nodes for edge in graph.edges if _leads(edge, source, node, dotted)]
            if targets:
                lines.append(f"  {source} {'-.->' if dotted else '-->'} {' & '.join(targets)}")
    return lines


def _leads(edge: Any, source: str, target: str, dotted: bool) -> bool:
    return (edge.source, edge.target, edge.conditional) == (source, target, dotted)
