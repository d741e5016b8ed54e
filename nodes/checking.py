"""Checks: any callable of (answer, run), how it is asked, and what its return says.

A check may be told apart by five attributes: `asks_model` (it is dear, and comes last), `wants_model` (it asks the
agent's own, which it finds in `run.model`), `asks_person`, `in_place` (it takes less time than a step of a graph, and
needs none), and `acall`, its async door beside `__call__`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langgraph_reflexion.driver import Wait, Waits
from langgraph_reflexion.nodes.calling import NeedsAsyncError, calling, is_async, takes, within
from langgraph_reflexion.nodes.exceptions import told
from langgraph_reflexion.nodes.models.asking import Meter, let_pass, metered, under
from langgraph_reflexion.nodes.verdicts import cut, decided
from langgraph_reflexion.schemas import Origin, Run, Verdict

CHECK_FAULT = "the check itself failed: "
READY_MADE = "langgraph_reflexion.checks."


@dataclass(frozen=True)
class NamedCheck:
    """A caller's check and the name its verdicts carry."""

    name: str
    function: Callable[..., Any]

    @property
    def asks_model(self) -> bool:
        """Whether it is dear; those come last."""
        return bool(getattr(self.function, "asks_model", False))

    @property
    def wants_model(self) -> bool:
        """Whether it has no model of its own, and so asks the agent's: `run.model`."""
        return bool(getattr(self.function, "wants_model", False))

    @property
    def asks_person(self) -> bool:
        """Whether its verdicts are a person's word."""
        return bool(getattr(self.function, "asks_person", False))

    @property
    def origin(self) -> Origin:
        """What a lesson rests on that is learned from its verdicts."""
        return "judged" if self.asks_model else "told" if self.asks_person else "verified"

    @property
    def in_place(self) -> bool:
        """Whether a trial asks it in the step that made the answer."""
        return bool(getattr(self.function, "in_place", False))

    def verdict(self, answer: Any, run: Run, meter: Meter, seconds: float | None = None) -> Waits[Verdict]:
        """What it says. An exception of it, or too long a silence, refuses the answer, with the error as evidence."""
        function = self.function
        twin = getattr(function, "acall", None)

        def sync() -> Any:
            with _aside(meter):
                said = function(answer, run)
            return _StillAside(said, meter) if inspect.isawaitable(said) else said

        async def later() -> Any:
            with _aside(meter):
                return await (twin or function)(answer, run)

        try:
            if twin is not None:
                wait = Wait(sync, later)
            else:
                wait = calling(f"The check {self.name!r}", later if is_async(function) else sync)
            said = yield within(seconds, wait.sync, wait.later)
        except NeedsAsyncError:
            raise
        except Exception as fault:  # noqa: BLE001 — the caller's own code
            let_pass(fault)
            return Verdict(passed=False, issues=[f"{CHECK_FAULT}{told(fault)}"], check=self.name)
        return self.read(said)

    def read(self, said: Any) -> Verdict:
        """A check's return as a verdict."""
        if hasattr(said, "item") and getattr(said, "shape", None) == ():
            said = said.item()  # numpy's numbers and truths are none of Python's
        if said is None:
            return Verdict(passed=True, check=self.name)
        if isinstance(said, Verdict):
            return cut(said if said.check else said.model_copy(update={"check": self.name}))
        if isinstance(said, bool):
            return Verdict(passed=said, check=self.name)
        if isinstance(said, (int, float)):
            return Verdict(score=float(said), check=self.name)
        if isinstance(said, str):
            return cut(Verdict(passed=False, feedback=said, check=self.name))
        issue = f"{CHECK_FAULT}it gave {type(said).__name__}, and no Verdict, bool, number, text or None"
        return Verdict(passed=False, issues=[issue], check=self.name)


@contextmanager
def _aside(meter: Meter) -> Iterator[None]:
    """Within it a model that a check asks streams no tokens to the user, and what it costs is counted."""
    config = var_child_runnable_config.get()
    if config is None:
        yield
        return
    quiet = {**config, "tags": [*(config.get("tags") or []), "nostream"]}
    with under(metered(cast("RunnableConfig", quiet), meter)):
        yield


