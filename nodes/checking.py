"""Checks: any callable of (answer, run), what its return says, and what all verdicts together decide."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph_reflexion.nodes.faults import told
from langgraph_reflexion.nodes.models import let_pass
from langgraph_reflexion.nodes.step import Wait, Waits, in_thread
from langgraph_reflexion.schemas import Run, Verdict

CHECK_FAULT = "the check itself failed: "


@dataclass(frozen=True)
class NamedCheck:
    """A caller's check and the name its verdicts carry."""

    name: str
    function: Callable[..., Any]

    @property
    def asks_model(self) -> bool:
        """Whether it is dear; those come last."""
        return bool(getattr(self.function, "asks_model", False))

    def verdict(self, answer: Any, run: Run) -> Waits[Verdict]:
        """What it says. An exception of it refuses the answer, with the error as evidence."""
        function = self.function
        try:
            if is_async(function):
                said = yield Wait(_only_async, lambda: function(answer, run))
            else:
                said = yield in_thread(lambda: function(answer, run))
        except _NeedsAsync:
            raise RuntimeError(f"The check {self.name!r} is async: use `ainvoke` or `astream`") from None
        except Exception as fault:  # noqa: BLE001 — the caller's own code
            let_pass(fault)
            return Verdict(passed=False, issues=[f"{CHECK_FAULT}{told(fault)}"], check=self.name)
        return self.read(said)

    def read(self, said: Any) -> Verdict:
        """A check's return as a verdict."""
        if said is None:
            return Verdict(passed=True, check=self.name)
        if isinstance(said, Verdict):
            return said if said.check else said.model_copy(update={"check": self.name})
        if isinstance(said, bool):
            return Verdict(passed=said, check=self.name)
        if isinstance(said, (int, float)):
            return _scored(float(said), self.name)
        if isinstance(said, str):
            return Verdict(passed=False, feedback=said, check=self.name)
        issue = f"{CHECK_FAULT}it gave {type(said).__name__}, and no Verdict, bool, number, text or None"
        return Verdict(passed=False, issues=[issue], check=self.name)


class _NeedsAsync(Exception):  # noqa: N818 — never leaves this file
    pass


def _only_async() -> Any:
    raise _NeedsAsync


def is_async(function: Any) -> bool:
    """Whether calling it gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _scored(score: float, name: str) -> Verdict:
    within = min(max(score, 0.0), 100.0) if score == score else 0.0
    issues = [] if within == score else [f"the score {score:g} is outside 0 to 100 and counts as {within:g}"]
    return Verdict(score=within, issues=issues, check=name)


def named(checks: Sequence[Any]) -> tuple[NamedCheck, ...]:
    """The caller's checks, dear ones last; what cannot be called with (answer, run) is an error here."""
    if callable(checks) or isinstance(checks, (str, bytes)):
        raise ValueError(f"`checks` is a list of functions of (answer, run), got {checks!r}")
    made = []
    for i, check in enumerate(checks):
        if not callable(check):
            raise ValueError(f"`checks[{i}]` is no function of (answer, run), got {check!r}")
        try:
            inspect.signature(check).bind(None, None)
        except TypeError:
            raise ValueError(f"`checks[{i}]` must take (answer, run), and {check!r} does not") from None
        except ValueError:  # a builtin that tells no signature: it is tried when its turn comes
            pass
        name = getattr(check, "name", None) or getattr(check, "__name__", type(check).__name__)
        made.append(NamedCheck(str(name), check))
    return tuple(sorted(made, key=lambda one: one.asks_model))


def decided(verdict: Verdict, success_score: float) -> bool | None:
    """Whether a verdict accepts: what it states is final, else its score decides, else it says nothing."""
    if verdict.passed is not None:
        return verdict.passed
    return None if verdict.score is None else verdict.score >= success_score


def together(verdicts: Sequence[Verdict], success_score: float) -> tuple[bool | None, float | None]:
    """What all verdicts decide, one refusal refusing, and the mean of their scores."""
    said = [one for one in (decided(verdict, success_score) for verdict in verdicts) if one is not None]
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    return (all(said) if said else None), mean


def complaints(verdicts: Sequence[Verdict], success_score: float) -> str:
    """Everything the refusing verdicts said: overall, each issue, each dimension."""
    lines = []
    for verdict in verdicts:
        if decided(verdict, success_score) is not False:
            continue
        said = [verdict.feedback.strip(), *verdict.issues]
        said += [f"{name}: {side.score:g}, {side.feedback}".rstrip(", ") for name, side in verdict.dimensions.items()]
        if verdict.score is not None:
            said.append(f"score {verdict.score:g}, {success_score:g} is needed")
        lines.append(
            f"{verdict.check}: " + "; ".join(one for one in said if one) if any(said) else f"{verdict.check}: refused"
        )
    return "\n".join(lines)
