"""The types that all rooms share: decisions, failures, verdicts, reflections, lessons and outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from langchain_core.messages import AnyMessage, ToolCall
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SkipValidation, model_validator

Signal = Literal[
    "parse_error",
    "schema_error",
    "unknown_tool",
    "rule_violation",
    "tool_error",
    "loop",
    "check_failed",
    "feedback",
    "no_progress",
]
DECISION_SIGNALS: tuple[Signal, ...] = ("parse_error", "schema_error", "unknown_tool", "rule_violation")
"""The signals of an invalid decision."""
ErrorClass = Literal["timeout", "rate_limit", "bad_arguments", "permission", "exception"]
Action = Literal["tool_call", "finish", "replan", "ask_user"]
RootCause = Literal[
    "ambiguous_prompt",
    "schema_mismatch",
    "missing_observation",
    "bad_plan",
    "tool_misuse",
    "wrong_assumption",
    "other",
]
Diagnosis = Literal["understanding", "method", "execution"]
FixKind = Literal["change_prompt", "change_tool_schema", "add_check", "replace_tool", "decompose_task", "other"]
Depth = Literal["quick", "normal", "deep", "meta"]
Kind = Literal["rule", "pattern", "strategy", "project", "preference"]
Origin = Literal["verified", "told", "judged", "observed"]
LessonStatus = Literal["candidate", "active", "probation", "retired", "quarantined", "superseded"]
Category = Literal[
    "reasoning_error",
    "tool_misuse",
    "missed_optimization",
    "incomplete_answer",
    "hallucination",
    "context_mismanagement",
    "other",
]
Severity = Literal["low", "medium", "high"]
Status = Literal["success", "unverified", "failure", "needs_input"]
StopReason = Literal[
    "accepted",
    "unchecked",
    "max_steps",
    "max_attempts",
    "invalid_decisions",
    "loop",
    "improvement_stalled",
    "reflections_alike",
    "no_plan",
    "deadline",
    "token_budget",
    "model_error",
    "asked_user",
    "handed_off",
]
CUT_SHORT: tuple[StopReason, ...] = ("model_error", "deadline", "token_budget")
"""Stop reasons of a run that was cut short, which say nothing about how well the task was done."""


class Value(BaseModel):
    """Frozen. An unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Decision(Value):
    """What the model wants to do next."""

    thought: str = Field(default="", description="Your reasoning. State no outside facts here.")
    action: Action = Field(description="What to do next.")
    calls: list[ToolCall] = Field(default_factory=list, description="The tools to run now.")
    final: str | None = Field(default=None, description="The answer, the new plan, or the question to the user.")

    @model_validator(mode="after")
    def _does_one_thing(self) -> Self:
        if self.action == "tool_call":
            if not self.calls:
                raise ValueError("a tool call must name the tool to run")
            if self.final is not None:
                raise ValueError("a tool call has no `final`: first see what it returns")
        elif self.calls:
            raise ValueError(f"`{self.action}` runs no tool")
        elif self.final is None:
            raise ValueError(f"`{self.action}` needs its text in `final`")
        return self


class Failure(Value):
    """A signal with its evidence: text that a person can verify."""

    signal: Signal
    """The kind of failure."""
    evidence: str
    """The text that shows it: an error, the repeated call, a check's feedback."""
    step: int = 0
    """The step in which it happened."""
    tool: str | None = None
    """The tool that failed, if it was a tool."""
    error_class: ErrorClass | None = None
    """The kind of error, for a `tool_error`."""
    fingerprint: str = ""
    """A string that is the same for failures that differ only in their values."""
    repeats: int = 1
    """How often this mistake has now happened in the run."""

    @property
    def is_broken_check(self) -> bool:
        """Whether a check raised, so that the failure says nothing about the answer."""
        return self.signal == "check_failed" and self.error_class == "exception"


class Dimension(Value):
    """One aspect of an answer, with its own score."""

    score: float
    feedback: str = ""


