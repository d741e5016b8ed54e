"""Words: the closed sets that values choose from, and what all values have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

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


class Value(BaseModel):
    """Frozen, and closed: a field nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
