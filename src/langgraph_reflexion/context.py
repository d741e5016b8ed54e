"""The settings: `Limits` and `MemoryPolicy` for building a graph, `Context` for running it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from langgraph_reflexion.schemas import Depth

Namespace = tuple[str, ...]
"""The place of data in a store. Nothing is shared between namespaces."""
FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A field in a namespace label, filled from the context."""


def _out_of_100(value: float) -> float:
    if 0 < value < 1:
        raise ValueError(f"must be from 0 to 100: write {value * 100:g}, not {value:g}")
    return value


Score = Annotated[float, Field(ge=0, le=100), AfterValidator(_out_of_100)]


class _Settings(BaseModel):
    """Frozen and strict: an unknown setting, or a bool for a number, raises an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Limits(_Settings):
    """Limits of a run. A step, attempt or reflection that would exceed one never starts."""

    max_steps: int = Field(default=25, ge=1)
    """Decisions in a run."""
    max_attempts: int = Field(default=3, ge=1)
    """Answers that the checks may judge in a run."""
    max_reflections: int = Field(default=3, ge=0)
    """Reflections in a run."""
    decision_retries: int = Field(default=1, ge=0)
    """How often the model is asked again after an invalid reply, in the same step."""
    tool_retries: int = Field(default=2, ge=0)
    """How often a call is retried after a transient error of the tool."""
    model_retries: int = Field(default=1, ge=0)
    """How often a model call is retried after a lost connection or an error in the middle of a stream."""
    tool_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one tool call."""
    loop_threshold: int = Field(default=2, ge=2)
    """The same call with the same result this many times in a row is a loop. Raise it if your agent polls a tool."""
    success_score: Score = 80
    """The lowest accepted score, if a verdict has only a score."""
    min_improvement: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    """The relative gain over the best score that counts as progress."""
    stalled_attempts: int = Field(default=2, ge=1)
    """The run ends after this many attempts in a row without progress."""
    stuck_similarity: float = Field(default=0.8, gt=0, le=1)
    """Two reflections more similar than this count as the same."""
    max_depth: Depth = "deep"
    """The deepest kind of reflection."""
    inline_every: int = Field(default=5, ge=1)
    """Steps between two self-checks with `self_reflection='inline'`."""
    history_tokens: int | None = Field(default=None, ge=1)
    """Tokens of conversation above which old tool results in the prompt are shortened. Nothing else is cut."""
    token_budget: int | None = Field(default=None, ge=1)
    """Input and output tokens for all model calls of a run."""
    deadline: float | None = Field(default=None, gt=0)
    """Seconds for a run, without the time spent waiting for a person."""

    @field_validator("deadline", "tool_timeout", mode="before")
    @classmethod
    def _in_seconds(cls, value: Any) -> Any:
        return value.total_seconds() if isinstance(value, timedelta) else value


class MemoryPolicy(_Settings):
    """What is remembered, where it is saved, and how much of it is shown."""

    namespace: Namespace | None = Field(default=None, strict=False)
    """Where lessons live. `{user_id}` and other fields are filled from the context."""
    max_lessons: int = Field(default=3, ge=0)
    """Lessons shown at a time."""
    lesson_tokens: int = Field(default=400, ge=0)
    """Tokens the shown lessons may take."""
    min_confidence: Score = 70
    """A lesson with lower confidence is used only in the run that wrote it."""
    max_kept: int = Field(default=1000, ge=1)
    """Lessons kept in a namespace."""
    expires_after: timedelta | None = Field(default=None, strict=False, gt=timedelta(0), le=timedelta(days=365_000))
    """The age at which a lesson expires. At most 365,000 days, because the year of a date has four digits."""
    control_share: float = Field(default=0.2, ge=0, le=1)
    """The share of runs from which a candidate is withheld, to measure what it is worth."""
    topics: Callable[[str], str | Awaitable[str]] | None = None
    """A function, sync or async, that returns the topic of a task as one word. It replaces the built-in classifier."""
    keep_runs: int = Field(default=10_000, ge=1)
    """Episodes kept in a namespace. The oldest are deleted first."""
    guard: Any = None
    """A chat model, its name, or a function of a lesson's text. It judges each new lesson and returns None, or the
    reason to quarantine it."""
    approve: bool = False
    """Show a lesson only after a person has approved it."""
    trusted_tools: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), strict=False)
    """Names of tools whose output may be copied into lessons."""
    read: bool = True
    """Show lessons."""
    write: bool = True
    """Save lessons, episodes and records."""
    by_user: bool = False
    """Give each user a namespace below this one. The user is the one that the server authenticated, else `user_id` in
    the context, else `user_id` in the config's `configurable`."""

    @field_validator("guard")
    @classmethod
    def _is_model_or_function(cls, value: Any) -> Any:
        if value is None or callable(value) or hasattr(value, "invoke") or (isinstance(value, str) and value.strip()):
            return value
        raise ValueError(f"must be a chat model, its name or a function of a text, got {value!r}")

    @model_validator(mode="after")
    def _has_valid_labels(self) -> Self:
        if self.namespace == ():
            raise ValueError("`namespace` needs at least one label, got ()")
        for label in self.namespace or ():
            if not label or "." in label:
                raise ValueError(
                    f"the labels of `namespace` must be non-empty text without dots, got {label!r}; "
                    "pass such a value as a field: ('{user_id}',) and context=Context(user_id=...)"
                )
            # Otherwise a misspelt field would make all users share one memory.
            if set("{}") & set(FIELD.sub("", label)):
                raise ValueError(f"a field of `namespace` must be a name in braces, such as {{user_id}}, got {label!r}")
        if self.namespace is not None and self.namespace[0] == "langgraph":
            raise ValueError("`namespace` must not begin with 'langgraph': stores reserve that label")
        return self


class Context(BaseModel):
    """Values for a single run. Subclass it to add fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str | None = Field(default=None, description="The user of the run. Fills `{user_id}` in a namespace.")
    model: str | None = Field(
        default=None, description="The name of one of the models, if the agent has a mapping of models."
    )


UTC_NOW = partial(datetime.now, UTC)
"""The default clock."""


def aware(clock: Callable[[], datetime] | None) -> Callable[[], datetime]:
    """The caller's clock, in UTC, checked to return aware datetimes. Without one, the default clock."""
    if clock is None or clock is UTC_NOW:
        return UTC_NOW
    if not callable(clock):
        raise ValueError(f"`clock` must be a function of no arguments that returns an aware datetime, got {clock!r}")

    def now() -> datetime:
        time = clock()
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise ValueError(f"`clock` must return an aware datetime, such as datetime.now(UTC), got {time!r}")
        return time.astimezone(UTC)  # recorded times are compared as text

    return now


def field_of(context: Any, name: str) -> Any:
    """A field of the context, which may be a mapping or an object. None if it has no such field."""
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