class Verdict(Value):
    """A check's judgment of an answer. If `passed` is not set, the score decides."""

    passed: bool | None = None
    """Whether the answer is accepted. `None` leaves that to the score."""
    score: float | None = None
    """From 0 to 100."""
    issues: list[str] = Field(default_factory=list)
    """What is wrong, point by point."""
    dimensions: dict[str, Dimension] = Field(default_factory=dict)
    """Scores of single aspects, by name."""
    feedback: str = ""
    """What the next attempt should know."""
    check: str = ""
    """The name of the check."""
    edited: str | None = None
    """The answer as edited by a person, if it was."""

    @model_validator(mode="before")
    @classmethod
    def _within_range(cls, given: Any) -> Any:
        """Clamp a score that is out of range, of the answer or of a dimension, and say so in the issues."""
        if not isinstance(given, dict) or not isinstance(sides := given.get("dimensions", {}), dict):
            return given
        plain = {name: dict(side) for name, side in sides.items() if isinstance(side, (dict, Dimension))}
        fields, notes = {**given, "dimensions": {**sides, **plain}}, list[str]()
        for name, scored in (("", fields), *((f" of {name}", side) for name, side in plain.items())):
            try:
                score = float(scored["score"])
            except (KeyError, TypeError, ValueError, OverflowError):  # pydantic says what is wrong with it
                continue
            if not 0 <= score <= 100:
                scored["score"] = 0.0 if math.isnan(score) else min(max(score, 0.0), 100.0)
                notes.append(f"the score {score:g}{name} is outside 0 to 100 and counts as {scored['score']:g}")
        return {**fields, "issues": [*given.get("issues", ()), *notes]} if notes else given


class Run(Value):
    """What a check gets in addition to the answer."""

    task: str
    """The last thing the user said."""
    request: str = ""
    """What the user asks: the task and, if it is a brief reply, what was asked before it, with the replies to the
    agent's questions. If it is empty, use `task`."""
    messages: SkipValidation[Sequence[AnyMessage]] = ()
    """The conversation."""
    observations: Sequence[str] = ()
    """The results of the tools, as text."""
    step: int = 0
    """The number of the step that gave the answer."""
    attempt: int = 1
    """The number of the attempt, from 1."""
    context: Any = None
    """The run's context."""
    success_score: float = 80.0
    """The lowest accepted score, for a verdict without `passed`."""
    model: Any = Field(default=None, repr=False)
    """The agent's chat model, for a check with `wants_model`."""
    prompts: Any = Field(default=None, repr=False)
    """The agent's prompts, for a check that calls a model."""
    model_retries: int = 0
    """How often a call of that model is retried after a lost connection (`Limits.model_retries`)."""
    id: str = ""
    """The run's id, for a check that records its requests."""


class Fix(Value):
    """One way to fix the cause."""

    kind: FixKind = Field(default="other", description="The kind of change.")
    text: str = Field(default="", description="The change in a sentence.")


class Memo(Value):
    """Something that a reflection asks to remember."""

    kind: Kind = Field(
        description="`rule`: always or never; `pattern`: how to do a kind of task; "
        "`strategy`: what has worked; `project`: a fact or a decision; `preference`: what the user likes."
    )
    text: str = Field(description="One imperative sentence that names no detail of this task.")
    when: str = Field(default="", description="The kind of task it is for, in the words of a user who asks for one.")
    tags: list[str] = Field(default_factory=list)