class _StillAside:
    """What a check that is no coroutine function itself gave to await, awaited aside as well."""

    def __init__(self, said: Any, meter: Meter) -> None:
        self._said, self._meter = said, meter

    def __await__(self) -> Generator[Any, Any, Any]:
        with _aside(self._meter):
            return (yield from self._said.__await__())

    def close(self) -> None:
        """Let go of it unawaited."""
        if inspect.iscoroutine(self._said):
            self._said.close()


def named(checks: Sequence[Any], *, as_given: bool = False) -> tuple[NamedCheck, ...]:
    """The caller's checks, dear ones last unless `as_given`; what no (answer, run) can be given to is an error here."""
    if callable(checks) or isinstance(checks, (str, bytes)) or not isinstance(checks, Iterable):
        raise ValueError(f"`checks` is a list of functions of (answer, run), got {checks!r}")
    made = []
    for i, check in enumerate(checks):
        if not callable(check):
            raise ValueError(f"`checks[{i}]` is no function of (answer, run), got {check!r}")
        if inspect.isfunction(check) and check.__module__.startswith(READY_MADE):
            raise ValueError(
                f"`checks[{i}]` is `{check.__name__}` itself, which makes a check: `{check.__name__}(...)`"
            )
        if not takes(check, None, None):
            raise ValueError(f"`checks[{i}]` must take (answer, run), and {check!r} does not")
        name = str(getattr(check, "name", None) or getattr(check, "__name__", type(check).__name__))
        made.append(NamedCheck(f"check {i + 1}" if name == "<lambda>" else name, check))
    return tuple(made if as_given else sorted(made, key=lambda one: one.asks_model))


class Judged(NamedTuple):
    """What the checks said of an answer, and the answer that they said it of."""

    each: list[Verdict]
    """One of each check that was asked, in their order."""
    answer: Any
    edited: str | None
    """The answer's text as a person put it, where one did."""

    @property
    def verdicts(self) -> list[Verdict]:
        """Those that say something; one that says nothing at all, not even why, is none."""
        return [one for one in self.each if one != Verdict(check=one.check)]


def _as_it_is(text: str) -> tuple[Any, str]:
    return text, ""


def verdicts_on(
    checks: Sequence[NamedCheck],
    answer: Any,
    run: Run,
    meter: Meter,
    seconds: Callable[[], float | None] = lambda: None,
    reread: Callable[[str], tuple[Any, str]] = _as_it_is,
    enough: Callable[[Verdict], bool] = lambda _: False,
) -> Waits[Judged]:
    """What each check says.

    An answer that a person edits is another answer: the checks before are asked anew, those after see it alone.
    `seconds` tells how long the next check may take; `reread` makes of an edited text what checks are given, or says
    what is wrong with it. No check is asked after a verdict that is `enough`.
    """
    said: list[Verdict] = []
    edited: str | None = None
    for i, one in enumerate(checks):
        verdict = yield from one.verdict(answer, run, meter, seconds())
        if verdict.edited is not None:
            value, fault = reread(verdict.edited)
            if fault:
                verdict = Verdict(passed=False, feedback=f"the edited answer: {fault}", check=verdict.check)
            else:
                answer, edited, said = value, verdict.edited, []
                for before in checks[:i]:
                    said.append((yield from before.verdict(answer, run, meter, seconds())))
        said.append(verdict)
        if any(map(enough, said)):
            break
    return Judged(said, answer, edited)


def rests_on(checks: Sequence[NamedCheck], verdicts: Sequence[Verdict], success_score: float, accepted: bool) -> Origin:
    """Who accepted or refused an answer: a model alone, or a person, or something that can be verified."""
    by_name = {one.name: one.origin for one in checks}
    deciding = [one for one in verdicts if decided(one, success_score) is accepted]
    said = [by_name.get(one.check, "verified") for one in deciding] or ["verified"]
    return "verified" if "verified" in said else "told" if "told" in said else "judged"
