"""Checks: how a callable of (answer, run) is called, and how verdicts are combined.

A check may have attributes: `asks_model` (it is expensive and runs last), `wants_model` (it uses the agent's model in
`run.model`), `asks_person`, `reads_run` (it cannot check a tool's result), and `acall`, its async twin.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from traceback import format_exception
from typing import Any, NamedTuple

from langchain_core.messages import ToolCall

from langgraph_reflexion.driver import (
    NeedsAsyncError,
    Waits,
    accepts,
    call_function,
    changed_config,
    either,
    silent_config,
)
from langgraph_reflexion.nodes.exceptions import describe
from langgraph_reflexion.nodes.models.calling import Meter, raise_control_flow, with_handlers
from langgraph_reflexion.nodes.models.transcript import bounded
from langgraph_reflexion.schemas import Origin, Run, Verdict
from langgraph_reflexion.text.json_text import map_texts
from langgraph_reflexion.text.literals import mask_secrets

logger = logging.getLogger(__name__)

MAX_COMPLAINT = 8_000
"""Characters of all feedback on one answer."""
MAX_LOGGED = 10_000
"""Characters of a check's exception in the log."""

CHECK_FAULT = "the check itself failed: "
RESPONSE_FORMAT = "response_format"
"""The name under which the response format rejects an answer."""
READY_MADE = "langgraph_reflexion.checks."


@dataclass(frozen=True)
class NamedCheck:
    """A caller's check and the name on its verdicts."""

    name: str
    function: Callable[..., Any]

    @property
    def asks_model(self) -> bool:
        """Whether it is expensive. Expensive checks run last."""
        return bool(getattr(self.function, "asks_model", False))

    @property
    def wants_model(self) -> bool:
        """Whether it uses the agent's model, `run.model`."""
        return bool(getattr(self.function, "wants_model", False))

    @property
    def asks_person(self) -> bool:
        """Whether a person gives its verdicts."""
        return bool(getattr(self.function, "asks_person", False))

    @property
    def origin(self) -> Origin:
        """The origin of a lesson learned from its verdicts."""
        return "judged" if self.asks_model else "told" if self.asks_person else "verified"

    def verdict(self, answer: Any, run: Run | ToolCall, meter: Meter, seconds: float | None = None) -> Waits[Verdict]:
        """Its verdict. An exception or a timeout rejects the answer, with the error as evidence."""
        what, twin = f"The check {self.name!r}", getattr(self.function, "acall", None)
        if twin is not None and inspect.isroutine(twin):  # a `Mock` would invent one
            wait = either(self.function, twin, answer, run)
        else:
            wait = call_function(what, self.function, answer, run)
        try:
            # Its model calls stream no tokens to the user, and their cost is counted.
            inside = wait.inside(lambda: changed_config(lambda config: with_handlers(silent_config(config), meter)))
            return self.read((yield inside.within(seconds)))
        except NeedsAsyncError:
            raise
        except Exception as fault:  # noqa: BLE001 - the caller's own code
            raise_control_flow(fault)
            # A client's error may hold a key, or a whole page, which would take long to mask.
            raised = mask_secrets(bounded("".join(format_exception(fault)), MAX_LOGGED))
            logger.warning("%s failed, which counts as a rejection: %s", what, raised)
            return Verdict(passed=False, issues=[f"{CHECK_FAULT}{describe(fault)}"], check=self.name)

    def read(self, result: Any) -> Verdict:
        """The return value of a check as a verdict."""
        if hasattr(result, "item") and getattr(result, "shape", None) == ():
            result = result.item()  # a numpy scalar
        if result is None or isinstance(result, bool):
            return Verdict(passed=result is not False, check=self.name)
        if isinstance(result, Verdict):
            return truncated(result if result.check else result.model_copy(update={"check": self.name}))
        if isinstance(result, (Real, Decimal)):
            return Verdict(score=float(result), check=self.name)
        if isinstance(result, str):
            return truncated(Verdict(passed=False, feedback=result, check=self.name))
        issue = f"{CHECK_FAULT}it returned {type(result).__name__}, not a Verdict, bool, number, text or None"
        return Verdict(passed=False, issues=[issue], check=self.name)


def named_checks(checks: Sequence[Any], *, as_given: bool = False, setting: str = "checks") -> tuple[NamedCheck, ...]:
    """The caller's checks, with those that ask a model last unless `as_given`. A check must take (answer, run)."""
    if callable(checks) or isinstance(checks, (str, bytes)) or not isinstance(checks, Iterable):
        raise ValueError(f"`{setting}` must be a list of functions of (answer, run), got {checks!r}")
    named = []
    for i, check in enumerate(checks):
        if not callable(check):
            raise ValueError(f"`{setting}[{i}]` must be a function of (answer, run), got {check!r}")
        if inspect.isfunction(check) and (check.__module__ or "").startswith(READY_MADE):
            raise ValueError(
                f"`{setting}[{i}]` is `{check.__name__}` itself, which returns a check: call `{check.__name__}(...)`"
            )
        if not accepts(check, None, None):
            raise ValueError(f"`{setting}[{i}]` must take (answer, run), got {check!r}")
        name = str(getattr(check, "name", None) or getattr(check, "__name__", type(check).__name__))
        named.append(NamedCheck(f"check {i + 1}" if name == "<lambda>" else name, check))
    return tuple(named if as_given else sorted(named, key=lambda check: check.asks_model))


