"""The values every room speaks of: decisions, failures, verdicts, reflections, lessons, outcomes."""

from langgraph_reflexion.schemas.deciding import Decision, Failure
from langgraph_reflexion.schemas.ending import Attempt, Outcome, Spending, Usage
from langgraph_reflexion.schemas.judging import Dimension, Run, Verdict
from langgraph_reflexion.schemas.reflecting import Fix, Memo, Reflection
from langgraph_reflexion.schemas.remembering import Episode, Lesson, Trigger
from langgraph_reflexion.schemas.words import (
    Action,
    Category,
    Depth,
    Diagnosis,
    ErrorClass,
    FixKind,
    Kind,
    LessonStatus,
    Origin,
    RootCause,
    Severity,
    Signal,
    Status,
    StopReason,
)

__all__ = [
    "Action",
    "Attempt",
    "Category",
    "Decision",
    "Depth",
    "Diagnosis",
    "Dimension",
    "Episode",
    "ErrorClass",
    "Failure",
    "Fix",
    "FixKind",
    "Kind",
    "Lesson",
    "LessonStatus",
    "Memo",
    "Origin",
    "Outcome",
    "Reflection",
    "RootCause",
    "Run",
    "Severity",
    "Signal",
    "Spending",
    "Status",
    "StopReason",
    "Trigger",
    "Usage",
    "Verdict",
]
