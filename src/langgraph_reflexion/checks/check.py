"""What every ready-made check is: a name, a function that judges, and a sync and an async way to call it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from langgraph_reflexion.driver import Waits, run_async, run_sync
from langgraph_reflexion.nodes.verdicts import NamedCheck, named
from langgraph_reflexion.schemas import Run, Verdict

Judge = Callable[[Any, Run], Waits[Any]]
"""A generator of (answer, run) that yields what it waits for, and returns what any check may return."""


@dataclass(frozen=True)
class Check:
    """A check of this package: call it with (answer, run), or await `acall` with the same."""

    name: str
    judge: Judge
    asks_model: bool = False
    wants_model: bool = False
    """Whether it asks the agent's own model, which it finds in `run.model`."""
    asks_person: bool = False
    """Whether a person gives its verdicts."""
    in_place: bool = False
    """Whether a trial calls it in the step that made the answer."""

    def __call__(self, answer: Any, run: Run | None = None) -> Verdict:
        """Judge the answer."""
        return self._verdict(run_sync(self.judge(answer, run or Run(task=""))))

    async def acall(self, answer: Any, run: Run | None = None) -> Verdict:
        """Judge the answer without blocking the event loop."""
        return self._verdict(await run_async(self.judge(answer, run or Run(task=""))))

    def _verdict(self, result: Any) -> Verdict:
        return NamedCheck(self.name, self).read(result)


def sync_check(name: str, judge: Callable[[Any, Run], Any], *, asks_person: bool = False) -> Check:
    """A check that waits for nothing."""

    def judging(answer: Any, run: Run) -> Waits[Any]:
        return judge(answer, run)
        yield  # makes it a generator, as a check that waits is

    return Check(name, judging, asks_person=asks_person)


def members_of(name: str, checks: Sequence[Any], *, as_given: bool = False) -> tuple[NamedCheck, ...]:
    """The checks that the check `name` is made of, those that ask a model last unless `as_given`."""
    if not checks:
        raise ValueError(f"`{name}` needs one check or more, got none")
    try:
        return named(list(checks), as_given=as_given)
    except ValueError as fault:
        raise ValueError(str(fault).replace("`checks", f"`{name}", 1)) from None


def text_of(answer: Any) -> str:
    """The answer as text; a value of a response format as JSON."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, BaseModel):
        return answer.model_dump_json()
    return json.dumps(answer, ensure_ascii=False, default=str)