class Reflection(Value):
    """The analysis of one failure: its cause, a plan, and what to remember."""

    failure_signal: str
    """The signal of the failure."""
    root_cause: RootCause
    """The kind of cause."""
    explanation: str = ""
    """The cause in a sentence."""
    fix_strategy: list[Fix]
    """Ways to fix the cause."""
    patch_prompt: str
    """The patch: what to do differently next."""
    memory_to_write: list[Memo] = Field(default_factory=list)
    """What to remember."""
    confidence: float | None = Field(default=None, ge=0, le=100)
    """How sure the model is of the cause, from 0 to 100."""
    depth: Depth = "normal"
    """How deep the model was asked to look."""
    diagnosis: Diagnosis | None = Field(default=None, description="Between trials: the kind of error.")
    lessons: list[str] = Field(default_factory=list, description="Between trials: what it teaches about this task.")

    def as_text(self) -> str:
        """Problem, cause, lessons and plan in a few lines."""
        explanation = f" ({self.explanation})" if self.explanation else ""
        lines = [f"Problem: {self.failure_signal}", f"Cause: {self.root_cause}{explanation}"]
        lines += [f"Diagnosis: {self.diagnosis} error"] if self.diagnosis else []
        lines += [f"Fix: {fix.text or fix.kind}" for fix in self.fix_strategy]
        lines += [f"Lesson: {lesson}" for lesson in self.lessons]
        lines += [f"Lesson ({memo.kind}): {memo.text}" for memo in self.memory_to_write]
        return "\n".join([*lines, f"Plan: {self.patch_prompt}"])


class Usage(Value):
    """Tokens and model calls."""

    input: int = 0
    output: int = 0
    total: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class Spending(Usage):
    """What the agent used, with the cost of reflections listed separately."""

    reflection: Usage = Usage()


class Attempt(Value):
    """The work up to one proposed answer."""

    answer: str | None = None
    """The proposed answer. `None` if there was none."""
    score: float | None = None
    """The mean score of the checks."""
    verdicts: list[Verdict] = Field(default_factory=list)
    """What the checks said."""
    failures: list[Failure] = Field(default_factory=list)
    """The failures of this attempt."""
    seconds: float = 0.0
    """How long it took."""
    usage: Usage = Usage()
    """Its tokens and model calls."""