def named_tool_checks(checks: Any, tools: Collection[str] | None) -> dict[str, NamedCheck]:
    """The caller's checks of tool results, by tool name. The tool must exist, and the check must take (result, call).

    `tools` is None if they are not known yet.
    """
    if not isinstance(checks, Mapping):
        raise ValueError(f"`tool_checks` must map names of tools to functions of (result, call), got {checks!r}")
    for name, check in checks.items():
        if tools is not None and name not in tools:
            known = ", ".join(sorted(tools)) or "none"
            raise ValueError(f"`tool_checks` names {name!r}, which is not a tool; the tools are: {known}")
        if not callable(check) or not accepts(check, None, None):
            raise ValueError(f"`tool_checks[{name!r}]` must be a function of (result, call), got {check!r}")
        if getattr(check, "reads_run", False):
            raise ValueError(
                f"`tool_checks[{name!r}]` is `{check.name}`, which checks answers: "
                "pass it in `checks`, and here a function of (result, call)"
            )
    return {name: NamedCheck(f"the check of {name}", check) for name, check in checks.items()}


class Judged(NamedTuple):
    """The verdicts of the checks, and the answer they are about."""

    by_check: list[Verdict]
    """A verdict for each check that ran, in order. It is empty if a check has no opinion."""
    answer: Any
    edited: str | None
    """The answer's text as edited by a person, if it was."""

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts that are not empty."""
        return [verdict for verdict in self.by_check if verdict != Verdict(check=verdict.check)]


def verdicts_on(
    checks: Sequence[NamedCheck],
    answer: Any,
    run: Run,
    meter: Meter,
    seconds: Callable[[], float | None] = lambda: None,
    read_edit: Callable[[str], tuple[Any, str]] | None = None,
    stop_after: Callable[[Verdict], bool] = lambda _: False,
) -> Waits[Judged]:
    """The verdict of each check.

    An answer that a person edits is a new answer: earlier checks run again, and later checks see only the new one.
    `seconds` returns how long the next check may take. `read_edit` parses the edited text for the checks, or says what
    is wrong with it. `stop_after` says whether a verdict makes further checks unnecessary.
    """
    verdicts: list[Verdict] = []
    edited: str | None = None
    for i, check in enumerate(checks):
        verdict = yield from check.verdict(answer, run, meter, seconds())
        if verdict.edited is not None:
            value, fault = read_edit(verdict.edited) if read_edit is not None else (verdict.edited, "")
            if fault:
                verdict = Verdict(passed=False, feedback=f"the edited answer: {fault}", check=verdict.check)
            else:
                answer, edited, verdicts = value, verdict.edited, []
                for before in checks[:i]:
                    verdicts.append((yield from before.verdict(answer, run, meter, seconds())))
        verdicts.append(verdict)
        if any(map(stop_after, verdicts)):
            break
    return Judged(verdicts, answer, edited)


def is_accepted(verdict: Verdict, success_score: float) -> bool | None:
    """Whether a verdict accepts the answer: `passed` if set, else by its score, else None."""
    if verdict.passed is not None:
        return verdict.passed
    return None if verdict.score is None else verdict.score >= success_score


def combine_verdicts(verdicts: Sequence[Verdict], success_score: float) -> tuple[bool | None, float | None]:
    """Whether the verdicts accept the answer, and their mean score. One rejection is enough. None if none decides."""
    decisions = [accepts for verdict in verdicts if (accepts := is_accepted(verdict, success_score)) is not None]
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    return (all(decisions) if decisions else None), mean


def with_contradiction(verdict: Verdict, success_score: float) -> Verdict:
    """The verdict, with a note if `passed` contradicts its score. `passed` counts."""
    if verdict.passed is None or verdict.score is None or verdict.passed == (verdict.score >= success_score):
        return verdict
    states = "accepts" if verdict.passed else "rejects"
    issue = f"it {states} with a score of {verdict.score:g}, where {success_score:g} is needed"
    if any(known.endswith(issue) for known in verdict.issues):  # noted by the only check that it combines
        return verdict
    return verdict.model_copy(update={"issues": [*verdict.issues, issue]})


def complaints(verdicts: Sequence[Verdict], success_score: float) -> str:
    """All feedback of the checks: overall, each issue, each dimension. Rejections come first. A cut is marked."""
    rejecting, others = list[str](), list[str]()
    for verdict in verdicts:
        remarks = _remarks(verdict)
        if is_accepted(verdict, success_score) is False:
            needed = [] if verdict.score is None else [f"score {verdict.score:g} of 100, {success_score:g} is needed"]
            rejecting.append(f"{verdict.check}: {'; '.join([*remarks, *needed]) or 'rejected'}")
        elif remarks:
            others.append(f"{verdict.check} has no objection: {'; '.join(remarks)}")
    return bounded("\n".join([*rejecting, *others]), MAX_COMPLAINT)


def _remarks(verdict: Verdict) -> list[str]:
    sides = [f"{name}: {side.score:g}, {side.feedback}".rstrip(", ") for name, side in verdict.dimensions.items()]
    return [text for text in (verdict.feedback.strip(), *verdict.issues, *sides) if text]


def mistakes(verdicts: Sequence[Verdict], success_score: float) -> list[str]:
    """The feedback of rejecting verdicts, one mistake per line. Empty if they give no reason."""
    rejecting = [verdict for verdict in verdicts if is_accepted(verdict, success_score) is False]
    lines = [line.strip() for verdict in rejecting for text in _remarks(verdict) for line in text.splitlines()]
    return list(dict.fromkeys(filter(None, lines)))


def truncated(verdict: Verdict) -> Verdict:
    """The verdict with overlong texts truncated. An answer that a person edited stays whole."""
    fields = map_texts(verdict.model_dump(exclude={"edited"}), lambda text: bounded(text, MAX_COMPLAINT))
    return type(verdict).model_validate({**fields, "edited": verdict.edited})
