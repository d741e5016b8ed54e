"""The trace: what a run's stream tells, as lines that a person follows while it happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessageChunk, ToolMessage
from langgraph.types import StreamMode

from langgraph_reflexion.cli.page import INDENT, Ink, Page, brief, told
from langgraph_reflexion.schemas import Failure, Outcome

STREAM: list[StreamMode] = ["custom", "messages"]
"""The stream modes that a trace is told."""
CONTROLS = ("replan", "ask_user")
Event = Mapping[str, Any]


class Trace:
    """One run, told as it goes: `tell` takes each part of the stream."""

    def __init__(self, page: Page) -> None:
        self.steps = 0
        """Decisions so far."""
        self.lessons: list[str] = []
        """Ids of the lessons written so far."""
        self.failures: list[Failure] = []
        """The failures so far."""
        self.run_id = ""
        """The run's id, from its first step on."""
        self.outcome: Outcome | None = None
        """How the run ended; `None` before it did."""
        self.from_start = True
        """Whether it is told from its first step on; a run that goes on is not."""
        self._page = page
        self._numbered = 0
        self._repairs = False
        self._hearing: str | None = None
        self._calls = 0
        self._answer = ""

    def tell(self, mode: str, told: Any) -> None:
        """One part of the stream, by its mode."""
        if mode == "messages":
            self._message(*told)
            return
        heard = self._hearing is not None
        self.hush()
        match told["type"]:
            case "step":
                self._step(told, heard)
            case "failure":
                self.failures.append(Failure.model_validate(told["failure"]))
                self._failure(self.failures[-1])
            case "recalled":
                for lesson in told["lessons"]:
                    self._line("●", f"recalls: {lesson['text']}", "yellow")
                if told.get("why"):
                    self._line("●", told["why"], "yellow")
            case "reflection":
                self._reflection(told)
            case "lesson":
                self._lesson(told)
            case "outcome":
                self.outcome = Outcome.model_validate(told["outcome"])

    def hush(self) -> None:
        """End a line that is still being told."""
        if self._hearing is not None:
            self._page.end()
            self._hearing = None

    # ------------------------------------------------------------ messages

    def _message(self, message: Any, about: Mapping[str, Any]) -> None:
        if isinstance(message, ToolMessage):
            self._result(message)
        elif isinstance(message, AIMessageChunk) and about.get("langgraph_node") == "decide" and message.text:
            if self._hearing != message.id:
                self.hush()
                known = self.steps or self.from_start
                self._page.lead(self._number(self.steps + (0 if self._repairs else 1)) if known else INDENT)
                self._hearing = message.id
            self._page.piece(message.text)

    def _result(self, message: ToolMessage) -> None:
        if message.name in CONTROLS:
            return
        self.hush()
        whose = f"{message.name}: " if self._calls > 1 else ""
        if message.status == "error":
            self._line("✗", whose + brief(message.text.removeprefix("Error: ")), "red")
        else:
            self._line("←", whose + brief(message.text))

    # ------------------------------------------------------------ events

    def _step(self, event: Event, heard: bool) -> None:
        self.steps, self.run_id = event["step"], event["run_id"]
        self._repairs = event["decided"] == "invalid"
        read = event["read"]
        if read is None:
            return
        self._calls, self._answer = len(read["calls"]), read["final"] or ""
        if read["thought"].strip() and not heard:
            self._page.line(brief(read["thought"]), "dim", lead=self._number(self.steps))
        for call in read["calls"]:
            self._line("→", called(call), "cyan", numbered=True)
        match event["decided"]:
            case "finish" | "refusal" if not heard:
                self._page.line(self._answer, lead=self._number(self.steps))
            case "replan":
                self._line("·", f"plans anew: {brief(self._answer)}", "magenta", numbered=True)
            case "ask_user":
                self._line("?", f"asks: {self._answer}", "yellow", numbered=True)
        if event["decided"] == "refusal":
            self._line("✗", "the model refuses", "red")

    def _failure(self, failure: Failure) -> None:
        if failure.signal == "tool_error":  # told by the tool's own result
            return
        evidence = failure.evidence.removeprefix(f"The answer was: {self._answer}\n").partition("\nThe reply was: ")[0]
        said = f"{failure.signal.replace('_', ' ')}: {brief(evidence)}"
        self._line("✗", said, "red", numbered=self._repairs)

    def _reflection(self, event: Event) -> None:
        self._repairs = False
        reflection = event["reflection"]
        if reflection is None:
            self._line("↻", "reflects, and nothing of it can be read", "magenta")
            self._line("·", brief(event["reason"]), "dim")
            return
        cause = reflection["explanation"] or reflection["root_cause"].replace("_", " ")
        self._line("↻", f"reflects: {brief(cause)}", "magenta")
        if event["dropped"]:
            self._line("·", f"not followed: {event['dropped']}", "dim")
        else:
            self._line("·", f"plan: {brief(reflection['patch_prompt'])}", "magenta")

    def _lesson(self, event: Event) -> None:
        if event["id"] and event["id"] not in self.lessons:
            self.lessons.append(event["id"])
        why = f" ({event['reason']})" if event["reason"] else ""
        self._line("+", f"lesson {event['action']}: {event['text']}{why}", "yellow" if event["id"] else "dim")

    # ------------------------------------------------------------ lines

    def _line(self, mark: str, text: str, *inks: Ink, numbered: bool = False) -> None:
        number = self._number(self.steps) if numbered else INDENT
        self._page.line(text, *inks, lead=number, mark=mark)

    def _number(self, step: int) -> str:
        """The margin: a step's number on its first line."""
        if step == self._numbered:
            return INDENT
        self._numbered = step
        return f"{step:>4}  "


def called(call: Mapping[str, Any]) -> str:
    """A call as one would write it."""
    args = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in call["args"].items())
    return brief(f"{call['name']}({', '.join(args)})")


def ending(page: Page, outcome: Outcome, *, tokens: bool = True) -> None:
    """How a run ended, in a line or two."""
    if outcome.status == "needs_input":
        page.line("waits for an answer", "yellow", indent=INDENT, mark="?")
        return
    spent = outcome.usage.total + outcome.usage.reflection.total
    counts = [
        _word(outcome),
        told(outcome.usage.calls, "model call"),
        f"{outcome.usage.reflection.calls} more to reflect" if outcome.reflections else "",
        told(spent, "token") if tokens and spent else "",
        told(len(outcome.failures), "failure") if outcome.failures else "no failure",
        f"{outcome.seconds:.1f} s",
    ]
    said, failed = " · ".join(part for part in counts if part), outcome.status == "failure"
    page.line(said, "red" if failed else "green", indent=INDENT, mark="✗" if failed else "✓")
    if failed and outcome.reason:
        page.line(outcome.reason, indent=f"{INDENT}  ")


def _word(outcome: Outcome) -> str:
    if outcome.status == "failure":
        return f"failed: {outcome.stop_reason.replace('_', ' ')}"
    if outcome.status == "success":
        return f"accepted by {', '.join(one.check for one in outcome.attempts[-1].verdicts)}"
    return "done, unchecked"
