"""Trace: prints a run's stream line by line as it happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import StreamMode

from langgraph_reflexion import Failure, Outcome
from langgraph_reflexion.cli.console import INDENT, Page, count_of, shorten
from langgraph_reflexion.nodes.models.protocols import CONTROLS

STREAM: list[StreamMode] = ["custom", "messages"]
"""The stream modes that a trace reads."""
Event = Mapping[str, Any]


class Trace:
    """Prints one run: `show` takes each part of its stream."""

    def __init__(self, page: Page) -> None:
        self.steps = 0
        """Decisions so far."""
        self.lessons: list[str] = []
        """Ids of the lessons written so far."""
        self.outcome: Outcome | None = None
        """How the run ended; `None` until then."""
        self._page = page
        self._last_number = 0
        self._calls = 0
        self._answer = ""

    def show(self, mode: str, part: Any) -> None:
        """Print one part of the stream."""
        if mode == "messages":
            if isinstance(part[0], ToolMessage):
                self._show_result(part[0])
            return
        match part["type"]:
            case "step":
                self._show_step(part)
            case "failure":
                self._show_failure(Failure.model_validate(part["failure"]))
            case "recalled":
                for lesson in part["lessons"]:
                    self._line("●", f"recalls: {lesson['text']}", "yellow")
                if part.get("why"):
                    self._line("●", part["why"], "yellow")
            case "reflection":
                self._show_reflection(part)
            case "lesson":
                self._show_lesson(part)
            case "outcome":
                self.outcome = Outcome.model_validate(part["outcome"])

    def _show_result(self, message: ToolMessage) -> None:
        if message.name in CONTROLS:
            return
        tool = f"{message.name}: " if self._calls > 1 else ""
        if message.status == "error":
            self._line("✗", tool + shorten(message.text.removeprefix("Error: ")), "red")
        else:
            self._line("←", tool + shorten(message.text))

    def _show_step(self, event: Event) -> None:
        self.steps = event["step"]
        decision = event["read"]
        if decision is None:
            return
        self._calls, self._answer = len(decision["calls"]), decision["final"] or ""
        if decision["thought"].strip():
            self._line("", shorten(decision["thought"]), "dim")
        for call in decision["calls"]:
            self._line("→", format_call(call), "cyan")
        match event["decided"]:
            case "finish":
                self._line("", self._answer)
            case "refusal":
                self._line("", self._answer)
                self._line("✗", "the model refuses", "red")
            case "replan":
                self._line("·", f"replans: {shorten(self._answer)}", "magenta")
            case "ask_user":
                self._line("?", f"asks: {self._answer}", "yellow")

    def _show_failure(self, failure: Failure) -> None:
        if failure.signal == "tool_error":  # shown with the tool's result
            return
        evidence = failure.evidence.removeprefix(f"The answer was: {self._answer}\n").partition("\nThe reply was: ")[0]
        text = f"{failure.signal.replace('_', ' ')}: {shorten(evidence)}"
        self._line("✗", text, "red")

    def _show_reflection(self, event: Event) -> None:
        reflection = event["reflection"]
        if reflection is None:
            self._line("↻", "reflects, but the reflection cannot be parsed", "magenta")
            self._line("·", shorten(event["reason"]), "dim")
            return
        cause = reflection["explanation"] or reflection["root_cause"].replace("_", " ")
        self._line("↻", f"reflects: {shorten(cause)}", "magenta")
        if event["dropped"]:
            self._line("·", f"not followed: {event['dropped']}", "dim")
        else:
            self._line("·", f"plan: {shorten(reflection['patch_prompt'])}", "magenta")

    def _show_lesson(self, event: Event) -> None:
        if event["action"] in ("added", "merged") and event["id"] not in self.lessons:
            self.lessons.append(event["id"])
        why = f" ({event['reason']})" if event["reason"] else ""
        self._line("+", f"lesson {event['action']}: {event['text']}{why}", "yellow" if event["id"] else "dim")

    def _line(self, mark: str, text: str, style: str = "") -> None:
        """A line of a step. The first one begins with the step's number."""
        margin = f"{self.steps:>4}  " if self.steps > self._last_number else INDENT
        self._last_number = max(self.steps, self._last_number)
        self._page.line(text, style, lead=margin, mark=mark)


def format_call(call: Mapping[str, Any]) -> str:
    """A call as it would be written in Python."""
    args = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in call["args"].items())
    return shorten(f"{call['name']}({', '.join(args)})")


def show_outcome(page: Page, outcome: Outcome, *, tokens: bool = True) -> None:
    """How a run ended, in a line or two."""
    if outcome.status == "needs_input":
        page.line("waits for an answer", "yellow", lead=INDENT, mark="?")
        return
    spent = outcome.usage.total + outcome.usage.reflection.total
    failures, failed = len(outcome.failures), outcome.status == "failure"
    counts = [
        _describe_end(outcome),
        count_of(outcome.usage.calls, "model call"),
        f"{outcome.usage.reflection.calls} more to reflect" if outcome.reflections else "",
        count_of(spent, "token") if tokens and spent else "",
        count_of(failures, "failure") if failures else "" if failed else "no failure",
        f"{outcome.seconds:.1f} s",
    ]
    text = " · ".join(part for part in counts if part)
    page.line(text, "red" if failed else "green", lead=INDENT, mark="✗" if failed else "✓")
    if failed and outcome.reason:
        page.line(outcome.reason, lead=f"{INDENT}  ")


def _describe_end(outcome: Outcome) -> str:
    if outcome.status == "failure":
        return f"failed: {outcome.stop_reason.replace('_', ' ')}"
    if outcome.status == "success":
        return f"accepted by {', '.join(verdict.check for verdict in outcome.attempts[-1].verdicts)}"
    return "done, unchecked"