class Outcome(Value):
    """How a run ended."""

    run_id: str
    """LangGraph's run id, if there is one."""
    status: Status
    """Whether the checks accepted the answer."""
    stop_reason: StopReason
    """Why the run ended, as a word."""
    answer: str | None = None
    """The answer as text: the accepted one, else the fallback's or the best attempt's."""
    structured: Any = None
    """The value of `response_format` as plain JSON data."""
    score: float | None = None
    """Its score, if it was judged."""
    reason: str = ""
    """Why the run stopped, in a sentence."""
    attempts: list[Attempt] = Field(default_factory=list)
    """All attempts, in order."""
    failures: list[Failure] = Field(default_factory=list)
    """All failures, in order."""
    reflections: list[Reflection] = Field(default_factory=list)
    """All reflections, in order."""
    lessons_used: list[str] = Field(default_factory=list)
    """Ids of the lessons that the run was shown."""
    lessons_written: list[str] = Field(default_factory=list)
    """Ids of the lessons that it wrote."""
    memory: str = ""
    """Why all matching lessons were held back, if they were."""
    usage: Spending = Spending()
    """Tokens and model calls. Those of reflections and of a guard are only in `usage.reflection`."""
    seconds: float = 0.0
    """How long the run took, without the time spent waiting for a person."""

    @property
    def best(self) -> Attempt | None:
        """The accepted attempt, else the one with an answer and the highest score (the latest, if several have it)."""
        return self.last if self.stop_reason in ("accepted", "unchecked") else best_of(self.attempts) or self.last

    @property
    def mean(self) -> float | None:
        """The mean score of the attempts that have one."""
        scores = [attempt.score for attempt in self.attempts if attempt.score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def last(self) -> Attempt | None:
        """The last attempt of the run."""
        return self.attempts[-1] if self.attempts else None


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt with an answer and the highest score. If two have the same score, the later one."""
    answered = [attempt for attempt in reversed(attempts) if attempt.answer is not None]
    return max(answered, key=lambda attempt: -1.0 if attempt.score is None else attempt.score, default=None)


class Trigger(Value):
    """The failure and the tool that a lesson belongs to."""

    signal: Signal | None = None
    tool: str | None = None
    fingerprint: str | None = None


Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
"""A count of runs. A wrong one must not overflow a computation."""


class Lesson(Value):
    """Advice that is kept from a reflection, with its record since then."""

    kind: Kind
    """What kind of advice it is."""
    text: str
    """The advice: one idea in at most 300 characters."""
    id: str = ""
    """Given by `LessonBook.add`."""
    when: str = ""
    """The kind of task it is for, in the words that users use."""
    when_not: str = ""
    """The kind of task it is not for."""
    why: str = ""
    """The reason for it."""
    topic: str | None = None
    """The topic of its tasks. `None` means any topic."""
    tags: list[str] = Field(default_factory=list)
    """Your own labels, for filters."""
    trigger: Trigger | None = None
    """The failure and the tool that it is bound to."""
    origin: Origin = "judged"
    """What it is based on. `verified` is trusted most, `observed` least."""
    status: LessonStatus = "candidate"
    """Whether it is new, active, on probation or no longer shown."""
    confidence: float | None = Field(default=None, ge=0, le=100)
    """How sure the reflection was, from 0 to 100."""
    sources: list[str] = Field(default_factory=list)
    """Ids of the episodes that it is based on."""
    shown: Count = 0
    """How many finished runs were shown it."""
    wins: Count = 0
    """Runs won with it."""
    losses: Count = 0
    """Runs lost with it."""
    withheld_wins: Count = 0
    """Runs won while it was withheld."""
    withheld_losses: Count = 0
    """Runs lost while it was withheld."""
    supersedes: list[str] = Field(default_factory=list)
    """Ids of the lessons that it replaces or summarizes."""
    created_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None
    last_used_at: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    version: int = 1
    """Rises with each update."""
    name: str | None = Field(default=None, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)
    """A slug, such as `file-names`, for a named entry."""


SHOWN: Mapping[str, str] = MappingProxyType({"text": "", "when": "When", "when_not": "Not when"})
"""The fields of a lesson that a prompt shows, each with its label there. A guard model sees the same. Their tokens
count, and text copied from tools is found in them."""
TEXTS = ("text", "when", "when_not", "why", "topic", "tags", "name")
"""The text fields of a lesson. They are masked, truncated and screened, and can be edited in an exported file."""


class Episode(Value):
    """The record of one finished run. Its id is the run id."""

    id: str
    task: str
    """The last thing the user said."""
    request: str = ""
    """What the user asked, if the task is a brief follow-up: the task after the messages before it."""
    topic: str | None = None
    """The topic of the task."""
    success: bool | None = None
    """Whether the answer was accepted. `None` if nothing judged it."""
    score: float | None = None
    """The score of the answer."""
    shown: list[str] = Field(default_factory=list)
    """Ids of the lessons the run was shown."""
    withheld: list[str] = Field(default_factory=list)
    """Ids of the lessons withheld from the run."""
    written: list[str] = Field(default_factory=list)
    """Ids of the lessons it wrote and then used."""
    failed: list[str] = Field(default_factory=list)
    """Ids of lessons, shown or written, whose own failure came back afterwards."""
    recalled_at: dict[str, int] = Field(default_factory=dict)
    """The step when each lesson was recalled; 0 at the start."""
    memory: str = ""
    """Why all matching lessons were held back, if they were."""
    failures: list[Failure] = Field(default_factory=list)
    """What failed in the run."""
    reflections: list[Reflection] = Field(default_factory=list)
    """The model's reflections on them."""
    created_at: AwareDatetime | None = None
    seconds: float = 0.0
    """How long the run took."""
    status: Status = "unverified"
    """The outcome's status."""
    stop_reason: StopReason = "unchecked"
    """The outcome's stop reason."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """A hash of each file of the caller's `prompts`."""
